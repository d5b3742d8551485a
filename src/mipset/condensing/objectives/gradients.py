"""Gradient matching: real and synthetic images should change the weights of a network in the same way.

All sizes come from one forward and one backward pass: the gradient of a prefix is a running mean,
g_[n] = (g_1 + ... + g_n) / n, so it is enough to keep apart the gradients of the images between two sizes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mipset.condensing.objectives.base import Match, Objective, Target, constant_weights
from mipset.condensing.passes import Passes
from mipset.errors import SettingError
from mipset.nn.networks import Network


class Distance(ABC):
    """The distances of gradients [k, *shape] of one layer from a target [*shape]: [k]."""

    @abstractmethod
    def __call__(self, gradients: Tensor, target: Tensor) -> Tensor:
        """One distance for each of the k gradients."""


@dataclass(frozen=True)
class Squared(Distance):
    """Sum of squared differences."""

    def __call__(self, gradients: Tensor, target: Tensor) -> Tensor:
        return (gradients - target).square().flatten(1).sum(dim=1)


@dataclass(frozen=True)
class L1(Distance):
    """Sum of absolute differences."""

    def __call__(self, gradients: Tensor, target: Tensor) -> Tensor:
        return (gradients - target).abs().flatten(1).sum(dim=1)


@dataclass(frozen=True)
class RowCosine(Distance):
    """Sum over output units of one minus the cosine between the rows of that unit."""

    epsilon: float = 1e-6

    def __call__(self, gradients: Tensor, target: Tensor) -> Tensor:
        rows, wanted = gradients.flatten(2), target.flatten(1)
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=2) * torch.linalg.vector_norm(wanted, dim=1)
        return (1 - (rows * wanted).sum(dim=2) / (lengths + self.epsilon)).sum(dim=1)


@dataclass(frozen=True)
class GradientTarget(Target):
    """The gradients of the mean loss of the real images."""

    gradients: tuple[tuple[Tensor, ...], ...]  # of each class, one per matched layer


@dataclass(frozen=True)
class GradientMatching(Objective[GradientTarget]):
    """Compare the gradients of the cross-entropy with respect to the convolution weights.

    Biases and norms are not compared, nor is the classifier unless `classifier` is set. The network must
    process each image alone, or the gradient of a prefix would depend on the images after it.
    """

    distance: Distance = Squared()
    classifier: bool = False

    passes = Passes(2, 3)  # also back to the weights, on both sides

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> GradientTarget:
        sides = [self._gradients(theta, images, c, [len(images)]) for images, c in zip(real, labels, strict=True)]
        return GradientTarget(
            torch.stack([features for features, _ in sides]),
            tuple(tuple(gradient[0] / real.shape[1] for gradient in gradients) for _, gradients in sides),
        )

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: GradientTarget, ends: Sequence[int]
    ) -> Match:
        distances, features = [], []
        for images, label, wanted in zip(synthetic, labels, target.gradients, strict=True):
            features_of_class, gradients = self._gradients(theta, images, label, ends)
            distances.append(self._of_prefixes(gradients, wanted, ends))
            features.append(features_of_class)
        return Match(torch.stack(distances), torch.stack(features))

    def groups(self, classes: Sequence[int], pixels: int) -> list[Sequence[int]]:
        """One class at a time, as in the paper: second derivatives need much memory."""
        return [[c] for c in classes]

    def _of_prefixes(self, gradients: Sequence[Tensor], wanted: Sequence[Tensor], ends: Sequence[int]) -> Tensor:
        """The distance of every prefix, from the gradients [k, *weight] of the images between two ends."""
        total = torch.zeros(len(ends), device=gradients[0].device, dtype=gradients[0].dtype)
        sizes = torch.tensor(ends, device=total.device, dtype=total.dtype)
        for stretches, target in zip(gradients, wanted, strict=True):
            means = stretches.cumsum(dim=0) / sizes.reshape(-1, *[1] * target.dim())
            total = total + self.distance(means, target)
        return total

    def _gradients(
        self, theta: Network, images: Tensor, label: int, ends: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Features, and the gradient of each matched weight summed over each stretch between two ends: [k, *weight].

        They are differentiable in the images if those are.
        """
        layers = self._layers(theta)
        differentiable = images.requires_grad
        with constant_weights(theta):
            with _recorded(layers) as passed:
                features = theta.features(images if differentiable else images.detach().requires_grad_())
                scores = theta.scores(features)
            labels = torch.full((len(images),), label, dtype=torch.long, device=images.device)
            loss = F.cross_entropy(scores, labels, reduction="sum")
            outputs = [passed[layer][1] for layer in layers]
            slopes = torch.autograd.grad(loss, outputs, create_graph=differentiable)
            with torch.set_grad_enabled(differentiable):
                return features.detach(), [
                    theta.engine.weight_gradients(passed[layer][0], slope, layer, ends)
                    for layer, slope in zip(layers, slopes, strict=True)
                ]

    def _layers(self, theta: Network) -> list[nn.Conv2d | nn.Linear]:
        if any(isinstance(module, _BatchNorm) for module in theta.modules()):
            raise SettingError(
                "Gradient matching needs a `network` without batch norm, which mixes the images of a batch."
            )
        matched = (nn.Conv2d, nn.Linear) if self.classifier else (nn.Conv2d,)
        return [module for module in theta.modules() if isinstance(module, matched)]


@contextmanager
def _recorded(
    layers: Sequence[nn.Conv2d | nn.Linear],
) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """Record the input and the output of each layer during a forward pass."""
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        passed[layer] = (inputs[0], output)

    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        yield passed
    finally:
        for handle in handles:
            handle.remove()
