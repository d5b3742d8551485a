"""What callers give, before anything is done with it: numbers that are numbers, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from mipset.errors import SettingError, brief

TEXT = (str, bytes, bytearray, memoryview)  # rows of numbers as well, for Python
MOST = 10**30
MOST_COUNT = 10**9
MOST_SECONDS = 10**6  # that a socket can be told to wait


def number(name: str, value: Any, most: int = MOST) -> None:
    """Refuse what is no number above 0, or so near to 0 or so large that nothing can be counted with it."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not 1 / MOST <= value <= most:
        bounds = f"from {1 / MOST:g} to {most:g}"
        raise SettingError(f"{name} cannot be {_shown(value)}: it must be a number above 0, {bounds}.")


def counted(name: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """A whole number within bounds."""
    found = whole(name, value)
    if not least <= found <= most:
        raise SettingError(f"{name} cannot be {_shown(found)}: it must be at least {least} and at most {most:g}.")
    return found


def whole(name: str, value: Any) -> int:
    """A number that is whole by its type, and not a mere yes or no."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return index(value)
    except TypeError:
        raise SettingError(f"{name} cannot be {_shown(value)}: it must be a whole number.") from None


def wholes(name: str, values: Any) -> list[int]:
    """Several of them."""
    if isinstance(values, TEXT) or not isinstance(values, Iterable):
        raise SettingError(f"{name} cannot be {_shown(values)}: they must be whole numbers.")
    one = f"one of {name}"
    return [whole(one, value) for value in values]


def are_several(values: object) -> bool:
    """Whether these are numbers in a row, and not one number or text."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, TEXT)


def _shown(value: object) -> str:
    return "so large" if isinstance(value, int) and abs(value) > MOST else brief(value, str)
