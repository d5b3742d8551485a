"""Time that was spent: on the clock, and by processors for this process."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from mipset.condensing.states import finite_number

UNKNOWN = math.nan  # processor seconds of experts that an older version trained


class Spent(NamedTuple):
    """Seconds on the clock, and seconds of processors."""

    seconds: float = 0.0
    processor_seconds: float = 0.0

    @classmethod
    def now(cls) -> Self:
        """The clocks. Only differences mean something."""
        return cls(time.monotonic(), time.process_time())

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """What `fields` wrote; an ArtifactError or KeyError if it is not there."""
        of_processors = content.get("processor_seconds")
        return cls(
            finite_number(content["seconds"]), UNKNOWN if of_processors is None else finite_number(of_processors)
        )

    @property
    def fields(self) -> dict[str, float]:
        """This for a file: what is unknown is left out."""
        return {name: value for name, value in self._asdict().items() if math.isfinite(value)}

    def __add__(self, other: tuple[float, ...]) -> Spent:  # type: ignore[override]
        return Spent(self[0] + other[0], self[1] + other[1])

    def __sub__(self, other: tuple[float, ...]) -> Spent:
        return Spent(self[0] - other[0], self[1] - other[1])


NOTHING = Spent()
