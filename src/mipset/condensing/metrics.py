"""Metrics: how sizes are compared when a policy chooses one of them (the paper's table of subset metrics).

    feature distance      F_t(S_[n], B) from the features that a match computes anyway: no extra pass
    gradient distance     D(S_[n], B; θ) of every size, from the pass that a match needs anyway: no extra pass
    accuracy difference   of a network that is trained on each S_[n]: many passes

Every metric gives F [C, N]. A policy compares how much F has changed (equation 8).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mipset.condensing.policies import feature_distances
from mipset.condensing.synthetic import Synthetic
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, key, permutation
from mipset.nn.training import TEST_BATCH, Images, Schedule, TrainingRule, class_scores, fit


@dataclass(frozen=True)
class Passes:
    """The number of forward passes of a batch through a network, and of backward passes."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __mul__(self, times: int) -> Passes:
        return Passes(self.forward * times, self.backward * times)


class Metric(ABC):
    """The distance of every size of every class from the real images, in outer iterations that a policy measures."""

    every_size: bool = False  # whether a match must give the distances of all sizes

    @abstractmethod
    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        """[N], of one class in one inner iteration: from the features of S_c and B_c, and the distances of sizes."""

    def of_set(self, S: Synthetic, t: int) -> Tensor | float:
        """[C, N], of the set S after outer iteration `t`."""
        return 0.0

    def passes(self, N: int, images_per_rank: int) -> Passes:
        """The extra passes of one measured outer iteration, for N ranks of decoded images."""
        return Passes()


@dataclass(frozen=True)
class FeatureDistance(Metric):
    """Equation 5, from one cumulative mean of the features of the match."""

    N: int
    D: Callable[[Tensor, Tensor], Tensor]

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        return feature_distances(f_S, f_B, self.N, self.D).cpu()


@dataclass(frozen=True)
class GradientDistance(Metric):
    """D(S_[n], B; θ), which the objective gives for all sizes together."""

    every_size = True

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        return distances.detach().cpu()


@dataclass(frozen=True)
class AccuracyDifference(Metric):
    """The accuracy on real training images, in percent, of a new network that was trained on S_[n].

    The whole set is left out, because no policy chooses it.
    """

    build: Callable[[], Network]
    real: Images
    rule: TrainingRule
    schedule: Schedule
    seed: int
    checked: int = 2000  # real images that are classified

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        return 0.0

    def of_set(self, S: Synthetic, t: int) -> Tensor | float:
        F = torch.zeros(S.C, S.N)
        drawn = permutation(len(self.real), self.seed, Purpose.METRIC_IMAGES, t)[: self.checked]
        for n in range(1, S.N):
            theta = fresh(self.build, key(self.seed, Purpose.EVALUATION_NETWORK, t, n, 0), S.pixels.device)
            for _ in fit(theta, S.subset(n), self.rule, self.schedule, self.seed, t, n, 0):
                pass
            images = self.real.at(drawn)
            right, labels = (class_scores(theta, images).argmax(dim=1) == images.labels).cpu(), images.labels.cpu()
            count = torch.bincount(labels, minlength=S.C).clamp(min=1)
            F[:, n - 1] = 100 * torch.bincount(labels[right], minlength=S.C) / count
        return F

    def passes(self, N: int, images_per_rank: int) -> Passes:
        total = Passes()
        for n in range(1, N):
            steps = -(-n * images_per_rank // self.schedule.batch) * self.schedule.epochs
            total += Passes(steps, steps) + Passes(-(-min(self.checked, len(self.real)) // TEST_BATCH))
        return total
