"""The file: its bytes, its prefixes, and what is said about files that are not what they should be."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import load, load_file, save

import mipset
from mipset import Accuracy, Artifact, ArtifactError, read
from mipset.condensing.synthetic import formation
from mipset.file.artifact import FORMAT, MOST_HEADER, describe, read_header
from mipset.io import files

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
OLDER = GOLDEN.with_name("older.safetensors")  # the same, from before descriptions had a digest
SHAPE = (3, 2, 1, 4, 5)  # ranks, classes, channels, height, width
RANK_BYTES = 2 * 1 * 4 * 5

quick = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def point(size: int, mean: float = 50.0, network: str = "convnet-3, width 4", protocol: str = "quick") -> Accuracy:
    return Accuracy(size, mean, 1.25, 3, network, protocol, 0, "00" * 32)


def example() -> Artifact:
    """The set in the golden file: fixed in every bit."""
    pixels = (np.arange(np.prod(SHAPE)) * 7 % 251).astype(np.uint8).reshape(SHAPE)
    return Artifact(
        images=pixels,
        factor=2,
        mean=(0.25,),
        std=(0.125,),
        class_names=("cat", "dög"),
        recipe={"ipc": 3, "policy": "mdc", "pixel_lr": 0.005},
        provenance={"dataset": "npz:pets.npz", "sha256": "00" * 32, "mipset": "0.1.0", "size": None},
        accuracy=(point(1, 41.5), point(3, 62.0)),
    )


def header_of(content: bytes) -> tuple[dict[str, Any], bytes]:
    """A safetensors file taken apart by hand: its JSON header and the bytes after it."""
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def with_description(change: Callable[[dict[str, Any]], object]) -> bytes:
    """The example as a file whose description (not its images) was changed."""
    content = example().to_bytes()
    header, _ = header_of(content)
    description = json.loads(header["__metadata__"]["mipset"])
    change(description)
    return save({"images": example().images}, metadata={"mipset": json.dumps(description)})


def with_header(**images: Any) -> bytes:
    """A file of four bytes with this header entry for its images."""
    return with_text(json.dumps({"__metadata__": {"mipset": "{}"}, "images": {"dtype": "U8", **images}}))


def with_text(header: str) -> bytes:
    """A file of four bytes with this header."""
    return struct.pack("<Q", len(header)) + header.encode() + bytes(4)


MINUS_NOTHING = '{"__metadata__":{"mipset":"{}"},"images":{"dtype":"U8","shape":[1,1,1,2,2],"data_offsets":[-0,4]}}'


def refused(path: Path, content: bytes) -> str:
    """What is said about a file with this content: one sentence, which names the file."""
    path.write_bytes(content)
    with pytest.raises(ArtifactError) as caught:
        read(path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    assert message.endswith(".")
    assert len(message) < 1000
    return message


class TestBytes:
    def test_are_those_of_the_golden_file(self) -> None:
        assert example().to_bytes() == GOLDEN.read_bytes()

    def test_of_the_golden_file_read_as_the_example(self) -> None:
        found, expected = read(GOLDEN), example()
        np.testing.assert_array_equal(found.images, expected.images)
        for name in ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy"):
            assert getattr(found, name) == getattr(expected, name)
        assert found.to_bytes() == GOLDEN.read_bytes()

    def test_of_an_older_file_read_as_the_same(self) -> None:
        header, _ = header_of(OLDER.read_bytes())
        assert set(header["__metadata__"]) == {"mipset"}
        assert read(OLDER).to_bytes() == GOLDEN.read_bytes()

    def test_have_the_digest_of_the_description(self) -> None:
        metadata = header_of(GOLDEN.read_bytes())[0]["__metadata__"]
        assert metadata["mipset_sha256"] == hashlib.sha256(metadata["mipset"].encode()).hexdigest()
        assert set(metadata) == {"mipset", "mipset_sha256"}

    def test_of_much_text_are_as_many_as_they_were(self, tmp_path: Path) -> None:
        """No letter becomes longer, so what could be read can be written."""
        long = Artifact(**{**vars(example()), "recipe": {"novel": "猫" * (MOST_HEADER // 4)}})
        long.write(tmp_path / "long")
        assert (tmp_path / "long").stat().st_size < MOST_HEADER
        assert read(tmp_path / "long").to_bytes() == (tmp_path / "long").read_bytes()

    def test_do_not_depend_on_the_order_of_settings(self) -> None:
        given = example()
        turned = dict(reversed(list(given.recipe.items())))
        assert list(turned) != list(given.recipe)
        again = Artifact(given.images, 2, given.mean, given.std, given.class_names, turned, given.provenance)
        assert again.to_bytes() == Artifact(**{**vars(given), "accuracy": ()}).to_bytes()

    def test_are_plain_safetensors(self) -> None:
        assert list(load_file(GOLDEN)) == ["images"]
        np.testing.assert_array_equal(load_file(GOLDEN)["images"], example().images)
        with safe_open(GOLDEN, framework="numpy") as stored:
            assert stored.get_slice("images").get_dtype() == "U8"
            description = json.loads(stored.metadata()["mipset"])
        assert set(description) == {
            "format",
            "formation",
            "range",
            "mean",
            "std",
            "classes",
            "recipe",
            "provenance",
            "accuracy",
            "sha256",
        }
        assert description["format"] == FORMAT == 1
        assert description["range"] == [0, 1]
        assert description["formation"]["factor"] == 2

    def test_of_rank_n_end_where_the_header_says(self) -> None:
        """Law 1: S_[n] is one range of bytes, right after the header."""
        content = GOLDEN.read_bytes()
        header, data = header_of(content)
        start = len(content) - len(data)
        assert start % 8 == 0
        assert header["images"] == {"dtype": "U8", "shape": list(SHAPE), "data_offsets": [0, 3 * RANK_BYTES]}
        digests = json.loads(header["__metadata__"]["mipset"])["sha256"]
        for n in range(1, 4):
            assert content[start : start + n * RANK_BYTES] == example().images[:n].tobytes()
            rank = content[start + (n - 1) * RANK_BYTES : start + n * RANK_BYTES]
            assert hashlib.sha256(rank).hexdigest() == digests[n - 1]

    def test_of_a_prefix_are_made_without_mipset(self, tmp_path: Path) -> None:
        """As FORMAT.md says: the first bytes of the data under a header with a shorter shape and fewer digests."""
        header, data = header_of(GOLDEN.read_bytes())
        description = json.loads(header["__metadata__"]["mipset"])
        description["sha256"] = description["sha256"][:2]
        description["accuracy"] = [p for p in description["accuracy"] if p["size"] <= 2]
        text = json.dumps(description)
        header["__metadata__"] = {"mipset": text, "mipset_sha256": hashlib.sha256(text.encode()).hexdigest()}
        header["images"].update(shape=[2, *SHAPE[1:]], data_offsets=[0, 2 * RANK_BYTES])
        first = json.dumps(header).encode()
        first += b" " * (-len(first) % 8)
        path = tmp_path / "two.safetensors"
        path.write_bytes(struct.pack("<Q", len(first)) + first + data[: 2 * RANK_BYTES])
        assert read(path).to_bytes() == example().prefix(2).to_bytes()


class TestHeader:
    """What comes before the pixels says all but them."""

    def test_is_enough_for_the_description(self) -> None:
        content = GOLDEN.read_bytes()
        end = len(content) - 3 * RANK_BYTES
        said = describe(content[:end], "golden")
        assert said == example().description
        assert said.header() == content[:end]
        assert (said.ipc, said.shape, said.rank_bytes) == (3, SHAPE, RANK_BYTES)
        assert said.sha256 == tuple(example().rank_sha256)
        for n in (1, 2, 3):
            assert said.prefix(n) == example().prefix(n).description
            assert said.prefix(n).file_bytes == len(example().prefix(n).to_bytes())

    def test_is_all_that_is_read(self) -> None:
        content = GOLDEN.read_bytes()
        asked: list[tuple[int, int]] = []

        def piece(start: int, stop: int) -> bytes:
            asked.append((start, stop))
            return content[start:stop]

        said, start = read_header(piece, "golden")
        assert start == len(content) - 3 * RANK_BYTES
        assert asked == [(0, 8), (8, start)]
        assert said == example().description

    def test_that_is_too_long_is_not_even_read(self) -> None:
        def piece(start: int, stop: int) -> bytes:
            assert (start, stop) == (0, 8)
            return struct.pack("<Q", MOST_HEADER + 1)

        with pytest.raises(ArtifactError, match=r"^it is not a whole .*\(a header cannot have 8,388,609 bytes\)"):
            read_header(piece, "it")

    def test_that_is_not_there_takes_no_memory(self, tmp_path: Path) -> None:
        (tmp_path / "set").write_bytes(struct.pack("<Q", MOST_HEADER) + b"{")
        tracemalloc.start()
        try:
            with pytest.raises(ArtifactError, match=r"its header ends after 9 of 8388616 bytes"):
                read(tmp_path / "set")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1_000_000

    def test_that_was_read_may_be_too_deep_to_write(self, tmp_path: Path) -> None:
        """How deep JSON may be depends on who asks: a file that could just be read is written by deeper functions."""
        nested: list[Any] = []
        for _ in range(1200):
            nested = [nested]
        deep = Artifact(**{**vars(example()), "recipe": {"deep": nested}})
        with pytest.raises(ArtifactError, match="recipe and provenance must be plain JSON values"):
            deep.write(tmp_path / "deep")

    def test_that_is_too_long_is_not_written_either(self) -> None:
        long = Artifact(**{**vars(example()), "recipe": {"novel": "x" * MOST_HEADER}})
        with pytest.raises(ArtifactError, match=r"a header cannot have 8,\d+,\d+ bytes: 8,388,608 are the most"):
            long.to_bytes()

    def test_that_is_cut_or_goes_on(self) -> None:
        end = len(GOLDEN.read_bytes()) - 3 * RANK_BYTES
        for length in (0, 7, 8, end - 1, end + 1):
            with pytest.raises(ArtifactError, match="it is not a whole safetensors file"):
                describe(GOLDEN.read_bytes()[:length], "it")

    @quick
    @given(st.data())
    def test_is_the_one_that_safetensors_writes(self, data: st.DataObject) -> None:
        written = data.draw(artifacts())
        header, _ = header_of(written.to_bytes())
        saved = save({"images": written.images}, metadata=header["__metadata__"])
        assert len(written.to_bytes()) == len(saved)
        assert header_of(written.to_bytes()) == header_of(saved)  # which has the two keys in any order


def decode_by_the_book(stored: npt.NDArray[np.uint8], factor: int) -> npt.NDArray[np.float64]:
    """One stored image [ch, h, w] as FORMAT.md decodes it, to [f * f, ch, h, w]."""
    _, height, width = stored.shape
    tile_h, tile_w = -(-height // factor), -(-width // factor)
    bottom, right = factor * tile_h - height, factor * tile_w - width
    padded = np.pad(stored / 255, ((0, 0), (0, bottom), (0, right)), constant_values=0.5)

    def enlarged(tile: npt.NDArray[np.float64], axis: int, size: int) -> npt.NDArray[np.float64]:
        length = tile.shape[axis]
        s = np.maximum(0, (np.arange(size) + 0.5) * length / size - 0.5)
        i = np.floor(s).astype(int)
        j = np.minimum(i + 1, length - 1)
        a = (s - i).reshape([-1 if n == axis else 1 for n in range(3)])
        both: npt.NDArray[np.float64] = (1 - a) * tile.take(i, axis) + a * tile.take(j, axis)
        return both

    tiles = [
        padded[:, row * tile_h : (row + 1) * tile_h, column * tile_w : (column + 1) * tile_w]
        for row in range(factor)
        for column in range(factor)
    ]
    return np.stack([enlarged(enlarged(tile, 1, height), 2, width) for tile in tiles])


@pytest.mark.parametrize(("factor", "height", "width"), [(1, 4, 5), (2, 8, 8), (2, 7, 5), (3, 10, 8), (4, 5, 9)])
def test_the_decode_rule_is_the_one_in_the_specification(factor: int, height: int, width: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, height, width), dtype=np.uint8)
    found = formation(factor).decode(torch.from_numpy(pixels).float() / 255)
    expected = np.concatenate([decode_by_the_book(stored, factor) for stored in pixels])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6)


def artifacts() -> st.SearchStrategy[Artifact]:
    """Any set that can be, in small."""
    names = st.text(max_size=6)
    plain = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    settings_ = st.dictionaries(names, plain | names | st.lists(plain, max_size=2), max_size=3)

    @st.composite
    def build(draw: st.DrawFn) -> Artifact:
        shape = draw(st.tuples(*(st.integers(1, 4) for _ in range(5))))
        percent = st.floats(0, 100)
        points = st.builds(Accuracy, st.integers(1, shape[0]), percent, percent, st.integers(1, 9), names, names)
        finite = st.floats(allow_nan=False, allow_infinity=False)
        positive = st.floats(min_value=1e-300, allow_infinity=False)
        images: npt.NDArray[np.uint8] = draw(hnp.arrays(np.uint8, shape))
        return Artifact(
            images=images,
            factor=draw(st.sampled_from([1, *(f for f in (2, 3) if all(side % f == 0 for side in shape[3:]))])),
            mean=tuple(draw(finite) for _ in range(shape[2])),
            std=tuple(draw(positive) for _ in range(shape[2])),
            class_names=tuple(draw(names) for _ in range(shape[1])),
            recipe=draw(settings_),
            provenance=draw(settings_),
            accuracy=tuple(draw(st.lists(points, max_size=3))),
        )

    return build()


class TestRoundTrip:
    @quick
    @given(artifacts())
    def test_gives_back_what_was_written(self, tmp_path: Path, written: Artifact) -> None:
        path = tmp_path / "set.safetensors"
        written.write(path)
        found = read(path)
        assert found.images.dtype == np.uint8
        np.testing.assert_array_equal(found.images, written.images)
        for name in ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy"):
            assert getattr(found, name) == getattr(written, name)
        assert found.to_bytes() == path.read_bytes()

    @quick
    @given(artifacts())
    def test_of_every_prefix_is_a_shorter_file_of_the_same_bytes(self, tmp_path: Path, whole: Artifact) -> None:
        path = tmp_path / "set.safetensors"
        for n in range(1, whole.ipc + 1):
            part = whole.prefix(n)
            np.testing.assert_array_equal(part.images, whole.images[:n])
            assert part.rank_sha256 == whole.rank_sha256[:n]
            assert part.accuracy == tuple(p for p in whole.accuracy if p.size <= n)
            assert (part.ipc, part.factor, part.class_names) == (n, whole.factor, whole.class_names)
            part.write(path)
            np.testing.assert_array_equal(read(path).images, whole.images[:n])
            _, data = header_of(path.read_bytes())
            assert data == header_of(whole.to_bytes())[1][: len(data)]

    def test_of_images_that_are_not_contiguous(self, tmp_path: Path) -> None:
        given = example()
        turned = Artifact(given.images[::-1, :, :, :, ::-1], 2, given.mean, given.std, given.class_names)
        turned.write(tmp_path / "turned.safetensors")
        np.testing.assert_array_equal(read(tmp_path / "turned.safetensors").images, turned.images)

    def test_makes_a_file_with_the_usual_permissions(self, tmp_path: Path) -> None:
        (tmp_path / "usual").touch()
        example().write(tmp_path / "ours")
        assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)

    def test_leaves_the_mask_of_the_process_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another thread may make a file at the same time."""
        monkeypatch.delattr(os, "umask")
        example().write(tmp_path / "ours")
        files.write_folder(tmp_path / "folder", [("a", b"a")])
        (tmp_path / "usual").mkdir()
        assert (tmp_path / "folder").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_takes_text_as_path(self, tmp_path: Path) -> None:
        example().write(str(tmp_path / "set.safetensors"))
        assert read(str(tmp_path / "set.safetensors")).ipc == 3

    def test_needs_no_torch(self) -> None:
        code = (
            "import sys; sys.modules['torch'] = None\n"
            "import mipset\n"
            f"print(mipset.read({str(GOLDEN)!r}).prefix(2).images.sum())"
        )
        source = Path(mipset.__file__).parents[1]
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(source)},
        )
        assert int(done.stdout) == example().images[:2].sum(dtype=int)


