"""What every network offers, and how one is made anew from a key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from mipset.nn.engines import Engine


class Network(nn.Module, ABC):
    """A classifier whose last features can be seen.

    To condense with, it has to see each image of a batch alone; to evaluate with, it may have batch norm.
    """

    engine: Engine = Engine()  # who computes its steps

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Images [B, ch, h, w] to features [B, F]: what the classifier is given."""

    @abstractmethod
    def scores(self, features: Tensor) -> Tensor:
        """Features [B, F] to class scores [B, C]."""

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, ch, h, w] to class scores [B, C]."""
        return self.scores(self.features(images))


def fresh(build: Callable[[], Network], key: int, device: torch.device) -> Network:
    """A newly initialised network that depends on `key` alone; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key)
        return build().to(device)
