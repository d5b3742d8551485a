"""ResNets: one with batch norm for small images, and ResNetAP, which processes each image alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from mipset.errors import SettingError, choices
from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.layers import Convolution, check_resolution, instance_norm

STAGES = 4
BLOCKS = {10: 1, 18: 2}  # of each stage, by depth
LARGE = 64  # pixels from which ResNetAP begins with a 7x7 convolution and pooling

Norm = Callable[[int], nn.Module]


class Block(nn.Module):
    """Two 3x3 convolutions, each with a norm, and a shortcut.

    To halve an image, the first convolution has a stride of 2. If the block `pools`, it has a stride of 1, and 2x2
    average pooling follows. If input and output have different shapes, the shortcut is a 1x1 convolution with a norm.
    It pools before the convolution: the other order gives the same result with four times the work.
    """

    def __init__(self, engine: Engine, channels: int, width: int, norm: Norm, halves: bool, pools: bool) -> None:
        super().__init__()
        stride = 2 if halves and not pools else 1
        self.engine, self.pools = engine, 2 if halves and pools else 1
        self.conv1 = Convolution(engine, channels, width, stride=stride, bias=False)
        self.norm1 = norm(width)
        self.conv2 = Convolution(engine, width, width, bias=False)
        self.norm2 = norm(width)
        self.shortcut: nn.Module = nn.Identity()
        if halves or channels != width:
            convolution = Convolution(engine, channels, width, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(nn.AvgPool2d(self.pools), convolution, norm(width))

    def forward(self, x: Tensor) -> Tensor:
        inside = self.engine.norm_relu_pool(self.conv1(x), self.norm1, self.pools)
        return F.relu(self.engine.norm(self.conv2(inside), self.norm2) + self._shortcut(x))

    def _shortcut(self, x: Tensor) -> Tensor:
        if isinstance(self.shortcut, nn.Identity):
            return x
        pool, convolution, norm = cast(nn.Sequential, self.shortcut)
        return self.engine.norm(convolution(pool(x) if self.pools > 1 else x), norm)


class Residual(Network):
    """The common part of the ResNets: a stem, four stages of blocks, global average pooling, a linear classifier.

    The stem is a convolution with a norm and a ReLU, and average pooling of `stem_pools` x `stem_pools` pixels. A stage
    has one block (depth 10) or two (depth 18). Each stage but the first halves the image and doubles the width.
    """

    stem_pools = 1

    def __init__(
        self, engine: Engine, stem: Convolution, width: int, depth: int, classes: int, norm: Norm, pools: bool
    ) -> None:
        super().__init__()
        if depth not in BLOCKS:
            raise SettingError(f"`depth` is {depth}: a ResNet has {choices(map(str, BLOCKS))} layers.")
        self.engine = engine
        self.stem = nn.Sequential(stem, norm(width))
        widths = [width << stage for stage in range(STAGES) for _ in range(BLOCKS[depth])]
        firsts = [stage > 0 and block == 0 for stage in range(STAGES) for block in range(BLOCKS[depth])]
        self.blocks = nn.Sequential(
            *(
                Block(engine, before, after, norm, halves, pools)
                for before, after, halves in zip([width, *widths[:-1]], widths, firsts, strict=True)
            )
        )
        self.classifier = nn.Linear(widths[-1], classes)

    def features(self, images: Tensor) -> Tensor:
        return self.hidden_and_features(images)[1]

    def hidden_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        convolution, norm = self.stem
        before = self.engine.norm_relu_pool(convolution(images), norm, self.stem_pools)
        before = self.blocks[:-1](before)
        after: Tensor = self.blocks[-1](before)
        return before, after.mean(dim=(2, 3))

    def scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self.classifier(features)
        return scores


class ResNet(Residual):
    """A ResNet with batch norm for small images: its stem is one 3x3 convolution, and strides halve the image.

    Batch norm mixes the images of a batch, so it is for evaluation only.
    """

    LEAST = 9  # pixels along a side; strides leave 5, 3 and 2

    def __init__(
        self,
        channels: int,
        classes: int,
        resolution: tuple[int, int],
        width: int = 32,
        depth: int = 10,
        engine: Engine | None = None,
    ) -> None:
        check_resolution("ResNet", resolution, self.LEAST)
        engine = engine or Engine()
        stem = Convolution(engine, channels, width, bias=False)
        super().__init__(engine, stem, width, depth, classes, nn.BatchNorm2d, pools=False)


class ResNetAP(Residual):
    """The ResNet of the paper's ImageNet experiments: instance norm, and average pooling in place of every stride.

    Its stem is a 7x7 convolution and 4x4 average pooling. For images of less than 64 pixels it is a 3x3 convolution
    without pooling. Convolutions start as in the authors' release: normal weights whose variance is 2 divided by the
    output channels and the area of a filter. It decides the scale of the gradients that are matched.
    """

    LEAST = 16  # pixels along a side; pooling leaves 8, 4 and 2

    def __init__(
        self,
        channels: int,
        classes: int,
        resolution: tuple[int, int],
        width: int = 64,
        depth: int = 10,
        engine: Engine | None = None,
    ) -> None:
        check_resolution("ResNetAP", resolution, self.LEAST)
        engine = engine or Engine()
        large = min(resolution) >= LARGE
        stem = Convolution(engine, channels, width, 7 if large else 3, bias=False)
        super().__init__(engine, stem, width, depth, classes, instance_norm, pools=True)
        self.stem_pools = 4 if large else 1
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