class TestPrefix:
    @pytest.mark.parametrize("n", [-1, 0, 4])
    def test_of_a_size_that_is_not_there(self, n: int) -> None:
        with pytest.raises(ArtifactError, match=rf"^there is no subset of size {n}: choose from 1 to 3\.$"):
            example().prefix(n)


class TestAccuracy:
    def test_of_the_same_size_network_and_protocol_is_replaced(self) -> None:
        measured = example().with_accuracy([point(3, 70.0), point(2, 55.0), point(1, 30.0, protocol="paper")])
        assert measured.accuracy == (
            point(1, 30.0, protocol="paper"),
            point(1, 41.5),
            point(2, 55.0),
            point(3, 70.0),
        )
        np.testing.assert_array_equal(measured.images, example().images)

    def test_with_another_seed_or_other_data_stands_beside_it(self) -> None:
        others = [replace(point(1, 41.5), seed=1), replace(point(1, 41.5), data="11" * 32)]
        assert len(example().with_accuracy(others).accuracy) == len(example().accuracy) + 2

    def test_does_not_depend_on_the_order_of_measuring(self) -> None:
        points = [point(3, 1.0, network="b"), point(1, 2.0, network="b"), point(2, 3.0, network="a")]
        assert example().with_accuracy(points).accuracy == example().with_accuracy(points[::-1]).accuracy

    @pytest.mark.parametrize(
        "wrong",
        [
            Accuracy(4, 50.0, 0.0, 1, "", "", 0, ""),
            Accuracy(0, 50.0, 0.0, 1, "", "", 0, ""),
            Accuracy(1, 101.0, 0.0, 1, "", "", 0, ""),
            Accuracy(1, float("nan"), 0.0, 1, "", "", 0, ""),
            Accuracy(1, 50.0, -1.0, 1, "", "", 0, ""),
            Accuracy(1, 50.0, 0.0, 0, "", "", 0, ""),
        ],
    )
    def test_that_cannot_be(self, wrong: Accuracy) -> None:
        with pytest.raises(ArtifactError, match="cannot be"):
            example().with_accuracy([wrong])


