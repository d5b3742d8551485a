"""The training images of a prefix, one at a time: decoded, and normalised with the mean and std of the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, brief
from mipset.file.decoding import Decoder
from mipset.file.description import SetFields
from mipset.file.pixels import Pixels, Values

Labels = npt.NDArray[np.int64]
Rank = tuple[Pixels, Labels]
"""Images [k, ch, h, w] of one rank, and their classes."""


class TrainingImages:
    """Training images, numbered from 0: rank by rank, class by class within a rank, tile by tile within a stored image.

    In memory are the stored images alone, at least one. `name` stands for the set in errors.
    """

    def __init__(self, ranks: Iterable[Rank], fields: SetFields, name: str) -> None:
        self.ranks = list(ranks)
        self.class_names = fields.class_names
        self._ends = list(accumulate(len(images) for images, _ in self.ranks))
        self._decoder = Decoder(fields.factor, *self.shape[1:])
        self._mean, self._std = float32_scale(fields, name)

    def __len__(self) -> int:
        return self._ends[-1] * self._decoder.images

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return self.ranks[0][0].shape[1:]

    @property
    def nbytes(self) -> int:
        """Bytes of the stored images."""
        return sum(images.nbytes for images, _ in self.ranks)

    def values(self, number: int) -> Values:
        """Training image `number` [ch, h, w], with values in [0, 1]."""
        pixels, _, row, tile = self._place(number)
        return self._decoder(pixels[row], tile)

    def normalised(self, number: int) -> Values:
        """Training image `number` [ch, h, w], normalised."""
        return (self.values(number) - self._mean) / self._std

    def label(self, number: int) -> int:
        """The class of training image `number`."""
        _, classes, row, _ = self._place(number)
        return int(classes[row])

    def _place(self, number: int) -> tuple[Pixels, Labels, int, int]:
        """The rank that holds a training image, as images and classes; its row there; its tile."""
        if not 0 <= number < len(self):
            raise IndexError(f"The training images are numbered from 0 to {len(self) - 1}.")
        stored, tile = divmod(number, self._decoder.images)
        rank = bisect_right(self._ends, stored)
        return *self.ranks[rank], stored - self._ends[rank], tile  # a negative row: counted from the end of the rank


def labelled(ranks: Iterable[Pixels]) -> Iterator[Rank]:
    """Whole ranks [C, ch, h, w], each with the classes of its images."""
    for images in ranks:
        yield images, np.arange(len(images))


def float32_scale(fields: SetFields, name: str) -> tuple[Values, Values]:
    """Mean and std of each channel of the set called `name`; refused if normalised values would not be finite."""
    exact = np.array(fields.mean), np.array(fields.std)
    with np.errstate(over="ignore"):
        largest = np.maximum(abs(exact[0]), abs(1 - exact[0])) / exact[1]
        mean, std = (values.astype(np.float32).reshape(-1, 1, 1) for values in exact)
    limit = np.finfo(np.float32).max / 2
    if not np.all(largest < limit) or not np.all(np.isfinite([mean, std])) or not np.all(std > 0):
        raise ArtifactError(
            f"{name} has the mean {brief(fields.mean)} and the std {brief(fields.std)}: images cannot be normalised "
            "with them in float32. Make the file again with other values."
        )
    return mean, std
