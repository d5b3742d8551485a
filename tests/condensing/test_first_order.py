"""First-order objectives: all prefixes and classes in one pass against plain losses, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mipset.condensing.objectives import (
    CharacteristicFunctions,
    Confidence,
    FeatureMatching,
    FeatureObjective,
    GradientMatching,
    LayeredCharacteristicFunctions,
    Objective,
    Term,
    WeightedSum,
    base,
)
from mipset.condensing.objectives.base import PIXELS_AT_ONCE
from mipset.condensing.passes import Passes
from mipset.nn.networks import ConvNet, Network
from mipset.nn.randomness import Purpose, generator

LABELS = [2, 0, 3]
ENDS = [2, 4, 6]


def network(seed: int = 0) -> ConvNet:
    torch.manual_seed(seed)
    return ConvNet(3, 4, (8, 8), 4, 2).double()


def images(classes: int, count: int, seed: int) -> Tensor:
    return torch.randn(classes, count, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_feature(theta: Network, real: Tensor, synthetic: Tensor, _: int) -> Tensor:
    return (theta.features(synthetic).mean(0) - theta.features(real).mean(0)).square().sum()


def plain_characteristic(theta: Network, real: Tensor, synthetic: Tensor, _: int) -> Tensor:
    return between_characteristic_functions(theta.features(synthetic), theta.features(real))


def plain_layered(theta: Network, real: Tensor, synthetic: Tensor, _: int) -> Tensor:
    """The same for the output of the first of two blocks, in squares of 2 x 2 pixels, with half of the weight."""
    assert isinstance(theta, ConvNet)
    convolution, norm = (cast(nn.ModuleList, theta.layers[kind])[0] for kind in ("conv", "norm"))
    first = [F.avg_pool2d(F.avg_pool2d(F.relu(norm(convolution(x))), 2), 2).flatten(1) for x in (synthetic, real)]
    return plain_characteristic(theta, real, synthetic, 0) + 0.5 * between_characteristic_functions(*first)


def between_characteristic_functions(synthetic: Tensor, real: Tensor) -> Tensor:
    """|E exp(i <t, f>) - E exp(i <t, g>)| in complex numbers."""
    f, g = (F.normalize(features, dim=1) for features in (synthetic, real))
    t = torch.randn(f.shape[1], 64, generator=generator(5, Purpose.FREQUENCIES)).double()
    difference = torch.exp(1j * (f @ t)).mean(0) - torch.exp(1j * (g @ t)).mean(0)
    return 300 / 2**0.5 * (difference.abs().square() + 1e-8).sqrt().mean()


def plain_confidence(theta: Network, _: Tensor, synthetic: Tensor, label: int) -> Tensor:
    return F.cross_entropy(theta(synthetic), torch.full((len(synthetic),), label))


def plain_sum(theta: Network, real: Tensor, synthetic: Tensor, label: int) -> Tensor:
    arguments = (theta, real, synthetic, label)
    return 0.5 * plain_feature(*arguments) + 10 * plain_confidence(*arguments)


CASES: dict[str, tuple[Objective[Any], Callable[[Network, Tensor, Tensor, int], Tensor]]] = {
    "feature": (FeatureMatching(), plain_feature),
    "characteristic": (CharacteristicFunctions(seed=5, frequencies=64), plain_characteristic),
    "layered": (LayeredCharacteristicFunctions(CharacteristicFunctions(seed=5, frequencies=64)), plain_layered),
    "confidence": (Confidence(), plain_confidence),
    "sum": (WeightedSum((Term(0.5, FeatureMatching()), Term(10.0, Confidence()))), plain_sum),
}


def distances(objective: Objective[Any], theta: Network, real: Tensor, synthetic: Tensor) -> Tensor:
    target = objective.target(theta, real, LABELS)
    return objective.distances(theta, synthetic, LABELS, target, ENDS).distances


@pytest.mark.parametrize("name", CASES)
def test_one_pass_equals_a_separate_loss_for_every_prefix_and_class(name: str) -> None:
    objective, plain = CASES[name]
    theta, real = network(), images(3, 7, 1)
    ours, book = (images(3, 6, 2).requires_grad_() for _ in range(2))
    together = distances(objective, theta, real, ours)
    expected = torch.stack(
        [torch.stack([plain(theta, real[i], book[i, :end], label) for end in ENDS]) for i, label in enumerate(LABELS)]
    )
    torch.testing.assert_close(together, expected)
    weights = torch.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 1.0], [3.0, 0.0, 1.0]], dtype=torch.float64)
    (gradient,) = torch.autograd.grad((together * weights).sum(), ours)
    (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), book)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("name", CASES)
def test_pixel_gradients_equal_finite_differences(name: str) -> None:
    objective, _ = CASES[name]
    theta, real = network(), images(3, 5, 1)
    target = objective.target(theta, real, LABELS)

    def losses(x: Tensor) -> Tensor:
        return objective.distances(theta, x, LABELS, target, [1, 2, 3]).distances

    assert torch.autograd.gradcheck(losses, images(3, 3, 2).requires_grad_(), eps=1e-6, atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("name", ["feature", "characteristic", "layered", "confidence"])
@pytest.mark.parametrize("at_once", [PIXELS_AT_ONCE, 8 * 8 * 2], ids=["at once", "in turns"])
def test_half_precision_is_near_the_exact_distance_and_gradient(
    name: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the passes through the network are of bfloat16: distances and gradients of pixels are float32."""
    monkeypatch.setattr(base, "PIXELS_AT_ONCE", at_once)
    objective: Any = CASES[name][0]

    def of(objective: Objective[Any], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        theta, real = network().to(dtype), images(3, 7, 1).to(dtype)
        synthetic = images(3, 6, 2).to(dtype).requires_grad_()
        result = distances(objective, theta, real, synthetic)
        return result.detach(), torch.autograd.grad(result.sum(), synthetic)[0]

    half = (
        replace(objective, compared=replace(objective.compared, half=True))
        if name == "layered"
        else replace(objective, half=True)
    )
    for ours, exact in zip(of(half, torch.float32), of(objective, torch.float64), strict=True):
        assert ours.dtype == torch.float32
        error = float((ours - exact).norm() / exact.norm())
        assert 0 < error < 0.25


class Scaled(FeatureObjective):
    """An objective of somebody's own with a setting."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def of_features(self, synthetic: Tensor, real: Tensor, ends: Sequence[int]) -> Tensor:
        return self.scale * FeatureMatching().of_features(synthetic, real, ends)


def test_an_own_objective_describes_its_settings() -> None:
    """They tell a checkpoint that it is of another run."""
    assert repr(Scaled(2.0)).endswith(":Scaled(scale=2.0)")
    assert Scaled(2.0) != Scaled(3.0)


@pytest.mark.parametrize("name", ["feature", "characteristic", "layered"])
def test_equal_images_have_distance_zero(name: str) -> None:
    objective, theta, real = CASES[name][0], network(), images(3, 6, 1)
    assert distances(objective, theta, real, real.clone())[:, -1].max().item() == pytest.approx(0, abs=0.05)
    assert distances(objective, theta, real, images(3, 6, 9)).min().item() > 0.05


def test_confidence_asks_the_trained_network() -> None:
    theta, trained, real, synthetic = network(0), network(1), images(3, 2, 1), images(3, 6, 2)
    asked = distances(Confidence(lambda _: trained), theta, real, synthetic)
    torch.testing.assert_close(asked, distances(Confidence(), trained, real, synthetic))
    assert not torch.allclose(asked, distances(Confidence(), theta, real, synthetic))


def test_objectives_leave_the_network_as_it_was() -> None:
    theta, real, synthetic = network(), images(3, 2, 1), images(3, 6, 2).requires_grad_()
    for objective, _ in CASES.values():
        distances(objective, theta, real, synthetic).sum().backward()  # type: ignore[no-untyped-call]
        assert all(p.requires_grad and p.grad is None for p in theta.parameters())


def test_features_are_those_of_the_first_term_without_gradient() -> None:
    theta, real, synthetic = network(), images(3, 2, 1), images(3, 6, 2).requires_grad_()
    objective = WeightedSum((Term(1.0, FeatureMatching()), Term(2.0, Confidence())))
    target = objective.target(theta, real, LABELS)
    match = objective.distances(theta, synthetic, LABELS, target, ENDS)
    assert not match.features.requires_grad
    torch.testing.assert_close(match.features[1], theta.features(synthetic[1]).detach())
    torch.testing.assert_close(target.features[1], theta.features(real[1]).detach())


@pytest.mark.parametrize(
    ("objective", "lengths"),
    [
        (GradientMatching(), [1] * 7),
        (FeatureMatching(), [3, 3, 1]),
        (WeightedSum((Term(1.0, FeatureMatching()), Term(1.0, Confidence()))), [3, 3, 1]),
        (WeightedSum((Term(1.0, FeatureMatching()), Term(1.0, GradientMatching()))), [1] * 7),
    ],
    ids=["gradient", "feature", "sum", "sum with gradient"],
)
def test_as_many_classes_share_a_pass_as_fit(objective: Objective[Any], lengths: Sequence[int]) -> None:
    groups = objective.groups(range(7), PIXELS_AT_ONCE // 3)
    assert [len(group) for group in groups] == lengths
    assert [c for group in groups for c in group] == list(range(7))
    assert [len(group) for group in objective.groups(range(2), 10 * PIXELS_AT_ONCE)] == [1, 1]


def test_a_term_with_a_period_counts_in_every_so_many_iterations_with_so_many_times_its_weight() -> None:
    theta, real, synthetic = network(), images(3, 2, 1), images(3, 6, 2)
    both = WeightedSum((Term(1.0, FeatureMatching()), Term(2.0, Confidence(), period=3)))
    feature, confidence = (distances(o, theta, real, synthetic) for o in (FeatureMatching(), Confidence()))
    seen = [distances(both.at(number), theta, real, synthetic) for number in range(4)]
    for number, there in enumerate((1, 0, 0, 1)):
        torch.testing.assert_close(seen[number], feature + 6 * there * confidence)
    assert both.cycle == 3
    assert FeatureMatching().at(5) == FeatureMatching()


def test_passes_of_a_sum_are_those_of_its_terms() -> None:
    assert CASES["sum"][0].passes == Passes(3, 2)
    assert GradientMatching().passes == Passes(2, 3)