class TestContradictions:
    """What cannot be written need not be read."""

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            ({"images": np.zeros(SHAPE, np.float32)}, r"images must be uint8 .* float32 \[3, 2, 1, 4, 5\]"),
            ({"images": np.zeros(SHAPE[1:], np.uint8)}, r"images must be .* uint8 \[2, 1, 4, 5\]"),
            ({"images": np.zeros((0, *SHAPE[1:]), np.uint8)}, "not empty"),
            ({"class_names": ("cat",)}, "2 classes of images, but 1 class names"),
            ({"mean": (0.5, 0.5)}, "one value for each of 1 channels"),
            ({"std": ()}, "one value for each of 1 channels"),
            ({"mean": (float("nan"),)}, "must be finite"),
            ({"std": (0.0,)}, "std above 0"),
            ({"std": (float("inf"),)}, "must be finite"),
            ({"factor": 0}, "factor of 0 does not cut 4 x 5 pixels"),
            ({"factor": 5}, "factor of 5 does not cut 4 x 5 pixels"),
            ({"factor": 17, "images": np.zeros((1, 2, 1, 34, 34), np.uint8)}, "factor of 17 .*: 16 is the most"),
            ({"factor": 3}, "factor of 3 does not cut 4 x 5 pixels"),  # two tiles of 2 pixels leave none for the third
        ],
    )
    def test_are_errors(self, changes: dict[str, Any], reason: str) -> None:
        with pytest.raises(ArtifactError, match=reason):
            Artifact(**{**vars(example()), **changes})

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), np.float32(1)])
    def test_in_values_that_json_does_not_have(self, tmp_path: Path, value: object) -> None:
        odd = Artifact(**{**vars(example()), "recipe": {"pixel_lr": value}})
        with pytest.raises(ArtifactError, match="plain JSON values"):
            odd.write(tmp_path / "odd.safetensors")
        assert list(tmp_path.iterdir()) == []


