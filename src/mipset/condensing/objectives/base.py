"""What every objective has, and the weighted sum of several objectives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mipset.condensing.passes import Passes
from mipset.errors import SettingError
from mipset.nn import training
from mipset.nn.networks import Network
from mipset.nn.precision import products_in_half
from mipset.settings.part import Part, own_name

Outputs = TypeVar("Outputs", Tensor, tuple[Tensor, Tensor])

# How many pixels, real and synthetic, go through a network at once: those of 1,040 images of 32 x 32, and of 21 images
# of 224 x 224. It bounds memory. If one class has more, its images take turns, and each part is computed again when
# gradients go back to its pixels.
PIXELS_AT_ONCE = training.PIXELS_AT_ONCE


def parts_of(images: int, pixels: int, most: int = PIXELS_AT_ONCE) -> list[slice]:
    """The images of a batch in parts of at most so many pixels, if each image has `pixels` of them."""
    at_once = max(1, most // max(1, pixels))
    return [slice(first, min(images, first + at_once)) for first in range(0, max(1, images), at_once)]


def in_parts(theta: Network, function: Callable[[Tensor], Outputs], images: Tensor, half: bool = False) -> Outputs:
    """A function of θ for images [B, ch, h, w], with memory for PIXELS_AT_ONCE pixels only; weights are constant.

    With `half`, products inside of θ are of bfloat16; what it gives is float32.
    """

    def of_part(part: Tensor) -> Outputs:
        if not half:
            with constant_weights(theta):
                return function(part)
        with constant_weights(theta), products_in_half(part):
            result = function(part)
        widened: Any = result.float() if isinstance(result, Tensor) else tuple(values.float() for values in result)
        return cast(Outputs, widened)

    parts = [images[part] for part in parts_of(len(images), images.shape[2] * images.shape[3], PIXELS_AT_ONCE)]
    if len(parts) == 1:
        return of_part(images)
    results: list[Any] = [
        checkpoint(of_part, part, use_reentrant=False, preserve_rng_state=False)
        if torch.is_grad_enabled() and part.requires_grad
        else of_part(part)
        for part in parts
    ]
    if isinstance(results[0], Tensor):
        joined: Any = torch.cat(results)
    else:
        joined = tuple(torch.cat(values) for values in zip(*results, strict=True))
    return cast(Outputs, joined)


@dataclass(frozen=True)
class Target:
    """The real images B of some classes at θ; an objective adds what it compares."""

    features: Tensor  # [classes, B, F], detached


T = TypeVar("T", bound=Target)


@dataclass(frozen=True)
class Match:
    """The distances of the prefixes of some classes from their targets."""

    distances: Tensor  # D(S_[n], B_c), [classes, sizes], differentiable; [1, sizes] if they are joint
    features: Tensor  # [classes, N * images per stored image, F], detached


def checked(match: Match, objective: Objective[Any], synthetic: Tensor, ends: Sequence[int]) -> Match:
    """The match, if its distances are one for each class and prefix, with a gradient if the images have one.

    An objective of somebody's own can give others.
    """
    name, wanted = own_name(objective), [1 if objective.joint else len(synthetic), len(ends)]
    given = list(match.distances.shape)
    if given != wanted:
        raise SettingError(
            f"`objective`: {name} gave distances of the shape {given}, and [classes, ends] is {wanted} here. "
            f"Give one distance for each class and each prefix."
        )
    if synthetic.requires_grad and not match.distances.requires_grad:
        raise SettingError(
            f"`objective`: the distances of {name} have no gradient. Compute them from the synthetic images, without "
            f"`detach` and `no_grad`."
        )
    return match


class Objective(Part, ABC, Generic[T]):
    """D(S_[n], B_c; θ) of some classes c: images are normalised and augmented, [classes, images, ch, h, w].

    The distance of a class depends on the images of that class only. So it does not matter which classes share a pass.
    The exception is a joint objective: its distances are of all classes together.
    """

    joint: bool = False  # whether a distance is of all classes together
    passes: Passes = Passes(2, 1)  # of a match: over real and over synthetic images, and back to the pixels
    cycle: int = 1  # inner iterations after which `at` repeats

    def at(self, number: int) -> Objective[Any]:
        """The objective of inner iteration `number`, counted from 0 over the whole run."""
        return self

    @abstractmethod
    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> T:
        """The real side, computed once for all sizes; `labels` are the classes."""

    @abstractmethod
    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: T, ends: Sequence[int]
    ) -> Match:
        """The distance of every prefix `synthetic[:, :end]`; `ends` increase, and the last is all images."""

    @property
    def learned(self) -> Sequence[Tensor]:
        """What it learns beside the pixels; the distances are differentiable in these tensors."""
        return ()

    def learn(self, gradients: Sequence[Tensor]) -> None:
        """Move what it learns against these gradients."""

    @property
    def state(self) -> dict[str, Tensor]:
        """The tensors that it changes, by name: a checkpoint holds them."""
        return {}

    def record(self) -> dict[str, Any]:
        """What it has learned, for the provenance of the file."""
        return {}

    def groups(self, classes: Sequence[int], pixels: int) -> list[Sequence[int]]:
        """Which classes share a pass, if each has so many pixels of real and synthetic images.

        By default as many as fit into memory, because large batches are faster.
        """
        at_once = max(1, PIXELS_AT_ONCE // max(1, pixels))
        return [classes[first : first + at_once] for first in range(0, len(classes), at_once)]


@dataclass(frozen=True)
class SumTarget(Target):
    """The targets of the terms of a sum."""

    targets: tuple[Target, ...]


@dataclass(frozen=True)
class Term:
    """A term of a sum. One that counts in every `period`-th iteration only has `period` times its weight there."""

    weight: float
    objective: Objective[Any]
    period: int = 1


@dataclass(frozen=True)
class WeightedSum(Objective[SumTarget]):
    """The sum of several objectives, each with its weight. Features are those of the first term."""

    terms: tuple[Term, ...]

    @property
    def passes(self) -> Passes:  # type: ignore[override]
        return sum((term.objective.passes for term in self.terms), Passes())

    @property
    def cycle(self) -> int:  # type: ignore[override]
        return math.lcm(*(term.period for term in self.terms))

    def at(self, number: int) -> WeightedSum:
        return WeightedSum(tuple(Term(t.weight * t.period, t.objective) for t in self.terms if number % t.period == 0))

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> SumTarget:
        targets = tuple(term.objective.target(theta, real, labels) for term in self.terms)
        return SumTarget(targets[0].features, targets)

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: SumTarget, ends: Sequence[int]
    ) -> Match:
        matches = [
            checked(t.objective.distances(theta, synthetic, labels, its_target, ends), t.objective, synthetic, ends)
            for t, its_target in zip(self.terms, target.targets, strict=True)
        ]
        weighted = [t.weight * match.distances for t, match in zip(self.terms, matches, strict=True)]
        return Match(torch.stack(weighted).sum(dim=0), matches[0].features)

    def groups(self, classes: Sequence[int], pixels: int) -> list[Sequence[int]]:
        """The smallest groups that one of the terms asks for."""
        return max((term.objective.groups(classes, pixels) for term in self.terms), key=len)


def of_each_class(theta: Network, function: Callable[[Tensor], Tensor], images: Tensor, half: bool = False) -> Tensor:
    """A function of θ for a batch, applied to [classes, images, ch, h, w] as one batch: [classes, images, ...]."""
    result = in_parts(theta, function, images.flatten(0, 1), half)
    return result.reshape(*images.shape[:2], *result.shape[1:])


def prefix_means(values: Tensor, ends: Sequence[int]) -> Tensor:
    """The means of the first `end` values of each class, for every end: [classes, images, ...] to [classes, ends, ...].

    All of them come from one cumulative sum.
    """
    sums = values.cumsum(dim=1)[:, [end - 1 for end in ends]]
    counts = torch.tensor(ends, device=values.device, dtype=values.dtype)
    return sums / counts.reshape(-1, *[1] * (values.dim() - 2))


@contextmanager
def constant_weights(theta: Network) -> Iterator[None]:
    """Do not record the weights of θ for autograd: only images, or the outputs of layers, need gradients."""
    learning = [parameter for parameter in theta.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
