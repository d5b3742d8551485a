"""Samplers: which real images of a class are compared with the synthetic ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from torch import Tensor

from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, shuffled_batch
from mipset.nn.training import Images
from mipset.settings.part import Part


class Sampler(Part, ABC):
    """Real images B_c of class c for one inner iteration."""

    batch: int  # how many of each class

    @abstractmethod
    def sample(self, c: int, theta: Network, number: int) -> Tensor:
        """Normalised images of class `c` for inner iteration `number`, counted over the whole run, at weights θ."""


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
