"""How work is counted in passes through a network."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Passes:
    """The number of forward passes of a batch through a network, and of backward passes."""

    forward: int = 0
    backward: int = 0

    def __add__(self, other: Passes) -> Passes:
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def __mul__(self, times: int) -> Passes:
        return Passes(self.forward * times, self.backward * times)
