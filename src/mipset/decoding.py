"""Decoding without torch: what FORMAT.md says about it, in numpy. synthetic.py has the same rule for training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from mipset.artifact import Artifact, Pixels

Values = npt.NDArray[np.float32]


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


def decode(stored: Pixels, factor: int) -> Values:
    """Stored images [n, ch, h, w] to training images [n * factor², ch, h, w] in [0, 1], image by image."""
    values = stored.astype(np.float32) / np.float32(255)
    if factor == 1:
        return values
    n, channels, height, width = stored.shape
    tile_h, tile_w = -(-height // factor), -(-width // factor)
    missing = ((0, 0), (0, 0), (0, tile_h * factor - height), (0, tile_w * factor - width))
    padded = np.pad(values, missing, constant_values=0.5)
    grid = padded.reshape(n, channels, factor, tile_h, factor, tile_w).transpose(0, 2, 4, 1, 3, 5)
    tiles = grid.reshape(-1, channels, tile_h, tile_w)
    return _enlarge(_enlarge(tiles, height, axis=2), width, axis=3)


def _enlarge(images: Values, size: int, axis: int) -> Values:
    """Stretch one axis to `size` bilinearly with half-pixel centres."""
    length = images.shape[axis]
    place = np.maximum(0, (np.arange(size) + 0.5) * length / size - 0.5)
    before = place.astype(np.intp)
    after = np.minimum(before + 1, length - 1)
    along = [1] * images.ndim
    along[axis] = size
    share = (place - before).astype(np.float32).reshape(along)
    found: Values = (1 - share) * images.take(before, axis) + share * images.take(after, axis)
    return found
