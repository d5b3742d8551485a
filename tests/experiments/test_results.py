"""The file of results: whole lines, several processes, and damage that is reported."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest

from mipset.errors import ArtifactError
from mipset.experiments.digests import with_digest
from mipset.experiments.results import add_result, read_results
from toy_results import result


def test_added_results_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    assert read_results(path) == []
    for seed in range(3):
        add_result(path, result(seed=seed))
    assert read_results(path) == [result(seed=seed) for seed in range(3)]
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.jsonl"]


def test_missing_end_of_line_is_added(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    add_result(path, result())
    path.write_text(path.read_text().rstrip("\n"))
    add_result(path, result(seed=1))
    assert [r.seed for r in read_results(path)] == [0, 1]


def test_several_writers_can_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda seed: add_result(path, result(seed=seed)), range(64)))
    assert sorted(r.seed for r in read_results(path)) == list(range(64))


def test_full_disk_leaves_no_part_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.jsonl"
    add_result(path, result())
    before, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:10]))
    with pytest.raises(OSError, match="No space left on device"):
        add_result(path, result(seed=1))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "{}",
        '"text"',
        '{"scores": 3}',
        '{"cell": "x", "scores": {"1": [1.0]}}',
        '{"scores": {"one": [1.0]}}',
        "\udcff",
    ],
)
def test_error_names_the_damaged_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "results.jsonl"
    add_result(path, result())
    with path.open("ab") as stream:
        stream.write(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(ArtifactError, match=r"^Line 2 of .*results.jsonl is damaged. Remove the line, and its cell"):
        read_results(path)


@pytest.mark.parametrize("field", ["seconds", "method", "final", "images"])
def test_field_of_another_type_is_damage(tmp_path: Path, field: str) -> None:
    path = tmp_path / "results.jsonl"
    add_result(path, result(**{field: None}))  # type: ignore[arg-type]
    with pytest.raises(ArtifactError, match="Line 1"):
        read_results(path)


def test_sizes_with_different_numbers_of_networks_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    add_result(path, result(scores={1: [1.0, 2.0], 2: [3.0]}))
    with pytest.raises(ArtifactError, match="Line 1"):
        read_results(path)


def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(with_digest({"colour": "red", **asdict(result())}))
    assert read_results(path) == [result()]


def test_change_of_any_bit_is_noticed(tmp_path: Path) -> None:
    """Also one that leaves good JSON, such as another digit of an accuracy."""
    path = tmp_path / "results.jsonl"
    add_result(path, result())
    good = path.read_bytes()
    for place in range(len(good)):
        for bit in (0, 3, 6):
            path.write_bytes(good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :])
            with suppress(ArtifactError):
                assert read_results(path) == [result()]
