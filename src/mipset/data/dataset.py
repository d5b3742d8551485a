"""A labelled image set as four arrays: training images and labels, test images and labels."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.errors import DataError, SettingError, printable
from mipset.file.grids import MOST_COLUMNS, image_grid
from mipset.file.pixels import to_unit
from mipset.markup import paragraph

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

HELD_OUT = 0.2  # of every class, for testing, if the user's data have no test split
SPLIT_PURPOSE = 1  # keeps the draws of a held-out split apart from any other use of the same seed
MIN_TRAIN, MIN_TEST = 2, 1  # images per class
LISTED = 3  # classes or images that a message names
COUNTED_AT_ONCE = 1 << 20  # pixels, because bincount widens its input eightfold
MIN_STD, MAX_STD = 1e-3, 10.0  # a constant channel must not be divided by zero
NAME_THE_SOURCE = "Name the dataset that the file was condensed from."  # the advice for a file that does not fit


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, in the order of the dataset."""

    images: Images  # [n, ch, h, w], C-contiguous
    labels: Labels  # [n]
    files: tuple[str, ...] = ()  # of a folder: the path of each picture within it

    @classmethod
    def of(cls, images: npt.NDArray[Any], labels: npt.NDArray[Any], files: tuple[str, ...] = ()) -> Split:
        """Make a split of contiguous, writable arrays. Torch can use such arrays without a copy."""
        return cls(
            np.require(images, requirements=["C", "W"]),
            np.require(labels, dtype=np.int64, requirements=["C", "W"]),
            files,
        )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        return f"<Split: {len(self):,} images of {' x '.join(map(str, self.images.shape[1:]))} pixels>"

    def at(self, rows: npt.NDArray[Any]) -> Split:
        """Copies of the images and labels that `rows` (a mask or indices) selects."""
        files = tuple(np.array(self.files, dtype=object)[rows]) if self.files else ()
        return Split.of(self.images[rows], self.labels[rows], files)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A real dataset.

    `load(name)` loads the same dataset again. `mean` and `std` are per channel, for images scaled to [0, 1]. Arrays in
    any other form become a dataset with `from_arrays`: this class takes only what can be used as it is, and raises a
    DataError for anything else. `notes` are sentences about what was left out or chosen while it was loaded.
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    flips: bool = True  # whether an image that is mirrored left and right keeps its class; those of digits do not
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _validate(self)

    def __repr__(self) -> str:
        return (
            f"<Dataset {printable(self.name)}: {self.classes} classes, {len(self.train):,} training and "
            f"{len(self.test):,} test images of {' x '.join(map(str, self.shape))} pixels>"
        )

    def _repr_html_(self) -> str:
        """The first training images of each class."""
        rows = (self.train.images[np.flatnonzero(self.train.labels == c)[:MOST_COLUMNS]] for c in range(self.classes))
        return paragraph(repr(self).strip("<>")) + image_grid(self.class_names, map(list, rows))

    @property
    def classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @property
    def smallest_class(self) -> tuple[str, int]:
        """The name of the class that has the fewest training images, and their number."""
        counts = np.bincount(self.train.labels, minlength=self.classes)
        return self.class_names[int(counts.argmin())], int(counts.min())

    @cached_property
    def sha256(self) -> str:
        """The digest of all images and labels, as 64 hexadecimal digits.

        The digest runs over train.images, train.labels, test.images and test.labels, in this order. Each is
        one ASCII line (that name, the dtype and the comma-separated shape, with single spaces between them
        and a newline at the end) followed by the values in C order; labels are little-endian int64.
        """
        digest = hashlib.sha256()
        for title, split in (("train", self.train), ("test", self.test)):
            for part, array in (("images", split.images), ("labels", split.labels.astype("<i8", copy=False))):
                shape = ",".join(str(length) for length in array.shape)
                digest.update(f"{title}.{part} {array.dtype.name} {shape}\n".encode("ascii"))
                digest.update(array.reshape(-1).data)
        return digest.hexdigest()

    @property
    def identity(self) -> str:
        """The digest of everything that a condensation depends on: images, labels, mean and std."""
        return hashlib.sha256(f"{self.sha256} {self.mean} {self.std}".encode()).hexdigest()

    def check_source_of(self, shape: tuple[int, ...], class_names: tuple[str, ...] = ()) -> None:
        """Refuse a condensed set that cannot come from this dataset: other image shape, or a class that is not here."""
        if shape != self.shape:
            raise DataError(
                f"The file holds images of {shape_text(shape)}, but the images of {self.name} are "
                f"{shape_text(self.shape)}. {NAME_THE_SOURCE}"
            )
        unknown = [name for name in class_names if name not in self.class_names]
        if unknown:
            raise DataError(f"The file has the class {unknown[0]!r}, but {self.name} does not. {NAME_THE_SOURCE}")

    def with_class_order(self, class_names: tuple[str, ...]) -> Dataset:
        """The same images with their classes in the order of `class_names`, which must hold exactly these classes."""
        if class_names == self.class_names:
            return self
        self.check_source_of(self.shape, class_names)
        absent = [name for name in self.class_names if name not in class_names]
        if absent:
            raise DataError(f"{self.name} has the class {absent[0]!r}, but the file does not. {NAME_THE_SOURCE}")
        if len(class_names) > self.classes:
            raise DataError(
                f"The file has several classes with the same name, but all names in {self.name} "
                f"differ. {NAME_THE_SOURCE}"
            )
        new_labels = np.array([class_names.index(name) for name in self.class_names])
        train, test = (
            Split.of(split.images, new_labels[split.labels], split.files) for split in (self.train, self.test)
        )
        return replace(self, train=train, test=test, class_names=class_names)

    def held_out(self, fraction: float, seed: int) -> Dataset:
        """The same dataset with a held-out `fraction` of every class's training images as its test split.

        The result does not contain the test images of this dataset, so that no choice made with it can use them.
        """
        mask = held_out_mask(self.train.labels, self.class_names, fraction, seed)
        return replace(self, train=self.train.at(~mask), test=self.train.at(mask))


