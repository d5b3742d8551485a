"""Gradient matching in one pass against one plain loss per prefix."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.objectives import L1, Distance, GradientMatching, RowCosine, Squared
from mipset.errors import SettingError
from mipset.nn.networks import ConvNet, Network, ResNetAP, fresh

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
