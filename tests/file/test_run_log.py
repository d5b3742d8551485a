"""Logs of runs: reading what was written, damaged lines, and lines that a killed process left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mipset.errors import ArtifactError
from mipset.file.run_log import Entry, add, begin, read_run_log, refuse_other_file

ABOUT: dict[str, Any] = {"outer": 4, "class_names": ["a", "b"], "recipe": {"ipc": 3}, "provenance": {}}


def entry(outer: int, **changes: Any) -> Entry:
    values: dict[str, Any] = {
        "outer": outer,
        "loss": 1.25,
        "distances": (3.0, 2.0, 1.0),
        "selected": (1, 2),
        "frozen": (0, 0),
        "seconds": 1.5 * outer,
        "processor_seconds": 1.0,
        "memory": 1000,
    }
    return Entry(**{**values, **changes})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of three iterations."""
    path = tmp_path / "x.log.jsonl"
    begin(path, ABOUT)
    for outer in (1, 2, 3):
        add(path, entry(outer))
    return path


def test_log_is_read_as_it_was_written(path: Path) -> None:
    add(path, entry(4, distances=(), memory=None, selected=(2, 2)))
    log = read_run_log(path)
    assert log.about["recipe"] == {"ipc": 3}
    assert log.entries == [entry(1), entry(2), entry(3), entry(4, distances=(), memory=None, selected=(2, 2))]
    assert json.loads(path.read_text().splitlines()[4])["selected"] == 2  # one number for all classes


def test_half_a_line_is_not_read_and_a_run_that_goes_on_removes_it(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"outer": 4, "lo')
    assert [each.outer for each in read_run_log(path).entries] == [1, 2, 3]
    begin(path, ABOUT, kept_until=3)
    assert path.read_bytes() == whole


def test_iteration_that_two_processes_wrote_counts_once(path: Path) -> None:
    add(path, entry(2, loss=7.0))
    assert [(each.outer, each.loss) for each in read_run_log(path).entries] == [(1, 1.25), (2, 7.0), (3, 1.25)]


def test_run_that_goes_on_keeps_each_iteration_once(path: Path) -> None:
    begin(path, ABOUT, kept_until=2)
    add(path, entry(3))
    assert [each.outer for each in read_run_log(path).entries] == [1, 2, 3]
    begin(path, {**ABOUT, "recipe": {"ipc": 4}}, kept_until=2)  # the log is of another run
    assert read_run_log(path).entries == []


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "null",
        "{",
        "[" * 9999,
        json.dumps({"outer": 2}),
        json.dumps({**vars(entry(4)), "loss": float("nan")}),
        json.dumps({**vars(entry(4)), "selected": [1]}),
        json.dumps({**vars(entry(4)), "frozen": "no"}),
    ],
    ids=lambda line: line[:30],
)
def test_damaged_line_is_named(path: Path, line: str) -> None:
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(ArtifactError, match=r"Line 5 of .* is damaged"):
        read_run_log(path)
    begin(path, ABOUT, kept_until=9)
    assert len(read_run_log(path).entries) == 3


@pytest.mark.parametrize("content", ["", "\n", "x,y\n1,2\n", '{"mipset_log": 1}\n', "[1]\n"])
def test_other_file_is_no_log(tmp_path: Path, content: str) -> None:
    other = tmp_path / "other"
    other.write_text(content)
    with pytest.raises(ArtifactError, match="is not the log of a run of mipset"):
        read_run_log(other)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"{" * 9999, b'{"mipset_log": 1}\n', b"mine\n"])
def test_log_begins_again_in_place_of_a_damaged_one(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    begin(path, ABOUT, kept_until=2)
    add(path, entry(3))
    assert [each.outer for each in read_run_log(path).entries] == [3]


def test_only_a_log_is_replaced(tmp_path: Path, path: Path) -> None:
    refuse_other_file(path)
    refuse_other_file(tmp_path / "missing")
    (tmp_path / "other").write_text("x,y\n")
    with pytest.raises(ArtifactError, match="exists already, and is not a log"):
        refuse_other_file(tmp_path / "other")
