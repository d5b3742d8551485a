"""Training images as a network is given them: decoded, and normalised with the mean and deviation of the file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, brief
from mipset.file.artifact import Description, Pixels
from mipset.file.decoding import Decoder, Values

Images = Values
Labels = npt.NDArray[np.int64]


class Normaliser:
    """Gives the training images of the file called `name` one at a time."""

    def __init__(self, said: Description, name: str) -> None:
        height, width = said.shape[3:]
        self._decoder = Decoder(said.factor, height, width)
        self._mean, self._std = scale(said, name)

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self._decoder.images

    def __call__(self, stored: Pixels, number: int) -> Images:
        """Training image `number`, counted from 0, of a stored one [ch, h, w]."""
        return (self._decoder(stored, number) - self._mean) / self._std


def scale(said: Description, name: str) -> tuple[Images, Images]:
    """Mean and deviation of each channel of the file called `name`, where normalising with them gives numbers."""
    exact = np.array(said.mean), np.array(said.std)
    with np.errstate(over="ignore"):
        far = np.maximum(abs(exact[0]), abs(1 - exact[0])) / exact[1]
        mean, std = (values.astype(np.float32).reshape(-1, 1, 1) for values in exact)
    if not np.all(far < np.finfo(np.float32).max / 2) or not np.all(np.isfinite([mean, std])) or not np.all(std > 0):
        numbers = f"mean {brief(said.mean)} and std {brief(said.std)}"
        raise ArtifactError(f"{name} has {numbers}, which cannot be normalised with in float32.")
    return mean, std
