"""Learners: the networks at whose weights θ real and synthetic images are compared."""

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
from mipset.reporting import Report, silent
from mipset.settings.part import Part

State: TypeAlias = dict[str, Any]  # tensors, numbers and lists only: a checkpoint holds it


class Learner(Part, ABC):
    """The networks of the inner iterations."""

    def prepare(self, report: Report = silent) -> None:
        """Do what must be done once before the first iteration, if anything. It may take long."""

    @property
    def preparing_seconds(self) -> float:
        """How long `prepare` took, in this process or in the earlier one whose result is used."""
        return 0.0

    @abstractmethod
    def start(self, t: int) -> Network:
        """θ_{t,1}: the network at the start of outer iteration `t`."""

    @abstractmethod
    def advance(self, theta: Network, number: int) -> Network:
        """θ_{t,e+1} from θ_{t,e}, after inner iteration `number`, counted over the whole run. θ may be changed."""

    def trained(self, theta: Network) -> Network:
        """The network that θ becomes, or has become, when it is trained; θ itself if that is not known."""
        return theta

    def state(self) -> State:
        """What a checkpoint needs to hold."""
        return {}

    def restore(self, state: State) -> None:
        """Continue from a state that `state` gave."""


@dataclass(frozen=True)
class _PooledNetwork:
    """A network of the pool, and its optimiser."""

    theta: Network
    optimiser: torch.optim.SGD


class TrainedOnReal(Learner):
    """Networks that are trained on real images between the inner iterations (IDC, DREAM).

    By default each outer iteration uses a new network. With a longer `life`, a network is used in so many outer
    iterations, and keeps what it has learned. The networks of a `pool` take turns. They are replaced one at a time, so
    that their ages differ.
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
        self._networks: dict[int, _PooledNetwork] = {}  # by turn
        self._turn = 0

    def start(self, t: int) -> Network:
        turns, self._turn = divmod(t - 1, self.pool)
        head_start = self._turn * self.life // self.pool  # spreads the ages evenly
        if self._turn not in self._networks or (turns + head_start) % self.life == 0:
            self._networks[self._turn] = self._new(t)
        return self._networks[self._turn].theta

    def _new(self, t: int) -> _PooledNetwork:
        theta = fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.images.pixels.device)
        return _PooledNetwork(theta, self.rule.optimiser(theta))

    def state(self) -> State:
        if self.life == 1:
            return {}
        return {
            "places": {
                turn: {"theta": network.theta.state_dict(), "optimiser": network.optimiser.state_dict()}
                for turn, network in self._networks.items()
            }
        }

    def restore(self, state: State) -> None:
        for turn, saved in state.get("places", {}).items():
            network = self._networks[turn] = self._new(turn + 1)
            network.theta.load_state_dict(saved["theta"])
            network.optimiser.load_state_dict(saved["optimiser"])

    def advance(self, theta: Network, number: int) -> Network:
        for step in range(number * self.batches, (number + 1) * self.batches):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.TRAIN_BATCH)
            draws = generator(self.seed, Purpose.TRAIN_AUGMENTATION, step)
            optimiser = self._networks[self._turn].optimiser
            self.rule.step(theta, optimiser, *self.images.batch(order), draws, self.team)
        return theta


class Untrained(Learner):
    """A new network with random weights in every inner iteration (DM)."""

    def __init__(self, build: Callable[[], Network], device: torch.device, seed: int) -> None:
        self.build, self.device, self.seed = build, device, seed

    def start(self, t: int) -> Network:
        return fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.device)

    def advance(self, theta: Network, number: int) -> Network:
        return fresh(self.build, key(self.seed, Purpose.NETWORK, 0, number), self.device)
