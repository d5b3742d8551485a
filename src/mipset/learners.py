"""Learners: at whose weights θ real and synthetic images are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from mipset.distributed import ALONE, Team
from mipset.networks import Network, fresh
from mipset.randomness import Purpose, generator, key, shuffled_batch
from mipset.training import Images, TrainingRule


class Learner(ABC):
    """The network of one outer iteration."""

    @abstractmethod
    def start(self, t: int) -> Network:
        """θ_{t,1}: the network that outer iteration `t` begins with."""

    @abstractmethod
    def advance(self, theta: Network, number: int) -> None:
        """θ_{t,e} to θ_{t,e+1}, in place, after inner iteration `number`, counted over the whole run."""


class TrainedOnReal(Learner):
    """A new network for every outer iteration, trained on real images between the inner ones (IDC, DREAM)."""

    def __init__(
        self,
        build: Callable[[], Network],
        images: Images,
        rule: TrainingRule,
        *,
        batch: int,
        batches: int,
        seed: int,
        team: Team = ALONE,
    ) -> None:
        self.build, self.images, self.rule = build, images, rule
        self.batch, self.batches, self.seed, self.team = batch, batches, seed, team

    def start(self, t: int) -> Network:
        theta = fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.images.pixels.device)
        self._optimiser: torch.optim.SGD = self.rule.optimiser(theta)
        return theta

    def advance(self, theta: Network, number: int) -> None:
        for step in range(number * self.batches, (number + 1) * self.batches):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.TRAIN_BATCH)
            draws = generator(self.seed, Purpose.TRAIN_AUGMENTATION, step)
            self.rule.step(theta, self._optimiser, *self.images.batch(order), draws, self.team)
