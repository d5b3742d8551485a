"""Trajectory matching (MTT): a network that learns from S should reach the weights that real images lead to.

A student starts from a snapshot θ*_t of an expert. It takes some steps of gradient descent on synthetic images, with a
learning rate α that is learned too. Its distance is

    D(S_[n]) = ‖θ_K - θ*_{t+M}‖² / ‖θ*_t - θ*_{t+M}‖²

after K steps, over all weights. Weights are not a mean over images, so no pass is shared by the sizes: each size has a
student of its own. The derivative does not keep the graph of K steps. The weights before each step are kept, and the
steps are taken again one by one, from the last to the first: with v the derivative by the weights after a step, and L
the loss of that step at the weights w before it and the images x,

    by w: v - α ∇_w <∇_w L, v>      by x: -α ∇_x <∇_w L, v>      by α: -<∇_w L, v>

So memory is that of one step on the largest size, plus K + 1 copies of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from mipset.condensing.objectives.base import Match, Objective, Target
from mipset.condensing.passes import Passes
from mipset.condensing.states import weights_of
from mipset.errors import DivergedError
from mipset.nn.augment import Augmentation
from mipset.nn.networks import Network, computed_by
from mipset.nn.randomness import Purpose, generator, permutation
from mipset.settings.choices import MOST_STUDENT_RATE


@dataclass(frozen=True)
class TrajectoryTarget(Target):
    """The weights that a student should reach."""

    goal: Tensor  # θ*_{t+M}, one vector


@dataclass(frozen=True)
class Student:
    """How a student learns: plain gradient descent on batches of shuffled images, each with its own augmentation."""

    steps: int
    batch: int  # images; 0 for all
    augmentation: Augmentation
    seed: int

    def distance(
        self, theta: Network, goal: Tensor, images: Tensor, labels: Tensor, rate: Tensor, *address: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """D of a student that starts at the weights of θ, its derivative by the images, and that by its rate.

        `address` is the place in the run, for the draws.
        """
        weights = [weights_of(theta)]
        for step in range(self.steps):
            w, x = weights[-1].requires_grad_(), images[self._batch(len(images), step, *address)]
            (slope,) = torch.autograd.grad(self._loss(theta, w, x, labels, step, *address), w)
            weights[-1].requires_grad_(False)
            weights.append(weights[-1] - rate * slope)
        way = (weights[0] - goal).square().sum()
        left = weights.pop() - goal
        by_images, by_rate, v = torch.zeros_like(images), left.new_zeros(()), 2 * left / way
        for step in reversed(range(self.steps)):
            batch = self._batch(len(images), step, *address)
            w, x = weights.pop().requires_grad_(), images[batch].requires_grad_()
            with computed_by(theta, theta.engine.for_weights_too):
                loss = self._loss(theta, w, x, labels, step, *address)
            (slope,) = torch.autograd.grad(loss, w, create_graph=True)
            along = slope @ v
            by_w, by_x = torch.autograd.grad(along, [w, x])
            by_images[batch] -= rate * by_x
            by_rate -= along.detach()
            v = v - rate * by_w
        return left.square().sum() / way, by_images, by_rate

    def _batch(self, images: int, step: int, *address: int) -> Tensor | slice:
        """Which images a step takes: all, or the next of shuffled ones. The last batch of an epoch can be smaller."""
        if not 0 < self.batch < images:
            return slice(None)
        epoch, place = divmod(step, -(-images // self.batch))
        order = permutation(images, self.seed, Purpose.STUDENT_BATCH, *address, epoch)
        return order[place * self.batch : (place + 1) * self.batch]

    def _loss(self, theta: Network, w: Tensor, x: Tensor, labels: Tensor, step: int, *address: int) -> Tensor:
        """The mean cross-entropy of the images of a step, augmented, at weights w."""
        draws = generator(self.seed, Purpose.STUDENT_AUGMENTATION, *address, step)
        draw = self.augmentation.draw(draws, (x.shape[2], x.shape[3]), images=len(x))
        seen = draw(x.view_as(x))  # a view: torch cannot count the FLOPs of layers whose input is a leaf
        named = dict(theta.named_parameters())
        pieces = torch.split(w, [weight.numel() for weight in named.values()])
        of_layers = {name: piece.view_as(named[name]) for name, piece in zip(named, pieces, strict=True)}
        wanted = labels[self._batch(len(labels), step, *address)]
        return F.cross_entropy(functional_call(theta, of_layers, (seen,)), wanted)


class TrajectoryMatching(Objective[TrajectoryTarget]):
    """The distance of students that learn from S_[n], one for every size n, from where an expert went.

    `later` gives the weights that the expert at θ has reached some snapshots later. Every size has its own learning
    rate α_n, which moves by gradient descent with momentum. With `sizes`, only so many of the sizes that count have a
    student in an iteration, drawn at random. Their distances are divided by the chance to be drawn and the others are
    0: the mean over draws is that of all sizes.
    """

    joint = True

    def __init__(
        self,
        later: Callable[[Network], Tensor],
        student: Student,
        N: int,
        *,
        rate: float,
        rate_lr: float,
        rate_momentum: float,
        sizes: int = 0,
    ) -> None:
        self.later, self.student, self.sizes = later, student, sizes
        self.rate, self.rate_lr, self.rate_momentum = rate, rate_lr, rate_momentum
        self._rates = torch.full((N,), rate).requires_grad_()  # α of sizes 1..N
        self._velocity = torch.zeros(N)
        self._counted = torch.zeros(N)  # inner iterations in which a size had a student
        self._number = 0

    @property
    def passes(self) -> Passes:  # type: ignore[override]
        """Of one size: each step forward and back, then again with the second derivatives."""
        return Passes(2, 3) * self.student.steps

    def at(self, number: int) -> TrajectoryMatching:
        now = copy(self)  # with the same tensors
        now._number = number
        return now

    def groups(self, classes: Sequence[int], pixels: int) -> list[Sequence[int]]:
        return [classes]

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> TrajectoryTarget:
        return TrajectoryTarget(_features(theta, real), self.later(theta))

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: TrajectoryTarget, ends: Sequence[int]
    ) -> Match:
        images = synthetic.detach()
        wanted = torch.tensor(list(labels), device=images.device)
        share = min(self.sizes or len(ends), len(ends)) / len(ends)
        values, by_images, by_rates = images.new_zeros(len(ends)), [], torch.zeros_like(self._rates.detach())
        for place in self._drawn(len(ends)):
            end, size = ends[place], len(self._rates) * ends[place] // ends[-1]
            value, by_image, by_rate = self.student.distance(
                theta,
                target.goal,
                images[:, :end].flatten(0, 1),
                wanted.repeat_interleave(end),
                self._rates[size - 1].detach(),
                self._number,
                size,
            )
            values[place] = value / share
            by_images.append((place, by_image.reshape(len(labels), end, *images.shape[2:]) / share))
            by_rates[size - 1] = by_rate / share
            self._counted[size - 1] += 1
        known: Tensor = _Known.apply(synthetic, self._rates, values, by_images, by_rates, self._places(ends))  # type: ignore[no-untyped-call]
        return Match(known[None], _features(theta, images))

    def _drawn(self, count: int) -> list[int]:
        """The places of the sizes that have a student now."""
        if not 0 < self.sizes < count:
            return list(range(count))
        order = permutation(count, self.student.seed, Purpose.STUDENT_SIZES, self._number)
        return sorted(order[: self.sizes].tolist())

    def _places(self, ends: Sequence[int]) -> list[int]:
        """The index of the rate of each size, for its place among the sizes that count."""
        return [len(self._rates) * end // ends[-1] - 1 for end in ends]

    @property
    def learned(self) -> Sequence[Tensor]:
        return (self._rates,)

    def learn(self, gradients: Sequence[Tensor]) -> None:
        with torch.no_grad():
            self._velocity.mul_(self.rate_momentum).add_(gradients[0])
            self._rates.sub_(self._velocity, alpha=self.rate_lr)
        for size, rate in enumerate(self._rates.tolist(), start=1):
            if not 0 < rate <= MOST_STUDENT_RATE:
                raise DivergedError(
                    f"The condensation diverged: the learned rate of students of size {size} became {rate:.3g}, and it "
                    f"must be above 0 and at most {MOST_STUDENT_RATE:g}. Try a smaller `student_lr_lr` or `pixel_lr`."
                )

    @property
    def state(self) -> dict[str, Tensor]:
        return {"rates": self._rates.detach(), "velocity": self._velocity, "counted": self._counted}

    def record(self) -> dict[str, Any]:
        rates = zip(self._rates.tolist(), self._counted.tolist(), strict=True)
        return {"student_rates": [rate if counted else None for rate, counted in rates]}


class _Known(Function):
    """Distances whose derivatives are already known: by the images, for each size, and by the rates."""

    @staticmethod
    def forward(
        ctx: Any,
        images: Tensor,
        rates: Tensor,  # noqa: ARG004 (an input, so that it gets its derivative)
        values: Tensor,
        by_images: list[tuple[int, Tensor]],
        by_rates: Tensor,
        places: list[int],
    ) -> Tensor:
        ctx.shape, ctx.by_images, ctx.by_rates, ctx.places = images.shape, by_images, by_rates, places
        return values.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, weights: Tensor) -> tuple[Tensor | None, ...]:
        total = weights.new_zeros(ctx.shape)
        for place, slopes in ctx.by_images:
            total[:, : slopes.shape[1]] += weights[place] * slopes
        rates = torch.zeros_like(ctx.by_rates)
        rates[ctx.places] = ctx.by_rates[ctx.places] * weights
        return total, rates, None, None, None, None


def _features(theta: Network, images: Tensor) -> Tensor:
    """The features of images of several classes, class by class to save memory."""
    with torch.no_grad():
        return torch.stack([theta.features(of_class) for of_class in images])
