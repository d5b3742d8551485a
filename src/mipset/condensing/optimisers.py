"""Pixel optimisers: how the pixels of S move against their gradients.

An optimiser keeps tensors with the ranks and classes of S, so that the processes of a team can share them class by
class, and checkpoints can hold them. Frozen ranks do not move and keep no momentum (law 3 in docs/architecture.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mipset.settings.part import Part


@dataclass(frozen=True)
class Moment:
    """A place in a run: inner iteration `number`, counted from 0 over the whole run, of `total`."""

    number: int
    total: int

    @property
    def share(self) -> float:
        """The part of the run before this iteration."""
        return self.number / self.total


class PixelOptimiser(Part, ABC):
    """Moves the pixels [N, C, ch, h, w], one class at a time."""

    def __init__(self, pixels: Tensor) -> None:
        self.pixels = pixels

    @property
    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The tensors it remembers, by name. Their first two axes are those of the pixels: rank and class."""

    @abstractmethod
    def step(self, c: int, gradient: Tensor, frozen: int, scale: Sequence[float] | None, at: Moment) -> None:
        """Move class `c` against `gradient` [N, ch, h, w]; the first `frozen` ranks stay.

        `scale` is a factor of the step of each rank (None: 1), which an optimiser may ignore if it finds its own.
        """


class MomentumSGD(PixelOptimiser):
    """Gradient descent with momentum, as in the paper; `rate` is one number, or one for each channel.

    IDC takes one step of one optimiser after every class. So between two gradients of a class, its momentum moves its
    pixels in C - 1 more steps: it coasts. These steps are a geometric sum, which is added at once. So the pixels of a
    class do not depend on when, or in which process, the other classes are updated. DC, DSA and DM take one step after
    all classes: nothing coasts. Pixels are not clamped here.
    """

    def __init__(
        self, pixels: Tensor, rate: float | Sequence[float], momentum: float, *, coasting: bool = True
    ) -> None:
        super().__init__(pixels)
        self.rate, self.momentum, self.coasting = rate, momentum, coasting
        self.velocity = torch.zeros_like(pixels)

    @property
    def state(self) -> dict[str, Tensor]:
        return {"velocity": self.velocity}

    @property
    def _rates(self) -> Sequence[float]:
        return self.rate if isinstance(self.rate, Sequence) else [self.rate] * self.pixels.shape[2]

    def step(self, c: int, gradient: Tensor, frozen: int, scale: Sequence[float] | None, at: Moment) -> None:
        if scale is not None:
            gradient = gradient * gradient.new_tensor(scale).reshape(-1, 1, 1, 1)
        others = self.pixels.shape[1] - 1 if self.coasting else 0
        velocity = self.velocity[:, c]
        velocity[:frozen] = 0
        velocity[frozen:].mul_(self.momentum).add_(gradient[frozen:])
        steps = sum(self.momentum**k for k in range(others + 1))
        for channel, rate in enumerate(self._rates):
            self.pixels[frozen:, c, channel].sub_(velocity[frozen:, channel], alpha=rate * steps)
        velocity.mul_(self.momentum**others)


class Adam(PixelOptimiser):
    """Adam with a cosine decay of its rate to zero over the run; pixels are clamped to [0, 1] after every step.

    The rate is the usual change of a pixel in one step, in units of the range [0, 1]. It does not depend on the scale
    of the gradients, so ranks need no scales of their own, and one rate suits many datasets. A rank that was frozen
    begins anew, as in the first iteration.
    """

    def __init__(self, pixels: Tensor, rate: float, momentum: float, square_momentum: float = 0.99) -> None:
        super().__init__(pixels)
        self.rate, self.momentum, self.square_momentum = rate, momentum, square_momentum
        self.mean, self.square = torch.zeros_like(pixels), torch.zeros_like(pixels)
        self.steps = torch.zeros_like(pixels[:, :, :1, :1, :1])  # of each rank and class since it moves

    @property
    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "square": self.square, "steps": self.steps}

    def step(self, c: int, gradient: Tensor, frozen: int, scale: Sequence[float] | None, at: Moment) -> None:
        mean, square, steps = (tensor[:, c] for tensor in (self.mean, self.square, self.steps))
        for tensor in (mean, square, steps):
            tensor[:frozen] = 0
        mean, square, steps, gradient = (tensor[frozen:] for tensor in (mean, square, steps, gradient))
        mean.mul_(self.momentum).add_(gradient, alpha=1 - self.momentum)
        square.mul_(self.square_momentum).addcmul_(gradient, gradient, value=1 - self.square_momentum)
        steps.add_(1)
        length = (square / (1 - self.square_momentum**steps)).sqrt_().add_(1e-12)
        rate = self.rate * 0.5 * (1 + math.cos(math.pi * at.share)) / (1 - self.momentum**steps)
        pixels = self.pixels[frozen:, c]
        pixels.sub_(rate * mean / length)
        pixels.clamp_(0, 1)
