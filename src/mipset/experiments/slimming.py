"""Smaller sets from a condensed set alone, without the real images (the task of slimmable dataset condensation).

`truncated` learns nothing: it keeps the largest components of the images of each class. `as_dataset` lets a condensed
set stand for the real images of another condensation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import numpy.typing as npt

from mipset.data import Dataset, Split
from mipset.file.artifact import Artifact
from mipset.file.decoding import decoded
from mipset.file.pixels import Pixels, to_uint8, to_unit

STORED = np.float16  # what the components, their coefficients and the mean would be stored as


def truncated(artifact: Artifact, rank: int) -> Artifact:
    """The same images, each the mean of its class plus a combination of the `rank` largest components of the class.

    Components are those of the singular value decomposition of the centred images. The images are made from what would
    be stored, so the rounding of the components counts.
    """
    by_class = [_truncated(artifact.images[:, c], rank) for c in range(len(artifact.class_names))]
    images: Pixels = np.stack(by_class, axis=1)
    return replace(artifact, images=images, accuracy=(), provenance={**artifact.provenance, "components": rank})


def _truncated(images: Pixels, rank: int) -> Pixels:
    pixels = to_unit(images).reshape(len(images), -1).astype(np.float64)
    mean = pixels.mean(axis=0)
    left, values, components = np.linalg.svd(pixels - mean, full_matrices=False)
    coefficients = left[:, :rank] * values[:rank]
    rebuilt = _kept(mean) + _kept(coefficients) @ _kept(components[:rank])
    return to_uint8(rebuilt.clip(0, 1).astype(np.float32).reshape(images.shape))


def _kept(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return values.astype(STORED).astype(np.float64)


def component_bytes(shape: Sequence[int], rank: int) -> int:
    """The bytes of the components of all classes, for images [N, C, ch, h, w]: mean, components, coefficients."""
    images, classes, pixels = shape[0], shape[1], prod(shape[2:])
    return int(classes * (pixels + rank * pixels + images * rank) * np.dtype(STORED).itemsize)


def as_dataset(artifact: Artifact, data: Dataset) -> Dataset:
    """The training images of a condensed set as a dataset, with the test images of `data`, which made the set."""
    images = decoded(artifact).images
    labels = np.tile(np.arange(images.shape[1]), images.shape[0])
    train = Split.of(images.reshape(-1, *images.shape[2:]), labels)
    return replace(data, train=train, notes=())
