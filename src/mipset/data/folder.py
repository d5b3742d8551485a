"""Datasets of the form folder:PATH: your own pictures, one sub-folder per class."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mipset.data.dataset import Dataset, Images, Labels, Split, held_out_mask, shape_text, statistics, validate
from mipset.errors import DataError, SettingError, choices, missing
from mipset.reporting import Report

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff"))
TEST_FOLDERS = ("test", "val", "valid")  # the first that exists is the test split
HELD_OUT = 0.2  # of every class, if the folder has no test split
GREY = ("1", "L")
MORE_THAN_8_BITS = ("I", "F")  # how the names of these modes begin

Files = dict[str, list[Path]]  # the pictures of every class, both in sorted order
Decode = Callable[[Path], Images]


def read(name: str, path: Path, resolution: int | None, seed: int, report: Report) -> Dataset:
    """Read the dataset in `path` and call it `name`.

    Either `path` holds a folder train and one of test, val or valid, each with one sub-folder per class. Or it holds
    the folders of the classes directly; then a fifth of every class, drawn by `seed`, becomes the test split. With a
    `resolution`, the centred square of every picture is scaled to `resolution` x `resolution`.
    """
    if not path.is_dir():
        raise DataError(f"{name}: {path} is not a folder. Correct the path.")
    train_folder, test_folder = path / "train", _test_folder(path)
    if test_folder is None and train_folder.is_dir() and _folders(train_folder):
        raise DataError(
            f"{name}: there is {train_folder} but no test split next to it. Add a folder called "
            f"{choices(TEST_FOLDERS)}, or put the class folders directly into {path}."
        )
    if test_folder is None or not train_folder.is_dir():
        files = _classes(path)
        mask = held_out_mask(_labels(files), tuple(files), HELD_OUT, seed)  # before the slow part, since it may raise
        whole = _decode(name, [files], _decoder(resolution), report)[0]
        splits = [whole.at(~mask), whole.at(mask)]
    else:
        files = _classes(train_folder)
        tests = _classes(test_folder)
        _same_classes(name, train_folder, files, test_folder, tests)
        splits = _decode(name, [files, tests], _decoder(resolution), report)
    mean, std = statistics(splits[0].images)
    return validate(Dataset(name, splits[0], splits[1], tuple(files), mean, std))


def square(picture: Picture, resolution: int) -> Picture:
    """The centred square of a picture, scaled to `resolution` x `resolution`.

    The result is the same as scaling the shorter side to `resolution` and cropping the rest. But an extremely long
    picture is never enlarged along its longer side.
    """
    from PIL.Image import Resampling

    if picture.size == (resolution, resolution):
        return picture
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return picture.resize((resolution, resolution), Resampling.BICUBIC, box=(left, top, left + side, top + side))


def _test_folder(path: Path) -> Path | None:
    return next((path / name for name in TEST_FOLDERS if (path / name).is_dir()), None)


def _folders(path: Path) -> list[Path]:
    return [entry for entry in _visible(path) if entry.is_dir()]


def _visible(path: Path) -> list[Path]:
    """The entries of a folder without hidden ones, sorted by name in the same way on every system."""
    try:
        entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    except OSError as error:
        raise DataError(f"{path} could not be listed ({error.strerror}). Check its permissions.") from error
    return sorted(entries, key=lambda entry: entry.name)


def _classes(path: Path) -> Files:
    files = {folder.name: _pictures(folder) for folder in _folders(path)}
    if not files:
        raise DataError(f"{path} holds no folders. Give every class a sub-folder with its pictures.")
    for name, pictures in files.items():
        if not pictures:
            raise DataError(
                f"Class {name!r} has no pictures in {path / name}. Add some ({', '.join(sorted(SUFFIXES))}) "
                "or remove the folder."
            )
    return files


def _pictures(folder: Path) -> list[Path]:
    return [entry for entry in _visible(folder) if entry.suffix.lower() in SUFFIXES and entry.is_file()]


def _labels(files: Files) -> Labels:
    return np.repeat(np.arange(len(files), dtype=np.int64), [len(pictures) for pictures in files.values()])


def _same_classes(name: str, train_folder: Path, train: Files, test_folder: Path, test: Files) -> None:
    for here, there, place in ((train, test, test_folder), (test, train, train_folder)):
        absent = sorted(here.keys() - there.keys())
        if absent:
            raise DataError(
                f"{name}: class {absent[0]!r} has no folder in {place}. Give train and {test_folder.name} "
                "the same classes."
            )


def _decoder(resolution: int | None) -> Decode:
    """A function that decodes one file to [ch, h, w]: one channel if the picture is grey, else three."""
    if resolution is not None and resolution < 1:
        raise SettingError(f"`resolution` is {resolution}: it must be at least 1 pixel. Choose a larger value.")
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise missing("Pillow", "Reading pictures") from error

    def decode(path: Path) -> Images:
        try:
            with Image.open(path) as opened:
                picture: Picture = ImageOps.exif_transpose(opened)
                if picture.mode.startswith(MORE_THAN_8_BITS):
                    raise ValueError(f"its mode {picture.mode} has more than 8 bits per value")
                picture = picture.convert("L" if picture.mode in GREY else "RGB")
                pixels = np.asarray(picture if resolution is None else square(picture, resolution))
        except Exception as error:  # decoders raise all kinds of exceptions on broken bytes
            raise DataError(
                f"{path} could not be read as a picture ({error}). Repair, convert or remove the file."
            ) from error
        return pixels[np.newaxis] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)

    return decode


def _decode(name: str, parts: list[Files], decode: Decode, report: Report) -> list[Split]:
    """Decode every part to a split. All splits are grey if every file is grey, else all are RGB."""
    total = sum(len(pictures) for part in parts for pictures in part.values())
    first: tuple[Path, tuple[int, ...]] | None = None
    images: list[Images] = []
    with warnings.catch_warnings():
        _refuse_bombs()
        for path in (path for part in parts for pictures in part.values() for path in pictures):
            image = decode(path)
            first = first or (path, image.shape[1:])
            if image.shape[1:] != first[1]:
                raise DataError(
                    f"{name}: the pictures have different shapes ({first[0]} is {shape_text(first[1])}, {path} is "
                    f"{shape_text(image.shape[1:])}, height by width). Give `resolution` to scale them."
                )
            images.append(image)
            report("reading pictures", len(images), total)
    channels = max(len(image) for image in images)
    splits, start = [], 0
    for part in parts:
        labels = _labels(part)
        stop = start + len(labels)
        pixels = np.empty((len(labels), channels, *images[start].shape[1:]), dtype=np.uint8)
        for row, image in enumerate(images[start:stop]):
            pixels[row] = image  # a grey image spreads over all channels
        splits.append(Split.of(pixels, labels))
        start = stop
    return splits


def _refuse_bombs() -> None:
    """Turn Pillow's warning about an extremely large picture into an error; ignore its warnings about metadata."""
    from PIL.Image import DecompressionBombWarning

    warnings.simplefilter("ignore")
    warnings.simplefilter("error", DecompressionBombWarning)
