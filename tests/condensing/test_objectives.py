"""Gradient matching in one pass against one plain loss per prefix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.costs import cost
from mipset.condensing.objectives import L1, Distance, GradientMatching, RowCosine, Squared, base, gradients
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.nn.networks import ConvNet, Network, ResNetAP, fresh
from mipset.nn.networks.base import Own
from mipset.settings.recipe import Recipe

DISTANCES: list[Distance] = [Squared(), L1(), RowCosine()]


def network(dtype: torch.dtype = torch.float64) -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(3, 4, (8, 8), 4, 2).to(dtype)


def images(count: int, seed: int, dtype: torch.dtype = torch.float64, side: int = 8) -> Tensor:
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def plain_loss(theta: Network, real: Tensor, synthetic: Tensor, distance: Distance, classifier: bool) -> Tensor:
    """The distance by the book: two gradients of a mean loss, with respect to the weights themselves."""
    matched = (4, 2) if classifier else (4,)  # dimensions: convolutions and the classifier have weights of their own
    weights = [p for p in theta.parameters() if p.dim() in matched]

    def gradients(x: Tensor, graph: bool) -> tuple[Tensor, ...]:
        loss = F.cross_entropy(theta(x), torch.full((len(x),), 2))
        return torch.autograd.grad(loss, weights, create_graph=graph)

    pairs = zip(gradients(synthetic, True), gradients(real, False), strict=True)
    return torch.stack([distance(g[None], t)[0] for g, t in pairs]).sum()


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
@pytest.mark.parametrize("classifier", [False, True])
@pytest.mark.parametrize("ends", [[12], [3, 12], [2, 4, 6, 8, 10, 12]])
def test_one_pass_equals_a_separate_loss_for_every_prefix(
    distance: Distance, classifier: bool, ends: list[int]
) -> None:
    check_every_prefix(network(), GradientMatching(distance, classifier), ends, side=8)


@pytest.mark.parametrize("depth", [10, 18])
@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_one_pass_equals_separate_losses_for_a_residual_network(distance: Distance, depth: int) -> None:
    theta = fresh(lambda: ResNetAP(3, 4, (16, 16), 2, depth), 0, torch.device("cpu")).double()
    check_every_prefix(theta, GradientMatching(distance), [2, 5, 12], side=16)


def check_every_prefix(theta: Network, objective: GradientMatching, ends: list[int], side: int) -> None:
    distance, classifier = objective.distance, objective.classifier
    real = images(7, 1, side=side)
    ours, book = (images(12, 2, side=side).requires_grad_() for _ in range(2))
    distances = objective.distances(theta, ours[None], [2], objective.target(theta, real[None], [2]), ends).distances[0]
    expected = torch.stack([plain_loss(theta, real, book[:end], distance, classifier) for end in ends])
    torch.testing.assert_close(distances, expected)
    weights = torch.linspace(0.5, 2, len(ends), dtype=torch.float64)
    (gradient,) = torch.autograd.grad(distances @ weights, ours)
    (expected_gradient,) = torch.autograd.grad(expected @ weights, book)
    torch.testing.assert_close(gradient, expected_gradient)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_pixel_gradients_equal_finite_differences(distance: Distance) -> None:
    theta, real = network(), images(5, 1)
    objective = GradientMatching(distance)
    target = objective.target(theta, real[None], [1])

    def losses(x: Tensor) -> Tensor:
        return objective.distances(theta, x[None], [1], target, [1, 2, 3]).distances

    assert torch.autograd.gradcheck(losses, images(3, 2).requires_grad_(), eps=1e-6, atol=1e-5, fast_mode=True)


@pytest.mark.parametrize("distance", DISTANCES, ids=repr)
def test_equal_images_have_distance_zero(distance: Distance) -> None:
    theta, real = network(), images(6, 1)
    objective = GradientMatching(distance)
    match = objective.distances(theta, real.clone()[None], [1], objective.target(theta, real[None], [1]), [6])
    assert match.distances.item() == pytest.approx(0, abs=1e-3 if isinstance(distance, RowCosine) else 1e-9)


def test_classifier_is_compared_only_if_asked_for() -> None:
    theta, real, synthetic = network(), images(6, 1), images(4, 2)
    conv, all_layers = GradientMatching(), GradientMatching(classifier=True)
    few, more = (o.target(theta, real[None], [0]) for o in (conv, all_layers))
    assert (len(few.gradients[0]), len(more.gradients[0])) == (2, 3)
    less = conv.distances(theta, synthetic[None], [0], few, [4]).distances
    assert all_layers.distances(theta, synthetic[None], [0], more, [4]).distances > less


def test_row_cosine_ignores_the_scale_of_a_gradient() -> None:
    g, t = images(1, 3).flatten(2), images(1, 4).flatten(2)[0]
    torch.testing.assert_close(RowCosine(0)(5 * g, t), RowCosine(0)(g, t))
    torch.testing.assert_close(RowCosine(0)(g, 5 * t), RowCosine(0)(g, t))


def test_network_with_batch_norm_is_refused() -> None:
    theta = network()
    theta.layers["norm"] = torch.nn.ModuleList([torch.nn.BatchNorm2d(4), torch.nn.BatchNorm2d(4)])
    with pytest.raises(SettingError, match="needs a `network` without batch norm"):
        GradientMatching().target(theta, images(6, 1)[None], [0])


class WithoutConvolution(torch.nn.Module):
    """A network of somebody's own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3 * 8 * 8, 4)

    def features(self, x: Tensor) -> Tensor:
        return x.flatten(1)

    def scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self.layer(features)
        return scores


