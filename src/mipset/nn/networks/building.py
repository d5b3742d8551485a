"""From an architecture to networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.convnet import ConvNet
from mipset.nn.networks.densenet import DenseNet
from mipset.nn.networks.resnet import ResNet, ResNetAP
from mipset.settings.architecture import Architecture, check_network

CLASSES: Mapping[str, Callable[..., Network]] = {
    "convnet": ConvNet,
    "resnet": ResNet,
    "resnet-ap": ResNetAP,
    "densenet": DenseNet,
}


def builder(
    architecture: Architecture, shape: tuple[int, int, int], classes: int, engine: Engine | None = None
) -> Callable[[], Network]:
    """A function without arguments that makes a new network for images [ch, h, w]; `engine` computes its steps."""
    check_network(architecture.name)
    channels, height, width = shape
    make = CLASSES[architecture.name]
    return partial(make, channels, classes, (height, width), architecture.width, architecture.depth, engine)
