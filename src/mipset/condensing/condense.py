"""Multisize dataset condensation: Algorithm 1 of the paper.

    B, B_c    real images, and a mini-batch of those of class c
    S, S_c    synthetic images [N, C, ch, h, w], and those of class c
    S_[n]     the first n synthetic images of each class
    θ         network weights, new for every outer iteration unless the learner keeps them longer
    T, E, C   outer iterations, inner iterations, classes
    D         distance between what S_[n] and B ask of θ (the objective)
    w_n       how much size n counts (the policy)
    F         how far every size is from B by the metric, such as the feature distance (equation 5)
    λ         learning rate of the pixels (held by S)

Nothing here asks which method is running: a method is the parts it is assembled from (see recipes.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mipset.condensing.learners import Learner
from mipset.condensing.metrics import Metric
from mipset.condensing.objectives import Objective
from mipset.condensing.policies import Policy
from mipset.condensing.samplers import Sampler
from mipset.condensing.synthetic import Synthetic
from mipset.errors import DivergedError
from mipset.nn.augment import Augmentation
from mipset.nn.distributed import ALONE, Team
from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, generator


@dataclass(frozen=True)
class Parts:
    """Everything that a method is assembled from."""

    S: Synthetic
    objective: Objective[Any]
    sampler: Sampler
    learner: Learner
    policy: Policy
    augmentation: Augmentation
    metric: Metric
    T: int
    E: int
    seed: int
    classes: Sequence[int]  # those that this process updates; S is whole after every outer iteration
    team: Team = ALONE  # the processes that update the others

    def number(self, t: int, e: int) -> int:
        """How many inner iterations of the run come before this one."""
        return (t - 1) * self.E + e - 1


@dataclass(frozen=True)
class Step:
    """Where the run stands after one inner iteration. `parts` is live: S moves on with the next step."""

    parts: Parts
    t: int
    e: int
    loss: float  # sum_n w_n D(S_[n], B), mean over classes that are not frozen as a whole

    @property
    def outer_done(self) -> bool:
        """Whether this inner iteration closed an outer one: S is clamped and whole, and the policy has decided."""
        return self.e == self.parts.E

    @property
    def share(self) -> float:
        """How much of the run is done."""
        return (self.parts.number(self.t, self.e) + 1) / (self.parts.T * self.parts.E)


def condense(parts: Parts, done: int = 0) -> Iterator[Step]:
    """Run Algorithm 1 from outer iteration `done + 1`, and yield after every inner iteration."""
    S, policy, team, T, E = parts.S, parts.policy, parts.team, parts.T, parts.E
    for t in range(done + 1, T + 1):  # outer loop
        θ = parts.learner.start(t)
        moving = [c for c in range(S.C) if policy.frozen(c) < S.N]
        F, losses = torch.zeros(S.C, S.N), S.pixels.new_zeros(S.C)
        for e in range(1, E + 1):  # inner loop
            for c in parts.classes:  # class loop
                losses[c], F_c = update_class(parts, θ, t, e, c)
                F[c] += F_c / E
            team.complete(losses, parts.classes)
            loss = _finite(losses[moving].mean().item(), t, e)
            if e < E:  # after the last match nobody looks at θ again
                parts.learner.advance(θ, parts.number(t, e))
                yield Step(parts, t, e, loss)
        S.clamp()
        for whole in (S.pixels, S.velocity):
            team.complete(whole, parts.classes, dim=1)
        if policy.measures(t):
            F += parts.metric.of_set(S, t)
            team.complete(F, parts.classes)
            policy.select(t, F)
        yield Step(parts, t, E, loss)


def update_class(parts: Parts, θ: Network, t: int, e: int, c: int) -> tuple[Tensor, Tensor | float]:
    """S_c ← S_c - λ ∇ sum_n w_n D(S_[n], B_c; θ), its frozen prefix excepted (equations 4 and 10)."""
    S, policy, objective = parts.S, parts.policy, parts.objective
    w, measured = policy.weights(c), policy.measures(t)
    every = measured and parts.metric.every_size
    sizes = [n for n in range(1, S.N + 1) if every or w[n - 1] or n == S.N]  # the whole is always asked about
    B_c, S_c = parts.sampler.sample(c, θ, parts.number(t, e)), S.of_class(c)
    draw = parts.augmentation.draw(generator(parts.seed, Purpose.MATCH_AUGMENTATION, t, e, c), S.resolution)
    target = objective.target(θ, draw(B_c), c)
    match = objective.distances(θ, draw(S.decode(S_c)), c, target, [n * S.formation.images for n in sizes])
    loss = match.distances @ match.distances.new_tensor([w[n - 1] for n in sizes])
    (gradient,) = torch.autograd.grad(loss, S_c)
    S.step(c, gradient, policy.frozen(c), policy.steps(c))
    F_c = parts.metric.of_match(match.features, target.features, match.distances) if measured else 0.0
    return loss.detach(), F_c


def _finite(loss: float, t: int, e: int) -> float:
    if loss != loss or abs(loss) == float("inf"):
        raise DivergedError(
            f"the loss became {loss} in outer iteration {t}, inner iteration {e}: "
            f"try a smaller --pixel-lr or --network-lr."
        )
    return loss
