"""Whether a recipe and a dataset fit together."""

from __future__ import annotations

import numpy as np

from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.file.description import tiles_fit
from mipset.settings.recipe import Recipe


def check_fit(r: Recipe, data: Dataset) -> None:
    """Law 8: what the recipe asks for and the data do not have is an error."""
    counts = np.bincount(data.train.labels, minlength=data.classes)
    fewest = int(counts.argmin())
    have, name = int(counts[fewest]), data.class_names[fewest]
    if have < r.real_batch:
        raise SettingError(
            f"class {name!r} has {have} training images, fewer than --real-batch {r.real_batch}: "
            f"choose {have} or less, or add images."
        )
    if r.init == "mix" and have < r.ipc * r.factor**2:
        raise SettingError(
            f"class {name!r} has {have} training images, but --ipc {r.ipc} with --factor {r.factor} starts from "
            f"{r.ipc * r.factor**2}: choose a smaller --ipc or --factor, or condense with --init noise."
        )
    if len(data.train) < r.train_batch:
        raise SettingError(f"there are {len(data.train)} training images, fewer than --train-batch {r.train_batch}.")
    check_cut(r.factor, data.shape)


def check_cut(factor: int, shape: tuple[int, int, int]) -> None:
    """Refuse tiles without a pixel, of stored images [ch, h, w]."""
    if not tiles_fit(factor, shape[1:]):
        size = f"{shape[1]} x {shape[2]}"
        raise SettingError(f"--factor {factor} does not cut images of {size} pixels: choose a smaller one.")
