"""From the name of an architecture to a network."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.convnet import ConvNet
from mipset.nn.networks.densenet import DenseNet
from mipset.nn.networks.resnet import ResNet, ResNetAP
from mipset.settings.architecture import network_size


def network_builder(
    name: str, shape: tuple[int, int, int], classes: int, width: int, depth: int, engine: Engine | None = None
) -> Callable[[], Network]:
    """What makes a new network of the named architecture for images [ch, h, w], computed by `engine`.

    `width` is the channels of a ConvNet, those of the first stage of a ResNet, or the growth of a DenseNet; `depth` is
    the blocks of a ConvNet, or the layers of the others.
    """
    network_size(name)  # which knows the names
    kinds: dict[str, Callable[..., Network]] = {
        "convnet": ConvNet,
        "resnet": ResNet,
        "resnet-ap": ResNetAP,
        "densenet": DenseNet,
    }
    return partial(kinds[name], shape[0], classes, shape[1:], width, depth, engine)
