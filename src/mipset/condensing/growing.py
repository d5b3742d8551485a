"""Growing a published set: more images per class, or more classes. The old images do not change.

Growing is a condensation in which the published images are frozen from the start. If only ranks are added, the old
ranks keep their bytes, so a device that has the first N ranks downloads only the new ones. If classes are added, they
get labels after the old ones. A rank holds images of all classes, so every rank changes and a device downloads the file
again.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import torch

from mipset.condensing.assembly import assemble, policy
from mipset.condensing.packing import pack
from mipset.condensing.parts import Parts, Step
from mipset.data import Dataset
from mipset.errors import SettingError, brief, choices
from mipset.file.artifact import Artifact
from mipset.file.provenance import Provenance
from mipset.nn.engines import Engine
from mipset.nn.pixels import to_unit
from mipset.reporting import Report, silent
from mipset.settings.catalogue import RECIPES, check_read, recipe
from mipset.settings.recipe import Recipe


def recipe_of(artifact: Artifact, name: str | None = None, **given: Any) -> Recipe:
    """The settings to grow with: those of the file, or of the recipe of this name, with the changes `given`.

    `ipc` and `factor` are those of the file, unless given.
    """
    own = {"ipc": artifact.ipc, "factor": artifact.factor, **given}
    if name is not None:
        return recipe(name, **own)
    settings = {f.name for f in fields(Recipe)}
    if "ipc" not in artifact.recipe:
        raise SettingError(
            f"The file does not say how it was condensed. Choose its settings with `recipe`: {choices(RECIPES)}."
        )
    stored = {key: value for key, value in artifact.recipe.items() if key in settings}
    for key in stored.keys() - own.keys():  # nothing that a file names is imported
        if isinstance(stored[key], str) and ":" in stored[key] and key != "prefix_weights":
            raise SettingError(
                f"The file was condensed with `{key}` {brief(stored[key], str)}, a class that is not a part of mipset "
                f"and is not taken from a file. Give `{key}` again, or choose a `recipe`."
            )
    chosen = Recipe(**{**stored, **own})
    check_read(given, chosen)
    return chosen


def in_order_of(artifact: Artifact, data: Dataset) -> Dataset:
    """The same data with the classes of the file first, so that they keep their labels, and with its normalisation."""
    data.check_source_of(artifact.images.shape[2:], artifact.class_names)
    new = [name for name in data.class_names if name not in artifact.class_names]
    return replace(data.with_class_order((*artifact.class_names, *new)), mean=artifact.mean, std=artifact.std)


def grown(
    artifact: Artifact,
    data: Dataset,
    r: Recipe,
    device: torch.device,
    engine: Engine | None = None,
    report: Report = silent,
) -> Parts:
    """The parts that condense `r.ipc` images of all classes of `data`; the images of the file are frozen.

    `data` must have the classes of the file first: see `in_order_of`.
    """
    N, C = artifact.images.shape[:2]
    data.check_source_of(artifact.images.shape[2:])
    if artifact.factor != r.factor:
        raise SettingError(f"The file has `factor` {artifact.factor}, not {r.factor}. It cannot change: leave it out.")
    if r.ipc < N:
        raise SettingError(
            f"`ipc` is {r.ipc}, less than the {N} images per class of the file. "
            f"Use `mipset slice` to make a smaller file."
        )
    if r.ipc == N and data.classes == C:
        raise SettingError(
            f"The file already has {N} images of all {C} classes. Choose a larger `ipc`, or data with more classes."
        )
    if r.policy == "every-prefix" and not r.size_weights[-1]:
        raise SettingError(
            f"`prefix_weights` {r.prefix_weights} gives size {r.ipc} the weight 0, so its last image would not be "
            f"condensed. Choose weights such as 1:60,{r.ipc}:40."
        )
    frozen = tuple(N if c < C else 0 for c in range(data.classes))
    parts = assemble(r, data, device, engine=engine, report=report)
    parts.S.pixels[:N, :C] = to_unit(torch.from_numpy(artifact.images.copy())).to(device)
    moving = [c for c in parts.classes if frozen[c] < r.ipc or parts.objective.joint]
    return replace(parts, policy=policy(r, data.classes, frozen), classes=moving)


def pack_grown(artifact: Artifact, step: Step, r: Recipe, data: Dataset, origin: Provenance) -> Artifact:
    """The grown set as an Artifact, with the provenance of the file, and its accuracies if the classes are the same.

    `origin` is as for `packing.pack`.
    """
    larger = pack(step, r, data)
    provenance: Provenance = {**artifact.provenance, **larger.provenance, **origin, "grown_from": artifact.ipc}
    accuracy = artifact.accuracy if data.class_names == artifact.class_names else ()
    return replace(larger, provenance=provenance, accuracy=accuracy)
