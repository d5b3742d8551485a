"""Architectures: which network, how wide and how deep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mipset.errors import ArtifactError, SettingError, brief, choices, choose
from mipset.settings.choices import MOST_COUNT, MOST_DEPTH
from mipset.settings.part import is_own


@dataclass(frozen=True)
class NetworkKind:
    """A kind of network that can be chosen by name, with its default width and depth."""

    help: str
    width: int
    depth: int
    batch_norm: bool = False  # mixes the images of a batch: fine for evaluation, but not for condensing


NETWORKS: Mapping[str, NetworkKind] = {
    "convnet": NetworkKind("blocks of convolution, instance norm and pooling (the paper's network)", 128, 3),
    "resnet": NetworkKind("a ResNet with batch norm, for evaluation only", 32, 10, batch_norm=True),
    "resnet-ap": NetworkKind("a ResNet with instance norm and average pooling", 64, 10),
    "densenet": NetworkKind("a DenseNet with batch norm, for evaluation only", 12, 121, batch_norm=True),
}
CONDENSING_NETWORKS = {name: kind.help for name, kind in NETWORKS.items() if not kind.batch_norm}


@dataclass(frozen=True)
class Architecture:
    """Which network is trained: its name, width and depth, without weights.

    `width` is the channels of a ConvNet, the channels of the first stage of a ResNet, or the growth of a DenseNet.
    `depth` is the blocks of a ConvNet, or the layers of the others. A network of somebody's own is named as
    module:function, and decides both itself. mipset.nn.networks.builder makes networks of it.
    """

    name: str = "convnet"
    width: int = 128
    depth: int = 3

    def __post_init__(self) -> None:
        for name, value, most in (("width", self.width, MOST_COUNT), ("depth", self.depth, MOST_DEPTH)):
            if not 1 <= value <= most:
                raise SettingError(f"`{name}` is {value}: it must be at least 1 and at most {most:g}.")

    def __str__(self) -> str:
        return self.name if is_own(self.name) else f"{self.name}-{self.depth}, width {self.width}"

    @classmethod
    def named(cls, name: str) -> Architecture:
        """The architecture of this name, with its default width and depth."""
        check_network(name)
        return cls(name) if is_own(name) else cls(name, NETWORKS[name].width, NETWORKS[name].depth)

    @classmethod
    def of(cls, recipe: Mapping[str, Any]) -> Architecture:
        """The architecture that a set was condensed with, from the recipe in its file. Nothing it names is imported."""
        if "network" not in recipe:
            return cls()
        name, width, depth = (recipe.get(key) for key in ("network", "width", "depth"))
        if isinstance(name, str) and is_own(name):
            raise SettingError(
                f"The set was condensed with `network` {brief(name, str)}, which is not a part of mipset and is not "
                f"taken from a file. Choose the network to evaluate with: `network` {name}, or {choices(NETWORKS)}."
            )
        try:
            if isinstance(name, str) and isinstance(width, int) and isinstance(depth, int):
                return cls(name, width, depth)
        except SettingError:
            pass
        raise ArtifactError(
            f"The recipe in the file has a network that cannot be built: {name}, width {width}, depth {depth}. "
            f"Choose one with `network`: {choices(NETWORKS)}."
        )


def check_network(name: str) -> None:
    """Refuse a name that no network has."""
    if name not in NETWORKS and not is_own(name):
        raise SettingError(
            f"There is no network {name!r}. {choose(name, NETWORKS)}, or a function of your own as module:function."
        )
