"""Whether a recipe and a dataset fit together, and how to make them fit."""

from __future__ import annotations

from collections.abc import Collection

from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.file.description import tiles_fit
from mipset.settings.choices import FROM_NOISE, unmirrored
from mipset.settings.recipe import Recipe

FITTED_TO_NUMBER = ("real_batch", "train_batch", "init")  # what `fitted_to_data` may change for few images
AUGMENTATIONS = ("match_augment", "train_augment")  # and for images that are never mirrored
FITTED = (*FITTED_TO_NUMBER, *AUGMENTATIONS)


def fitted_to_data(r: Recipe, data: Dataset, given: Collection[str] = ()) -> Recipe:
    """The recipe with batches that are not larger than the data, and a start that needs no more images than there are.

    Images that change their class when they are mirrored, such as digits, get no flips. Settings in `given` stay as
    they are.
    """
    _, fewest = data.smallest_class
    fitting = {
        "real_batch": min(r.real_batch, fewest),
        "train_batch": min(r.train_batch, len(data.train)),
        "init": r.init if r.init in FROM_NOISE or fewest >= r.ipc * r.factor**2 else "noise",
        **({} if data.flips else {name: unmirrored(getattr(r, name)) for name in AUGMENTATIONS}),
    }
    return r.replace(**{name: value for name, value in fitting.items() if name not in given})


def check_fit(r: Recipe, data: Dataset) -> None:
    """Refuse a recipe that needs more images, or other ones, than the data have (law 8 in docs/architecture.md).

    One message names all settings that do not fit.
    """
    name, have = data.smallest_class
    total = len(data.train)
    problems = []
    if have < r.real_batch:
        problems.append(
            f"Class {name!r} has {have} training images, fewer than `real_batch` {r.real_batch}. "
            f"Choose {have} or less, or add images."
        )
    if r.init not in FROM_NOISE and have < r.ipc * r.factor**2:
        problems.append(
            f"Class {name!r} has {have} training images, but `ipc` {r.ipc} with `factor` {r.factor} starts from "
            f"{r.ipc * r.factor**2}. Choose a smaller `ipc` or `factor`, or `init` noise."
        )
    if r.learner != "trained-on-synthetic" and total < r.train_batch:
        problems.append(
            f"There are {total} training images, fewer than `train_batch` {r.train_batch}. Choose {total} or less."
        )
    if problems:
        raise SettingError(" ".join(problems))
    check_cut(r.factor, data.shape)


def check_cut(factor: int, shape: tuple[int, int, int]) -> None:
    """Refuse a factor that cuts stored images [ch, h, w] into tiles without a pixel."""
    if not tiles_fit(factor, shape[1:]):
        resolution = f"{shape[1]} x {shape[2]}"
        raise SettingError(
            f"`factor` {factor} is too large for images of {resolution} pixels: a tile would have no pixel. "
            f"Choose a smaller one."
        )
