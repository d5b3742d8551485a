"""The callback of a run, and the file that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import mipset
from mipset.condensing.parts import Step
from mipset.condensing.run_logging import LogFile, logged
from mipset.data import Dataset
from mipset.file.artifact import Artifact
from mipset.file.run_log import Entry, read_run_log
from mipset.settings.recipe import Recipe


def entries_of(toy: Dataset, recipe: Recipe) -> tuple[list[Entry], Step]:
    entries: list[Entry] = []
    steps = logged(mipset.condense(mipset.assemble(recipe, toy)), lambda entry, _: entries.append(entry))
    return entries, list(steps)[-1]


def test_callback_gets_one_entry_for_each_outer_iteration(toy: Dataset, recipe: Recipe) -> None:
    entries, last = entries_of(toy, recipe.replace(policy="mdc", outer=3))
    assert [entry.outer for entry in entries] == [1, 2, 3]
    assert entries[-1].loss == last.loss
    assert entries[0].selected == (1, 1, 1)
    assert entries[-1].selected == (last.parts.policy.selected(0),) * 3
    assert entries[-1].frozen == tuple(last.parts.policy.frozen(c) for c in range(3))
    assert 0 < entries[0].seconds < entries[1].seconds < entries[2].seconds
    assert all((entry.memory or 0) > 10**6 and entry.processor_seconds > 0 for entry in entries)


@pytest.mark.parametrize("policy", ["baseline-c", "every-prefix", "mdc-per-class"])
def test_feature_distances_of_every_size_are_logged_for_every_policy(toy: Dataset, recipe: Recipe, policy: str) -> None:
    entries, last = entries_of(toy, recipe.replace(policy=policy))
    assert all(len(entry.distances) == 3 and min(entry.distances) > 0 for entry in entries)
    assert entries[-1].distances == pytest.approx(last.F.mean(dim=0).tolist())


def test_metric_that_costs_passes_is_measured_only_when_the_policy_asks(toy: Dataset, recipe: Recipe) -> None:
    entries, _ = entries_of(toy, recipe.replace(policy="mdc", metric="gradient", period=2, outer=3))
    assert [len(entry.distances) for entry in entries] == [3, 3, 0]


def test_failing_log_does_not_end_the_run(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    def pack(step: Step) -> Artifact:
        return mipset.pack(step, recipe, toy)

    log = LogFile(tmp_path / "missing" / "x.log.jsonl", pack)
    steps = list(logged(mipset.condense(mipset.assemble(recipe, toy)), log))
    assert len(steps) == recipe.outer * recipe.inner
    assert "x.log.jsonl cannot be written: No such file or directory. The run goes on without it." in log.failure


def test_first_line_describes_the_run(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    log = LogFile(tmp_path / "x.log.jsonl", lambda step: mipset.pack(step, recipe, toy))
    for _ in logged(mipset.condense(mipset.assemble(recipe, toy)), log):
        pass
    about = read_run_log(log.path).about
    assert about["class_names"] == list(toy.class_names)
    assert about["recipe"]["ipc"] == recipe.ipc
    assert about["provenance"]["sha256"] == toy.sha256
    assert (about["outer"], about["inner"], about["torch"]) == (recipe.outer, recipe.inner, torch.__version__)
