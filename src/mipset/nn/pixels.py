"""Pixels as bytes and as floats in [0, 1]: the one pair of conversions for tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def to_unit(pixels: Tensor) -> Tensor:
    """Bytes 0..255 as floats in [0, 1]."""
    return pixels.float() / 255


def to_uint8(pixels: Tensor) -> Tensor:
    """Floats, clamped to [0, 1] and rounded to the nearest of 256 grey levels, as bytes on the CPU."""
    return (pixels.detach().clamp(0, 1) * 255).round().to(torch.uint8).cpu()
