"""Datasets of the form npz:PATH: your own arrays in one .npz file."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from itertools import chain
from pathlib import Path

from mipset.data import cache
from mipset.data.arrays import Array, Part, dataset_of
from mipset.data.dataset import Dataset
from mipset.errors import DataError, brief

SPLIT_NAMES = ("train_images", "train_labels", "test_images", "test_labels")
KERAS_NAMES = ("x_train", "y_train", "x_test", "y_test")
WHOLE_NAMES = ("images", "labels")
NAMES = (SPLIT_NAMES, KERAS_NAMES, WHOLE_NAMES)  # each makes a dataset: images and labels in turns
OPTIONAL_NAMES = ("class_names", "mean", "std", "factor")


def read(name: str, path: Path, seed: int) -> Dataset:
    """Read the dataset in the file at `path` and call it `name`.

    The file holds train_images, train_labels, test_images and test_labels; or x_train, y_train, x_test and y_test, as
    files of Keras do; or images and labels. In the last case a fifth of every class, drawn by `seed`, becomes the test
    split. class_names, mean and std are optional.
    """
    if not path.is_file():
        raise DataError(f"{name}: {path} is not a file. Correct the path.")
    arrays = cache.read_arrays(path, partial(_names_to_read, name))
    if "factor" in arrays and arrays["factor"].size == 1 and arrays["factor"].item() != 1:
        raise DataError(
            f"{name}: its images are stored images with factor {brief(arrays['factor'].item())}: each is a mosaic of "
            "training images. Export the training images instead."
        )
    wanted = next(names for names in NAMES if names[0] in arrays)
    pairs = zip(wanted[::2], wanted[1::2], strict=True)
    train, *test = (Part(arrays[images], arrays[labels], images, labels) for images, labels in pairs)
    names, mean, std = _class_names(name, arrays), arrays.get("mean"), arrays.get("std")
    return dataset_of(name, train, test[0] if test else None, names, mean, std, seed)


def _names_to_read(name: str, found: Collection[str]) -> list[str]:
    """The names of the arrays that make the dataset, if all that are needed are among those found in the file."""
    absent = [[key for key in wanted if key not in found] for wanted in NAMES if not set(found).isdisjoint(wanted)]
    if absent == [[]]:
        return [key for key in (*chain(*NAMES), *OPTIONAL_NAMES) if key in found]
    present = brief(", ".join(found), str) or "nothing"
    problem = f"the array {absent[0][0]} is missing" if len(absent) == 1 else "the arrays do not make a dataset"
    raise DataError(f"{name}: {problem} (found {present}). Save {', or '.join(', '.join(names) for names in NAMES)}.")


def _class_names(name: str, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    if "class_names" not in arrays:
        return None
    names = arrays["class_names"]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise DataError(
            f"{name}: class_names is {names.dtype} with {names.ndim} axes, but must be a list of strings. Correct it."
        )
    return tuple(names.tolist())
