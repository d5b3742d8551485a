"""Files that are damaged, truncated, or something else."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from golden_set import (
    OLDER,
    RANK_BYTES,
    damaged,
    golden_set,
    header_of,
    point,
    quick,
    read_or_refuse,
    redescribed,
    refused,
    with_description,
)
from mipset import read
from mipset.file.header import MOST_HEADER


def with_header(**images: Any) -> bytes:
    """A file of four bytes with this header entry for its images."""
    return with_text(json.dumps({"__metadata__": {"mipset": "{}"}, "images": {"dtype": "U8", **images}}))


def with_text(header: str) -> bytes:
    """A file of four bytes with this header."""
    return struct.pack("<Q", len(header)) + header.encode() + bytes(4)


MINUS_NOTHING = '{"__metadata__":{"mipset":"{}"},"images":{"dtype":"U8","shape":[1,1,1,2,2],"data_offsets":[-0,4]}}'


POINT = {name: value for name, value in vars(point(1)).items() if value is not None}


class TestDamage:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_altered_pixel_is_refused_with_its_rank(self, tmp_path: Path, rank: int) -> None:
        content = bytearray(golden_set().to_bytes())
        content[len(content) - 3 * RANK_BYTES + rank * RANK_BYTES - 1] ^= 1
        assert f"image {rank} of each class was altered" in refused(tmp_path / "a", bytes(content))

    @pytest.mark.parametrize("change", [(b"41.5", b"49.5"), (b"[0.25]", b"[0.75]"), (b"cat", b"dog")], ids=str)
    def test_altered_description_of_a_file_is_refused(self, tmp_path: Path, change: tuple[bytes, bytes]) -> None:
        content = golden_set().to_bytes().replace(*change)
        assert content != golden_set().to_bytes()
        assert "is damaged: its description was altered. Download the file or make it again." in refused(
            tmp_path / "a", content
        )

    def test_control_characters_of_a_file_do_not_appear_in_errors(self, tmp_path: Path) -> None:
        header, data = header_of(OLDER.read_bytes())
        header["images"]["dtype"] = "\x1b[2Jevil\u202e\n"
        text = json.dumps(header)
        content = struct.pack("<Q", len(text)) + text.encode() + data
        assert "holds images of type ?[2Jevil??: the type must be U8." in refused(tmp_path / "odd", content)

    def test_truncated_file_is_refused(self, tmp_path: Path) -> None:
        content = golden_set().to_bytes()
        header = len(content) - 3 * RANK_BYTES
        places = {
            0,
            1,
            7,
            8,
            9,
            header // 2,
            header - 1,
            header,
            header + 1,
            header + RANK_BYTES,
            len(content) - 1,
        }
        for length in sorted(places):
            assert "not a complete safetensors file" in refused(tmp_path / "cut", content[:length])

    def test_file_with_more_bytes_is_refused(self, tmp_path: Path) -> None:
        assert "not a complete safetensors file" in refused(tmp_path / "long", golden_set().to_bytes() + b"\0")

    @pytest.mark.parametrize(
        "content",
        [
            pytest.param(b"\x89PNG\r\n\x1a\n" + bytes(100), id="a picture"),
            pytest.param(b"<html><body>404 not found</body></html>", id="a web page"),
            pytest.param(struct.pack("<Q", 2**63) + b"{}", id="a header of 8 EiB"),
            pytest.param(struct.pack("<Q", 90_000_000) + b"{}", id="a header longer than the file"),
            pytest.param(struct.pack("<Q", 0), id="a header of nothing"),
            pytest.param(struct.pack("<Q", 2) + b"\xff\xfe", id="a header that is not UTF-8"),
            pytest.param(struct.pack("<Q", 2) + b"[]", id="a header that is a list"),
            pytest.param(struct.pack("<Q", MOST_HEADER + 1) + b"{}", id="a header longer than any"),
            pytest.param(struct.pack("<Q", 40) + b"[" * 40, id="a header that never ends"),
            pytest.param(with_header(shape=[9_999_999_999] * 5, data_offsets=[0, 4]), id="a shape beyond all numbers"),
            pytest.param(with_header(shape=[2**62] * 5, data_offsets=[0, 2**310]), id="a place beyond all numbers"),
            pytest.param(with_header(shape=[10**4000] * 2000, data_offsets=[0, 4]), id="numbers of pages"),
            pytest.param(with_header(shape=[-2, -2, 1, 1, 1], data_offsets=[0, 4]), id="negative sides"),
            pytest.param(with_header(shape=[1, 1, 1, 2, 2.0], data_offsets=[0, 4]), id="a side that is no integer"),
            pytest.param(with_header(shape=[1, 1, 1, 4, True], data_offsets=[0, 4]), id="a side that is true"),
            pytest.param(with_header(shape=[1, 1, 1, 4, None], data_offsets=[0, 4]), id="a side that is nothing"),
            pytest.param(with_header(shape="4", data_offsets=[0, 4]), id="a shape that is text"),
            pytest.param(with_header(data_offsets=[0, 4]), id="no shape"),
            pytest.param(with_header(shape=[1, 1, 1, 2, 2]), id="no offsets"),
            pytest.param(with_header(shape=[1, 1, 1, 2, 2], data_offsets=[4, 0]), id="offsets that go backwards"),
            pytest.param(with_header(shape=[1, 1, 1, 2, 2], data_offsets=[False, 4]), id="an offset that is false"),
            pytest.param(with_header(shape=[1, 1, 1, 2, 2], data_offsets=[0, float("nan")]), id="an offset like none"),
            pytest.param(with_text('{"__metadata__":{"mipset":"\\ud800"},"images":{}}'), id="half a character"),
            pytest.param(with_text('{"__metadata__":{"mipset":"", "mipset":""},"images":{}}'), id="a key twice"),
            pytest.param(with_text('{"__metadata__":{"mipset":"", "x":1},"images":{}}'), id="metadata of numbers"),
            pytest.param(with_text('{"__metadata__":{"mipset":""},"images":[]}'), id="images of nothing"),
            pytest.param(with_text(MINUS_NOTHING), id="an offset of minus nothing"),
        ],
    )
    def test_file_that_is_not_safetensors_is_refused(self, tmp_path: Path, content: bytes) -> None:
        assert "not a complete safetensors file" in refused(tmp_path / "odd", content)

    @pytest.mark.parametrize(
        ("tensors", "metadata", "reason"),
        [
            ({"images": golden_set().images}, None, "but mipset did not write it"),
            ({"images": golden_set().images}, {"format": "np"}, "but mipset did not write it"),
            ({"pixels": golden_set().images}, {"mipset": "{}"}, "but mipset did not write it"),
            ({"images": golden_set().images, "more": np.zeros(3)}, {"mipset": "{}"}, "but mipset did not write it"),
            ({"images": golden_set().images.astype(np.int8)}, {"mipset": "{}"}, "type I8: the type must be U8"),
            ({"images": golden_set().images.astype(np.float64)}, {"mipset": "{}"}, "type F64: the type must be U8"),
            ({"images": golden_set().images}, {"mipset": ""}, "cannot be read"),
            ({"images": golden_set().images}, {"mipset": '{"format":1,"format":1}'}, "a key is repeated"),
            ({"images": golden_set().images}, {"mipset": "{"}, "cannot be read"),
            ({"images": golden_set().images}, {"mipset": "{}"}, "cannot be read"),
            ({"images": golden_set().images}, {"mipset": "[1]"}, "cannot be read"),
            ({"images": golden_set().images}, {"mipset": "null"}, "cannot be read"),
            ({"images": golden_set().images}, {"mipset": "[" * 100_000}, "cannot be read"),
            (
                {"images": golden_set().images},
                {"mipset": '{"format":' + "9" * 5000 + "}"},
                "cannot be read",
            ),
        ],
    )
    def test_other_safetensors_file_is_refused(
        self,
        tmp_path: Path,
        tensors: dict[str, npt.NDArray[Any]],
        metadata: dict[str, str] | None,
        reason: str,
    ) -> None:
        assert reason in refused(tmp_path / "other", save(tensors, metadata))

    @pytest.mark.parametrize("version", [2, 0, -1, "1", 1.0, True, None, [1]])
    def test_unknown_format_is_refused(self, tmp_path: Path, version: object) -> None:
        message = refused(tmp_path / "new", with_description(lambda d: d.update(format=version)))
        assert f"has the format {version!r}: this version of mipset reads format 1. Install another version." in message

    @pytest.mark.parametrize(
        "name",
        ["format", "formation", "mean", "std", "classes", "recipe", "provenance", "accuracy", "sha256"],
    )
    def test_missing_field_is_refused(self, tmp_path: Path, name: str) -> None:
        assert name in refused(tmp_path / "less", with_description(lambda d: d.pop(name)))

    @pytest.mark.parametrize(
        "field",
        [
            {"formation": {}},
            {"formation": None},
            {"formation": {"factor": 9}},
            {"formation": {"factor": 1.5}},
            {"formation": {"factor": True}},
            {"mean": []},
            {"mean": "5"},
            {"mean": [None]},
            {"mean": ["0.5"]},
            {"mean": [True]},
            {"mean": [float("nan")]},
            {"mean": [10**400]},
            {"std": [0]},
            {"std": [float("inf")]},
            {"std": {"0": 1}},
            {"classes": ["cat"]},
            {"classes": "cd"},
            {"classes": ["cat", 7]},
            {"classes": {"cat": 1, "dog": 2}},
            {"recipe": []},
            {"recipe": [["ipc", 3]]},
            {"recipe": {"pixel_lr": float("inf")}},
            {"provenance": None},
            {"accuracy": {}},
            {"accuracy": [{}]},
            {"accuracy": [{**POINT, "size": 4}]},
            {"accuracy": [{**POINT, "size": 0}]},
            {"accuracy": [{**POINT, "size": "1"}]},
            {"accuracy": [{**POINT, "mean": 1e300}]},
            {"accuracy": [{**POINT, "mean": float("nan")}]},
            {"accuracy": [{**POINT, "mean": "50"}]},
            {"accuracy": [{**POINT, "network": None}]},
            {"accuracy": [{**POINT, "networks": 0}]},
            {"accuracy": [{**POINT, "epochs": 0}]},
            {"accuracy": [{**POINT, "epochs": 1.5}]},
            {"accuracy": [{**POINT, "epochs": "16"}]},
            {"accuracy": [{**POINT, "epochs": None}]},
            {"accuracy": [{**POINT, "epochs": True}]},
            {"accuracy": [{**POINT, "least_steps": -1}]},
            {"accuracy": [{**POINT, "least_steps": [100]}]},
            {"accuracy": [{**POINT, "batch": 0}]},
            {"accuracy": [{**POINT, "batch": 10**10}]},
            {"sha256": []},
            {"sha256": ["00" * 32] * 4},
            {"sha256": ["00" * 32] * 3},
            {"sha256": [None] * 3},
            {"sha256": ["../" * 21 + "x"] * 3},
            {"sha256": ["AB" * 32] * 3},
            {"sha256": "abc"},
        ],
        ids=str,
    )
    def test_field_that_is_not_valid_is_refused(self, tmp_path: Path, field: dict[str, Any]) -> None:
        assert "is damaged" in refused(tmp_path / "wrong", with_description(lambda d: d.update(field)))

    def test_unknown_fields_are_ignored(self, tmp_path: Path) -> None:
        path = tmp_path / "later.safetensors"
        path.write_bytes(with_description(lambda d: d.update(colour_space="sRGB")))
        assert read(path).to_bytes() == golden_set().to_bytes()
        path.write_bytes(with_description(lambda d: d["accuracy"][0].update(weather="fine")))
        assert read(path).to_bytes() == golden_set().to_bytes()

    @pytest.mark.parametrize("shape", [(6, 1, 4, 5), (3, 2, 4, 5, 1), (120,)])
    def test_wrong_shape_is_refused(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        header, _ = header_of(golden_set().to_bytes())
        content = save({"images": golden_set().images.reshape(shape)}, metadata=header["__metadata__"])
        assert "is damaged" in refused(tmp_path / "shape", content)


class TestFuzz:
    @settings(quick, max_examples=300)
    @given(content=damaged() | redescribed() | st.binary(max_size=200))
    def test_damaged_bytes_give_a_set_or_an_artifact_error(self, tmp_path: Path, content: bytes) -> None:
        read_or_refuse(tmp_path / "fuzz", content)

    @pytest.mark.slow
    @settings(quick, max_examples=10_000)
    @given(content=damaged() | redescribed() | st.binary(max_size=200))
    def test_damaged_bytes_give_a_set_or_an_artifact_error_at_length(self, tmp_path: Path, content: bytes) -> None:
        read_or_refuse(tmp_path / "fuzz", content)
