"""Networks: `features(x)` is the input of the classifier, `forward(x)` its class scores; `builder` makes networks."""

from __future__ import annotations

from mipset.nn.networks.base import Network, computed_by, fresh
from mipset.nn.networks.building import builder, check_each_image_alone
from mipset.nn.networks.convnet import ConvNet
from mipset.nn.networks.densenet import DenseNet
from mipset.nn.networks.resnet import ResNet, ResNetAP

__all__ = [
    "ConvNet",
    "DenseNet",
    "Network",
    "ResNet",
    "ResNetAP",
    "builder",
    "check_each_image_alone",
    "computed_by",
    "fresh",
]
