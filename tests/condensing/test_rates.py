"""The rate behind the times that `mipset recipes` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mipset.condensing import rates
from mipset.condensing.costs import cost
from mipset.condensing.rates import Job, seconds_of
from mipset.data import spec_of
from mipset.settings.catalogue import RECIPES
from mipset.settings.recipe import Recipe

JOB = Job(Recipe(ipc=1, width=4, depth=2, outer=2, inner=2), (3, 8, 8), 2, 100)


@pytest.mark.parametrize(
    "name",
    [
        *(f"cifar10-{method}cpu" for method in ("", "gradient-", "dc-", "dsa-", "dm-", "mtt-", "dream-")),
        *(f"{method}-cifar10-ipc10" for method in ("paper", "dc", "dsa", "dm", "mtt", "dream")),
        *("fashion-mini-cpu", "paper-svhn-ipc10-dream", "paper-cifar100-ipc50"),
        pytest.param("imagenet10-cpu", marks=pytest.mark.slow),
        pytest.param("paper-imagenet10-ipc20", marks=pytest.mark.slow),
    ],
)
def test_counts_of_recipes_are_near_those_of_what_runs(name: str) -> None:
    named = RECIPES[name]
    spec = spec_of(named.dataset)
    assert spec is not None
    classes = len(spec.class_names)
    known = spec.train_count or 1300 * classes
    job = Job(named.recipe, spec.shape, classes, spec.train_count)
    assert job.flops == pytest.approx(cost(named.recipe, spec.shape, classes, known).run_flops, rel=0.25)


def test_times_are_counts_over_the_rate_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    monkeypatch.setattr(rates, "measured_rate", lambda: 1e6)
    told: list[tuple[float, float]] = []
    first = seconds_of({"a": JOB}, lambda _, done, total: told.append((done, total)))
    seconds, rate = first
    assert (list(seconds), rate) == (["a"], 1e6)
    assert seconds["a"] == pytest.approx(JOB.flops / 1e6)
    assert told == [(0, 1), (1, 1)]
    monkeypatch.setattr(rates, "measured_rate", lambda: 1e9)
    assert seconds_of({"a": JOB}) == first, "the next call measures nothing"
