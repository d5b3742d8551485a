"""The confidence of trained networks in the synthetic images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.objectives.base import Match, Objective, Target, of_each_class, prefix_means
from mipset.condensing.passes import Passes
from mipset.nn.networks import Network


@dataclass(frozen=True)
class Confidence(Objective[Target]):
    """Mean cross-entropy of the synthetic images: a trained network should recognise their class.

    `trained` gives the network to ask, from θ. Real images are not used, and there are no features to compare sizes by:
    this is a term of a sum, after a term that matches real images.
    """

    trained: Callable[[Network], Network] = lambda theta: theta
    half: bool = False  # whether products inside of the network are of bfloat16

    passes = Passes(1, 1)  # no real images

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> Target:
        return Target(real.new_empty(len(labels), 0, 0))

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: Target, ends: Sequence[int]
    ) -> Match:
        asked = self.trained(theta)
        scores = of_each_class(asked, asked, synthetic, self.half)  # [classes, images, C]
        wanted = torch.tensor(list(labels), device=scores.device)[:, None].expand(scores.shape[:2])
        losses = F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="none").view_as(wanted)
        return Match(prefix_means(losses, ends), synthetic.new_empty(len(labels), 0, 0))
