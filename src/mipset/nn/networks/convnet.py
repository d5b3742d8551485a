"""ConvNet-D: the network of the paper's CIFAR and SVHN experiments."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from mipset.errors import SettingError
from mipset.nn.engines import Engine
from mipset.nn.networks.base import Network
from mipset.nn.networks.layers import Convolution, instance_norm


class ConvNet(Network):
    """`depth` blocks of 3x3 convolution, instance norm, ReLU and 2x2 average pooling; then a linear classifier.

    Instance norm is GroupNorm with one group per channel, with its affine parameters. The first convolution pads
    images of 28 pixels to 32, which can be halved. The parameters have the names of the authors' release.
    """

    def __init__(
        self,
        channels: int,
        classes: int,
        resolution: tuple[int, int],
        width: int = 128,
        depth: int = 3,
        engine: Engine | None = None,
    ) -> None:
        super().__init__()
        padding = 3 if resolution == (28, 28) else 1
        height, width_px = (side + 2 * (padding - 1) for side in resolution)
        if min(height, width_px).bit_length() <= depth:
            raise SettingError(
                f"A ConvNet of `depth` {depth} halves images {depth} times: "
                f"{resolution[0]} x {resolution[1]} pixels are too few. Choose a smaller `depth` or larger images."
            )
        self.engine = engine or Engine()
        convolutions = nn.ModuleList(
            Convolution(self.engine, channels if d == 0 else width, width, padding=padding if d == 0 else 1)
            for d in range(depth)
        )
        norms = nn.ModuleList(instance_norm(width) for _ in range(depth))
        self.layers = nn.ModuleDict({"conv": convolutions, "norm": norms})
        self.classifier = nn.Linear(width * (height >> depth) * (width_px >> depth), classes)

    def features(self, images: Tensor) -> Tensor:
        return self.hidden_and_features(images)[1]

    def hidden_and_features(self, images: Tensor) -> tuple[Tensor, Tensor]:
        before = after = images
        convolutions, norms = (cast(nn.ModuleList, self.layers[kind]) for kind in ("conv", "norm"))
        for convolution, norm in zip(convolutions, norms, strict=True):
            before, after = after, self.engine.norm_relu_pool(convolution(after), norm)
        return before, after.flatten(1)

    def scores(self, features: Tensor) -> Tensor:
        scores: Tensor = self.classifier(features)
        return scores
