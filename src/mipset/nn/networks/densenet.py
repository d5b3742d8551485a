"""DenseNet-BC for small images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mipset.errors import SettingError, choices
from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.layers import Convolution, check_resolution

PLANS = {121: (6, 12, 24, 16)}  # layers of each block, by depth


class Layer(nn.Module):
    """Adds `growth` channels to its input: a 1x1 convolution to four times as many, then a 3x3 convolution."""

    def __init__(self, engine: Engine, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = Convolution(engine, channels, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = Convolution(engine, 4 * growth, growth, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        narrowed = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(narrowed)))], dim=1)


class DenseNet(Network):
    """A stem, four blocks of layers, global average pooling, a linear classifier; with batch norm.

    The input of a layer is the channels of all layers before it in its block; it adds `width` channels, the growth. The
    stem is a 3x3 convolution to twice as many. Between blocks, a 1x1 convolution keeps half of the channels, and 2x2
    average pooling halves the image. Batch norm mixes the images of a batch, so it is for evaluation only.
    """

    LEAST = 16  # pixels along a side; pooling leaves 8, 4 and 2

    def __init__(
        self,
        channels: int,
        classes: int,
        resolution: tuple[int, int],
        width: int = 12,
        depth: int = 121,
        engine: Engine | None = None,
    ) -> None:
        super().__init__()
        check_resolution("DenseNet", resolution, self.LEAST)
        if depth not in PLANS:
            raise SettingError(f"`depth` is {depth}: a DenseNet has {choices(map(str, PLANS))} layers.")
        self.engine = engine or Engine()
        planes = 2 * width
        steps: list[nn.Module] = [Convolution(self.engine, channels, planes, bias=False)]
        for block, layers in enumerate(PLANS[depth]):
            if block > 0:
                halved = Convolution(self.engine, planes, planes // 2, 1, bias=False)
                steps += [nn.BatchNorm2d(planes), nn.ReLU(), halved, nn.AvgPool2d(2)]
                planes //= 2
            for _ in range(layers):
                steps.append(Layer(self.engine, planes, width))
                planes += width
        self.body = nn.Sequential(*steps, nn.BatchNorm2d(planes), nn.ReLU())
        self.classifier = nn.Linear(planes, classes)

    def features(self, images: Tensor) -> Tensor:
        last: Tensor = self.body(images)
        return last.mean(dim=(2, 3))

    def scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self.classifier(features)
        return scores
