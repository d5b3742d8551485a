"""Random images for benchmarks in which only the number and the shape of the images matter."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mipset.data import Split


def random_split(count: int, classes: int = 10, resolution: int = 32, seed: int = 0) -> Split:
    """`count` random colour images with the labels 0, 1, ..., classes - 1, 0, 1, ..."""
    images = np.random.default_rng(seed).integers(0, 256, (count, 3, resolution, resolution), dtype=np.uint8)
    return Split.of(images, np.arange(count) % classes)


def write_dataset(path: Path, train: int, test: int) -> str:
    """Write random images of CIFAR-10's shape to `path`. Return the dataset's name for `mipset condense`."""
    train_split, test_split = random_split(train), random_split(test, seed=1)
    np.savez(
        path,
        train_images=train_split.images,
        train_labels=train_split.labels,
        test_images=test_split.images,
        test_labels=test_split.labels,
    )
    return f"npz:{path}"
