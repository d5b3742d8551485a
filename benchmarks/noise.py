"""Random images where only their number and shape matter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mipset.data import Split


def split(count: int, classes: int = 10, size: int = 32, seed: int = 0) -> Split:
    """`count` colour images of as many classes, in turn."""
    images = np.random.default_rng(seed).integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    return Split.of(images, np.arange(count) % classes)


def write(path: Path, train: int, test: int) -> str:
    """So many images in the shape of CIFAR-10, and the name that `mipset condense` knows them by."""
    first, second = split(train), split(test, seed=1)
    np.savez(
        path,
        train_images=first.images,
        train_labels=first.labels,
        test_images=second.images,
        test_labels=second.labels,
    )
    return f"npz:{path}"
