"""How long work reports its progress: one callback type for the whole library.

    def report(stage: str, done: float, total: float) -> None: ...

`stage` is a short text for people, such as "decoding". `done` and `total` have the same unit, such as bytes, images or
FLOPs. `total` is 0 while it is unknown, and may change from one call to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[str, float, float], object]


def silent(stage: str, done: float, total: float) -> None:
    """The default report: it does nothing."""
