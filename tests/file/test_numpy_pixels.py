"""Pixels and values in [0, 1]."""

from __future__ import annotations

import numpy as np
import torch

from mipset.file.pixels import to_uint8, to_unit
from mipset.nn import pixels

EVERY_BYTE = np.arange(256, dtype=np.uint8)


def test_every_byte_survives_the_conversion_to_values_and_back() -> None:
    assert to_unit(EVERY_BYTE).dtype == np.float32
    np.testing.assert_array_equal(to_uint8(to_unit(EVERY_BYTE)), EVERY_BYTE)


def test_numpy_and_torch_convert_alike() -> None:
    np.testing.assert_array_equal(to_unit(EVERY_BYTE), pixels.to_unit(torch.from_numpy(EVERY_BYTE)).numpy())
    values = np.random.default_rng(0).random(10_000, dtype=np.float32)
    np.testing.assert_array_equal(to_uint8(values), pixels.to_uint8(torch.from_numpy(values)).numpy())
