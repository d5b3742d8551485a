"""The reference: one inner iteration of MDC, written in the most direct way.

It uses autograd with create_graph, a separate forward pass for the subset, gradients of all parameters, float32, and
torch's own memory handling. Nothing is compiled. `bench.py` measures against it and checks gradients with it; no other
code uses it. It is not a script.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.optimisers import Moment
from mipset.condensing.parts import Parts
from mipset.nn.networks import Network
from mipset.nn.randomness import Purpose, generator, shuffled_batch


def gradients(theta: Network, images: Tensor, label: int, create_graph: bool) -> tuple[Tensor, ...]:
    """The gradients of the mean loss with respect to all parameters."""
    labels = torch.full((len(images),), label)
    return torch.autograd.grad(
        F.cross_entropy(theta(images), labels), list(theta.parameters()), create_graph=create_graph
    )


def distance(ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...]) -> Tensor:
    """The sum of squared differences between two gradients of the convolution weights."""
    parts = [(a - b).square().sum() for a, b in zip(ours, theirs, strict=True) if a.dim() == 4]
    return torch.stack(parts).sum()


def pixel_gradient(parts: Parts, theta: Network, t: int, e: int, c: int, subset: int) -> Tensor:
    """The pixel gradient for class c of the base loss plus the loss of S_[subset]; 0 means the base loss alone."""
    S = parts.S
    pixels = S.of_class(c)
    draw = parts.augmentation.draw(generator(parts.seed, Purpose.MATCH_AUGMENTATION, t, e, c), S.resolution)
    real = draw(parts.sampler.sample(c, theta, parts.number(t, e)))
    wanted = gradients(theta, real, c, create_graph=False)
    synthetic = draw(S.decode(pixels))
    loss = distance(gradients(theta, synthetic, c, create_graph=True), wanted)
    if subset:
        few = synthetic[: subset * S.formation.images]
        loss = loss + distance(gradients(theta, few, c, create_graph=True), wanted)
    return torch.autograd.grad(loss, pixels)[0]


def match_all_classes(parts: Parts, theta: Network, t: int, e: int, subset: int) -> None:
    """Update the images of every class once."""
    at = Moment(parts.number(t, e), parts.T * parts.E)
    for c in parts.classes:
        parts.optimiser.step(c, pixel_gradient(parts, theta, t, e, c, subset), 0, None, at)


def train(learner: TrainedOnReal, theta: Network, optimiser: torch.optim.SGD, number: int) -> None:
    """Train the network as after inner iteration `number`."""
    for step in range(number * learner.batches, (number + 1) * learner.batches):
        order = shuffled_batch(len(learner.images), learner.batch, step, learner.seed, Purpose.TRAIN_BATCH)
        draws = generator(learner.seed, Purpose.TRAIN_AUGMENTATION, step)
        learner.rule.step(theta, optimiser, *learner.images.batch(order), draws)
