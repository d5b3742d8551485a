"""The workload of a comparison, before and after it was run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mipset.data import Dataset
from mipset.experiments.workload import Workload
from mipset.nn.engines import Engine
from mipset.settings.recipe import Recipe
from toy_comparisons import FAST, finished, toy_comparison


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


def test_evaluations_are_as_long_as_their_precision_takes(
    tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a step is measured once for each precision; matches keep the time of the largest condensation."""

    def timed(r: Recipe, *_: object) -> tuple[float, float]:
        half = r.train_precision == "bfloat16"
        return (100.0 if half else 1.0), (1.0 if half else 2.0)

    monkeypatch.setattr("mipset.experiments.workload.timed", timed)

    def seconds(method: str, precision: str) -> float:
        comparison = toy_comparison(
            tmp_path / precision, toy, recipe, method, protocol=replace(FAST, precision=precision)
        )
        return Workload(comparison).time_estimate(torch.device("cpu"), Engine())(comparison.grid.cells)

    full, half = seconds("random", "float32"), seconds("random", "bfloat16")
    assert full == pytest.approx(2 * half)
    assert seconds("baseline-c", "float32") - seconds("baseline-c", "bfloat16") == pytest.approx(full - half)


def test_measurements_and_selections_cost_flops(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    comparison = toy_comparison(tmp_path, toy, recipe, "mdc,mdc-accuracy,random,herding,baseline-c,yoco")
    workload = Workload(comparison)
    mdc, accuracy, random, herding, baseline, yoco = (workload.flops([cell]) for cell in comparison.grid.cells)
    assert accuracy > mdc
    assert herding > random
    assert yoco > baseline


def test_memory_is_estimated_without_condensations(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    assert Workload(toy_comparison(tmp_path, toy, recipe, "random")).max_memory() > 1e8
