"""A labelled image set as four arrays: training images and labels, test images and labels."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.errors import DataError, SettingError

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

SPLIT_PURPOSE = 1  # keeps the draws of a held-out split apart from any other use of the same seed
MIN_TRAIN, MIN_TEST = 2, 1  # images per class
MIN_STD = 1e-3  # a constant channel must not be divided by zero
OWN_DATASET = "name the dataset that it was condensed from"  # what to do about a file that does not fit


@dataclass(frozen=True, eq=False)
class Split:
    """Images and their labels, in the order of the source."""

    images: Images  # [n, ch, h, w], C-contiguous
    labels: Labels  # [n]

    @classmethod
    def of(cls, images: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Split:
        """A split of contiguous, writable arrays, which torch can take without a copy."""
        return cls(
            np.require(images, requirements=["C", "W"]),
            np.require(labels, dtype=np.int64, requirements=["C", "W"]),
        )

    def __len__(self) -> int:
        return len(self.images)

    def at(self, rows: npt.NDArray[Any]) -> Split:
        """The images that `rows` (a mask or indices) selects, as copies."""
        return Split.of(self.images[rows], self.labels[rows])


@dataclass(frozen=True, eq=False)
class Dataset:
    """A real dataset.

    `name` loads the same set again; `mean` and `std` are per channel, for images scaled to [0, 1].
    """

    name: str
    train: Split
    test: Split
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def sha256(self) -> str:
        """What identifies the content, as 64 hexadecimal digits.

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
        """What a condensation of it depends on: the content, and how it is normalised."""
        return hashlib.sha256(f"{self.sha256} {self.mean} {self.std}".encode()).hexdigest()

    def check_source_of(self, shape: tuple[int, ...], class_names: tuple[str, ...] = ()) -> None:
        """Refuse a condensed set that cannot come from here: its images have another shape, or classes another name."""
        if shape != self.shape:
            raise DataError(
                f"the file holds images of {by(shape)}, but those of {self.name} are {by(self.shape)}: {OWN_DATASET}."
            )
        lost = [name for name in class_names if name not in self.class_names]
        if lost:
            raise DataError(f"the file has the class {lost[0]!r}, which {self.name} has not: {OWN_DATASET}.")

    def in_order(self, class_names: tuple[str, ...]) -> Dataset:
        """The same images, their classes in the order of a condensed set that has all of them."""
        if class_names == self.class_names:
            return self
        self.check_source_of(self.shape, class_names)
        more = [name for name in self.class_names if name not in class_names]
        if more:
            raise DataError(f"{self.name} has the class {more[0]!r}, which the file has not: {OWN_DATASET}.")
        if len(class_names) > self.classes:
            raise DataError(f"the file has classes of the same name, but all of {self.name} differ: {OWN_DATASET}.")
        new = np.array([class_names.index(name) for name in self.class_names])
        train, test = (Split.of(split.images, new[split.labels]) for split in (self.train, self.test))
        return replace(self, train=train, test=test, class_names=class_names)

    def held_out(self, fraction: float, seed: int) -> Dataset:
        """The same dataset with a held-out `fraction` of every class's training images as its test split.

        The test images are not part of the result, so that choices made with it cannot see them.
        """
        held = stratified(self.train.labels, self.class_names, fraction, seed)
        return replace(self, train=self.train.at(~held), test=self.train.at(held))