def test_network_without_a_convolution_is_refused_with_advice() -> None:
    theta, real = Own(WithoutConvolution()).double(), images(6, 1)
    advice = "Choose `objective` feature, or `matched_layers` all, which also compares nn.Linear"
    with pytest.raises(
        SettingError, match=rf"^`network` has no nn\.Conv2d, whose gradients are compared\. {advice}\.$"
    ):
        GradientMatching().target(theta, real[None], [0])
    assert GradientMatching(classifier=True).target(theta, real[None], [0]).gradients
    theta.module.layer = torch.nn.Identity()
    with pytest.raises(SettingError, match=r"has no nn\.Conv2d and no nn\.Linear, .*\. Choose `objective` feature\.$"):
        GradientMatching(classifier=True).target(theta, real[None], [0])


def test_hooks_are_removed_from_the_network() -> None:
    theta, real = network(), images(6, 1)
    objective = GradientMatching()
    objective.distances(theta, images(4, 2)[None], [0], objective.target(theta, real[None], [0]), [2, 4])
    assert all(not module._forward_hooks for module in theta.modules())


def test_match_gives_features_without_gradient() -> None:
    theta, real, synthetic = network(), images(6, 1), images(4, 2)
    objective = GradientMatching()
    target = objective.target(theta, real[None], [0])
    match = objective.distances(theta, synthetic.requires_grad_()[None], [0], target, [4])
    assert not match.features.requires_grad
    assert not target.features.requires_grad
    torch.testing.assert_close(match.features[0], theta.features(synthetic).detach())
    torch.testing.assert_close(target.features[0], theta.features(real).detach())


@pytest.mark.parametrize("at_once", [1, 3, 5])
@pytest.mark.parametrize("ends", [[12], [3, 12], [2, 4, 6, 8, 10, 12]], ids=str)
def test_images_that_take_turns_have_the_same_distances_and_gradients(
    monkeypatch: pytest.MonkeyPatch, ends: list[int], at_once: int
) -> None:
    theta, objective = network(), GradientMatching()

    def matched() -> tuple[Tensor, Tensor, Tensor]:
        pixels = images(12, 1).requires_grad_()
        target = objective.target(theta, images(7, 0)[None], [2])
        match = objective.distances(theta, pixels[None], [2], target, ends)
        return match.distances.detach(), match.features, torch.autograd.grad(match.distances.sum(), pixels)[0]

    together = matched()
    monkeypatch.setattr(gradients, "PIXELS_AT_ONCE", at_once * 8 * 8)
    for alone, expected in zip(matched(), together, strict=True):
        torch.testing.assert_close(alone, expected)


def test_turns_need_the_memory_of_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many images per class need little more memory, and twice the work."""
    chosen = Recipe(width=8, factor=1, real_batch=4, train_batch=4, policy="baseline-c")
    monkeypatch.setattr(gradients, "PIXELS_AT_ONCE", 4 * 32 * 32)
    few, many = (cost(chosen.replace(ipc=ipc), (3, 32, 32), 2, 100) for ipc in (8, 16))
    assert many.distances_flops == pytest.approx(2 * few.distances_flops, rel=0.1)
    assert many.working_bytes < 1.4 * few.working_bytes
    monkeypatch.setattr(gradients, "PIXELS_AT_ONCE", 10**9)
    assert cost(chosen.replace(ipc=16), (3, 32, 32), 2, 100).working_bytes > 2 * many.working_bytes


@pytest.mark.parametrize("objective", ["feature", "layered+2*confidence"])
def test_first_order_objectives_need_the_memory_of_one_part(
    toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    chosen = recipe.replace(objective=objective, policy="every-prefix", outer=1)

    def pixels() -> Tensor:
        *_, step = condense(assemble(chosen, toy))
        return step.parts.S.pixels

    together = pixels()
    monkeypatch.setattr(base, "PIXELS_AT_ONCE", 2 * 12 * 12)
    torch.testing.assert_close(pixels(), together, rtol=1e-4, atol=1e-5)
    counted = cost(chosen, toy.shape, toy.classes, len(toy.train)).working_bytes
    monkeypatch.setattr(base, "PIXELS_AT_ONCE", 10**9)
    assert counted < cost(chosen, toy.shape, toy.classes, len(toy.train)).working_bytes
