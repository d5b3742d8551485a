"""Builders: which condensations each method needs."""

from __future__ import annotations

import pytest
import torch

from mipset.condensing.assembly import assemble
from mipset.data import Dataset
from mipset.experiments.builders import BUILDERS, Condensation
from mipset.settings.recipe import Recipe

SIZES = (1, 2, 3)


def test_condensations_of_each_baseline(recipe: Recipe) -> None:
    baseline = recipe.replace(policy="baseline-c")
    single, per_size, per_rank, yoco, herding = (
        BUILDERS[key].condensations(baseline, SIZES)
        for key in ("one-run", "run-per-size", "run-per-rank", "yoco", "herding")
    )
    assert single == [Condensation(baseline)]
    assert [(run.recipe.ipc, run.first_rank) for run in per_size] == [(1, 0), (2, 0), (3, 0)]
    assert [(run.recipe.ipc, run.first_rank) for run in per_rank] == [(1, 0), (1, 1), (1, 2)]
    assert per_size[-1] == single[0] == yoco[0], "methods share equal condensations"
    assert per_size[0] == per_rank[0]
    assert herding == []


def test_only_requested_sizes_are_condensed(recipe: Recipe) -> None:
    assert [run.recipe.ipc for run in BUILDERS["run-per-size"].condensations(recipe, (1, 3))] == [1, 3]
    assert len(BUILDERS["run-per-rank"].condensations(recipe, (1, 2))) == 2


@pytest.mark.parametrize("init", ["mix", "noise"])
def test_runs_of_baseline_b_start_from_different_images(toy: Dataset, recipe: Recipe, init: str) -> None:
    baseline = recipe.replace(policy="baseline-c", init=init)
    runs = BUILDERS["run-per-rank"].condensations(baseline, SIZES)
    starts = [assemble(run.recipe, toy, first_rank=run.first_rank).S.pixels for run in runs]
    assert torch.equal(torch.cat(starts), assemble(baseline, toy).S.pixels)
    assert not torch.equal(starts[0], starts[1])
