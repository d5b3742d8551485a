"""Datasets of the form folder:PATH."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mipset.data import load
from mipset.data.folder import square
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


@pytest.mark.parametrize("content", [b"", b"no picture at all", "cut"])
def test_unreadable_picture_is_named(tmp_path: Path, content: bytes | str) -> None:
    write_pictures(tmp_path, 4)
    path = tmp_path / "dog" / "01.png"
    path.write_bytes(path.read_bytes()[:45] if isinstance(content, str) else content)
    with pytest.raises(DataError, match=r"dog.01\.png could not be read as a picture"):
        load(f"folder:{tmp_path}")


def test_picture_with_16_bits_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    Image.fromarray(np.full((6, 6), 40000, dtype=np.uint16)).save(tmp_path / "cat" / "02.png")
    with pytest.raises(DataError, match=r"02\.png .*more than 8 bits"):
        load(f"folder:{tmp_path}")


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
    with pytest.raises(DataError, match="'bird' has 1 image, but a held-out split needs at least 3"):
        load(f"folder:{tmp_path / 'a'}")
    write_pictures(tmp_path / "b" / "train", 1)
    write_pictures(tmp_path / "b" / "test", 1)
    with pytest.raises(DataError, match="'cat' has 1 image in the training split"):
        load(f"folder:{tmp_path / 'b'}")


def test_empty_class_folder_is_named(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    (tmp_path / "bird").mkdir()
    with pytest.raises(DataError, match="'bird' has no pictures"):
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


def test_reading_a_folder_reports_its_progress(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    calls: list[tuple[str, float, float]] = []
    load(f"folder:{tmp_path}", report=lambda *call: calls.append(call))
    assert calls == [("reading pictures", done, 6) for done in range(1, 7)]
