"""Networks: `features(x)` is the flattened output of the last block, `forward(x)` the class scores."""

from __future__ import annotations

from mipset.networks.base import Network, fresh
from mipset.networks.convnet import ConvNet

__all__ = ["ConvNet", "Network", "fresh"]
