"""Architectures: which network, how wide and how deep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mipset.errors import ArtifactError, SettingError, choices

NETWORKS = {  # width and depth of each, unless others are asked for
    "convnet": (128, 3),
    "resnet": (32, 10),
    "resnet-ap": (64, 10),
    "densenet": (12, 121),
}
WITH_BATCH_NORM = ("resnet", "densenet")  # which is fine for evaluating, but not for condensing


def network_size(name: str) -> tuple[int, int]:
    """Width and depth of the named architecture, unless others are asked for."""
    if name not in NETWORKS:
        raise SettingError(f"there is no network {name!r}: choose {choices(NETWORKS)}.")
    return NETWORKS[name]


@dataclass(frozen=True)
class Architecture:
    """Which network is trained."""

    name: str = "convnet"
    width: int = 128
    depth: int = 3

    def __str__(self) -> str:
        return f"{self.name}-{self.depth}, width {self.width}"

    @classmethod
    def named(cls, name: str) -> Architecture:
        """The network of this name, as wide and as deep as it is by default."""
        return cls(name, *network_size(name))

    @classmethod
    def of(cls, r: Mapping[str, Any]) -> Architecture:
        """The network that a set was condensed with, by the recipe in its file."""
        if "network" not in r:
            return cls()
        name, width, depth = (r.get(key) for key in ("network", "width", "depth"))
        if not (isinstance(name, str) and isinstance(width, int) and isinstance(depth, int) and width > 0 < depth):
            raise ArtifactError(f"its recipe names no network that can be built: {name}, width {width}, depth {depth}.")
        return cls(name, width, depth)
