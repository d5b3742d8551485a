"""Decoding without torch: stored images to training images, as FORMAT.md specifies it.

condensing/synthetic.py does the same with torch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mipset.file.pixels import Pixels, Values, to_uint8, to_unit

if TYPE_CHECKING:
    from mipset.file.artifact import Artifact


class Decoder:
    """Gives training images one at a time, each from the stored image [ch, height, width] that holds it."""

    def __init__(self, factor: int, height: int, width: int) -> None:
        self.factor = factor
        self._tile = -(-height // factor), -(-width // factor)
        self._rows, self._columns = (_neighbours(*lengths) for lengths in zip(self._tile, (height, width), strict=True))

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self.factor**2

    def __call__(self, stored: Pixels, number: int) -> Values:
        """Training image `number`, counted from 0, of a stored image; values in [0, 1]."""
        if self.factor == 1:
            return to_unit(stored)
        row, column = divmod(number, self.factor)
        height, width = self._tile
        pixels = stored[:, row * height : (row + 1) * height, column * width : (column + 1) * width]
        tile = np.full((len(stored), height, width), 0.5, np.float32)  # short sides are padded with 0.5
        tile[:, : pixels.shape[1], : pixels.shape[2]] = to_unit(pixels)
        (i, j, a), (k, m, b) = self._rows, self._columns
        tile = (1 - a[:, None]) * tile[:, i] + a[:, None] * tile[:, j]
        return (1 - b) * tile[:, :, k] + b * tile[:, :, m]


def _neighbours(length: int, enlarged: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Values]:
    """For each pixel of an enlarged side: the two of `length` pixels beside it, and the weight of the second."""
    s = np.maximum(0, (np.arange(enlarged) + 0.5) * length / enlarged - 0.5)
    i = np.floor(s).astype(np.intp)
    return i, np.minimum(i + 1, length - 1), (s - i).astype(np.float32)


def decode(stored: Pixels, factor: int) -> Values:
    """Stored images [n, ch, h, w] to training images [n * factor², ch, h, w] in [0, 1], image by image."""
    decoder = Decoder(factor, *stored.shape[2:])
    return np.stack([decoder(image, number) for image in stored for number in range(decoder.images)])


def decoded(artifact: Artifact) -> Artifact:
    """The same set with its training images in place of its stored images: factor 1, and factor² ranks for each rank.

    S_[n] becomes the first n * factor² ranks. Values are rounded to bytes, so they differ by at most 1/510. Accuracies
    are left out: they belong to the sizes of the stored set.
    """
    if artifact.factor == 1:
        return artifact
    by_class = [decode(artifact.images[:, c], artifact.factor) for c in range(artifact.images.shape[1])]
    images: Pixels = np.stack([to_uint8(images) for images in by_class], axis=1)
    return replace(artifact, images=images, factor=1, accuracy=())
