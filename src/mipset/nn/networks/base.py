"""What every network has, and how a new one is initialised from a key."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from mipset.errors import SettingError
from mipset.nn.engines import Engine


class Network(nn.Module, ABC):
    """A classifier that also gives its last features.

    A network for condensing must process each image of a batch alone. A network for evaluation may have batch norm.
    """

    engine: Engine = Engine()  # computes its layers

    @property
    def mixes_images(self) -> bool:
        """Whether it has batch norm, so that images of a batch depend on each other."""
        return any(isinstance(module, _BatchNorm) for module in self.modules())

    @abstractmethod
    def features(self, images: Tensor) -> Tensor:
        """Images [B, ch, h, w] to features [B, F], the input of the classifier."""

    @abstractmethod
    def scores(self, features: Tensor) -> Tensor:
        """Features [B, F] to class scores [B, C]."""

    def hidden_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The input of the last block [B, ch, h, w], and the features [B, F], in one pass. Not every network has it."""
        title = type(self.module if isinstance(self, Own) else self).__name__
        raise SettingError(f"{title} has no hidden features. Choose another `objective` or `network`.")

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, ch, h, w] to class scores [B, C]."""
        return self.scores(self.features(images))


@runtime_checkable
class Classifier(Protocol):
    """The two methods that a module of somebody's own must have."""

    def features(self, images: Tensor) -> Tensor:
        """As those of a network."""

    def scores(self, features: Tensor) -> Tensor:
        """As those of a network."""


@runtime_checkable
class Layered(Protocol):
    """What the objective `layered` needs."""

    def hidden_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """As those of a network."""


class Own(Network):
    """A module of somebody's own with two methods, `features` and `scores`, as those of a network.

    If it also has `hidden_and_features`, the objective `layered` can use it.
    """

    def __init__(self, module: nn.Module, engine: Engine | None = None) -> None:
        super().__init__()
        self.engine = engine or Engine()
        self.module = module

    def features(self, images: Tensor) -> Tensor:
        return cast(Classifier, self.module).features(images)

    def scores(self, features: Tensor) -> Tensor:
        return cast(Classifier, self.module).scores(features)

    def hidden_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self.module, Layered):
            return self.module.hidden_and_features(images)
        return super().hidden_and_features(images)


@contextmanager
def computed_by(theta: Network, engine: Engine) -> Iterator[None]:
    """Let another engine compute the layers of θ."""
    usual = {module: module.engine for module in theta.modules() if isinstance(getattr(module, "engine", None), Engine)}
    for module in usual:
        module.engine = engine  # type: ignore[assignment]
    try:
        yield
    finally:
        for module, its_engine in usual.items():
            module.engine = its_engine


_GLOBAL_GENERATOR = threading.Lock()  # all threads share that of torch, which initialises layers


def fresh(build: Callable[[], Network], key: int, device: torch.device) -> Network:
    """A new network whose weights depend on `key` only; the global generator of torch keeps its state."""
    with _GLOBAL_GENERATOR, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(key)
        if device.type == "meta":  # takes no memory, however large the network is
            with device:
                return build()
        return build().to(device)
