"""Learners: the networks at whose weights θ real and synthetic images are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from mipset.condensing.spent import UNKNOWN
from mipset.condensing.states import check, network_state, restore_network, whole_number
from mipset.errors import SettingError
from mipset.nn.distributed import ALONE, Team
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, generator, key, permutation, shuffled_batch
from mipset.nn.training import Images, TrainingRule
from mipset.reporting import Report, silent
from mipset.settings.part import Part

State: TypeAlias = dict[str, Any]  # tensors, numbers and lists only: a checkpoint holds it


class Learner(Part, ABC):
    """The networks of the inner iterations."""

    saved_inside: bool = False  # whether a run can go on in the middle of an outer iteration: see `inside`

    def prepare(self, report: Report = silent) -> None:
        """Do what must be done once before the first iteration, if anything. It may take long."""

    @property
    def preparing_seconds(self) -> float:
        """How long `prepare` took, in this process or in the earlier one whose result is used."""
        return 0.0

    @property
    def preparing_processor_seconds(self) -> float:
        """The same in time of processors; UNKNOWN if nobody has counted it."""
        return UNKNOWN if self.preparing_seconds else 0.0

    @abstractmethod
    def start(self, t: int) -> Network:
        """θ_{t,1}: the network at the start of outer iteration `t`."""

    def early(self, theta: Network, t: int) -> Iterator[None]:
        """Train θ, which `start` or `inside` gave, before its first match in outer iteration `t`, if it must be.

        Yields after every step. A run can be saved there, and goes on with `inside`.
        """
        del theta, t
        yield from ()

    @abstractmethod
    def advance(self, theta: Network, number: int) -> Network:
        """θ_{t,e+1} from θ_{t,e}, after inner iteration `number`, counted over the whole run. θ may be changed."""

    def inside(self, t: int, number: int) -> Network:
        """θ after `restore`, in the middle of outer iteration `t`: what `advance` gave after inner iteration `number`.

        This is for learners whose networks follow from these numbers alone.
        """
        return self.advance(self.start(t), number)

    def trained(self, theta: Network) -> Network:
        """The network that θ becomes, or has become, when it is trained; θ itself if that is not known."""
        return theta

    def later(self, theta: Network) -> Tensor:
        """The weights that θ has after more training on real images, as one vector. Not every learner knows them."""
        raise SettingError(f"{type(self).__name__} does not know later weights. Choose `learner` trajectories.")

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


@dataclass(frozen=True)
class Batch:
    """Normalised images of one training step, and the generator of its augmentation."""

    images: Tensor
    labels: Tensor
    draws: torch.Generator


class Trained(Learner):
    """Networks that are trained between the inner iterations; a subclass says on which batches.

    By default each outer iteration uses a new network. With a longer `life`, a network is used in so many outer
    iterations, and keeps what it has learned. The networks of a `pool` take turns. They are replaced one at a time, so
    that their ages differ.
    """

    saved_inside = True

    def __init__(
        self,
        build: Callable[[], Network],
        device: torch.device,
        rule: TrainingRule,
        *,
        seed: int,
        pool: int = 1,
        life: int = 1,
        early: int = 0,
        team: Team = ALONE,
    ) -> None:
        self.build, self.device, self.rule, self.seed, self.team = build, device, rule, seed, team
        self.pool, self.life, self._early = pool, life, early
        self._networks: dict[int, _PooledNetwork] = {}  # by turn
        self._turn = 0
        self._early_done = early  # steps of the network whose turn it is

    def start(self, t: int) -> Network:
        turns, self._turn = divmod(t - 1, self.pool)
        head_start = self._turn * self.life // self.pool  # spreads the ages evenly
        if self._turn not in self._networks or (turns + head_start) % self.life == 0:
            self._networks[self._turn] = self._new(t)
            self._early_done = 0
        return self._networks[self._turn].theta

    def _new(self, t: int) -> _PooledNetwork:
        theta = fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.device)
        return _PooledNetwork(theta, self.rule.optimiser(theta))

    def inside(self, t: int, number: int) -> Network:
        return self._networks[self._turn].theta

    def state(self) -> State:
        networks = {turn: network_state(n.theta, n.optimiser) for turn, n in self._networks.items()}
        return {"turn": self._turn, "early_done": self._early_done, "networks": networks}

    def restore(self, state: State) -> None:
        networks, self._turn = state["networks"], whole_number(state["turn"], range(self.pool))
        self._early_done = whole_number(state["early_done"], range(self._early + 1))
        check(isinstance(networks, dict) and (self._turn in networks or not networks))
        self._networks = {whole_number(turn, range(self.pool)): self._new(turn + 1) for turn in networks}
        for turn, network in self._networks.items():
            restore_network(network.theta, network.optimiser, networks[turn])

    def advance(self, theta: Network, number: int) -> Network:
        optimiser = self._networks[self._turn].optimiser
        for batch in self.training(number):
            self.rule.step(theta, optimiser, batch.images, batch.labels, batch.draws, self.team)
        return theta

    @abstractmethod
    def training(self, number: int) -> Iterator[Batch]:
        """The batches that the network learns from after inner iteration `number`."""


class TrainedOnReal(Trained):
    """Networks that are trained on real images between the inner iterations (IDC, DREAM).

    A new network takes so many `early` steps before its first match.
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
        early: int = 0,
        team: Team = ALONE,
    ) -> None:
        super().__init__(build, images.pixels.device, rule, seed=seed, pool=pool, life=life, early=early, team=team)
        self.images, self.batch, self.batches = images, batch, batches

    def early(self, theta: Network, t: int) -> Iterator[None]:
        while self._early_done < self._early:
            step = self._early_done
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.EARLY_BATCH, t)
            draws = generator(self.seed, Purpose.EARLY_AUGMENTATION, t, step)
            self.rule.step(theta, self._networks[self._turn].optimiser, *self.images.batch(order), draws, self.team)
            self._early_done += 1
            yield

    def training(self, number: int) -> Iterator[Batch]:
        for step in range(number * self.batches, (number + 1) * self.batches):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.TRAIN_BATCH)
            yield Batch(*self.images.batch(order), generator(self.seed, Purpose.TRAIN_AUGMENTATION, step))


