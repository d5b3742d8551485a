"""Networks: `features(x)` is what the classifier is given, `forward(x)` the class scores."""

from __future__ import annotations

from mipset.networks.base import Network, fresh
from mipset.networks.convnet import ConvNet
from mipset.networks.densenet import DenseNet
from mipset.networks.resnet import ResNet, ResNetAP

__all__ = ["ConvNet", "DenseNet", "Network", "ResNet", "ResNetAP", "fresh"]
