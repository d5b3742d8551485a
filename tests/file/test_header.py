"""Headers: to bytes and back."""

from __future__ import annotations

import json
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from commands import GOLDEN
from golden_set import RANK_BYTES, SHAPE, any_set, golden_set, header_of, point, quick
from mipset import Artifact, ArtifactError, read
from mipset.file.header import MOST_HEADER, file_bytes, header_bytes, parse_header, read_header


class TestHeader:
    def test_header_gives_the_description(self) -> None:
        content = GOLDEN.read_bytes()
        end = len(content) - 3 * RANK_BYTES
        description = parse_header(content[:end], "golden")
        assert description == golden_set().description
        assert header_bytes(description) == content[:end]
        assert (description.ipc, description.shape, description.rank_bytes) == (3, SHAPE, RANK_BYTES)
        assert description.sha256 == tuple(golden_set().rank_sha256)
        for n in (1, 2, 3):
            assert description.prefix(n) == golden_set().prefix(n).description
            assert file_bytes(description.prefix(n)) == len(golden_set().prefix(n).to_bytes())

    def test_reading_a_header_reads_nothing_else(self) -> None:
        content = GOLDEN.read_bytes()
        asked: list[tuple[int, int]] = []

        def piece(start: int, stop: int) -> bytes:
            asked.append((start, stop))
            return content[start:stop]

        description, start = read_header(piece, "golden")
        assert start == len(content) - 3 * RANK_BYTES
        assert asked == [(0, 8), (8, start)]
        assert description == golden_set().description

    def test_header_that_is_too_long_is_not_read(self) -> None:
        def piece(start: int, stop: int) -> bytes:
            assert (start, stop) == (0, 8)
            return struct.pack("<Q", MOST_HEADER + 1)

        with pytest.raises(
            ArtifactError,
            match=r"^it is not a complete .*\(its header would have 8,388,609 bytes, and 8,388,608 is the limit\)",
        ):
            read_header(piece, "it")

    def test_header_longer_than_the_file_takes_no_memory(self, tmp_path: Path) -> None:
        (tmp_path / "set").write_bytes(struct.pack("<Q", MOST_HEADER) + b"{")
        tracemalloc.start()
        try:
            with pytest.raises(ArtifactError, match=r"its header ends after 9 of 8388616 bytes"):
                read(tmp_path / "set")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000

    def test_points_keep_their_training_time(self) -> None:
        timed = replace(point(3), epochs=16, least_steps=100, batch=64)
        description = replace(golden_set(), accuracy=(point(1), timed)).description
        header = header_bytes(description)
        assert parse_header(header, "it") == description
        fields = json.loads(json.loads(header[8:])["__metadata__"]["mipset"])["accuracy"]
        assert [{"epochs", "least_steps", "batch"} & set(f) for f in fields] == [
            set(),
            {"epochs", "least_steps", "batch"},
        ]

    def test_json_that_is_too_deep_is_refused(self, tmp_path: Path) -> None:
        """How deep JSON may be depends on who asks: a file that could just be read is written by deeper functions."""
        nested: list[Any] = []
        for _ in range(1200):
            nested = [nested]
        deep = Artifact(**{**vars(golden_set()), "recipe": {"deep": nested}})
        with pytest.raises(ArtifactError, match="The recipe and the provenance must be plain JSON values"):
            deep.write(tmp_path / "deep")

    def test_header_that_is_too_long_is_not_written(self) -> None:
        long = Artifact(**{**vars(golden_set()), "recipe": {"novel": "x" * MOST_HEADER}})
        with pytest.raises(ArtifactError, match=r"^The header has 8,\d+,\d+ bytes: it may have at most 8,388,608\."):
            long.to_bytes()

    def test_header_of_a_wrong_length_is_refused(self) -> None:
        end = len(GOLDEN.read_bytes()) - 3 * RANK_BYTES
        for length in (0, 7, 8, end - 1, end + 1):
            with pytest.raises(ArtifactError, match="it is not a complete safetensors file"):
                parse_header(GOLDEN.read_bytes()[:length], "it")

    @quick
    @given(st.data())
    def test_header_equals_that_of_safetensors(self, data: st.DataObject) -> None:
        written = data.draw(any_set())
        header, _ = header_of(written.to_bytes())
        saved = save({"images": written.images}, metadata=header["__metadata__"])
        assert len(written.to_bytes()) == len(saved)
        assert header_of(written.to_bytes()) == header_of(saved)  # which has the two keys in any order

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), np.float32(1)])
    def test_values_that_json_does_not_have_are_refused(self, tmp_path: Path, value: object) -> None:
        odd = Artifact(**{**vars(golden_set()), "recipe": {"pixel_lr": value}})
        with pytest.raises(ArtifactError, match="plain JSON values"):
            odd.write(tmp_path / "odd.safetensors")
        assert list(tmp_path.iterdir()) == []
