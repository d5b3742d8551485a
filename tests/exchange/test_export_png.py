"""Export to a folder of PNG files, read back with Pillow."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from export_sets import FEW_EXAMPLES, any_names, paths_below, pixels_of, small_set
from mipset.errors import ArtifactError
from mipset.exchange.exports import export, png
from mipset.exchange.exports.metadata import METADATA_FILE


@pytest.mark.parametrize("channels", [1, 3])
def test_pillow_opens_every_exported_picture(tmp_path: Path, channels: int) -> None:
    artifact, out = small_set(channels), tmp_path / "out"
    export(artifact, "png", out, stored=True)
    pictures = {f"{folder}/000{rank}-2x2.png" for folder in ("0-cat", "1-dog") for rank in range(3)}
    assert paths_below(out) == {"0-cat", "1-dog", "classes.json", "sheet.png", "README.txt", *pictures}
    assert "a mosaic of 2 x 2 training images" in (out / "README.txt").read_text("ascii")
    for rank in range(3):
        for c, folder in enumerate(("0-cat", "1-dog")):
            with Image.open(out / folder / f"000{rank}-2x2.png") as picture:
                assert picture.format == "PNG"
                np.testing.assert_array_equal(pixels_of(picture), artifact.images[rank, c])
    with Image.open(out / "sheet.png") as sheet:
        assert sheet.mode == "RGB"
    assert json.loads((out / "classes.json").read_text("utf-8")) == {
        "classes": [
            {"label": 0, "name": "cat", "folder": "0-cat"},
            {"label": 1, "name": "dög", "folder": "1-dog"},
        ],
        "factor": 2,
        "mean": list(artifact.mean),
        "std": list(artifact.std),
    }
    assert paths_below(tmp_path) == {"out", *(f"out/{name}" for name in paths_below(out))}


@FEW_EXAMPLES
@given(class_names=any_names, channels=st.sampled_from([1, 3]), height=st.integers(2, 9), width=st.integers(2, 9))
def test_no_class_name_writes_outside_of_the_png_folder(
    tmp_path_factory: pytest.TempPathFactory, class_names: list[str], channels: int, height: int, width: int
) -> None:
    root = tmp_path_factory.mktemp("names")
    export(small_set(channels, tuple(class_names), 1, (height, width)), "png", root / "out")
    assert {entry.name for entry in root.iterdir()} == {"out"}
    listed = json.loads((root / "out" / "classes.json").read_text("utf-8"))["classes"]
    assert [entry["name"] for entry in listed] == class_names
    assert [entry["label"] for entry in listed] == list(range(len(class_names)))
    folders = {entry["folder"] for entry in listed}
    assert {entry.name for entry in (root / "out").iterdir()} == {*folders, "classes.json", "sheet.png"}
    assert all(len(list((root / "out" / folder).iterdir())) == 3 for folder in folders)


def test_png_export_of_a_prefix_is_the_first_pictures(tmp_path: Path) -> None:
    artifact = small_set()
    export(artifact, "png", tmp_path / "whole")
    export(artifact.prefix(2), "png", tmp_path / "part")
    for path in (tmp_path / "part").glob("*/*.png"):
        whole = tmp_path / "whole" / path.relative_to(tmp_path / "part")
        assert path.read_bytes() == whole.read_bytes()


def test_png_export_fills_an_empty_folder(tmp_path: Path) -> None:
    export(small_set(), "png", tmp_path)
    assert (tmp_path / "sheet.png").exists()


def test_png_export_replaces_only_a_folder_that_is_an_export(tmp_path: Path) -> None:
    """With force, too: a folder is replaced only if all that is in it was exported."""
    out = tmp_path / "out"
    export(small_set(), "png", out)
    with pytest.raises(ArtifactError, match=r"exists already\. Choose another `out`, or set `force`"):
        export(small_set(), "png", out)
    export(small_set().prefix(1), "png", out, force=True)
    assert (out / "0-cat" / "0003.png").exists()
    assert not (out / "0-cat" / "0004.png").exists()
    export(small_set(), "png", out, stored=True, force=True)
    assert not (out / "0-cat" / "0001.png").exists()
    for place in ("thesis.tex", "0-cat/notes.txt", "2-bird/0000.png", "0-cat/0/x", "0-cat/cat.png"):
        mine = out / place
        mine.parent.mkdir(exist_ok=True, parents=True)
        mine.touch()
        with pytest.raises(ArtifactError, match="holds more than an export"):
            export(small_set(), "png", out, force=True)
        assert mine.exists()
        mine.unlink()
        if not any(mine.parent.iterdir()):
            mine.parent.rmdir()
    export(small_set(), "png", out, force=True)
    for damaged in ("", "[]", '{"classes": [1]}', '{"classes": [{"folder": []}]}', "\ufffe"):
        (out / METADATA_FILE).write_text(damaged, "utf-8")
        assert not png.is_export(out)
    (out / METADATA_FILE).unlink()
    assert not png.is_export(out)


def test_png_export_to_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ArtifactError, match="exists already"):
        export(small_set(), "png", tmp_path / "out")
    with pytest.raises(ArtifactError, match=r"is a file\. Name a folder"):
        export(small_set(), "png", tmp_path / "out", force=True)
    with pytest.raises(ArtifactError, match="There is no folder"):
        export(small_set(), "png", tmp_path / "nowhere" / "out")


@pytest.mark.parametrize("there", [False, True])
def test_png_export_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    out = tmp_path / "out"
    if there:
        export(small_set().prefix(1), "png", out)
    before = {path: path.read_bytes() for path in out.rglob("*.*")}
    whole, left = Path.write_bytes, [3]

    def disk_full(path: Path, content: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(path, content)

    monkeypatch.setattr(Path, "write_bytes", disk_full)
    with pytest.raises(ArtifactError, match="out cannot be written: No space left on device"):
        export(small_set(), "png", out, force=True)
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in out.rglob("*.*")} == before
    assert paths_below(tmp_path) == ({"out", *(f"out/{name}" for name in paths_below(out))} if there else set())


def test_png_folder_is_restored_if_it_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    export(small_set().prefix(1), "png", out)
    before = paths_below(out)
    rename = Path.rename

    def never(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", never)
    monkeypatch.setattr("mipset.io.files.exchange_names", lambda *_: False)  # as on systems that cannot do it
    with pytest.raises(ArtifactError, match="cannot be written: Permission denied"):
        export(small_set(), "png", out, force=True)
    assert paths_below(out) == before
    assert {entry.name for entry in tmp_path.iterdir()} == {"out"}


def test_png_folder_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "usual").mkdir()
    export(small_set(), "png", tmp_path / "out")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_png_export_into_a_symbolic_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "place")
    for force in (False, True):
        export(small_set(), "png", tmp_path / "out", force=force)
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "place" / "sheet.png").exists()