class TrainedOnSynthetic(Trained):
    """Networks that are trained on S itself between the inner iterations, for some epochs (DC, DSA).

    `synthetic` gives the training images of S as they are now.
    """

    def __init__(
        self,
        build: Callable[[], Network],
        device: torch.device,
        synthetic: Callable[[], Images],
        rule: TrainingRule,
        *,
        batch: int,
        epochs: int,
        seed: int,
        pool: int = 1,
        life: int = 1,
        team: Team = ALONE,
    ) -> None:
        super().__init__(build, device, rule, seed=seed, pool=pool, life=life, team=team)
        self.synthetic, self.batch, self.epochs = synthetic, batch, epochs

    def training(self, number: int) -> Iterator[Batch]:
        images = self.synthetic()
        for epoch in range(self.epochs):
            order = permutation(len(images), self.seed, Purpose.TRAIN_BATCH, number, epoch)
            draws = generator(self.seed, Purpose.TRAIN_AUGMENTATION, number, epoch)
            for batch in torch.split(order, self.batch):
                yield Batch(*images.batch(batch), draws)


class Untrained(Learner):
    """A new network with random weights in every inner iteration (DM)."""

    saved_inside = True

    def __init__(self, build: Callable[[], Network], device: torch.device, seed: int) -> None:
        self.build, self.device, self.seed = build, device, seed

    def start(self, t: int) -> Network:
        return fresh(self.build, key(self.seed, Purpose.NETWORK, t), self.device)

    def advance(self, theta: Network, number: int) -> Network:
        return fresh(self.build, key(self.seed, Purpose.NETWORK, 0, number), self.device)
