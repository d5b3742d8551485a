"""The accuracies of a file as curves: points that were measured in one way, and how long networks were trained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mipset.file.description import Accuracy

OLD_BATCH = 64  # of all protocols, when points had no field for it


class TrainingTime(NamedTuple):
    """How long the networks of a curve were trained."""

    epochs: int
    least_steps: int
    batch: int


def measured_curves(points: Iterable[Accuracy]) -> list[list[Accuracy]]:
    """The points of each network, protocol, seed and dataset, ordered by size. The longest training comes first.

    That is the one with the most epochs; of equal ones, the one with the most sizes.
    """
    curves: dict[tuple[str, str, int, str], list[Accuracy]] = {}
    for point in points:
        curves.setdefault((point.protocol, point.network, point.seed, point.data), []).append(point)

    def length(curve: Sequence[Accuracy]) -> tuple[int, int]:
        time = training_time(curve)
        return 0 if time is None else time.epochs, len(curve)

    ordered = sorted(curves.values(), key=length, reverse=True)
    return [sorted(curve, key=lambda point: point.size) for curve in ordered]


def training_time(curve: Sequence[Accuracy]) -> TrainingTime | None:
    """How long the networks of these points were trained; None if no point tells it."""
    for point in curve:
        if point.epochs is not None and point.least_steps is not None and point.batch is not None:
            return TrainingTime(point.epochs, point.least_steps, point.batch)
    return _training_time_of_old_file(curve[0].protocol) if curve else None


def protocol_name(protocol: str) -> str:
    """`quick` of `quick, 16 epochs, at least 100 steps`, which is what points say about their protocol."""
    return protocol.partition(",")[0]


def _training_time_of_old_file(protocol: str) -> TrainingTime | None:
    """The training time in the text of a protocol. Points of older files have no fields for it."""
    match = re.search(r"\b([1-9]\d{0,8}) epochs(?:, at least (\d{1,9}) steps)?", protocol)
    return TrainingTime(int(match[1]), int(match[2] or 0), OLD_BATCH) if match else None
