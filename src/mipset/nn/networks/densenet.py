"""DenseNet-BC for small images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mipset.errors import SettingError, choices
from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.layers import Convolution, check_size

PLANS = {121: (6, 12, 24, 16)}  # layers of each block, by depth


class Layer(nn.Module):
    """Adds `growth` channels to those it is given: a 1x1 convolution to four times as many, then a 3x3 convolution."""

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

    A layer sees the channels of all layers of its block before it, and adds `width` of its own: the growth. The stem is
    a 3x3 convolution to twice as many. Between blocks, a 1x1 convolution keeps half of the channels, and 2x2 average
    pooling halves the image. It sees the images of a batch together while it learns, so it is for evaluation only.
    """

    LEAST = 16  # pixels, of which pooling leaves 8, 4 and 2

    def __init__(
        self,
        channels: int,
        classes: int,
        size: tuple[int, int],
        width: int = 12,
        depth: int = 121,
        engine: Engine | None = None,
    ) -> None:
        super().__init__()
        check_size("DenseNet", size, self.LEAST)
        if depth not in PLANS:
            raise SettingError(f"--depth of a DenseNet cannot be {depth}: choose {choices(map(str, PLANS))}.")
        self.engine = engine or Engine()
        held = 2 * width
        steps: list[nn.Module] = [Convolution(self.engine, channels, held, bias=False)]
        for block, layers in enumerate(PLANS[depth]):
            if block > 0:
                halved = Convolution(self.engine, held, held // 2, 1, bias=False)
                steps += [nn.BatchNorm2d(held), nn.ReLU(), halved, nn.AvgPool2d(2)]
                held //= 2
            for _ in range(layers):
                steps.append(Layer(self.engine, held, width))
                held += width
        self.body = nn.Sequential(*steps, nn.BatchNorm2d(held), nn.ReLU())
        self.classifier = nn.Linear(held, classes)

    def features(self, images: Tensor) -> Tensor:
        last: Tensor = self.body(images)
        return last.mean(dim=(2, 3))

    def scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self.classifier(features)
        return scores