def stratified(labels: Labels, class_names: tuple[str, ...], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """A mask that holds out `fraction` of every class: rounded, at least one image, and leaving at least two.

    The draw depends on the seed, the class and the position of an image within its class only.
    """
    if not 0 < fraction < 1:
        raise SettingError(f"A held-out fraction of {fraction} cannot be: choose a number between 0 and 1.")
    if seed < 0:
        raise SettingError(f"A seed of {seed} cannot be: choose a whole number from 0 upwards.")
    held = np.zeros(len(labels), dtype=np.bool_)
    for label, name in enumerate(class_names):
        members = np.flatnonzero(labels == label)
        if len(members) < MIN_TRAIN + MIN_TEST:
            raise DataError(
                f"Class {name!r} has {_images(len(members))}, but a held-out split needs at least "
                f"{MIN_TRAIN + MIN_TEST} per class: add images or remove the class."
            )
        count = min(max(round(fraction * len(members)), MIN_TEST), len(members) - MIN_TRAIN)
        # numpy promises that the raw bits of a named generator never change; it does not for permutation().
        bits = np.random.PCG64([seed, SPLIT_PURPOSE, label]).random_raw(len(members))
        held[members[np.argsort(bits, kind="stable")[:count]]] = True
    return held


def statistics(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel of images scaled to [0, 1], to four decimals."""
    levels = np.arange(256) / 255
    means, stds = [], []
    for channel in range(images.shape[1]):
        counts = np.zeros(256, dtype=np.int64)
        for start in range(0, len(images), 1024):  # bincount widens its input eightfold
            counts += np.bincount(images[start : start + 1024, channel].reshape(-1), minlength=256)
        share = counts / counts.sum()
        mean = float(share @ levels)
        means.append(round(mean, 4))
        stds.append(max(round(float(np.sqrt(share @ (levels - mean) ** 2)), 4), MIN_STD))
    return tuple(means), tuple(stds)


def validate(dataset: Dataset) -> Dataset:
    """The same dataset, once it is known to be usable; every loader ends here."""
    name = dataset.name
    for title, split in (("training", dataset.train), ("test", dataset.test)):
        _validate_split(name, title, split)
    train, test = dataset.train.images.shape[1:], dataset.test.images.shape[1:]
    if train != test:
        raise DataError(
            f"{name}: training images are {by(train)} and test images {by(test)} (channels, height, width): "
            "give both the same shape."
        )
    _validate_classes(name, dataset.class_names)
    for title, split, least in (("training", dataset.train, MIN_TRAIN), ("test", dataset.test, MIN_TEST)):
        low, high = int(split.labels.min()), int(split.labels.max())
        if low < 0 or high >= dataset.classes:
            raise DataError(
                f"{name}: the {title} labels go from {low} to {high}, but with {dataset.classes} classes "
                f"they must lie in 0 to {dataset.classes - 1}: correct the labels or the class names."
            )
        counts = np.bincount(split.labels, minlength=dataset.classes)
        for class_name, count in zip(dataset.class_names, counts.tolist(), strict=True):
            if count < least:
                raise DataError(
                    f"{name}: class {class_name!r} has {_images(count)} in the {title} split, but needs at "
                    f"least {least}: add images or remove the class."
                )
    _validate_scale(dataset)
    return dataset


def by(shape: tuple[int, ...]) -> str:
    """`3x32x32`: how every message writes a shape."""
    return "x".join(str(length) for length in shape)


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count or 'no'} images"


def _validate_split(name: str, title: str, split: Split) -> None:
    images, labels = split.images, split.labels
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}: the {title} images are {images.dtype} with shape {by(images.shape)}, but must be uint8 "
            "with four axes (image, channel, height, width): convert them."
        )
    if labels.dtype != np.int64 or labels.shape != (len(images),):
        raise DataError(
            f"{name}: the {title} labels are {labels.dtype} with shape {by(labels.shape)} for "
            f"{_images(len(images))}, but must be int64, one per image: convert them."
        )
    if images.size == 0:
        raise DataError(f"{name}: the {title} split is empty: give it images.")
    if images.shape[1] not in (1, 3):
        raise DataError(
            f"{name}: the {title} images have {images.shape[1]} channels, but must have 1 (grey) or 3 (RGB): "
            "convert them."
        )
    if not images.flags.c_contiguous:
        raise DataError(f"{name}: the {title} images are not C-contiguous: build the split with Split.of().")


def _validate_classes(name: str, class_names: tuple[str, ...]) -> None:
    if len(class_names) < 2:
        raise DataError(
            f"{name}: there are {len(class_names)} classes, but at least two are needed: check that every "
            "class has its own label or sub-folder."
        )
    twice = sorted({title for title in class_names if class_names.count(title) > 1})
    if twice:
        raise DataError(f"{name}: the class name {twice[0]!r} occurs more than once: rename one of them.")


def _validate_scale(dataset: Dataset) -> None:
    channels = dataset.shape[0]
    for title, values in (("mean", dataset.mean), ("std", dataset.std)):
        if len(values) != channels or not np.isfinite(values).all():
            raise DataError(
                f"{dataset.name}: {title} is {values}, but must be one finite number for each of the "
                f"{channels} channels: correct it or leave it out."
            )
    if min(dataset.std) <= 0:
        raise DataError(f"{dataset.name}: std is {dataset.std}, but must be above 0: correct it or leave it out.")
