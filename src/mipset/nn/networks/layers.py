"""Layers that networks share."""

from __future__ import annotations

from torch import Tensor, nn

from mipset.errors import SettingError
from mipset.nn.engines import Engine


class Convolution(nn.Conv2d):
    """A convolution that an engine computes. By default, its output has the resolution of its input."""

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
        border = kernel // 2 if padding is None else padding
        super().__init__(channels, width, kernel, stride=stride, padding=border, bias=bias)
        self.engine = engine

    def forward(self, images: Tensor) -> Tensor:
        return self.engine.convolve(images, self)


def instance_norm(width: int) -> nn.GroupNorm:
    """Zero mean and unit deviation of each channel of each image, then a learned scale and shift."""
    return nn.GroupNorm(width, width)


def check_resolution(title: str, resolution: tuple[int, int], least: int) -> None:
    """Refuse images that are one pixel large at the last norm.

    The deviation of one pixel is 0, so instance norm would erase it. So would batch norm in a batch of one image, which
    can be the last batch of an epoch.
    """
    if min(resolution) < least:
        raise SettingError(
            f"A {title} needs images of at least {least} x {least} pixels, not {resolution[0]} x {resolution[1]}. "
            f"Choose another `network` or larger images."
        )
