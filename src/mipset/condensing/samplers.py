"""Samplers: which real images of a class are compared with the synthetic ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from mipset.condensing.clustering import MOST_STEPS, faster_nearest, k_means, nearest_by_torch, random_points
from mipset.condensing.states import check, like
from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, generator, permutation, shuffled_batch
from mipset.nn.training import Images, last_features
from mipset.settings.part import Part


class Sampler(Part, ABC):
    """Real images B_c of class c for one inner iteration."""

    batch: int  # how many of each class

    @abstractmethod
    def sample(self, c: int, theta: Network, number: int) -> Tensor:
        """Normalised images of class `c` for inner iteration `number`, counted over the whole run, at weights θ."""

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors it remembers, by name. Their first axis is the class, so that a team can share them."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state` gave."""
        check(set(state) == set(self.state))
        for name, tensor in self.state.items():
            tensor.copy_(like(state[name], tensor))


class ShuffledEpochs(Sampler):
    """All images of a class in shuffled order, batch by batch; then a new order (IDC).

    `members[c]` are the indices of the images of class c.
    """

    def __init__(self, images: Images, members: Sequence[Tensor], batch: int, seed: int) -> None:
        self.images, self.members, self.batch, self.seed = images, members, batch, seed

    def sample(self, c: int, theta: Network, number: int) -> Tensor:
        members = self.members[c]
        order = shuffled_batch(len(members), self.batch, number, self.seed, Purpose.REAL_BATCH, c)
        return self.images.batch(members[order.to(members.device)])[0]


class Uniform(Sampler):
    """Different random images of the class, drawn anew in every inner iteration (DC, DSA, DM)."""

    def __init__(self, images: Images, members: Sequence[Tensor], batch: int, seed: int) -> None:
        self.images, self.members, self.batch, self.seed = images, members, batch, seed

    def sample(self, c: int, theta: Network, number: int) -> Tensor:
        members = self.members[c]
        drawn = permutation(len(members), self.seed, Purpose.REAL_BATCH, c, number)[: self.batch]
        return self.images.batch(members[drawn.to(members.device)])[0]


class Representatives(Sampler):
    """The images of a class that are nearest to the centroids of k-means on the features of θ (DREAM).

    They are chosen again in the first of the `inner` iterations, and after every `every` of them. k-means then starts
    from the features, at the new θ, of the images chosen before, so a few `steps` suffice. It looks at `looked_at`
    images of the class, drawn anew each time (0: at all). An image can be chosen twice.
    """

    def __init__(
        self,
        images: Images,
        members: Sequence[Tensor],
        batch: int,
        seed: int,
        *,
        inner: int,
        every: int = 10,
        looked_at: int = 0,
        steps: int = MOST_STEPS,
    ) -> None:
        self.images, self.members, self.batch, self.seed = images, members, batch, seed
        self.inner, self.every, self.looked_at, self.steps = inner, every, looked_at, steps
        self._nearest = faster_nearest(images.pixels.device)
        self.with_faiss = self._nearest is not nearest_by_torch  # other rounding, so a checkpoint must agree in this
        self._chosen = torch.full((len(members), batch), -1)  # numbers of images of each class

    def sample(self, c: int, theta: Network, number: int) -> Tensor:
        if number % self.inner % self.every == 0 or self._chosen[c, 0] < 0:
            self._chosen[c] = self._choose(c, theta, number)
        members = self.members[c]
        return self.images.batch(members[self._chosen[c].to(members.device)])[0]

    def _choose(self, c: int, theta: Network, number: int) -> Tensor:
        """The numbers of the images of class `c` that stand for it at θ."""
        members, draws = self.members[c], generator(self.seed, Purpose.CLUSTERS, c, number)
        looked_at = torch.randperm(len(members), generator=draws)[: self.looked_at or len(members)]
        points = self._features(theta, members, looked_at)
        before = self._chosen[c]
        warm = bool(before[0] >= 0)
        first = self._features(theta, members, before) if warm else random_points(points, self.batch, draws)
        centroids, _ = k_means(points, first, self.steps, self._nearest)
        return looked_at[self._nearest(centroids, points)[1].cpu()]

    def _features(self, theta: Network, members: Tensor, numbers: Tensor) -> Tensor:
        """The features of some images of a class, computed batch by batch."""
        return last_features(theta, self.images.at(members[numbers.to(members.device)]))

    @property
    def state(self) -> dict[str, Tensor]:
        return {"chosen": self._chosen}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        counts = torch.tensor([len(members) for members in self.members])
        check(bool(((self._chosen >= -1) & (self._chosen < counts[:, None])).all()))
