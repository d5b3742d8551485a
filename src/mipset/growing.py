"""Growing a published set: more images per class, or more classes, beside those that stay as they are.

A grown set is one more condensation, in which what was published is frozen from the start. Its ranks keep their bytes,
so that a device which holds the first N of them needs only the new ones; classes keep their labels, and new ones come
behind them.
"""

from __future__ import annotations

from dataclasses import fields, replace

import torch

from mipset.artifact import Artifact
from mipset.condense import Parts
from mipset.data import Dataset
from mipset.engines import Engine
from mipset.errors import SettingError
from mipset.recipes import Recipe, assemble, first_pixels, policy


def recipe_of(artifact: Artifact) -> Recipe:
    """The settings that a file was condensed with."""
    known = {f.name for f in fields(Recipe)}
    if "ipc" not in artifact.recipe:
        raise SettingError("the file does not say how it was condensed: condense a set of the size you need instead.")
    return Recipe(**{name: value for name, value in artifact.recipe.items() if name in known})


def in_order_of(artifact: Artifact, data: Dataset) -> Dataset:
    """The same data, the classes of the file first, so that they keep their labels, and normalised as in the file."""
    data.check_source_of(artifact.images.shape[2:], artifact.class_names)
    new = [name for name in data.class_names if name not in artifact.class_names]
    return replace(data.in_order((*artifact.class_names, *new)), mean=artifact.mean, std=artifact.std)


def grown(artifact: Artifact, data: Dataset, r: Recipe, device: torch.device, engine: Engine | None = None) -> Parts:
    """The parts of a condensation to `r.ipc` images of all classes of `data`, in which those of the file are frozen.

    `data` has the classes of the file first: see `in_order_of`.
    """
    N, C = artifact.images.shape[:2]
    data.check_source_of(artifact.images.shape[2:])
    if artifact.factor != r.factor:
        raise SettingError(f"the file has --factor {artifact.factor}, not {r.factor}: it cannot change any more.")
    if r.ipc < N:
        raise SettingError(f"--ipc {r.ipc} is less than the {N} images per class of the file: `mipset slice` cuts it.")
    if r.ipc == N and data.classes == C:
        raise SettingError(
            f"the file has {N} images of each of {C} classes already: give a larger --ipc, or more classes."
        )
    if r.policy == "every-prefix" and not r.size_weights[-1]:
        raise SettingError(
            f"--prefix-weights {r.prefix_weights} do not count size {r.ipc}, so that its last image would not be "
            f"condensed: give weights that do, such as 1:60,{r.ipc}:40."
        )
    start = first_pixels(r, data)
    start[:N, :C] = torch.from_numpy(artifact.images.copy()).float() / 255
    held = tuple(N if c < C else 0 for c in range(data.classes))
    parts = assemble(r, data, device, start, engine)
    moving = [c for c in parts.classes if held[c] < r.ipc]
    return replace(parts, policy=policy(r, data.classes, held), classes=moving)