def held_out_mask(labels: Labels, class_names: tuple[str, ...], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """A mask that holds out `fraction` of every class: rounded, at least one image, and leaving at least two.

    The draw depends only on the seed, the class, and the position of an image within its class.
    """
    if not 0 < fraction < 1:
        raise SettingError(f"`held_out` is {fraction}: it must be between 0 and 1. Choose such a fraction.")
    if seed < 0:
        raise SettingError(f"The seed of the split is {seed}: it must be at least 0. Choose a larger value.")
    few, them = _too_few(class_names, np.bincount(labels, minlength=len(class_names)), MIN_TRAIN + MIN_TEST)
    if few:
        raise DataError(
            f"{few[0].upper()}{few[1:]}, but a held-out split needs at least {MIN_TRAIN + MIN_TEST} per class. Add "
            f"images or remove {them}."
        )
    mask = np.zeros(len(labels), dtype=np.bool_)
    for label in range(len(class_names)):
        members = np.flatnonzero(labels == label)
        count = min(max(round(fraction * len(members)), MIN_TEST), len(members) - MIN_TRAIN)
        # numpy promises that the raw bits of a named generator never change; it does not for permutation().
        bits = np.random.PCG64([seed, SPLIT_PURPOSE, label]).random_raw(len(members))
        mask[members[np.argsort(bits, kind="stable")[:count]]] = True
    return mask


def statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel of images scaled to [0, 1], to four decimals."""
    levels = to_unit(np.arange(256), np.float64)
    means, stds = [], []
    step = max(1, COUNTED_AT_ONCE // math.prod(images.shape[2:]))
    for channel in range(images.shape[1]):
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, len(images), step):
            counts += np.bincount(images[start : start + step, channel].reshape(-1), minlength=256)
        share = counts / counts.sum()
        mean = float(share @ levels)
        means.append(round(mean, 4))
        stds.append(max(round(float(np.sqrt(share @ (levels - mean) ** 2)), 4), MIN_STD))
    return tuple(means), tuple(stds)


def _validate(dataset: Dataset) -> None:
    """Raise a DataError if the dataset cannot be used."""
    name = dataset.name
    for title, split in (("training", dataset.train), ("test", dataset.test)):
        _validate_split(name, title, split)
    train, test = dataset.train.images.shape[1:], dataset.test.images.shape[1:]
    if train != test:
        raise DataError(
            f"{name}: training images are {shape_text(train)} and test images {shape_text(test)} "
            "(channels, height, width). Give both the same shape."
        )
    _validate_classes(name, dataset.class_names)
    for title, split, least in (("training", dataset.train, MIN_TRAIN), ("test", dataset.test, MIN_TEST)):
        low, high = int(split.labels.min()), int(split.labels.max())
        if low < 0 or high >= dataset.classes:
            raise DataError(
                f"{name}: the {title} labels go from {low} to {high}, but with {dataset.classes} classes "
                f"they must lie in 0 to {dataset.classes - 1}. Correct the labels or the class names."
            )
        counts = np.bincount(split.labels, minlength=dataset.classes)
        few, them = _too_few(dataset.class_names, counts, least, f" in the {title} split")
        if few:
            raise DataError(f"{name}: {few}, but each class needs at least {least}. Add images or remove {them}.")
    _validate_scale(dataset)


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape for messages, such as `3x32x32`."""
    return "x".join(str(length) for length in shape)


def _too_few(
    class_names: tuple[str, ...], counts: npt.NDArray[np.int64], least: int, where: str = ""
) -> tuple[str, str]:
    """The beginning of a sentence about the classes with fewer images, and what they are called in the next one."""
    few = [(name, count) for name, count in zip(class_names, counts.tolist(), strict=True) if count < least]
    if not few:
        return "", ""
    (name, count), *others = few
    if not others:
        return f"class {name!r} has {_image_count(count)}{where}", "the class"
    shown = listed([f"{name!r} has {count or 'none'}" for name, count in few])
    return f"{len(few)} classes have too few images{where} ({shown})", "these classes"


def listed(titles: Sequence[str]) -> str:
    """The first of these, and how many more there are."""
    more = f" and {len(titles) - LISTED} more" if len(titles) > LISTED else ""
    return f"{', '.join(titles[:LISTED])}{more}"


def _image_count(count: int) -> str:
    return "1 image" if count == 1 else f"{count or 'no'} images"


def _validate_split(name: str, title: str, split: Split) -> None:
    images: object = split.images  # a user may give anything
    labels: object = split.labels
    convert = "Use mipset.from_arrays(), which converts them."
    if not isinstance(images, np.ndarray) or not isinstance(labels, np.ndarray):
        kind = type(labels if isinstance(images, np.ndarray) else images).__name__
        raise DataError(f"{name}: the {title} split holds a {kind}, but must hold two numpy arrays. {convert}")
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}: the {title} images are {images.dtype} with shape {shape_text(images.shape)}, but must be uint8 "
            f"with four axes (image, channel, height, width). {convert}"
        )
    if labels.dtype != np.int64 or labels.shape != (len(images),):
        raise DataError(
            f"{name}: the {title} labels are {labels.dtype} with shape {shape_text(labels.shape)} for "
            f"{_image_count(len(images))}, but must be int64, one per image. {convert}"
        )
    if images.size == 0:
        raise DataError(f"{name}: the {title} split is empty. Give it images.")
    if images.shape[1] not in (1, 3):
        found = f"the shape {shape_text(images.shape)}, with {images.shape[1]} channels"
        where = ". The channels seem to be last" if images.shape[3] in (1, 3) else ""
        raise DataError(
            f"{name}: the {title} images have {found}, but must have 1 (grey) or 3 (RGB) on the second axis{where}. "
            f"{convert}"
        )
    if not images.flags.c_contiguous:
        raise DataError(f"{name}: the {title} images are not C-contiguous. Build the split with Split.of().")
    if images.max() <= 1:
        raise DataError(
            f"{name}: the {title} images are bytes, but none is above 1, so all of them would be black: white is 255. "
            "Multiply them by 255, or give floats from 0 to 1 to mipset.from_arrays()."
        )


def _validate_classes(name: str, class_names: tuple[str, ...]) -> None:
    if len(class_names) < 2:
        found = "is 1 class" if class_names else "are no classes"
        raise DataError(
            f"{name}: there {found}, but at least two are needed. Check that every class has its own label or "
            "sub-folder."
        )
    twice = sorted({title for title in class_names if class_names.count(title) > 1})
    if twice:
        raise DataError(f"{name}: the class name {twice[0]!r} occurs more than once. Rename one of them.")


def _validate_scale(dataset: Dataset) -> None:
    channels = dataset.shape[0]
    for title, values, low, high in (("mean", dataset.mean, 0.0, 1.0), ("std", dataset.std, MIN_STD, MAX_STD)):
        if len(values) != channels or not all(low <= value <= high for value in values):
            raise DataError(
                f"{dataset.name}: {title} is {values}, but must be one number from {low:g} to {high:g} for each of the "
                f"{channels} channels, for images scaled to [0, 1]. Correct it or leave it out."
            )
