"""From float pixels to the artifact that is written."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.packing import pack, packed_bytes
from mipset.data import Dataset
from mipset.errors import DivergedError
from mipset.nn.pixels import to_unit
from mipset.settings.recipe import Recipe


def test_packed_images_are_the_condensed_ones_rounded(toy: Dataset, recipe: Recipe) -> None:
    *_, step = condense(assemble(recipe, toy))
    artifact = pack(step, recipe, toy, {"size": None, "split_seed": 4})
    assert artifact.images.dtype == "uint8"
    difference = to_unit(torch.from_numpy(artifact.images)) - step.parts.S.pixels
    assert float(difference.abs().max()) <= 0.5 / 255 + 1e-6
    assert artifact.class_names == toy.class_names
    assert artifact.recipe["policy"] == recipe.policy
    assert artifact.provenance["dataset"] == "toy"
    assert artifact.provenance["split_seed"] == 4


def test_length_of_the_file_is_known_before_the_run(toy: Dataset, recipe: Recipe) -> None:
    *_, last = condense(assemble(recipe, toy))
    length = len(pack(last, recipe, toy, {"size": 12}).to_bytes())
    assert abs(packed_bytes(recipe, toy, {"size": 12}) - length) <= 16


def test_published_path_of_a_dataset_is_its_last_part_only(toy: Dataset, recipe: Recipe) -> None:
    *_, step = condense(assemble(recipe, toy))
    private = replace(toy, name="folder:/home/somebody/pets")
    assert pack(step, recipe, private).provenance["dataset"] == "folder:pets"


def test_pixels_that_are_not_finite_are_not_packed(toy: Dataset, recipe: Recipe) -> None:
    *_, step = condense(assemble(recipe, toy))
    step.parts.S.pixels[0, 0, 0, 0, 0] = float("nan")
    with pytest.raises(DivergedError, match=r"no longer finite\. Try a smaller `pixel_lr`"):
        pack(step, recipe, toy)
