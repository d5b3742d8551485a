"""What all exports have in common, and the export command."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import GOLDEN, WITHOUT_TORCH, Here, done, run
from export_sets import image_list_of, paths_below, small_set
from mipset import read
from mipset.errors import ArtifactError, MissingExtraError, SettingError
from mipset.exchange.exports import PNG, export
from mipset.file.decoding import decoded
from mipset.settings.exchange_choices import EXPORT_FORMATS

SINGLE_FILES = [name for name in EXPORT_FORMATS if name != PNG]


@pytest.mark.parametrize("to", EXPORT_FORMATS)
def test_exports_of_the_same_set_have_the_same_bytes(tmp_path: Path, to: str) -> None:
    exported = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        export(small_set(), to, folder / "set")
        written = (path for path in folder.rglob("*") if path.is_file())
        exported.append({path.relative_to(folder): path.read_bytes() for path in written})
    assert exported[0] == exported[1]


@pytest.mark.parametrize("to", SINGLE_FILES)
def test_exported_file_is_overwritten_only_with_force(tmp_path: Path, to: str) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"precious")
    with pytest.raises(ArtifactError, match="exists already"):
        export(small_set(), to, out)
    assert out.read_bytes() == b"precious"
    export(small_set(), to, out, force=True)
    assert out.read_bytes() != b"precious"
    with pytest.raises(ArtifactError, match="is a folder"):
        export(small_set(), to, tmp_path, force=True)
    with pytest.raises(ArtifactError, match="There is no folder"):
        export(small_set(), to, tmp_path / "nowhere" / "out")


@pytest.mark.parametrize("to", SINGLE_FILES)
def test_exported_file_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    def disk_full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(ArtifactError, match="out cannot be written: No space left on device"):
        export(small_set(), to, tmp_path / "out")
    assert paths_below(tmp_path) == set()


@pytest.mark.parametrize("to", ["png", "parquet", "webdataset"])
def test_picture_exports_need_one_or_three_channels(tmp_path: Path, to: str) -> None:
    with pytest.raises(ArtifactError, match="Images of 2 channels cannot be PNG files"):
        export(small_set(2), to, tmp_path / "out")
    assert paths_below(tmp_path) == set()


@pytest.mark.parametrize("to", ["png", "parquet", "webdataset"])
def test_picture_exports_without_pillow_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r'needs Pillow, .* run pip install .*\[pictures\]"\.$'):
        export(small_set(), to, tmp_path / "out")
    assert paths_below(tmp_path) == set()


def test_unknown_export_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SettingError,
        match=r"^`to` is 'gif': there is no such format\. Choose png, npz, parquet, webdataset, pt or c\.$",
    ):
        export(small_set(), "gif", tmp_path / "out")


@pytest.mark.parametrize("to", ["png", "npz", "c"])
def test_exporting_without_torch(tmp_path: Path, to: str) -> None:
    done(run("export", GOLDEN, "--to", to, "--out", "out", code=WITHOUT_TORCH, cwd=tmp_path))
    assert (tmp_path / "out").exists()


@pytest.mark.parametrize("to", EXPORT_FORMATS)
def test_export_command_writes_every_format(tmp_path: Path, here: Here, to: str) -> None:
    out = tmp_path / "out"
    last = "4 images of each class" if to == PNG else "8 images"
    training = (
        rf"{out}: 12 training images for each of 2 classes, [\d.]+ k?B; the subset of size n is the first n x {last}\n"
    )
    last = "1 images of each class" if to == PNG else "2 images"
    stored = (
        rf"{out}: 3 stored images for each of 2 classes, [\d.]+ k?B; the subset of size n is the first n x {last}\n"
        r"Each stored image is a mosaic of 2 x 2 training images \(`factor` 2 in the data\): decode it before.*\n"
    )
    assert re.fullmatch(stored if to == "c" else training, here("export", GOLDEN, "--to", to, "--out", out))
    assert re.fullmatch(stored, here("export", GOLDEN, "--to", to, "--out", out, "--stored", "--force"))
    assert re.fullmatch(training, here("export", GOLDEN, "--to", to, "--out", out, "--decoded", "--force"))


def test_export_command_with_ipc_and_stored(tmp_path: Path, here: Here) -> None:
    out = tmp_path / "out.npz"
    here("export", GOLDEN, "--to", "npz", "--out", out, "--ipc", 1, "--stored")
    whole = read(GOLDEN)
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["images"], whole.images[0])
        assert arrays["factor"] == 2
    here("export", GOLDEN, "--to", "npz", "--out", out, "--ipc", 2, "--force")
    with np.load(out) as arrays:
        np.testing.assert_array_equal(arrays["images"], image_list_of(decoded(whole.prefix(2))))
        assert arrays["labels"].tolist() == [0, 1] * 8
        assert arrays["factor"] == 1


def test_export_command_refuses_with_one_sentence(tmp_path: Path, refusal: Here) -> None:
    own = tmp_path / "own.safetensors"
    shutil.copy(GOLDEN, own)
    taken = tmp_path / "taken"
    taken.touch()
    new = tmp_path / "new"
    for arguments, reason in (
        ((own, "--to", "npz", "--out", own, "--force"), "would overwrite the file itself"),
        ((own, "--to", "npz", "--out", taken), "exists already"),
        ((own, "--to", "gif", "--out", new), "--to is 'gif'. Choose png, "),
        ((own, "--to", "npz", "--out", new, "--ipc", 4), "Choose a size from 1 to 3"),
        ((own, "--to", "npz", "--out", new, "--ipc", 0), "Choose a size from 1 to 3"),
        ((tmp_path / "none", "--to", "npz", "--out", new), "There is no file"),
        ((own, "--to", "npz"), "required: --out"),
        ((own, "--out", new), "required: --to"),
        ((own, "--to", "npz", "--out", new, "--stored", "--decoded"), "not allowed with argument --stored"),
    ):
        assert reason in refusal("export", *arguments)
    assert paths_below(tmp_path) == {"own.safetensors", "taken"}
    assert own.read_bytes() == GOLDEN.read_bytes()
