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

from mipset.condensing.passes import Passes
from mipset.condensing.synthetic import Synthetic
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, key, permutation
from mipset.nn.training import TEST_BATCH, Images, Schedule, TrainingRule, class_scores, fit
from mipset.settings.part import Part


def feature_distances(f_S: Tensor, f_B: Tensor, N: int, D: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """F_t(S_[n], B) = D(mean f_t(S_[n]), mean f_t(B)) for every n (equation 5), from one cumulative mean: [N].

    `f_S` [N * k, F] holds the k decoded images of the first stored image, then those of the second, and so on. `D`
    compares N vectors [N, 1, F] with one [1, F].
    """
    per_image = f_S.reshape(N, -1, f_S.shape[1]).mean(dim=1)  # [N, F]
    sizes = torch.arange(1, N + 1, device=f_S.device, dtype=f_S.dtype)
    prefix_means = per_image.cumsum(dim=0) / sizes[:, None]
    return D(prefix_means[:, None], f_B.mean(dim=0)[None])


class Metric(Part, ABC):
    """The distance of every size of every class from the real images.

    It is measured in outer iterations in which a policy asks for it; in all of them, if it comes from every match.
    """

    every_size: bool = False  # whether a match must give the distances of all sizes
    every_match: bool = False  # whether it comes from every match without extra work: then it is always measured

    @abstractmethod
    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        """[classes, N], of some classes in one inner iteration.

        It is taken from their features, [classes, images, F], and from the distances of sizes, [classes, sizes].
        """

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
    every_match = True

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        of_classes = [feature_distances(S_c, B_c, self.N, self.D) for S_c, B_c in zip(f_S, f_B, strict=True)]
        return torch.stack(of_classes)


@dataclass(frozen=True)
class GradientDistance(Metric):
    """D(S_[n], B; θ), which the objective gives for all sizes together."""

    every_size = True

    def of_match(self, f_S: Tensor, f_B: Tensor, distances: Tensor) -> Tensor | float:
        return distances.detach()


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
