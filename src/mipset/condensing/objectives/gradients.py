"""Gradient matching: real and synthetic images should change the weights of a network in the same way.

All sizes come from one forward and one backward pass: the gradient of a prefix is a running mean,
g_[n] = (g_1 + ... + g_n) / n, so it is enough to keep apart the gradients of the images between two sizes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from mipset.condensing.objectives.base import Match, Objective, Target, constant_weights, parts_of
from mipset.condensing.passes import Passes
from mipset.errors import SettingError
from mipset.nn.networks import Network

# Second derivatives keep more of every image, so fewer pixels are matched at once: those of 400 images of 32 x 32, and
# of 8 images of 224 x 224.
PIXELS_AT_ONCE = 400 * 32 * 32


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

        They are differentiable in the images if those are. Images with more than PIXELS_AT_ONCE pixels take turns.
        """
        parts = turns(len(images), images.shape[2] * images.shape[3])
        if len(parts) == 1:
            return self._gradients_of_part(theta, images, label, ends)

        def of_part(part: slice, those: Tensor) -> tuple[Tensor, list[Tensor]]:
            return self._gradients_of_part(theta, those, label, stretches_within(part, ends)[1])

        features, *gradients = _InTurns.apply(of_part, images, parts, list(ends))  # type: ignore[no-untyped-call]
        return features, gradients

    def _gradients_of_part(
        self, theta: Network, images: Tensor, label: int, ends: Sequence[int]
    ) -> tuple[Tensor, list[Tensor]]:
        """The same for images that fit into memory together."""
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
        if theta.mixes_images:
            raise SettingError(
                "Gradient matching needs a `network` without batch norm, which mixes the images of a batch."
            )
        matched = (nn.Conv2d, nn.Linear) if self.classifier else (nn.Conv2d,)
        layers = [module for module in theta.modules() if isinstance(module, matched)]
        if not layers:
            lacking = " and no ".join(f"nn.{kind.__name__}" for kind in matched)
            other = "" if self.classifier else ", or `matched_layers` all, which also compares nn.Linear"
            raise SettingError(
                f"`network` has no {lacking}, whose gradients are compared. Choose `objective` feature{other}."
            )
        return layers


def turns(images: int, pixels: int) -> list[slice]:
    """The parts of so many images, of so many pixels each, that take turns in memory. With one, nobody waits."""
    return parts_of(images, pixels, PIXELS_AT_ONCE)


def stretches_within(part: slice, ends: Sequence[int]) -> tuple[slice, list[int]]:
    """The stretches between two ends that have images in a part, and where they end in it, from its first image on."""
    first = next(number for number, end in enumerate(ends) if end > part.start)
    last = next(number for number, end in enumerate(ends) if end >= part.stop)
    return slice(first, last + 1), [min(end, part.stop) - part.start for end in ends[first : last + 1]]


Compute = Callable[[slice, Tensor], tuple[Tensor, list[Tensor]]]


class _InTurns(Function):
    """The gradients of all stretches, from one part of the images after the other.

    Nothing is kept for the way back: there, every part is computed a second time. So memory is that of one part.
    """

    @staticmethod
    def forward(ctx: Any, compute: Compute, images: Tensor, parts: list[slice], ends: list[int]) -> tuple[Tensor, ...]:
        ctx.compute, ctx.parts, ctx.ends = compute, parts, ends
        ctx.save_for_backward(images)
        features: list[Tensor] = []
        totals: list[Tensor] = []
        for part in parts:
            with torch.enable_grad():
                those, gradients = compute(part, images[part].detach())
            features.append(those)
            if not totals:
                totals = [gradient.new_zeros(len(ends), *gradient.shape[1:]) for gradient in gradients]
            rows, _ = stretches_within(part, ends)
            for total, gradient in zip(totals, gradients, strict=True):
                total[rows] += gradient
        joined = torch.cat(features)
        ctx.mark_non_differentiable(joined)
        return joined, *totals

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, for_features: Tensor, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        del for_features
        (images,) = ctx.saved_tensors
        pieces = []
        for part in ctx.parts:
            rows = stretches_within(part, ctx.ends)[0]
            piece = images[part].detach().requires_grad_()
            with torch.enable_grad():
                _, gradients = ctx.compute(part, piece.view_as(piece))  # hooks that count cannot take a leaf
            pieces += torch.autograd.grad(gradients, piece, [slope[rows] for slope in slopes])
        return None, torch.cat(pieces), None, None


@contextmanager
def _recorded(
    layers: Sequence[nn.Conv2d | nn.Linear],
) -> Iterator[dict[nn.Module, tuple[Tensor, Tensor]]]:
    """Record the input and the output of each layer during a forward pass."""
    passed: dict[nn.Module, tuple[Tensor, Tensor]] = {}

    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if layer in passed:
            raise SettingError(
                "Gradient matching needs a `network` that uses each of its convolutions once, not several times."
            )
        passed[layer] = (inputs[0], output)

    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        yield passed
    finally:
        for handle in handles:
            handle.remove()
