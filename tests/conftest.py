"""A toy dataset that a small network learns in a moment, and settings small enough for tests."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import settings

from mipset.data import Dataset, Split
from mipset.errors import NoCompilerError
from mipset.native import Kernels
from mipset.recipes import Recipe

settings.register_profile("mipset", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("mipset")
torch.set_num_threads(1)  # toys are too small to share out

TOY = Recipe(
    ipc=3, width=4, depth=2, outer=2, inner=2, real_batch=6, train_images=8, train_batch=8, period=1, pixel_lr=0.05
)


def toy_split(per_class: int, seed: int, classes: int = 3, size: int = 12) -> Split:
    """Noisy stripes whose direction and colour tell the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(per_class * classes) % classes
    images = rng.integers(0, 120, (len(labels), 3, size, size))
    for image, label in zip(images, labels, strict=True):
        stripes = image[label % 3] if label % 2 else image[label % 3].T
        stripes[:: label + 2] += 120
    return Split.of(images.astype(np.uint8), labels)


@pytest.fixture(scope="session")
def toy() -> Dataset:
    """Three classes of 12 x 12 pixels, 20 training and 10 test images each."""
    return Dataset("toy", toy_split(20, 0), toy_split(10, 1), ("a", "b", "c"), (0.4, 0.4, 0.4), (0.3, 0.3, 0.3))


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    """Our own kernels, from the cache folder or compiled into it."""
    try:
        return Kernels.compiled()
    except NoCompilerError as error:
        pytest.skip(str(error))


@pytest.fixture
def recipe() -> Recipe:
    """A run of a fraction of a second."""
    return TOY
