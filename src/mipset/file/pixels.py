"""Pixels and their values: a byte b stands for the value b / 255. The same pair for torch is in nn/pixels.py."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
Values = npt.NDArray[np.float32]

Float = TypeVar("Float", bound=np.floating[Any])


def to_unit(pixels: npt.NDArray[np.integer[Any]], dtype: type[Float] = np.float32) -> npt.NDArray[Float]:  # type: ignore[assignment]
    """Bytes from 0 to 255 as values in [0, 1]."""
    values: npt.NDArray[Float] = pixels.astype(dtype) / dtype(255)
    return values


def to_uint8(values: npt.NDArray[np.floating[Any]]) -> Pixels:
    """Values in [0, 1] as the nearest bytes."""
    pixels: Pixels = np.rint(values * 255).astype(np.uint8)
    return pixels
