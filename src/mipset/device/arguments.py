"""Checks of arguments: numbers of the right type, within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

import numpy as np

from mipset.errors import SettingError, brief

TEXT = (str, bytes, bytearray, memoryview)  # sequences that are not sequences of numbers
MOST = 10**30
MOST_COUNT = 10**9
MOST_SECONDS = 10**6  # a longer timeout overflows in a socket


def check_positive(name: str, value: Any, most: int = MOST) -> None:
    """Refuse a value that is not a number above 0, or that is too small or too large to calculate with."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not 1 / MOST <= value <= most:
        raise SettingError(f"`{name}` is {_shown(value)}: it must be a number from {1 / MOST:g} to {most:g}.")


def checked_count(name: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """The argument called `name` as an integer within bounds."""
    count = checked_integer(f"`{name}`", value)
    if not least <= count <= most:
        raise SettingError(f"`{name}` is {_shown(count)}: it must be from {least} to {most:g}.")
    return count


def checked_integer(subject: str, value: Any) -> int:
    """An integer by its type, which a bool is not; `subject` begins the error."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        return index(value)
    except TypeError:
        raise SettingError(f"{subject} is {_shown(value)}: it must be a whole number.") from None


def checked_integers(name: str, values: Any) -> list[int]:
    """Several integers."""
    if isinstance(values, TEXT) or not isinstance(values, Iterable):
        raise SettingError(f"`{name}` is {_shown(values)}: it must be a list of whole numbers.")
    return [checked_integer(f"A value in `{name}`", value) for value in values]


def is_sequence(values: object) -> bool:
    """Whether this is a sequence of values, and not one number or text."""
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, TEXT)


def _shown(value: object) -> str:
    return "too large" if isinstance(value, int) and abs(value) > MOST else brief(value, str)
