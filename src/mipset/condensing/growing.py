"""Growing a published set: more images per class, or more classes, beside those that stay as they are.

A grown set is one more condensation, in which what was published is frozen from the start. Where only ranks are added,
those that were there keep their bytes, so that a device which holds the first N of them needs only the new ones.
Classes keep their labels, and new ones come behind them; their images lie within every rank, so that every rank has
other bytes than before, and a device reads the file anew.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from mipset.condensing.assembly import assemble, first_pixels, policy
from mipset.condensing.condense import Parts, Step
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.errors import SettingError, choices
from mipset.file.artifact import Artifact
from mipset.file.provenance import Provenance
from mipset.nn.engines import Engine
from mipset.nn.pixels import to_unit
from mipset.settings.catalogue import RECIPES, check_read, recipe
from mipset.settings.recipe import Recipe


def recipe_of(artifact: Artifact, name: str | None = None, **given: Any) -> Recipe:
    """The settings to go on with: those that the file was condensed with, or of the recipe of this name, and `given`.

    Size and tiles are those that the file has now, unless given.
    """
    own = {"ipc": artifact.ipc, "factor": artifact.factor, **given}
    if name is not None:
        return recipe(name, **own)
    known = {f.name for f in fields(Recipe)}
    if "ipc" not in artifact.recipe:
        raise SettingError(
            f"the file does not say how it was condensed: add --recipe {choices(RECIPES)}, to go on as that says."
        )
    found = Recipe(**{**{key: value for key, value in artifact.recipe.items() if key in known}, **own})
    check_read(given, found.policy)
    return found


def in_order_of(artifact: Artifact, data: Dataset) -> Dataset:
    """The same data, the classes of the file first, so that they keep their labels, and normalised as in the file."""
    data.check_source_of(artifact.images.shape[2:], artifact.class_names)
    new = [name for name in data.class_names if name not in artifact.class_names]
    return replace(data.with_class_order((*artifact.class_names, *new)), mean=artifact.mean, std=artifact.std)


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
            f"the file has size {N} of all {C} classes already: give a larger --ipc, or data with more classes."
        )
    if r.policy == "every-prefix" and not r.size_weights[-1]:
        raise SettingError(
            f"--prefix-weights {r.prefix_weights} do not count size {r.ipc}, so that its last image would not be "
            f"condensed: give weights that do, such as 1:60,{r.ipc}:40."
        )
    start = first_pixels(r, data)
    start[:N, :C] = to_unit(torch.from_numpy(artifact.images.copy()))
    held = tuple(N if c < C else 0 for c in range(data.classes))
    parts = assemble(r, data, device, start, engine)
    moving = [c for c in parts.classes if held[c] < r.ipc]
    return replace(parts, policy=policy(r, data.classes, held), classes=moving)


def pack_grown(artifact: Artifact, step: Step, r: Recipe, data: Dataset, origin: Provenance) -> Artifact:
    """What was grown from the file, with what is still known of it: where it comes from, and how good its sizes are.

    `origin` is as for `recipes.pack`.
    """
    larger = pack(step, r, data)
    known: Provenance = {**artifact.provenance, **larger.provenance, **origin, "grown_from": artifact.ipc}
    accuracy = artifact.accuracy if data.class_names == artifact.class_names else ()
    return replace(larger, provenance=known, accuracy=accuracy)
