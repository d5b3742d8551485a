"""Learners: at whose weights θ real and synthetic images are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from mipset.nn.distributed import ALONE, Team
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, generator, key, shuffled_batch
from mipset.nn.training import Images, TrainingRule

State: TypeAlias = dict[str, Any]  # tensors and plain values, so that it can be written to a file


class Learner(ABC):
    """The network of one outer iteration."""

    @abstractmethod
    def start(self, t: int) -> Network:
        """θ_{t,1}: the network that outer iteration `t` begins with."""

    @abstractmethod
    def advance(self, theta: Network, number: int) -> None:
        """θ_{t,e} to θ_{t,e+1}, in place, after inner iteration `number`, counted over the whole run."""

    def state(self) -> State:
        """What has to be remembered to go on with the next outer iteration."""
        return {}

    def restore(self, state: State) -> None:  # noqa: B027
        """Go on from what `state` remembered."""


@dataclass(frozen=True)
class _Place:
    """A network that takes its turns, and how it learns."""

    theta: Network
    optimiser: torch.optim.SGD


class TrainedOnReal(Learner):
    """Networks that are trained on real images between the inner iterations (IDC, DREAM).

    By default each outer iteration has a new one, which is thrown away after it. With a longer `life`, a network comes
    back, older, for as many outer iterations; a `pool` of networks takes turns, and they are replaced one at a time, so
    that at any time there are networks of different ages.
    """

    def __init__(
        self,
        build: Callable[[], Network],
        images: Images,
        rule: TrainingRule,
        *,
        batch: int,
        batches: int,
        seed: int,
        pool: int = 1,
        life: int = 1,
        team: Team = ALONE,
    ) -> None:
        self.build, self.images, self.rule = build, images, rule
        self.batch, self.batches, self.seed, self.team = batch, batches, seed, team
        self.pool, self.life = pool, life
        self._places: dict[int, _Place] = {}
        self._turn = 0

    def start(self, t: int) -> Network:
        turns, self._turn = divmod(t - 1, self.pool)
        older = self._turn * self.life // self.pool  # ages are spread evenly
        if self._turn not in self._places or (turns + older) % self.life == 0:
            self._places[self._turn] = self._new(t)
        return self._places[self._turn].theta

    def _new(self, t: int) -> _Place:
        theta = fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.images.pixels.device)
        return _Place(theta, self.rule.optimiser(theta))

    def state(self) -> State:
        if self.life == 1:
            return {}
        return {
            "places": {
                turn: {"theta": place.theta.state_dict(), "optimiser": place.optimiser.state_dict()}
                for turn, place in self._places.items()
            }
        }

    def restore(self, state: State) -> None:
        for turn, saved in state.get("places", {}).items():
            place = self._places[turn] = self._new(turn + 1)
            place.theta.load_state_dict(saved["theta"])
            place.optimiser.load_state_dict(saved["optimiser"])

    def advance(self, theta: Network, number: int) -> None:
        for step in range(number * self.batches, (number + 1) * self.batches):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.TRAIN_BATCH)
            draws = generator(self.seed, Purpose.TRAIN_AUGMENTATION, step)
            optimiser = self._places[self._turn].optimiser
            self.rule.step(theta, optimiser, *self.images.batch(order), draws, self.team)
