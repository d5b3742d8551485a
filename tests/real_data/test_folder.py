"""Datasets of the form folder:PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, features

from mipset.data import load, pictures
from mipset.data.pictures import square
from mipset.errors import DataError, SettingError
from tiny_data import (
    picture,
    write_pictures,
)


@pytest.mark.parametrize("test_name", ["test", "val", "valid"])
def test_folder_with_a_test_split_is_read(tmp_path: Path, test_name: str) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / test_name, 2)
    dataset = load(f"folder:{tmp_path}")
    assert dataset.name == f"folder:{tmp_path.resolve()}"
    assert dataset.class_names == ("cat", "dog")
    assert dataset.shape == (3, 6, 6)
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101, 102]
    assert dataset.train.images[:, 2, 5, 5].tolist() == [255, 254, 253, 155, 154, 153]
    assert dataset.test.images[:, 0, 3, 3].tolist() == [0, 1, 100, 101]
    assert dataset.mean == pytest.approx((51 / 255, 0, 204 / 255), abs=1e-4)
    assert dataset.std[1] == 1e-3


def test_folder_called_test_is_preferred_to_val(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / "val", 1)
    write_pictures(tmp_path / "test", 2)
    assert len(load(f"folder:{tmp_path}").test) == 4


def test_folder_without_a_test_split_holds_out_a_fifth(tmp_path: Path) -> None:
    write_pictures(tmp_path, 10)
    first, again, other = (load(f"folder:{tmp_path}", seed=seed) for seed in (0, 0, 5))
    assert np.bincount(first.train.labels).tolist() == [8, 8]
    assert np.bincount(first.test.labels).tolist() == [2, 2]
    assert first.sha256 == again.sha256 != other.sha256
    reds = sorted([*first.train.images[:, 0, 0, 0].tolist(), *first.test.images[:, 0, 0, 0].tolist()])
    assert reds == [*range(10), *range(100, 110)]


def test_folder_is_grey_unless_one_picture_is_coloured(tmp_path: Path) -> None:
    write_pictures(tmp_path, 5, "L")
    Image.new("1", (6, 6), 1).save(tmp_path / "cat" / "05.png")
    grey = load(f"folder:{tmp_path}")
    assert grey.shape == (1, 6, 6)
    assert 255 in grey.train.images[:, 0, 0, 0].tolist() + grey.test.images[:, 0, 0, 0].tolist()
    picture(7).save(tmp_path / "dog" / "05.png")
    colour = load(f"folder:{tmp_path}")
    assert colour.shape == (3, 6, 6)
    cats = colour.train.images[colour.train.labels == 0]
    assert np.array_equal(cats[:, 0], cats[:, 1])
    assert np.array_equal(cats[:, 0], cats[:, 2])


def test_hidden_files_and_other_files_in_a_folder_are_ignored(tmp_path: Path) -> None:
    write_pictures(tmp_path, 5)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "cat" / ".hidden.png").write_bytes(b"no picture")
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / "list.png").write_bytes(b"not in a class")
    dataset = load(f"folder:{tmp_path}")
    assert dataset.class_names == ("cat", "dog")
    assert len(dataset.train) + len(dataset.test) == 10


@pytest.mark.parametrize("suffix", ["png", "PNG", "jpg", "JPEG", "bmp", "webp", "gif", "tif", "TIFF"])
def test_folder_reads_every_usual_picture_format(tmp_path: Path, suffix: str) -> None:
    write_pictures(tmp_path, 3)
    (tmp_path / "cat" / "00.png").unlink()
    picture(200).save(tmp_path / "cat" / f"00.{suffix}")
    dataset = load(f"folder:{tmp_path}")
    reds = np.concatenate([dataset.train.images, dataset.test.images])[:, 0, 3, 3].astype(int)
    assert np.abs(reds - 200).min() <= 6  # JPEG and WebP are not exact


def test_folder_reads_a_palette_with_transparency(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    colours = np.zeros((6, 6, 3), dtype=np.uint8)
    colours[:, :, 0] = np.arange(40, 240, 40)[[0, 1, 2, 4, 4, 4]]
    Image.fromarray(colours).quantize(4).save(tmp_path / "cat" / "00.png", transparency=b"\x00\x80\xff")
    dataset = load(f"folder:{tmp_path}")
    assert 200 in np.concatenate([dataset.train.images, dataset.test.images])[:, 0, 3, 3].tolist()


def test_folder_applies_the_orientation_in_the_metadata(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 2)
    write_pictures(tmp_path / "test", 1)
    upright = Image.new("RGB", (6, 6), (0, 0, 0))
    upright.paste((255, 255, 255), (0, 0, 6, 2))  # white at the top
    exif = Image.Exif()
    exif[0x0112] = 3  # stored upside down
    upright.rotate(180).save(tmp_path / "test" / "cat" / "00.png", exif=exif)
    rows = load(f"folder:{tmp_path}").test.images[0, 0, :, 0].tolist()
    assert rows == [255, 255, 0, 0, 0, 0]


def test_folder_of_mixed_shapes_asks_for_a_resolution(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    picture(9, width=8, height=4).save(tmp_path / "dog" / "02.png")
    with pytest.raises(
        DataError, match=r"00.png is 6x6, .*02.png is 4x8, height by width\)\. Give `resolution` to scale"
    ):
        load(f"folder:{tmp_path}")
    assert load(f"folder:{tmp_path}", resolution=5).shape == (3, 5, 5)


def test_folder_without_a_resolution_may_hold_pictures_that_are_not_square(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(3):
            picture(number, width=5, height=3).save(tmp_path / name / f"{number}.png")
    assert load(f"folder:{tmp_path}").shape == (3, 3, 5)


@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    size=st.integers(1, 40),
    mode=st.sampled_from(["L", "RGB"]),
)
@settings(max_examples=80, deadline=None)
def test_square_has_the_resolution_and_keeps_a_uniform_picture(width: int, height: int, size: int, mode: str) -> None:
    flat = picture(77, mode, width, height)
    result = square(flat, size)
    assert (result.size, result.mode) == ((size, size), mode)
    assert np.array_equal(np.asarray(result), np.asarray(picture(77, mode, size, size)))


@given(extra=st.integers(1, 20), size=st.integers(1, 12), tall=st.booleans())
@settings(max_examples=40, deadline=None)
def test_square_crops_the_centre(extra: int, size: int, tall: bool) -> None:
    inner = np.random.default_rng(size).integers(0, 256, (size, size), dtype=np.uint8)
    margin = ((extra, extra), (0, 0)) if tall else ((0, 0), (extra, extra))
    padded = Image.fromarray(np.pad(inner, margin))
    assert np.array_equal(np.asarray(square(padded, size)), inner)


def spoil(folder: Path, name: str, content: bytes | None = None) -> None:
    """Replace a picture by these bytes, or cut it."""
    path = folder / name
    path.write_bytes(path.read_bytes()[:45] if content is None else content)


def test_all_unreadable_pictures_are_reported_at_once(tmp_path: Path) -> None:
    write_pictures(tmp_path, 6)
    for name, content in (("cat/01.png", b""), ("cat/04.png", b"no picture"), ("dog/02.png", None)):
        spoil(tmp_path, name, content)
    with pytest.raises(
        DataError, match=r"3 of 12 pictures could not be read: cat.01\.png \(not a PNG, .*\), cat.04\.png "
    ):
        load(f"folder:{tmp_path}")
    spoil(tmp_path, "dog/05.png", b"")
    picture(9, width=8, height=4).save(tmp_path / "dog" / "00.png")
    with pytest.raises(DataError, match=r"4 of 12 .* dog.02\.png .* and 1 more\. .*set `skip_bad`.* different shapes"):
        load(f"folder:{tmp_path}")


def test_unreadable_pictures_are_left_out_and_counted(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 4)
    write_pictures(tmp_path / "test", 2)
    spoil(tmp_path / "train", "cat/01.png")
    spoil(tmp_path / "test", "dog/00.png", b"")
    dataset = load(f"folder:{tmp_path}", skip_bad=True)
    assert dataset.train.images[:, 0, 0, 0].tolist() == [0, 2, 3, 100, 101, 102, 103]
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert dataset.test.files == ("test/cat/00.png", "test/cat/01.png", "test/dog/01.png")
    (note,) = dataset.notes
    assert note.startswith("2 of 12 pictures could not be read and were left out: train/cat/01.png (")
    for number in range(2):
        spoil(tmp_path / "test", f"cat/0{number}.png")
    with pytest.raises(DataError, match="'cat' has no images in the test split"):
        load(f"folder:{tmp_path}", skip_bad=True)


def test_pictures_with_16_bits_are_converted(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 3, "L")
    write_pictures(tmp_path / "test", 1, "L")
    wide = np.array([[0, 257, 25700, 65535]] * 2)
    Image.fromarray(wide.astype(np.uint16)).resize((6, 6), Image.Resampling.NEAREST).save(
        tmp_path / "test" / "cat" / "00.png"
    )
    Image.fromarray(wide.astype(np.int32)).resize((6, 6), Image.Resampling.NEAREST).save(
        tmp_path / "test" / "cat" / "01.tif"
    )
    Image.fromarray((wide / 65535).astype(np.float32)).resize((6, 6), Image.Resampling.NEAREST).save(
        tmp_path / "test" / "cat" / "02.tif"
    )
    tested = load(f"folder:{tmp_path}").test.images
    assert all(sorted(set(image[0, 0].tolist())) == [0, 1, 100, 255] for image in tested[:3])
    Image.fromarray(wide.astype(np.float32)).save(tmp_path / "test" / "cat" / "03.tif")
    Image.fromarray(wide.astype(np.int32) * 2).save(tmp_path / "test" / "cat" / "04.tif")
    with pytest.raises(
        DataError, match=r"03.tif \(holds floats from 0 to 65535, .*04.tif \(holds .* more than 16 bits"
    ):
        load(f"folder:{tmp_path}")


def test_nested_folders_are_read_in_the_order_of_torchvision(tmp_path: Path) -> None:
    """By folder as text, then by name, through links."""
    write_pictures(tmp_path / "train", 2)
    write_pictures(tmp_path / "test", 1)
    for number, place in enumerate(("b/x.png", "a/z.png", "a/deep/y.png", "a-b/w.png")):
        (tmp_path / "train" / "cat" / place).parent.mkdir(exist_ok=True, parents=True)
        picture(50 + number).save(tmp_path / "train" / "cat" / place)
    (tmp_path / "elsewhere").mkdir()
    picture(60).save(tmp_path / "elsewhere" / "v.png")
    (tmp_path / "train" / "cat" / "c").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "train" / "cat" / "loop").symlink_to(tmp_path / "train" / "cat")
    expected = [
        os.path.relpath(f"{root}/{name}", tmp_path)
        for root, _, files in sorted(os.walk(tmp_path / "train" / "cat", followlinks=True))
        for name in sorted(files)
        if "loop" not in root
    ]
    dataset = load(f"folder:{tmp_path}")
    assert list(dataset.train.files[:7]) == expected
    assert dataset.train.images[:7, 0, 0, 0].tolist() == [0, 1, 51, 53, 52, 50, 60]


def test_all_that_is_ignored_is_counted_in_one_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / "val", 1)
    write_pictures(tmp_path / "test", 1)
    for name in ("train/cat/a.txt", "train/dog/b.TXT", "train/cat/.DS_Store", "test/dog/c.heic", "test/list", "d.csv"):
        (tmp_path / name).touch()
    pictures._formats_here.cache_clear()
    (note,) = load(f"folder:{tmp_path}").notes
    pictures._formats_here.cache_clear()
    assert note == (
        "7 entries were ignored: 1 .csv, 1 .heic, 2 .txt, folder val, 1 hidden, 1 without a suffix (install "
        "pillow-heif to read these pictures)."
    )


def test_avif_is_read_where_pillow_can_and_ignored_where_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not features.check("avif"):
        pytest.skip("this Pillow has no AVIF")
    write_pictures(tmp_path, 3)
    picture(200).save(tmp_path / "cat" / "03.avif")
    dataset = load(f"folder:{tmp_path}")
    assert len(dataset.train) + len(dataset.test) == 7
    assert not dataset.notes
    monkeypatch.setattr(features, "check", lambda _: False)
    pictures._formats_here.cache_clear()
    without = load(f"folder:{tmp_path}")
    pictures._formats_here.cache_clear()
    assert len(without.train) + len(without.test) == 6
    assert without.notes == ("1 entry was ignored: 1 .avif (install Pillow with AVIF to read these pictures).",)


def test_eps_with_the_name_of_a_png_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 4)
    postscript = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 6\n%%EndComments\nshowpage\n%%EOF\n"
    spoil(tmp_path, "cat/02.png", postscript)
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *command, **_: started.append(command))
    with pytest.raises(DataError, match=r"1 of 8 pictures could not be read: cat.02\.png \(not a PNG"):
        load(f"folder:{tmp_path}")
    assert started == []


def test_picture_that_is_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 4)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    picture(1, width=7, height=7).save(tmp_path / "cat" / "03.png")  # above the limit, below twice the limit
    with pytest.raises(DataError, match=r"03\.png .*decompression bomb"):
        load(f"folder:{tmp_path}")


def test_folder_class_with_one_picture_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path / "a", 4)
    (tmp_path / "a" / "bird").mkdir()
    picture(1).save(tmp_path / "a" / "bird" / "x.png")
    (tmp_path / "a" / "bird" / "y.doc").touch()
    with pytest.raises(
        DataError, match=r"'bird' has 1 image, but a held-out split needs at least 3.* ignored: 1 \.doc\."
    ):
        load(f"folder:{tmp_path / 'a'}")
    write_pictures(tmp_path / "b" / "train", 1)
    write_pictures(tmp_path / "b" / "test", 1)
    with pytest.raises(
        DataError, match=r"2 classes have too few images in the training split \('cat' has 1, 'dog' has 1\)"
    ):
        load(f"folder:{tmp_path / 'b'}")


def test_empty_class_folder_is_named(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    (tmp_path / "bird").mkdir()
    with pytest.raises(DataError, match="Class 'bird' has no pictures"):
        load(f"folder:{tmp_path}")
    (tmp_path / "ant").mkdir()
    with pytest.raises(DataError, match="Classes 'ant', 'bird' have no pictures"):
        load(f"folder:{tmp_path}")


@pytest.mark.parametrize(("extra", "place"), [("train", "test"), ("test", "train")])
def test_folder_with_different_classes_in_its_splits_is_refused(tmp_path: Path, extra: str, place: str) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / "test", 3)
    write_pictures(tmp_path / extra, 3, classes=("bird",))
    with pytest.raises(DataError, match=rf"'bird' has no folder in .*{place}. Give train and test the same"):
        load(f"folder:{tmp_path}")


def test_train_folder_without_a_test_folder_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 3)
    with pytest.raises(DataError, match=r"no test split next to it\. Add a folder called test, val or valid"):
        load(f"folder:{tmp_path}")


def test_folder_class_may_be_called_train(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3, classes=("bus", "train"))
    assert load(f"folder:{tmp_path}").class_names == ("bus", "train")


def test_missing_or_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        load(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="holds no folders"):
        load(f"folder:{tmp_path}")


def test_resolution_below_1_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    with pytest.raises(SettingError, match="`resolution` is 0: it must be at least 1"):
        load(f"folder:{tmp_path}", resolution=0)


@pytest.mark.parametrize("name", ["folder:x", "imagenette", "hf:x", "cifar10"])
def test_resolution_that_is_no_whole_number_is_refused(name: str) -> None:
    wrong: Any
    for wrong in ("a", 32.5):
        with pytest.raises(SettingError, match=rf"^`resolution` is {wrong!r}: it must be a whole number of pixels\."):
            load(name, resolution=wrong)


def test_reading_a_folder_reports_its_progress(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    calls: list[tuple[str, float, float]] = []
    load(f"folder:{tmp_path}", report=lambda *call: calls.append(call))
    assert calls == [("reading pictures", done, 6) for done in range(1, 7)]
