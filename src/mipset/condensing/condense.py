"""Multisize dataset condensation: Algorithm 1 of the paper.

    B, B_c    real images, and a mini-batch of class c
    S, S_c    synthetic images [N, C, ch, h, w], and those of class c
    N         synthetic images per class
    S_[n]     the first n synthetic images of each class
    θ         network weights, new in every outer iteration, unless the learner keeps them longer
    T, E, C   outer iterations, inner iterations, classes
    D         distance between S_[n] and B at θ, such as that of their gradients (the objective)
    w_n       weight of size n (the policy)
    F         distance of every size from B by the metric, such as the feature distance (equation 5)
    λ         learning rate of the pixels (the optimiser)

Nothing here asks which method runs: a method is the parts that it is assembled from (see assembly.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from mipset.condensing.objectives.base import checked
from mipset.condensing.optimisers import Moment
from mipset.condensing.parts import START, Parts, Place, Step
from mipset.condensing.policies import checked_weights
from mipset.errors import DivergedError
from mipset.nn.guards import sound_losses, sound_weights
from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, generator


def condense(parts: Parts, place: Place = START) -> Iterator[Step]:
    """Run Algorithm 1 from a place on, and yield a step after every inner iteration.

    If new networks are trained before their first match, those training steps are steps too, with e = 0.
    """
    S, policy, team, T, E, loss = parts.S, parts.policy, parts.team, parts.T, parts.E, 0.0
    for t in range(place.t + 1, T + 1):  # outer loop
        if place.F is not None and t == place.t + 1:  # in the middle of an outer iteration
            done, F, θ = place.e, place.F.clone(), parts.learner.inside(t, parts.number(t, place.e))
        else:
            done, F, θ = 0, torch.zeros(S.C, S.N), parts.learner.start(t)
        for _ in parts.learner.early(θ, t):
            yield Step(parts, t, 0, loss, F)
        moving, losses = [c for c in range(S.C) if policy.frozen(c) < S.N], S.pixels.new_zeros(S.C)
        for e in range(done + 1, E + 1):  # inner loop
            for group in parts.groups:  # class loop
                losses[group], F_group = update(parts, θ, t, e, group)
                F[group] += torch.as_tensor(F_group).cpu() / E
            team.complete(losses, parts.classes)
            loss = _sound(losses[moving].mean().item(), θ, t, e)
            if e < E:  # θ is not used after the last match
                θ = parts.learner.advance(θ, parts.number(t, e))
                yield Step(parts, t, e, loss, F)
        S.clamp()
        for tensor in (S.pixels, *parts.optimiser.state.values()):
            team.complete(tensor, parts.classes, dim=1)
        if policy.measures(t):
            F += parts.metric.of_set(S, t)
        team.complete(F, parts.classes)
        if policy.measures(t):
            policy.select(t, F)
        yield Step(parts, t, E, loss, F)


def update(parts: Parts, θ: Network, t: int, e: int, group: Sequence[int]) -> tuple[Tensor, Tensor | float]:
    """S_c ← S_c - λ ∇ sum_n w_n D(S_[n], B_c; θ) for the classes c of a group, except for their frozen prefixes.

    These are equations 4 and 10. The result is the loss of each class, and F of each class if it is measured.
    """
    S, policy = parts.S, parts.policy
    weights, measured = [checked_weights(policy, c, S.N) for c in group], policy.measures(t)
    every = measured and parts.metric.every_size
    sizes = [n for n in range(1, S.N) if every or any(w[n - 1] for w in weights)] + [S.N]  # always the whole set
    at = Moment(parts.number(t, e), parts.T * parts.E)
    objective = parts.objective.at(at.number)
    draws = [
        parts.augmentation.draw(generator(parts.seed, Purpose.MATCH_AUGMENTATION, t, e, c), S.resolution) for c in group
    ]
    B = torch.stack([draw(parts.sampler.sample(c, θ, at.number)) for c, draw in zip(group, draws, strict=True)])
    X = [S.of_class(c) for c in group]
    target = objective.target(θ, B, group)
    decoded = torch.stack([draw(S.decode(S_c)) for S_c, draw in zip(X, draws, strict=True)])
    ends = [n * S.formation.images for n in sizes]
    match = checked(objective.distances(θ, decoded, group, target, ends), objective, decoded, ends)
    of_classes = match.distances.new_tensor([[w[n - 1] for n in sizes] for w in weights])
    # a distance that classes share has the mean of their weights
    w = of_classes.reshape(len(match.distances), -1, len(sizes)).mean(dim=1)
    losses = (match.distances * w).sum(dim=1)
    gradients = torch.autograd.grad(losses.sum(), [*X, *objective.learned])
    for c, gradient in zip(group, gradients[: len(X)], strict=True):
        parts.optimiser.step(c, gradient, policy.frozen(c), policy.steps(c), at)
    objective.learn(gradients[len(X) :])
    F: Tensor | float = 0.0
    if measured or parts.metric.every_match:
        F = parts.metric.of_match(match.features, target.features, match.distances)
    return sound_losses(losses.detach(), match.features, gradients[: len(X)], [S.pixels[:, c] for c in group]), F


def _sound(loss: float, θ: Network, t: int, e: int) -> float:
    """The loss, if it is finite and θ can still be used. All processes of a team have the same values."""
    if not math.isfinite(loss) or not sound_weights(θ):
        raise DivergedError(
            f"The condensation diverged in outer iteration {t}, inner iteration {e}: the loss, features, gradients, "
            f"pixels or weights became too large or are no longer numbers. Try a smaller `pixel_lr` or `network_lr`."
        )
    return loss
