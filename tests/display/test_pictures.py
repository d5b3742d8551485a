"""The contact sheet."""

from __future__ import annotations

import errno
import io
import os
import sys
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from mipset import cli
from mipset.display import pictures
from mipset.display.pictures import (
    CELL,
    GAP,
    MOST_PIXELS,
    PAPER,
    contact_sheet,
    contact_sheet_svg,
    write_contact_sheet,
)
from mipset.errors import ArtifactError, MissingExtraError
from mipset.file.artifact import Artifact

TOP = 16


def example(channels: int, height: int = 8, width: int = 8) -> Artifact:
    """Every image is of one colour, which tells its rank and class."""
    images = np.empty((3, 2, channels, height, width), np.uint8)
    for rank in range(3):
        for c in range(2):
            images[rank, c] = 40 * rank + 100 * c
    return Artifact(images, 1, (0.5,) * channels, (0.25,) * channels, ("cat", "a class with a long name"))


def left_of(sheet: Image.Image, ranks: int, cell: int) -> int:
    """How wide the column of class names is."""
    return sheet.width - ranks * cell


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_is_in_its_cell(channels: int) -> None:
    sheet = contact_sheet(example(channels))
    cell = CELL + GAP  # 8 pixels, enlarged 8 times
    names = left_of(sheet, 3, cell)
    assert sheet.mode == "RGB"
    assert sheet.height == TOP + 2 * cell
    assert 60 < names < 300
    for rank in range(3):
        for c in range(2):
            x, y = names + rank * cell, TOP + c * cell
            grey = 40 * rank + 100 * c
            for corner in ((x, y), (x + CELL - 1, y + CELL - 1)):
                assert sheet.getpixel(corner) == (grey,) * 3
            assert sheet.getpixel((x + CELL, y)) == PAPER


def test_colours_are_kept() -> None:
    given = example(3)
    given.images[0, 0] = np.array([250, 120, 10], np.uint8)[:, None, None]
    sheet = contact_sheet(given)
    assert sheet.getpixel((left_of(sheet, 3, CELL + GAP), TOP)) == (250, 120, 10)


@pytest.mark.parametrize(("height", "width", "zoom"), [(28, 28, 3), (64, 64, 1), (100, 80, 1), (5, 8, 8)])
def test_small_images_are_enlarged_by_a_whole_number(height: int, width: int, zoom: int) -> None:
    sheet = contact_sheet(example(1, height, width))
    assert sheet.height == TOP + 2 * (height * zoom + GAP)
    assert (sheet.width - contact_sheet(example(1).prefix(1)).width) == 3 * (width * zoom + GAP) - (CELL + GAP)


def test_sheet_of_very_many_images_is_limited() -> None:
    """Enlarged as usual, 90,000 pixels would take more than a gigabyte."""
    many = Artifact(np.zeros((300, 300, 1, 1, 1), np.uint8), 1, (0.5,), (0.25,), ("x",) * 300)
    sheet = contact_sheet(many)
    assert sheet.width * sheet.height < 1.2 * MOST_PIXELS
    assert sheet.height > TOP + 300 * 8  # they are still enlarged


def test_prefix_is_the_left_part_of_the_sheet() -> None:
    whole = np.asarray(contact_sheet(example(1)))
    part = np.asarray(contact_sheet(example(1).prefix(2)))
    np.testing.assert_array_equal(whole[:, : part.shape[1]], part)


def test_class_names_of_any_script() -> None:
    contact_sheet(replace(example(1), class_names=("猫", "")))


def test_class_names_with_line_breaks_or_a_megabyte() -> None:
    """They come from a file, so they may be any text."""
    sheet = contact_sheet(replace(example(1), class_names=("two\nlines\0\ud800", "W" * 1_000_000)))
    assert sheet.width < 3 * (CELL + GAP) + 1000


def test_images_of_two_channels_are_refused() -> None:
    with pytest.raises(ArtifactError, match="Images of 2 channels cannot be shown"):
        contact_sheet(example(2))


def test_contact_sheet_is_written_as_png(tmp_path: Path) -> None:
    write_contact_sheet(example(1), tmp_path / "sheet")
    with Image.open(tmp_path / "sheet") as written:
        assert written.format == "PNG"
        np.testing.assert_array_equal(np.asarray(written), np.asarray(contact_sheet(example(1))))


def test_full_disk_leaves_no_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ArtifactError, match="cannot be written: No space left on device"):
        write_contact_sheet(example(1), tmp_path / "sheet.png")
    assert list(tmp_path.iterdir()) == []


def test_missing_pillow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[pictures\]"):
        contact_sheet(example(1))


class TestLetters:
    """Names are drawn, not boxes."""

    @pytest.mark.parametrize("name", ["Ωμέγα", "кошка", "żółw", "قط"])
    def test_letters_are_drawn_with_a_font_that_has_them(self, name: str) -> None:
        """The font of matplotlib has these, the font of Pillow does not have all of them."""
        text, font = pictures._drawable(name)
        assert text == name
        assert pictures._missing_letters(name, font) == set()
        box = font.getmask(pictures.NO_LETTER)
        assert all(bytes(font.getmask(letter)) != bytes(box) for letter in name)
        assert pictures.without_font([name, "cat"]) == []

    def test_letter_that_no_font_has_is_a_question_mark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pictures, "_font_files", lambda: ())
        assert pictures._drawable("a猫b")[0] == "a?b"
        assert pictures.without_font(["cat", "a猫b"]) == ["a猫b"]

    def test_sheet_with_undrawable_names_is_written_and_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(pictures, "_font_files", lambda: ())
        path = tmp_path / "set.safetensors"
        replace(example(1), class_names=("cat", "猫")).write(path)
        with pytest.raises(SystemExit):
            cli.main(["show", str(path), "--sheet", str(tmp_path / "a.png")])
        assert "No font of this machine has all letters of '猫', so `?` is drawn" in capfd.readouterr().err
        with pytest.raises(SystemExit):
            cli.main(["show", str(path), "--sheet", str(tmp_path / "a.svg")])
        assert capfd.readouterr().err == ""
        root = ElementTree.parse(tmp_path / "a.svg").getroot()
        assert [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")] == ["1", "2", "3", "cat", "猫"]

    @pytest.mark.parametrize("channels", [1, 3])
    def test_svg_has_every_image_in_its_cell(self, channels: int) -> None:
        artifact = replace(example(channels), class_names=("<b>&", "two\nlines"))
        root = ElementTree.fromstring(contact_sheet_svg(artifact))
        images = list(root.iter("{http://www.w3.org/2000/svg}image"))
        assert len(images) == 6
        assert len({(image.get("x"), image.get("y")) for image in images}) == 6
        for image, pixels in zip(images, artifact.images.reshape(6, channels, 8, 8), strict=True):
            png = b64decode(str(image.get("href")).removeprefix("data:image/png;base64,"))
            with Image.open(io.BytesIO(png)) as shown:
                np.testing.assert_array_equal(np.asarray(shown).reshape(8, 8, channels), np.moveaxis(pixels, 0, -1))
        assert "two?lines" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
