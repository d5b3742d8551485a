"""Packing: a condensed set as it is shipped."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from mipset import __version__
from mipset.condensing.condense import Step
from mipset.data import Dataset
from mipset.errors import DivergedError
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels
from mipset.file.provenance import Provenance, public_name
from mipset.nn.pixels import to_uint8
from mipset.settings.recipe import Recipe


def pack(step: Step, r: Recipe, data: Dataset, origin: Provenance | None = None) -> Artifact:
    """What `step` has condensed, as it is shipped: uint8, with everything needed to use it.

    Of a path only its last part is kept, since files are published. `origin` is what else has to be known
    to do it again, such as the arguments of `load`.
    """
    if not bool(step.parts.S.pixels.isfinite().all()):
        raise DivergedError("the pixels are no longer finite: try a smaller --pixel-lr.")
    return as_artifact(to_uint8(step.parts.S.pixels).numpy(), r, data, origin)


def packed_bytes(r: Recipe, data: Dataset, origin: Provenance | None = None) -> int:
    """How large the file will be that `pack` makes, to a few bytes: one rank is made, the others are counted."""
    one = as_artifact(np.zeros((1, data.classes, *data.shape), dtype=np.uint8), r, data, origin)
    digest = len(r",\"\"") + 64  # of every further rank, in JSON within JSON
    return len(one.to_bytes()) + (r.ipc - 1) * (one.images.nbytes + digest)


def as_artifact(images: Pixels, r: Recipe, data: Dataset, origin: Provenance | None = None) -> Artifact:
    """Stored images [N, C, ch, h, w] with the recipe they belong to and where they come from."""
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
