"""Packing: from float pixels to the uint8 file that is shipped."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np

from mipset import __version__
from mipset.condensing.assembly import as_named
from mipset.condensing.own_parts import recorded_settings, replaced
from mipset.condensing.parts import Step
from mipset.data import Dataset
from mipset.errors import DivergedError
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels
from mipset.file.provenance import Provenance, public_name
from mipset.nn.pixels import to_uint8
from mipset.settings.recipe import Recipe


def pack(step: Step, r: Recipe, data: Dataset, origin: Provenance | None = None) -> Artifact:
    """The condensed set after `step` as an Artifact: uint8 images, and everything that is needed to use them.

    `origin` is added to the provenance: what is needed to repeat the run, such as the arguments of `load`. If the
    dataset is a path, only its last part is written, because files are published. Parts that are not those of the
    recipe are written too: the recipe of the file names their classes, the provenance describes them.
    """
    if not bool(step.parts.S.pixels.isfinite().all()):
        raise DivergedError("The pixels are no longer finite. Try a smaller `pixel_lr`.")
    named = as_named(r, step.parts)
    own = replaced(step.parts, named)
    learned: Provenance = step.parts.objective.record()  # type: ignore[assignment]
    origin = {**(origin or {}), **({"parts": own} if own else {}), **learned}
    packed = as_artifact(to_uint8(step.parts.S.pixels).numpy(), r, data, origin)
    return replace(packed, recipe=recorded_settings(packed.recipe, step.parts, named))


def packed_bytes(r: Recipe, data: Dataset, origin: Provenance | None = None) -> int:
    """The length of the file that `pack` makes, up to a few bytes: one rank is made, the others are added."""
    one_rank = as_artifact(np.zeros((1, data.classes, *data.shape), dtype=np.uint8), r, data, origin)
    digest = len(r",\"\"") + 64  # of every further rank, in JSON within JSON
    return len(one_rank.to_bytes()) + (r.ipc - 1) * (one_rank.images.nbytes + digest)


def as_artifact(images: Pixels, r: Recipe, data: Dataset, origin: Provenance | None = None) -> Artifact:
    """Stored images [N, C, ch, h, w] with their recipe and provenance."""
    return Artifact(
        images=images,
        factor=r.factor,
        mean=data.mean,
        std=data.std,
        class_names=data.class_names,
        recipe=asdict(r),
        provenance={
            "mipset": __version__,
            "dataset": public_name(data.name),
            "sha256": data.sha256,
            **(origin or {}),
        },
    )
