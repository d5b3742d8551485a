"""Condensed sets and their files: bytes, prefixes, accuracy points, writing and opening."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from hypothesis import given
from safetensors import safe_open
from safetensors.numpy import load_file

import mipset
from commands import GOLDEN
from golden_set import OLDER, RANK_BYTES, SHAPE, any_set, golden_set, header_of, point, quick, refused
from mipset import Artifact, ArtifactError, read
from mipset.file.header import FORMAT, MOST_HEADER
from mipset.io import files


class TestBytes:
    def test_written_bytes_equal_the_golden_file(self) -> None:
        assert golden_set().to_bytes() == GOLDEN.read_bytes()

    def test_golden_file_is_read(self) -> None:
        reread, expected = read(GOLDEN), golden_set()
        np.testing.assert_array_equal(reread.images, expected.images)
        for name in ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy"):
            assert getattr(reread, name) == getattr(expected, name)
        assert reread.to_bytes() == GOLDEN.read_bytes()

    def test_older_file_without_a_digest_is_read(self) -> None:
        header, _ = header_of(OLDER.read_bytes())
        assert set(header["__metadata__"]) == {"mipset"}
        assert read(OLDER).to_bytes() == GOLDEN.read_bytes()

    def test_file_has_the_digest_of_its_description(self) -> None:
        metadata = header_of(GOLDEN.read_bytes())[0]["__metadata__"]
        assert metadata["mipset_sha256"] == hashlib.sha256(metadata["mipset"].encode()).hexdigest()
        assert set(metadata) == {"mipset", "mipset_sha256"}

    def test_long_text_is_not_written_longer_than_it_was_read(self, tmp_path: Path) -> None:
        """No letter becomes longer, so what could be read can be written."""
        long = Artifact(**{**vars(golden_set()), "recipe": {"novel": "猫" * (MOST_HEADER // 4)}})
        long.write(tmp_path / "long")
        assert (tmp_path / "long").stat().st_size < MOST_HEADER
        assert read(tmp_path / "long").to_bytes() == (tmp_path / "long").read_bytes()

    def test_bytes_do_not_depend_on_the_order_of_settings(self) -> None:
        given = golden_set()
        turned = dict(reversed(list(given.recipe.items())))
        assert list(turned) != list(given.recipe)
        again = Artifact(given.images, 2, given.mean, given.std, given.class_names, turned, given.provenance)
        assert again.to_bytes() == Artifact(**{**vars(given), "accuracy": ()}).to_bytes()

    def test_file_is_plain_safetensors(self) -> None:
        assert list(load_file(GOLDEN)) == ["images"]
        np.testing.assert_array_equal(load_file(GOLDEN)["images"], golden_set().images)
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

    def test_prefix_is_one_range_of_bytes(self) -> None:
        """Law 1 in docs/architecture.md: S_[n] is one range of bytes, right after the header."""
        content = GOLDEN.read_bytes()
        header, data = header_of(content)
        start = len(content) - len(data)
        assert start % 8 == 0
        assert header["images"] == {"dtype": "U8", "shape": list(SHAPE), "data_offsets": [0, 3 * RANK_BYTES]}
        digests = json.loads(header["__metadata__"]["mipset"])["sha256"]
        for n in range(1, 4):
            assert content[start : start + n * RANK_BYTES] == golden_set().images[:n].tobytes()
            rank = content[start + (n - 1) * RANK_BYTES : start + n * RANK_BYTES]
            assert hashlib.sha256(rank).hexdigest() == digests[n - 1]

    def test_prefix_can_be_cut_without_mipset(self, tmp_path: Path) -> None:
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
        assert read(path).to_bytes() == golden_set().prefix(2).to_bytes()


class TestRoundTrip:
    @quick
    @given(any_set())
    def test_written_set_is_read_back(self, tmp_path: Path, written: Artifact) -> None:
        path = tmp_path / "set.safetensors"
        written.write(path)
        reread = read(path)
        assert reread.images.dtype == np.uint8
        np.testing.assert_array_equal(reread.images, written.images)
        for name in ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy"):
            assert getattr(reread, name) == getattr(written, name)
        assert reread.to_bytes() == path.read_bytes()

    @quick
    @given(any_set())
    def test_every_prefix_is_a_shorter_file_of_the_same_bytes(self, tmp_path: Path, whole: Artifact) -> None:
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

    def test_images_that_are_not_contiguous_are_written(self, tmp_path: Path) -> None:
        given = golden_set()
        turned = Artifact(given.images[::-1, :, :, :, ::-1], 2, given.mean, given.std, given.class_names)
        turned.write(tmp_path / "turned.safetensors")
        np.testing.assert_array_equal(read(tmp_path / "turned.safetensors").images, turned.images)

    def test_written_file_has_the_usual_permissions(self, tmp_path: Path) -> None:
        (tmp_path / "usual").touch()
        golden_set().write(tmp_path / "ours")
        assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)

    def test_writing_does_not_change_the_umask(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another thread may make a file at the same time."""
        monkeypatch.delattr(os, "umask")
        golden_set().write(tmp_path / "ours")
        files.write_folder(tmp_path / "folder", [("a", b"a")])
        (tmp_path / "usual").mkdir()
        assert (tmp_path / "folder").stat().st_mode == (tmp_path / "usual").stat().st_mode

    def test_path_may_be_text(self, tmp_path: Path) -> None:
        golden_set().write(str(tmp_path / "set.safetensors"))
        assert read(str(tmp_path / "set.safetensors")).ipc == 3

    def test_reading_needs_no_torch(self) -> None:
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
        assert int(done.stdout) == golden_set().images[:2].sum(dtype=int)

    @pytest.mark.parametrize("n", [-1, 0, 4])
    def test_prefix_of_a_size_that_the_set_does_not_have_is_refused(self, n: int) -> None:
        with pytest.raises(ArtifactError, match=rf"^There is no subset of size {n}\. Choose a size from 1 to 3\.$"):
            golden_set().prefix(n)


