"""Datasets of the form npz:PATH: your own arrays in one .npz file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data import cache
from mipset.data.dataset import Dataset, Images, Labels, Split, held_out_mask, shape_text, statistics, validate
from mipset.errors import DataError
from mipset.file.pixels import to_uint8

HELD_OUT = 0.2  # of every class, if the file has no test split
SPLIT_NAMES = ("train_images", "train_labels", "test_images", "test_labels")
WHOLE_NAMES = ("images", "labels")

Array = npt.NDArray[Any]


def read(name: str, path: Path, seed: int) -> Dataset:
    """Read the dataset in the file at `path` and call it `name`.

    The file holds either train_images, train_labels, test_images and test_labels; or images and labels. In the second
    case a fifth of every class, drawn by `seed`, becomes the test split. class_names, mean and std are optional.
    """
    if not path.is_file():
        raise DataError(f"{name}: {path} is not a file. Correct the path.")
    arrays = cache.read_arrays(path)
    _check_names(name, arrays)
    given = _class_names(name, arrays)
    if "images" in arrays:
        whole_labels, class_names = _labels(name, "labels", arrays["labels"], given)
        whole = _split(name, "images", arrays["images"], whole_labels)
        mask = held_out_mask(whole.labels, class_names, HELD_OUT, seed)
        train, test = whole.at(~mask), whole.at(mask)
    else:
        train_labels, class_names = _labels(name, "train_labels", arrays["train_labels"], given)
        test_labels, _ = _labels(name, "test_labels", arrays["test_labels"], class_names)
        train = _split(name, "train_images", arrays["train_images"], train_labels)
        test = _split(name, "test_images", arrays["test_images"], test_labels)
    mean, std = _scale(name, "mean", arrays), _scale(name, "std", arrays)
    if (mean is None) != (std is None):
        raise DataError(f"{name}: mean and std belong together. Give both or neither.")
    if mean is None or std is None:
        mean, std = statistics(train.images)
    return validate(Dataset(name, train, test, class_names, mean, std))


def to_bytes(name: str, title: str, images: Array) -> Images:
    """Convert images to uint8 [n, ch, h, w], from any layout and value range that is unambiguous."""
    if images.size == 0:
        raise DataError(f"{name}: {title} is empty. Give it images.")
    if images.ndim == 3:
        images = images[:, np.newaxis]
    elif images.ndim != 4 or (images.shape[1] in (1, 3)) == (images.shape[3] in (1, 3)):
        raise DataError(
            f"{name}: {title} has the shape {shape_text(images.shape)}, which does not tell where the channels are. "
            "Use [n, ch, h, w], [n, h, w, ch] or [n, h, w] with 1 or 3 channels and other lengths for height and width."
        )
    elif images.shape[3] in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.dtype == np.uint8:
        return images
    if not np.issubdtype(images.dtype, np.floating):
        raise DataError(f"{name}: {title} is {images.dtype}. Use uint8, or floats from 0 to 1.")
    if not np.isfinite(images).all():
        raise DataError(f"{name}: {title} holds NaN or infinite values. Replace them by values from 0 to 1.")
    low, high = float(images.min()), float(images.max())
    if low < 0 or high > 1:
        raise DataError(f"{name}: {title} holds floats from {low:g} to {high:g}. Scale them to 0 to 1, or use uint8.")
    return to_uint8(images.astype(np.float32, copy=False))


def _check_names(name: str, arrays: dict[str, Array]) -> None:
    absent = [
        [key for key in wanted if key not in arrays]
        for wanted in (SPLIT_NAMES, WHOLE_NAMES)
        if not arrays.keys().isdisjoint(wanted)
    ]
    if absent == [[]]:
        return
    present = ", ".join(arrays) or "nothing"
    problem = f"the array {absent[0][0]} is missing" if len(absent) == 1 else "the arrays do not make a dataset"
    raise DataError(
        f"{name}: {problem} (found {present}). Save either {', '.join(SPLIT_NAMES)} or {', '.join(WHOLE_NAMES)}."
    )


def _class_names(name: str, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    if "class_names" not in arrays:
        return None
    names = arrays["class_names"]
    if names.dtype.kind != "U" or names.ndim != 1:
        raise DataError(
            f"{name}: class_names is {names.dtype} with {names.ndim} axes, but must be a list of strings. Correct it."
        )
    return tuple(names.tolist())


def _labels(
    name: str, title: str, labels: Array, class_names: tuple[str, ...] | None
) -> tuple[Labels, tuple[str, ...]]:
    """Labels as numbers, and the names of the classes. The labels give the names if `class_names` is None."""
    if labels.ndim != 1 or labels.size == 0:
        raise DataError(
            f"{name}: {title} has the shape {shape_text(labels.shape) or 'of a single value'}. Use one label per image."
        )
    if labels.dtype.kind == "U":
        return _named_labels(name, title, labels, class_names)
    if labels.dtype.kind not in "iu":
        raise DataError(f"{name}: {title} is {labels.dtype}. Use whole numbers from 0 upwards, or strings.")
    present = set(np.unique(labels).tolist())
    count = len(class_names) if class_names is not None else len(present)
    if present != set(range(count)):
        wrong = min(present.symmetric_difference(range(count)))
        problem = f"no {wrong}" if wrong in range(count) else f"the label {wrong}"
        raise DataError(
            f"{name}: {title} has {problem}, but must hold every whole number from 0 to {count - 1} and no "
            "other. Renumber the labels."
        )
    return labels.astype(np.int64), class_names or tuple(str(label) for label in range(count))


def _named_labels(
    name: str, title: str, labels: Array, class_names: tuple[str, ...] | None
) -> tuple[Labels, tuple[str, ...]]:
    present, numbers = np.unique(labels, return_inverse=True)
    class_names = class_names or tuple(present.tolist())
    order = {class_name: number for number, class_name in enumerate(class_names)}
    for label in present.tolist():
        if label not in order:
            raise DataError(
                f"{name}: {title} has the label {label!r}, which is not among the classes "
                f"({', '.join(class_names)}). Correct the label or add the class."
            )
    return np.array([order[label] for label in present.tolist()], dtype=np.int64)[numbers], class_names


def _split(name: str, title: str, images: Array, labels: Labels) -> Split:
    if images.shape[:1] != labels.shape:
        raise DataError(
            f"{name}: {title} has the shape {shape_text(images.shape) or 'of a single value'} for {len(labels)} "
            "labels. Give every image one label."
        )
    return Split.of(to_bytes(name, title, images), labels)


def _scale(name: str, title: str, arrays: dict[str, Array]) -> tuple[float, ...] | None:
    if title not in arrays:
        return None
    values = arrays[title]
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise DataError(f"{name}: {title} must be one number per channel. Correct it or leave it out.")
    return tuple(float(value) for value in values)
