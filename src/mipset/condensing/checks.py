"""Whether a recipe and a dataset fit together."""

from __future__ import annotations

import numpy as np

from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.file.description import tiles_fit
from mipset.settings.recipe import Recipe


def check_fit(r: Recipe, data: Dataset) -> None:
    """Refuse a recipe that needs more images, or other ones, than the data have (law 8 in docs/architecture.md)."""
    counts = np.bincount(data.train.labels, minlength=data.classes)
    fewest = int(counts.argmin())
    have, name = int(counts[fewest]), data.class_names[fewest]
    if have < r.real_batch:
        raise SettingError(
            f"Class {name!r} has {have} training images, fewer than `real_batch` {r.real_batch}. "
            f"Choose {have} or less, or add images."
        )
    if r.init != "noise" and have < r.ipc * r.factor**2:
        raise SettingError(
            f"Class {name!r} has {have} training images, but `ipc` {r.ipc} with `factor` {r.factor} starts from "
            f"{r.ipc * r.factor**2}. Choose a smaller `ipc` or `factor`, or `init` noise."
        )
    if len(data.train) < r.train_batch:
        raise SettingError(
            f"There are {len(data.train)} training images, fewer than `train_batch` {r.train_batch}. "
            f"Choose {len(data.train)} or less."
        )
    check_cut(r.factor, data.shape)


def check_cut(factor: int, shape: tuple[int, int, int]) -> None:
    """Refuse a factor that cuts stored images [ch, h, w] into tiles without a pixel."""
    if not tiles_fit(factor, shape[1:]):
        resolution = f"{shape[1]} x {shape[2]}"
        raise SettingError(
            f"`factor` {factor} is too large for images of {resolution} pixels: a tile would have no pixel. "
            f"Choose a smaller one."
        )
