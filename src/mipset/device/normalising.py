"""Training images as a network needs them: decoded, and normalised with the mean and std of the file."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, brief
from mipset.file.decoding import Decoder
from mipset.file.description import Description
from mipset.file.pixels import Pixels, Values

Images = Values
Labels = npt.NDArray[np.int64]


class Normaliser:
    """Gives the training images of the file called `name` one at a time."""

    def __init__(self, about: Description, name: str) -> None:
        height, width = about.shape[3:]
        self._decoder = Decoder(about.factor, height, width)
        self._mean, self._std = float32_scale(about, name)

    @property
    def images(self) -> int:
        """Training images in one stored image."""
        return self._decoder.images

    def __call__(self, stored: Pixels, number: int) -> Images:
        """Training image `number`, counted from 0, of a stored image [ch, h, w]."""
        return (self._decoder(stored, number) - self._mean) / self._std


def float32_scale(about: Description, name: str) -> tuple[Images, Images]:
    """Mean and std of each channel of the file called `name`; refused if normalised values would not be finite."""
    exact = np.array(about.mean), np.array(about.std)
    with np.errstate(over="ignore"):
        largest = np.maximum(abs(exact[0]), abs(1 - exact[0])) / exact[1]
        mean, std = (values.astype(np.float32).reshape(-1, 1, 1) for values in exact)
    limit = np.finfo(np.float32).max / 2
    if not np.all(largest < limit) or not np.all(np.isfinite([mean, std])) or not np.all(std > 0):
        raise ArtifactError(
            f"{name} has the mean {brief(about.mean)} and the std {brief(about.std)}: images cannot be normalised with "
            "them in float32. Make the file again with other values."
        )
    return mean, std
