"""From an architecture to networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import nn

from mipset.errors import SettingError, brief
from mipset.nn.engines import Engine
from mipset.nn.networks.base import Classifier, Network, Own, fresh
from mipset.nn.networks.convnet import ConvNet
from mipset.nn.networks.densenet import DenseNet
from mipset.nn.networks.resnet import ResNet, ResNetAP
from mipset.settings.architecture import Architecture, check_network
from mipset.settings.part import imported, is_own

CLASSES: Mapping[str, Callable[..., Network]] = {
    "convnet": ConvNet,
    "resnet": ResNet,
    "resnet-ap": ResNetAP,
    "densenet": DenseNet,
}
Shape = tuple[int, int, int]  # channels, height, width


def builder(
    architecture: Architecture, shape: Shape, classes: int, engine: Engine | None = None
) -> Callable[[], Network]:
    """A function without arguments that makes a new network for images [ch, h, w]; `engine` computes its steps."""
    check_network(architecture.name)
    if is_own(architecture.name):
        return partial(_own_network, architecture.name, shape, classes, engine)
    channels, height, width = shape
    make = CLASSES[architecture.name]
    return partial(make, channels, classes, (height, width), architecture.width, architecture.depth, engine)


def _own_network(name: str, shape: Shape, classes: int, engine: Engine | None) -> Network:
    """The network that somebody's own function makes: it is called with the channels, the classes and (h, w)."""
    make = imported(name, "network")
    if not callable(make):
        raise SettingError(f"`network` is {name!r}, but there is no function or class of this name. Correct the name.")
    channels, height, width = shape
    try:
        module = make(channels, classes, (height, width))
    except TypeError as error:
        raise SettingError(
            f"`network` {name} cannot be called with the channels, the classes and (height, width) "
            f"({brief(error, str)}). Give it these three arguments."
        ) from error
    if isinstance(module, Network):
        return module
    if not isinstance(module, nn.Module) or not isinstance(module, Classifier):
        raise SettingError(
            f"`network` {name} gives a {type(module).__name__}: it must be a torch.nn.Module with the methods "
            f"features(images) and scores(features)."
        )
    return Own(module, engine)


def check_each_image_alone(architecture: Architecture, shape: Shape, classes: int) -> None:
    """Refuse somebody's own network whose features of an image depend on the rest of its batch, or on chance."""
    if not is_own(architecture.name):
        return
    theta = fresh(builder(architecture, shape, classes), 0, torch.device("cpu"))
    images = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = theta.features(images)
        scores = theta.scores(features)
        alone = theta.features(images[:1])
    if features.dim() != 2 or scores.shape != (3, classes):
        raise SettingError(
            f"`network` {architecture.name} makes of 3 images features of the shape {list(features.shape)} and scores "
            f"of {list(scores.shape)}: they must be [3, F] and [3, {classes}]."
        )
    if not torch.allclose(alone, features[:1], rtol=1e-3, atol=1e-4):
        raise SettingError(
            f"`network` {architecture.name} gives an image other features in another batch, so it cannot be used to "
            f"condense. Leave out batch norm (use nn.GroupNorm) and dropout."
        )
