"""Each metric against its definition, its cost, and that a policy follows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense, update
from mipset.condensing.costs import passes
from mipset.condensing.metrics import AccuracyDifference, Metric
from mipset.condensing.parts import Parts
from mipset.condensing.passes import Passes
from mipset.condensing.policies import MostLearnableSubset, Policy
from mipset.data import Dataset
from mipset.nn.networks import ConvNet, Network
from mipset.nn.training import Schedule, accuracy
from mipset.settings.choices import METRICS
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


class Recording(Policy):
    """Measures every iteration and records the distances."""

    def __init__(self, N: int) -> None:
        self.N = N
        self.recorded: list[Tensor] = []

    def weights(self, c: int) -> list[float]:
        return [0.0] * (self.N - 1) + [1.0]

    def measures(self, t: int) -> bool:
        return True

    def select(self, t: int, F: Tensor) -> None:
        self.recorded.append(F.clone())


def measured(r: Recipe, data: Dataset) -> tuple[Parts, Recording]:
    parts, policy = assemble(r, data, CPU), Recording(r.ipc)
    return replace(parts, policy=policy), policy


def test_gradient_distances_equal_the_objective_of_each_size_alone(toy: Dataset, recipe: Recipe) -> None:
    once = recipe.replace(metric="gradient", outer=1, inner=1)
    parts, policy = measured(once, toy)
    for _ in condense(parts):
        pass
    for n in range(1, once.ipc + 1):
        alone = once.replace(policy="every-prefix", prefix_weights=",".join(str(int(m == n)) for m in (1, 2, 3)))
        parts = assemble(alone, toy, CPU)
        theta = parts.learner.start(1)
        for c in range(toy.classes):
            loss, _ = update(parts, theta, 1, 1, [c])
            assert policy.recorded[0][c, n - 1].item() == pytest.approx(loss.item(), rel=1e-4)


def test_measuring_does_not_change_the_pixels(toy: Dataset, recipe: Recipe) -> None:
    basic = assemble(recipe.replace(policy="baseline-c"), toy, CPU)
    for _ in condense(basic):
        pass
    for metric in ("feature", "gradient", "accuracy"):
        parts, policy = measured(recipe.replace(metric=metric, metric_epochs=1), toy)
        for _ in condense(parts):
            pass
        assert torch.allclose(parts.S.pixels, basic.S.pixels, atol=1e-6)
        assert len(policy.recorded) == recipe.outer


def test_accuracy_metric_trains_a_network_on_each_size(toy: Dataset, recipe: Recipe) -> None:
    parts = assemble(recipe.replace(metric="accuracy", metric_epochs=30, network_lr=0.05), toy, CPU)
    assert isinstance(parts.metric, AccuracyDifference)
    first, again, later = (parts.metric.of_set(parts.S, t) for t in (1, 1, 2))
    assert isinstance(first, Tensor)
    assert isinstance(again, Tensor)
    assert isinstance(later, Tensor)
    assert first.shape == (3, 3)
    assert bool((first[:, 2] == 0).all()), "the whole set is never chosen, so it is not trained on"
    assert float(first[:, :2].mean()) > 60, "stripes are learned from one image per class, and 33 % is chance"
    assert torch.equal(first, again), "another call draws the same"
    assert not torch.equal(first, later), "another iteration trains other networks"


def test_accuracies_of_classes_average_to_the_accuracy(toy: Dataset, recipe: Recipe) -> None:
    parts = assemble(recipe.replace(metric="accuracy", metric_epochs=2), toy, CPU)
    metric = parts.metric
    assert isinstance(metric, AccuracyDifference)
    trained: list[Network] = []
    whole = replace(metric, build=lambda: trained.append(metric.build()) or trained[-1])  # type: ignore[func-returns-value]
    F = whole.of_set(parts.S, 1)
    assert isinstance(F, Tensor)
    assert len(trained) == parts.S.N - 1
    for n, theta in enumerate(trained, start=1):  # all 60 images are asked about, 20 of each class
        assert float(F[:, n - 1].mean()) == pytest.approx(accuracy(theta, metric.real), abs=1e-3)


class Given(Metric):
    """Gives fixed distances for each outer iteration."""

    def __init__(self, F: list[list[float]]) -> None:
        self.F = F

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        return 0.0

    def of_set(self, S: Any, t: int) -> Tensor | float:
        return torch.tensor(self.F[t - 1]).expand(S.C, S.N)


def test_policy_chooses_the_size_whose_metric_changed_most(toy: Dataset, recipe: Recipe) -> None:
    parts = assemble(recipe.replace(outer=3, policy="mdc"), toy, CPU)
    scripted = replace(parts, metric=Given([[5.0, 5.0, 9.0], [5.0, 4.0, 0.0], [1.0, 4.0, 9.0]]))
    assert isinstance(scripted.policy, MostLearnableSubset)
    for _ in condense(scripted):
        pass
    assert scripted.policy.chosen == [1, 2, 1]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("policy", ["baseline-c", "mdc", "every-prefix"])
def test_counted_passes_equal_those_of_a_run(
    toy: Dataset, recipe: Recipe, metric: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    r = recipe.replace(metric=metric, policy=policy, metric_epochs=2, outer=3, period=2)
    counted = {"forward": 0, "backward": 0}

    def count(owner: Any, name: str, kind: str) -> None:
        real = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[kind] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    count(ConvNet, "features", "forward")
    count(torch.autograd, "grad", "backward")
    count(torch.autograd, "backward", "backward")
    for _ in condense(assemble(r, toy, CPU)):
        pass
    assert passes(r, toy.shape, toy.classes, len(toy.train)) == Passes(**counted)


def test_longer_schedule_needs_more_passes(toy: Dataset, recipe: Recipe) -> None:
    metric = assemble(recipe.replace(metric="accuracy", metric_epochs=5), toy, CPU).metric
    assert isinstance(metric, AccuracyDifference)
    twice = replace(metric, schedule=Schedule(10, metric.schedule.batch))
    assert twice.passes(3, 12).backward == 2 * metric.passes(3, 12).backward == 2 * (5 * 2 + 5 * 3)
