"""Objectives: the distance between a synthetic set S and the real images B that condensing minimises.

An objective has two functions. `target` sees the real images once. `distances` then gives D(S_[n], B) for all sizes
from one forward and one backward pass: the gradient of a prefix is a running mean, g_[n] = (g_1 + ... + g_n) / n, so it
is enough to keep apart the gradients of the images between two sizes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mipset.errors import SettingError
from mipset.nn.networks import Network


@dataclass(frozen=True)
class Target:
    """The real images B of one class at θ; an objective adds what it compares."""

    features: Tensor  # [B, F], detached


T = TypeVar("T", bound=Target)


@dataclass(frozen=True)
class Match:
    """The distances of the prefixes of one class from their target."""

    distances: Tensor  # D(S_[n], B) for each requested size, differentiable
    features: Tensor  # [N * images per stored image, F], detached


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


class Objective(ABC, Generic[T]):
    """D(S_[n], B; θ): images are normalised and augmented, and belong to one class."""

    @abstractmethod
    def target(self, theta: Network, real: Tensor, label: int) -> T:
        """The real side, computed once for all sizes."""

    @abstractmethod
    def distances(self, theta: Network, synthetic: Tensor, label: int, target: T, ends: Sequence[int]) -> Match:
        """The distance of every prefix `synthetic[:end]`; `ends` increase, and the last is all images."""


@dataclass(frozen=True)
class GradientTarget(Target):
    """The gradients of the mean loss of the real images."""

    gradients: tuple[Tensor, ...]  # one per matched layer


@dataclass(frozen=True)
class GradientMatching(Objective[GradientTarget]):
    """Compare the gradients of the cross-entropy with respect to the convolution weights.

    Biases and norms are not compared, nor is the classifier unless `classifier` is set. The network must
    process each image alone, or the gradient of a prefix would depend on the images after it.
    """

    distance: Distance = Squared()
    classifier: bool = False

    def target(self, theta: Network, real: Tensor, label: int) -> GradientTarget:
        features, gradients = self._gradients(theta, real, label, [len(real)])
        return GradientTarget(features, tuple(gradient[0] / len(real) for gradient in gradients))

    def distances(
        self, theta: Network, synthetic: Tensor, label: int, target: GradientTarget, ends: Sequence[int]
    ) -> Match:
        features, gradients = self._gradients(theta, synthetic, label, ends)
        total = torch.zeros(len(ends), device=synthetic.device, dtype=synthetic.dtype)
        sizes = torch.tensor(ends, device=synthetic.device, dtype=synthetic.dtype)
        for stretches, wanted in zip(gradients, target.gradients, strict=True):
            means = stretches.cumsum(dim=0) / sizes.reshape(-1, *[1] * wanted.dim())
            total = total + self.distance(means, wanted)
        return Match(total, features)

    def _gradients(
        self, theta: Network, images: Tensor, label: int, ends: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """Features, and the gradient of each matched weight summed over each stretch between two ends: [k, *weight].

        They are differentiable in the images if those are.
        """
        layers = self._layers(theta)
        differentiable = images.requires_grad
        with _constant_weights(theta):
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
def _constant_weights(theta: Network) -> Iterator[None]:
    """Do not record the weights of θ for autograd: gradients are taken at the outputs of its layers."""
    learning = [parameter for parameter in theta.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


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
