"""STL-10 in its binary form: four files, two for each split. The unlabelled images are not used."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from mipset.data.checksums import check_md5
from mipset.data.dataset import Images, Split
from mipset.data.places import first_place
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError

TRAIN_FILES, TEST_FILES = ("train_X.bin", "train_y.bin"), ("test_X.bin", "test_y.bin")
FOLDERS = ("", "stl10_binary")


def is_in(folder: Path) -> bool:
    """Whether all four files are in the folder. They are not read."""
    return _find(folder) is not None


def read(folder: Path, spec: DatasetSpec) -> tuple[Split, Split]:
    """Read the training and test split from the four files in the folder, or in its sub-folder stl10_binary."""
    inner = _find(folder)
    if inner is None:
        raise DataError(
            f"{folder} does not hold {spec.name}: all of {', '.join(TRAIN_FILES + TEST_FILES)} are needed. "
            f"{spec.put_there}"
        )
    return _read_split(inner, TRAIN_FILES, spec.train_count, spec), _read_split(
        inner, TEST_FILES, spec.test_count, spec
    )


def _find(folder: Path) -> Path | None:
    names = TRAIN_FILES + TEST_FILES
    return first_place(folder, FOLDERS, lambda place: all((place / name).is_file() for name in names))


def _read_split(folder: Path, names: tuple[str, str], count: int, spec: DatasetSpec) -> Split:
    channels, height, width = spec.shape
    images = _bytes(folder / names[0], (count, channels, width, height), spec)  # stored column by column
    labels = _bytes(folder / names[1], (count,), spec)
    if labels.min() < 1 or labels.max() > len(spec.class_names):
        raise DataError(
            f"{folder / names[1]} has labels from {labels.min()} to {labels.max()}, but they must lie in 1 to "
            f"{len(spec.class_names)}. {spec.get_file_again(folder / names[1])}"
        )
    return Split.of(images.transpose(0, 1, 3, 2), labels.astype(np.int64) - 1)


def _bytes(path: Path, shape: tuple[int, ...], spec: DatasetSpec) -> Images:
    expected, found = math.prod(shape), path.stat().st_size
    if found != expected:
        raise DataError(f"{path} has {found} bytes instead of {expected}. {spec.get_file_again(path)}")
    check_md5(path, spec.md5.get(path.name), spec.get_file_again(path))
    return np.fromfile(path, dtype=np.uint8).reshape(shape)
