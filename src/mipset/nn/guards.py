"""Guards: whether the numbers of a run can still be used. Every engine stops at the same bounds.

An engine need not show an overflow in its results: the norm of a layer divides by a deviation, and what is divided by
an infinite one is zero. So it is not enough to look at the loss. While pixels and weights are below MOST, no layer
overflows.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mipset.nn.networks import Network

MOST = 1e6  # of a pixel or a weight, whose usual values are about 1
LARGEST = torch.finfo(torch.float32).max


def within(values: Tensor, most: float) -> Tensor:
    """Whether all values are from -most to most, as a tensor of one bool: NaN is not."""
    if not values.numel():
        return torch.ones((), dtype=torch.bool, device=values.device)
    least, largest = torch.aminmax(values)
    return (least >= -most) & (largest <= most)


def sound_losses(losses: Tensor, features: Tensor, gradients: Sequence[Tensor], pixels: Sequence[Tensor]) -> Tensor:
    """The loss of each class, or NaN if its features, the gradients of its pixels or its pixels cannot be used."""
    sound = [
        within(features[c : c + 1], LARGEST) & within(gradient, LARGEST) & within(moved, MOST)
        for c, (gradient, moved) in enumerate(zip(gradients, pixels, strict=True))
    ]
    return torch.where(torch.stack(sound), losses, losses.new_full((), float("nan")))


def sound_weights(theta: Network) -> bool:
    """Whether all weights of θ can still be used."""
    return bool(torch.stack([within(weight.detach(), MOST) for weight in theta.parameters()]).all())
