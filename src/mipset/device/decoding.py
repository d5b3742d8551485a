"""How stored pixels become training images: FORMAT.md, "Decoding", in numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mipset.artifact import Description, Pixels
from mipset.errors import ArtifactError

Images = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


class Decoder:
    """Gives the training images of a set one at a time, each from the stored image that it is in."""

    def __init__(self, said: Description) -> None:
        height, width = said.shape[3:]
        self.factor = said.factor
        self._tile = -(-height // said.factor), -(-width // said.factor)
        self._rows = _between(self._tile[0], height)
        self._columns = _between(self._tile[1], width)
        self._mean, self._std = _scale(said)

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self.factor**2

    def __call__(self, stored: Pixels, number: int) -> Images:
        """Training image `number`, counted from 0, of a stored one [ch, h, w]; normalised."""
        image = stored.astype(np.float32) / np.float32(255) if self.factor == 1 else self._enlarged(stored, number)
        return (image - self._mean) / self._std

    def _enlarged(self, stored: Pixels, number: int) -> Images:
        row, column = divmod(number, self.factor)
        height, width = self._tile
        found = stored[:, row * height : (row + 1) * height, column * width : (column + 1) * width]
        tile = np.full((len(stored), height, width), 0.5, np.float32)  # what a short side is padded with
        tile[:, : found.shape[1], : found.shape[2]] = found / np.float32(255)
        (i, j, a), (k, m, b) = self._rows, self._columns
        tile = (1 - a[:, None]) * tile[:, i] + a[:, None] * tile[:, j]
        return (1 - b) * tile[:, :, k] + b * tile[:, :, m]


def _between(length: int, size: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Images]:
    """For each of `size` pixels of an enlarged side: the two of `length` that it lies between, and how far along."""
    s = np.maximum(0, (np.arange(size) + 0.5) * length / size - 0.5)
    i = np.floor(s).astype(np.intp)
    return i, np.minimum(i + 1, length - 1), (s - i).astype(np.float32)


def _scale(said: Description) -> tuple[Images, Images]:
    """Mean and deviation of each channel, where normalising with them gives numbers."""
    mean, std = np.array(said.mean), np.array(said.std)
    with np.errstate(over="ignore"):
        far = np.maximum(abs(mean), abs(1 - mean)) / std
    if not np.all(far < np.finfo(np.float32).max / 2) or not np.all(np.float32(std) > 0):
        raise ArtifactError(f"mean {said.mean} and std {said.std} cannot be normalised with in float32.")
    return mean.astype(np.float32).reshape(-1, 1, 1), std.astype(np.float32).reshape(-1, 1, 1)
