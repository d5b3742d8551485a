"""The conversions between bytes and floats in [0, 1]."""

from __future__ import annotations

import torch

from mipset.nn.pixels import to_uint8, to_unit


def test_floats_are_clamped_and_rounded_to_the_nearest_byte() -> None:
    levels = torch.tensor([-0.2, 0.0, 0.4 / 255, 0.6 / 255, 254.6 / 255, 1.0, 7.0])
    assert to_uint8(levels).tolist() == [0, 0, 0, 1, 255, 255, 255]
    assert to_uint8(levels).dtype == torch.uint8


def test_every_byte_survives_both_conversions() -> None:
    levels = torch.arange(256, dtype=torch.uint8)
    assert to_unit(levels).dtype == torch.float32
    assert torch.equal(to_uint8(to_unit(levels)), levels)
