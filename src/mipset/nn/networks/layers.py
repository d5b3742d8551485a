"""Layers that networks share."""

from __future__ import annotations

from torch import Tensor, nn

from mipset.errors import SettingError
from mipset.nn.engines import Engine


class Convolution(nn.Conv2d):
    """A convolution that an engine computes. Unless told otherwise, it keeps the size of an image."""

    def __init__(
        self,
        engine: Engine,
        channels: int,
        width: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        padding: int | None = None,
        bias: bool = True,
    ) -> None:
        around = kernel // 2 if padding is None else padding
        super().__init__(channels, width, kernel, stride=stride, padding=around, bias=bias)
        self.engine = engine

    def forward(self, images: Tensor) -> Tensor:
        return self.engine.convolve(images, self)


def instance_norm(width: int) -> nn.GroupNorm:
    """Zero mean and unit deviation of every channel of every image alone, then a learned scale and shift."""
    return nn.GroupNorm(width, width)


def check_size(title: str, size: tuple[int, int], least: int) -> None:
    """Refuse images that would arrive at the last norm as one pixel.

    One pixel does not deviate from itself: instance norm would forget it, and so would batch norm in a batch of one
    image, such as the last of an epoch may be.
    """
    if min(size) < least:
        raise SettingError(
            f"a {title} needs images of at least {least} x {least} pixels, not {size[0]} x {size[1]}: "
            f"choose another --network or larger images."
        )
