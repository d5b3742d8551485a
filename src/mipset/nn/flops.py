"""How much work a network is: its layers are counted on the device "meta", where nothing is computed.

A FLOP is one multiplication or one addition of a convolution or a matrix product, as in condensing/costs.py.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from mipset.nn.networks import builder, fresh
from mipset.settings.architecture import Architecture


@cache
def learning_flops(architecture: Architecture, shape: tuple[int, int, int], classes: int) -> int:
    """The FLOPs of learning from one image [ch, h, w] once.

    A forward pass, then the gradients of the weights and of every input but the image.
    """
    layers: list[int] = []

    def count(layer: nn.Module, _: object, output: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d | nn.Linear)
        layers.append(2 * layer.weight.numel() * output[0, 0].numel())

    meta = torch.device("meta")
    theta, image = fresh(builder(architecture, shape, classes), 0, meta), torch.zeros(1, *shape, device=meta)
    for module in theta.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        theta(image)
    return 3 * sum(layers) - sum(layers[:1])
