"""Objectives that compare features: first-order, so a step costs one forward and one backward pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.objectives.base import (
    Match,
    Objective,
    Target,
    in_parts,
    of_each_class,
    prefix_means,
)
from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, generator


class FeatureObjective(Objective[Target]):
    """Compares features of θ, in a forward pass over all images and a backward pass over the synthetic ones."""

    half = False  # whether products inside of θ are of bfloat16

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> Target:
        with torch.no_grad():
            return Target(of_each_class(theta, theta.features, real, self.half))

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: Target, ends: Sequence[int]
    ) -> Match:
        features = of_each_class(theta, theta.features, synthetic, self.half)
        return Match(self.of_features(features, target.features, ends), features.detach())

    @abstractmethod
    def of_features(self, synthetic: Tensor, real: Tensor, ends: Sequence[int]) -> Tensor:
        """The distances [classes, ends] of the prefixes of synthetic features from real ones, [classes, images, F]."""


@dataclass(frozen=True)
class FeatureMatching(FeatureObjective):
    """Squared distance of the mean features (DM, and the matching term of DANCE)."""

    half: bool = False

    def of_features(self, synthetic: Tensor, real: Tensor, ends: Sequence[int]) -> Tensor:
        return (prefix_means(synthetic, ends) - real.mean(dim=1, keepdim=True)).square().sum(dim=2)


@dataclass(frozen=True)
class CharacteristicFunctions(FeatureObjective):
    """Distance of the characteristic functions of the features, at random frequencies (NCFM).

    Features are scaled to length 1. The characteristic function at frequency t is the mean of exp(i <t, f>): a mean of
    cosines and one of sines, which are running means over prefixes too. The distance is the mean over frequencies of
    the absolute difference, times `scale`. Frequencies are normal numbers that depend on the seed only.
    """

    seed: int
    frequencies: int = 1024
    scale: float = 300 / 2**0.5
    epsilon: float = 1e-8  # under the root, whose slope at zero is infinite
    half: bool = False

    def of_features(self, synthetic: Tensor, real: Tensor, ends: Sequence[int]) -> Tensor:
        means = prefix_means(self._waves(synthetic), ends)  # [classes, ends, 2, frequencies]
        wanted = self._waves(real).mean(dim=1, keepdim=True)
        apart = ((means - wanted).square().sum(dim=2) + self.epsilon).sqrt()
        return self.scale * apart.mean(dim=2)

    def _waves(self, features: Tensor) -> Tensor:
        """Cosines and sines of features [classes, images, F] at all frequencies: [classes, images, 2, frequencies]."""
        t = _frequencies(features.shape[2], self.frequencies, self.seed).to(features)
        angles = F.normalize(features, dim=2) @ t
        return torch.stack([angles.cos(), angles.sin()], dim=2)


@dataclass(frozen=True)
class LayeredTarget(Target):
    """The real images also by the hidden features of their network."""

    hidden: Tensor  # [classes, B, H], detached


@dataclass(frozen=True)
class LayeredCharacteristicFunctions(Objective[LayeredTarget]):
    """Characteristic functions of the features of the last two blocks, from one pass.

    The last features alone are blind to much of what an image shows. The hidden features, the input of the last block
    after 2 x 2 average pooling, are compared in the same way, and count with the weight `hidden`.
    """

    compared: CharacteristicFunctions
    hidden: float = 0.5

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> LayeredTarget:
        with torch.no_grad():
            hidden, features = _two_layers(theta, real, self.compared.half)
            return LayeredTarget(features, hidden)

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: LayeredTarget, ends: Sequence[int]
    ) -> Match:
        hidden, features = _two_layers(theta, synthetic, self.compared.half)
        last = self.compared.of_features(features, target.features, ends)
        before = self.compared.of_features(hidden, target.hidden, ends)
        return Match(last + self.hidden * before, features.detach())


def _two_layers(theta: Network, images: Tensor, half: bool) -> tuple[Tensor, Tensor]:
    """The pooled hidden features and the last features of images of several classes, each [classes, images, F]."""
    hidden, features = in_parts(theta, theta.hidden_and_features, images.flatten(0, 1), half)
    pooled = F.avg_pool2d(hidden, 2).flatten(1)
    return pooled.reshape(*images.shape[:2], -1), features.reshape(*images.shape[:2], -1)


@lru_cache(maxsize=4)
def _frequencies(length: int, count: int, seed: int) -> Tensor:
    return torch.randn(length, count, generator=generator(seed, Purpose.FREQUENCIES))
