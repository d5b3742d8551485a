"""Images and labels in memory, in any form that is unambiguous, as a dataset: `from_arrays`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data.dataset import HELD_OUT, Dataset, Images, Labels, Split, held_out_mask, shape_text, statistics
from mipset.errors import DataError
from mipset.file.pixels import to_uint8

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Part:
    """Images and labels of one split as the user gave them, and what the user calls them."""

    images: Any
    labels: Any
    images_title: str = "images"
    labels_title: str = "labels"


def from_arrays(
    images: Any,
    labels: Any,
    test_images: Any = None,
    test_labels: Any = None,
    *,
    class_names: Sequence[str] | None = None,
    mean: npt.ArrayLike | None = None,
    std: npt.ArrayLike | None = None,
    name: str = "arrays",
    seed: int = 0,
) -> Dataset:
    """Make a dataset of arrays: of numpy, of torch, or lists of numbers.

    Images are [n, ch, h, w], [n, h, w, ch] or [n, h, w], with 1 or 3 channels: bytes from 0 to 255, or floats from 0 to
    1, which become bytes. Labels are whole numbers from 0 on, or strings, one for each image. Without test images, a
    fifth of each class, drawn by `seed`, is held out for testing. `mean` and `std`, one number per channel for images
    scaled to [0, 1], are computed if they are not given. `name` is what a condensed file says it comes from.
    """
    if (test_images is None) != (test_labels is None):
        raise DataError(f"{name}: test_images and test_labels belong together. Give both or neither.")
    test = None if test_images is None else Part(test_images, test_labels, "test_images", "test_labels")
    return dataset_of(name, Part(images, labels), test, class_names, mean, std, seed)


def dataset_of(
    name: str,
    train: Part,
    test: Part | None,
    class_names: Sequence[str] | None,
    mean: Any,
    std: Any,
    seed: int,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """The dataset of one or two splits. Without a test split, a part of the training images is held out."""
    train_labels, names = _labels(name, train, tuple(class_names) if class_names is not None else None)
    if test is None:
        whole = _split(name, train, train_labels)
        mask = held_out_mask(whole.labels, names, HELD_OUT, seed)
        splits = whole.at(~mask), whole.at(mask)
    else:
        test_labels, _ = _labels(name, test, names)
        splits = _split(name, train, train_labels), _split(name, test, test_labels)
    if (mean is None) != (std is None):
        raise DataError(f"{name}: mean and std belong together. Give both or neither.")
    if mean is None or std is None:
        means, stds = statistics(splits[0].images)
    else:
        means, stds = _scale(name, "mean", mean), _scale(name, "std", std)
    return Dataset(name, *splits, names, means, stds, notes=notes)


def is_a(value: object, module: str, *names: str) -> bool:
    """Whether a value has one of these types of a module. The module is not imported: else nothing has its types."""
    there = sys.modules.get(module)
    return there is not None and isinstance(value, tuple(getattr(there, name) for name in names))


def as_array(name: str, title: str, values: Any) -> Array:
    """The values of an array, a tensor or a list."""
    if is_a(values, "torch", "Tensor"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    try:
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"{name}: {title} cannot be one array ({error}). Give all images the same shape.") from error


def as_images(name: str, title: str, values: Any) -> Array:
    """The same for images. Lists have no type of bytes: their whole numbers become bytes if all are from 0 to 255."""
    array = as_array(name, title, values)
    if isinstance(values, list | tuple) and array.dtype.kind in "iu" and array.dtype != np.uint8 and array.size:
        low, high = int(array.min()), int(array.max())
        if low < 0 or high > 255:
            raise OutOfRangeError(
                f"{name}: {title} holds whole numbers from {low} to {high}. Use bytes from 0 to 255, or floats from 0 "
                "to 1."
            )
        return array.astype(np.uint8)
    return array


class OutOfRangeError(DataError):
    """Values that are not those of pixels, such as normalised ones: then no image of a dataset can be used."""


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
    if images.dtype == np.bool_:
        return images * np.uint8(255)
    if images.dtype == np.uint8:
        return images
    if not np.issubdtype(images.dtype, np.floating):
        raise DataError(f"{name}: {title} is {images.dtype}. Use uint8, or floats from 0 to 1.")
    low, high = float(images.min()), float(images.max())
    if not np.isfinite([low, high]).all():
        raise DataError(f"{name}: {title} holds NaN or infinite values. Replace them by values from 0 to 1.")
    if low < 0 or high > 1:
        raise OutOfRangeError(
            f"{name}: {title} holds floats from {low:g} to {high:g}. Scale them to 0 to 1 (without normalising them), "
            "or use uint8."
        )
    return to_uint8(images.astype(np.float32, copy=False))


def _split(name: str, part: Part, labels: Labels) -> Split:
    images = as_images(name, part.images_title, part.images)
    if images.shape[:1] != labels.shape:
        raise DataError(
            f"{name}: {part.images_title} has the shape {shape_text(images.shape) or 'of a single value'} for "
            f"{len(labels)} labels. Give every image one label."
        )
    return Split.of(to_bytes(name, part.images_title, images), labels)


def _labels(name: str, part: Part, class_names: tuple[str, ...] | None) -> tuple[Labels, tuple[str, ...]]:
    """Labels as numbers, and the names of the classes. The labels give the names if `class_names` is None."""
    title, labels = part.labels_title, as_array(name, part.labels_title, part.labels)
    if labels.dtype == object and all(isinstance(label, str) for label in labels.flat):
        labels = labels.astype(np.str_)
    if labels.ndim == 2 and labels.shape[1] == 1:  # a column, as Keras has it
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.size == 0:
        raise DataError(
            f"{name}: {title} has the shape {shape_text(labels.shape) or 'of a single value'}. Use one label per image."
        )
    if labels.dtype.kind == "U":
        return _named_labels(name, title, labels, class_names)
    if labels.dtype.kind not in "iu":
        raise DataError(f"{name}: {title} is {labels.dtype}. Use whole numbers from 0 upwards, or strings.")
    subject = "the labels have" if title == "labels" else f"{title} has"
    present = np.unique(labels).tolist()
    low, high = present[0], present[-1]
    last = high if class_names is None else len(class_names) - 1
    if low < 0 or high > last:
        wrong = low if low < 0 else high
        allowed = "0 upwards" if class_names is None else f"0 to {last}, one for each class name"
        raise DataError(f"{name}: {title} has the label {wrong}. Use whole numbers from {allowed}, or strings.")
    numbers = set(present)
    absent = next((number for number in range(last + 1) if number not in numbers), None)
    if absent is not None and class_names is not None:
        raise DataError(
            f"{name}: {subject} a gap: no image has the label {absent} (class {class_names[absent]!r}). Add images "
            "of that class, or leave it out of the class names and give the labels as strings or with new numbers."
        )
    if absent is not None:
        raise DataError(
            f"{name}: {subject} a gap: the labels go from {low} to {high}, but no image has the label {absent}. "
            f"Number the classes from 0 to {len(present) - 1} without gaps, or give the labels as strings."
        )
    return labels.astype(np.int64), class_names or tuple(str(label) for label in range(last + 1))


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


def _scale(name: str, title: str, given: Any) -> tuple[float, ...]:
    values = as_array(name, title, given)
    if values.ndim != 1 or values.dtype.kind not in "fiu":
        raise DataError(f"{name}: {title} must be one number per channel. Correct it or leave it out.")
    return tuple(float(value) for value in values)