class TestAccuracy:
    def test_point_of_the_same_size_network_and_protocol_is_replaced(self) -> None:
        measured = golden_set().with_accuracy([point(3, 70.0), point(2, 55.0), point(1, 30.0, protocol="paper")])
        assert measured.accuracy == (
            point(1, 30.0, protocol="paper"),
            point(1, 41.5),
            point(2, 55.0),
            point(3, 70.0),
        )
        np.testing.assert_array_equal(measured.images, golden_set().images)

    def test_point_of_another_seed_or_dataset_is_added(self) -> None:
        others = [replace(point(1, 41.5), seed=1), replace(point(1, 41.5), data="11" * 32)]
        assert len(golden_set().with_accuracy(others).accuracy) == len(golden_set().accuracy) + 2

    def test_curve_does_not_depend_on_the_order_of_measuring(self) -> None:
        points = [point(3, 1.0, network="b"), point(1, 2.0, network="b"), point(2, 3.0, network="a")]
        assert golden_set().with_accuracy(points).accuracy == golden_set().with_accuracy(points[::-1]).accuracy


class TestWriting:
    """After an error, the old file is unchanged and no other file is left."""

    @pytest.mark.parametrize("before", [None, b"precious"])
    @pytest.mark.parametrize("step", ["write", "fsync", "replace"])
    def test_full_disk_leaves_the_old_file(
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
            golden_set().write(path)
        monkeypatch.undo()
        assert [entry.name for entry in tmp_path.iterdir()] == ([] if before is None else [path.name])
        assert before is None or path.read_bytes() == before

    def test_interrupted_write_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(_: int) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            golden_set().write(tmp_path / "set.safetensors")
        assert list(tmp_path.iterdir()) == []

    def test_writing_into_a_missing_folder_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="cannot be written: No such file or directory"):
            golden_set().write(tmp_path / "nowhere" / "set.safetensors")

    def test_writing_over_a_folder_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        with pytest.raises(ArtifactError, match="cannot be written: Is a directory"):
            golden_set().write(tmp_path / "folder")
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


class TestOpening:
    def test_file_larger_than_the_memory_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise MemoryError

        monkeypatch.setattr(np, "fromfile", refuse)
        message = refused(tmp_path / "large", golden_set().to_bytes())
        assert (
            "needs 120 bytes of memory, which is more than this machine has free. Read a prefix of it with" in message
        )

    def test_missing_file_is_refused_with_advice(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match="is a folder"):
            read(tmp_path)
        with pytest.raises(ArtifactError, match=r"^There is no file .*: `mipset condense` makes one"):
            read(tmp_path / "nothing")
        with pytest.raises(
            ArtifactError, match=r"^There is no file .*: `mipset fetch` downloads a file from an address"
        ):
            read("https://example.org/set.safetensors")
        with pytest.raises(ArtifactError, match="There is no file"):
            read(GOLDEN / "below a file")
        with pytest.raises(ArtifactError, match="cannot be read"):
            read(tmp_path / ("long" * 100))
        (tmp_path / "empty").touch()
        with pytest.raises(ArtifactError, match="not a complete safetensors file"):
            read(tmp_path / "empty")

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
    def test_file_without_permission_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "secret"
        golden_set().write(path)
        path.chmod(0)
        with pytest.raises(ArtifactError, match="cannot be read"):
            read(path)