class TestDamage:
    @pytest.mark.parametrize("rank", [1, 2, 3])
    def test_of_one_pixel_names_the_rank(self, tmp_path: Path, rank: int) -> None:
        content = bytearray(example().to_bytes())
        content[len(content) - 3 * RANK_BYTES + rank * RANK_BYTES - 1] ^= 1
        assert f"image {rank} of each class was altered" in refused(tmp_path / "a", bytes(content))

    @pytest.mark.parametrize("change", [(b"41.5", b"49.5"), (b"[0.25]", b"[0.75]"), (b"cat", b"dog")], ids=str)
    def test_of_the_description(self, tmp_path: Path, change: tuple[bytes, bytes]) -> None:
        content = example().to_bytes().replace(*change)
        assert content != example().to_bytes()
        assert "is damaged: its description was altered; fetch or make it again." in refused(tmp_path / "a", content)

    def test_by_more_bytes_than_there_is_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(np, "fromfile", refuse)
        message = refused(tmp_path / "large", example().to_bytes())
        assert (
            "needs 120 bytes of memory, which are not there: take a prefix of it with mipset.device.open()" in message
        )

    def test_by_words_that_a_terminal_obeys(self, tmp_path: Path) -> None:
        header, data = header_of(OLDER.read_bytes())
        header["images"]["dtype"] = "\x1b[2Jevil\u202e\n"
        text = json.dumps(header)
        content = struct.pack("<Q", len(text)) + text.encode() + data
        assert "holds images of type ?[2Jevil??, not U8" in refused(tmp_path / "odd", content)

    def test_by_cutting_at_any_byte(self, tmp_path: Path) -> None:
        content = example().to_bytes()
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
            assert "not a whole safetensors file" in refused(tmp_path / "cut", content[:length])

    def test_by_appending(self, tmp_path: Path) -> None:
        assert "not a whole safetensors file" in refused(tmp_path / "long", example().to_bytes() + b"\0")

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
    def test_beyond_safetensors(self, tmp_path: Path, content: bytes) -> None:
        assert "not a whole safetensors file" in refused(tmp_path / "odd", content)

    @pytest.mark.parametrize(
        ("tensors", "metadata", "reason"),
        [
            ({"images": example().images}, None, "not one of mipset's"),
            ({"images": example().images}, {"format": "np"}, "not one of mipset's"),
            ({"pixels": example().images}, {"mipset": "{}"}, "not one of mipset's"),
            ({"images": example().images, "more": np.zeros(3)}, {"mipset": "{}"}, "not one of mipset's"),
            ({"images": example().images.astype(np.int8)}, {"mipset": "{}"}, "type I8, not U8"),
            ({"images": example().images.astype(np.float64)}, {"mipset": "{}"}, "type F64, not U8"),
            ({"images": example().images}, {"mipset": ""}, "cannot be understood"),
            ({"images": example().images}, {"mipset": '{"format":1,"format":1}'}, "a key comes twice"),
            ({"images": example().images}, {"mipset": "{"}, "cannot be understood"),
            ({"images": example().images}, {"mipset": "{}"}, "cannot be understood"),
            ({"images": example().images}, {"mipset": "[1]"}, "cannot be understood"),
            ({"images": example().images}, {"mipset": "null"}, "cannot be understood"),
            ({"images": example().images}, {"mipset": "[" * 100_000}, "cannot be understood"),
            (
                {"images": example().images},
                {"mipset": '{"format":' + "9" * 5000 + "}"},
                "cannot be understood",
            ),
        ],
    )
    def test_of_another_kind_of_safetensors_file(
        self,
        tmp_path: Path,
        tensors: dict[str, npt.NDArray[Any]],
        metadata: dict[str, str] | None,
        reason: str,
    ) -> None:
        assert reason in refused(tmp_path / "other", save(tensors, metadata))

    @pytest.mark.parametrize("version", [2, 0, -1, "1", 1.0, True, None, [1]])
    def test_by_a_format_this_version_does_not_know(self, tmp_path: Path, version: object) -> None:
        message = refused(tmp_path / "new", with_description(lambda d: d.update(format=version)))
        assert f"its format is {version!r}, and this version of mipset reads 1." in message

    @pytest.mark.parametrize(
        "name",
        ["format", "formation", "mean", "std", "classes", "recipe", "provenance", "accuracy", "sha256"],
    )
    def test_by_leaving_a_field_out(self, tmp_path: Path, name: str) -> None:
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
            {"accuracy": [{**vars(point(1)), "size": 4}]},
            {"accuracy": [{**vars(point(1)), "size": 0}]},
            {"accuracy": [{**vars(point(1)), "size": "1"}]},
            {"accuracy": [{**vars(point(1)), "mean": 1e300}]},
            {"accuracy": [{**vars(point(1)), "mean": float("nan")}]},
            {"accuracy": [{**vars(point(1)), "mean": "50"}]},
            {"accuracy": [{**vars(point(1)), "network": None}]},
            {"accuracy": [{**vars(point(1)), "networks": 0}]},
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
    def test_by_a_field_that_cannot_be(self, tmp_path: Path, field: dict[str, Any]) -> None:
        assert "is damaged" in refused(tmp_path / "wrong", with_description(lambda d: d.update(field)))

    def test_does_not_include_fields_that_a_later_version_added(self, tmp_path: Path) -> None:
        path = tmp_path / "later.safetensors"
        path.write_bytes(with_description(lambda d: d.update(colour_space="sRGB")))
        assert read(path).to_bytes() == example().to_bytes()

    @pytest.mark.parametrize("shape", [(6, 1, 4, 5), (3, 2, 4, 5, 1), (120,)])
    def test_by_another_shape(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        header, _ = header_of(example().to_bytes())
        content = save({"images": example().images.reshape(shape)}, metadata=header["__metadata__"])
        assert "is damaged" in refused(tmp_path / "shape", content)

    def test_by_not_being_a_file(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="is a folder"):
            read(tmp_path)
        with pytest.raises(ArtifactError, match=r"there is no file .*: `mipset condense` makes one"):
            read(tmp_path / "nothing")
        with pytest.raises(ArtifactError, match=r"there is no file .*: `mipset fetch` gets what is at an address"):
            read("https://example.org/set.safetensors")
        with pytest.raises(ArtifactError, match="there is no file"):
            read(GOLDEN / "below a file")
        with pytest.raises(ArtifactError, match="cannot be read"):
            read(tmp_path / ("long" * 100))
        (tmp_path / "empty").touch()
        with pytest.raises(ArtifactError, match="not a whole safetensors file"):
            read(tmp_path / "empty")

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
    def test_by_being_forbidden(self, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        example().write(path)
        path.chmod(0)
        with pytest.raises(ArtifactError, match="cannot be read"):
            read(path)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The example's bytes with a few changed, cut, doubled or put in, mostly in the header."""
    content = bytearray(example().to_bytes())
    for _ in range(draw(st.integers(1, 4))):
        here = draw(st.integers(0, len(content)))
        there = draw(st.integers(here, min(len(content), here + 40)))
        match draw(st.sampled_from(["change", "remove", "insert", "cut", "double"])):
            case "change":
                content[here:there] = draw(st.binary(min_size=there - here, max_size=there - here))
            case "remove":
                del content[here:there]
            case "insert":
                content[here:here] = draw(st.binary(max_size=8) | st.sampled_from([b"0", b"-", b"null", b"9e999"]))
            case "cut":
                del content[there:]
            case "double":
                content[here:here] = content[here:there]
    return bytes(content)


@st.composite
def redescribed(draw: st.DrawFn) -> bytes:
    """Sound safetensors, with any JSON in place of some of the description's fields."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    anything = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
    header, _ = header_of(example().to_bytes())
    description = json.loads(header["__metadata__"]["mipset"])
    for name in draw(st.lists(st.sampled_from(sorted(description)), min_size=1, max_size=3)):
        description[name] = draw(anything)
    return save({"images": example().images}, metadata={"mipset": json.dumps(description)})


def read_or_refuse(path: Path, content: bytes) -> None:
    """Whatever the bytes: a sound set or an ArtifactError of one line, and a sound set can be written again."""
    path.write_bytes(content)
    try:
        found = read(path)
    except ArtifactError as error:
        said = str(error)
    else:
        said = ""
        np.testing.assert_array_equal(found.images, example().images)
        found.to_bytes()
        np.testing.assert_array_equal(load(content)["images"], found.images)  # safetensors' own reader agrees
    assert "\n" not in said


class TestFuzz:
    @settings(quick, max_examples=300)
    @given(content=damaged() | redescribed() | st.binary(max_size=200))
    def test_always_gives_a_set_or_an_artifact_error(self, tmp_path: Path, content: bytes) -> None:
        read_or_refuse(tmp_path / "fuzz", content)

    @pytest.mark.slow
    @settings(quick, max_examples=10_000)
    @given(content=damaged() | redescribed() | st.binary(max_size=200))
    def test_always_gives_a_set_or_an_artifact_error_at_length(self, tmp_path: Path, content: bytes) -> None:
        read_or_refuse(tmp_path / "fuzz", content)


class TestWriting:
    """Whole or not at all."""

    @pytest.mark.parametrize("before", [None, b"precious"])
    @pytest.mark.parametrize("step", ["write", "fsync", "replace"])
    def test_on_a_full_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before: bytes | None
    ) -> None:
        path = tmp_path / "set.safetensors"
        if before is not None:
            path.write_bytes(before)

        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def half(path: Path, _: Callable[[BinaryIO], object]) -> None:
            def write_half(stream: BinaryIO) -> None:
                stream.write(b"half")
                full()

            whole(path, write_half)

        whole = files.write_whole
        if step == "write":
            monkeypatch.setattr("mipset.file.artifact.write_whole", half)
        elif step == "fsync":
            monkeypatch.setattr(os, "fsync", full)
        else:
            monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(ArtifactError, match=r"cannot be written: No space left on device\.$"):
            example().write(path)
        monkeypatch.undo()
        assert [entry.name for entry in tmp_path.iterdir()] == ([] if before is None else [path.name])
        assert before is None or path.read_bytes() == before

    def test_that_is_interrupted_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            example().write(tmp_path / "set.safetensors")
        assert list(tmp_path.iterdir()) == []

    def test_into_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be written: No such file or directory"):
            example().write(tmp_path / "nowhere" / "set.safetensors")

    def test_over_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(ArtifactError, match="cannot be written: Is a directory"):
            example().write(tmp_path / "folder")
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
