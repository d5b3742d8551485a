"""The workload of a comparison, before and after it was run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mipset.data import Dataset
from mipset.experiments.workload import Workload
from mipset.nn.engines import Engine
from mipset.settings.recipe import Recipe
from toy_comparisons import finished, toy_comparison


def test_finished_work_is_not_counted(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c,yoco", at=[1], networks=1)
    workload, cells = Workload(comparison), comparison.grid.cells
    seconds = workload.time_estimate(torch.device("cpu"), Engine())
    baseline, yoco = cells
    before = workload.flops(cells)
    assert workload.flops_from_scratch(cells) == pytest.approx(before)
    assert before < workload.flops([baseline]) + workload.flops([yoco]), "both methods share a condensation"
    assert 0 < seconds(cells) < seconds([baseline]) + seconds([yoco])
    finished(comparison)
    assert workload.flops(cells) == seconds(cells) == 0
    assert workload.flops_from_scratch(cells) == pytest.approx(before)


def test_measurements_and_selections_cost_flops(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    comparison = toy_comparison(tmp_path, toy, recipe, "mdc,mdc-accuracy,random,herding,baseline-c,yoco")
    workload = Workload(comparison)
    mdc, accuracy, random, herding, baseline, yoco = (workload.flops([cell]) for cell in comparison.grid.cells)
    assert accuracy > mdc
    assert herding > random
    assert yoco > baseline


def test_memory_is_estimated_without_condensations(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    assert Workload(toy_comparison(tmp_path, toy, recipe, "random")).max_memory() > 1e8
