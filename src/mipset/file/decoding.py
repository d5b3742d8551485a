"""Decoding without torch: how stored pixels become training images by FORMAT.md, as synthetic.py does it with torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mipset.file.artifact import Artifact, Pixels

Values = npt.NDArray[np.float32]


class Decoder:
    """Gives training images one at a time, each from the stored image [ch, height, width] that it is in."""

    def __init__(self, factor: int, height: int, width: int) -> None:
        self.factor = factor
        self._tile = -(-height // factor), -(-width // factor)
        self._rows, self._columns = (_between(*lengths) for lengths in zip(self._tile, (height, width), strict=True))

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self.factor**2

    def __call__(self, stored: Pixels, number: int) -> Values:
        """Training image `number`, counted from 0, of a stored one; values in [0, 1]."""
        if self.factor == 1:
            return stored.astype(np.float32) / np.float32(255)
        row, column = divmod(number, self.factor)
        height, width = self._tile
        found = stored[:, row * height : (row + 1) * height, column * width : (column + 1) * width]
        tile = np.full((len(stored), height, width), 0.5, np.float32)  # what a short side is padded with
        tile[:, : found.shape[1], : found.shape[2]] = found / np.float32(255)
        (i, j, a), (k, m, b) = self._rows, self._columns
        tile = (1 - a[:, None]) * tile[:, i] + a[:, None] * tile[:, j]
        return (1 - b) * tile[:, :, k] + b * tile[:, :, m]


def _between(length: int, size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Values]:
    """For each of `size` pixels of an enlarged side: the two of `length` that it lies between, and how far along."""
    s = np.maximum(0, (np.arange(size) + 0.5) * length / size - 0.5)
    i = np.floor(s).astype(np.intp)
    return i, np.minimum(i + 1, length - 1), (s - i).astype(np.float32)


def decode(stored: Pixels, factor: int) -> Values:
    """Stored images [n, ch, h, w] to training images [n * factor², ch, h, w] in [0, 1], image by image."""
    decoder = Decoder(factor, *stored.shape[2:])
    return np.stack([decoder(image, number) for image in stored for number in range(decoder.images)])


def decoded(artifact: Artifact) -> Artifact:
    """The same set with its training images in place of its stored ones: factor 1, and factor² ranks for each rank.

    S_[n] becomes the first n * factor² ranks. Values are rounded to bytes, so they are off by 1/510 at most. Accuracies
    are left out: they belong to the sizes of the stored set.
    """
    if artifact.factor == 1:
        return artifact
    by_class = [decode(artifact.images[:, c], artifact.factor) for c in range(artifact.images.shape[1])]
    images: Pixels = np.stack([np.rint(images * 255).astype(np.uint8) for images in by_class], axis=1)
    return replace(artifact, images=images, factor=1, accuracy=())
