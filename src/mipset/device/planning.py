"""Planning: the largest size that fits a device, how long training on it takes, and its expected accuracy."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from mipset.device.arguments import check_positive, checked_count
from mipset.device.source import Source
from mipset.errors import BudgetError, SettingError
from mipset.file.description import Accuracy, Description
from mipset.file.header import file_bytes
from mipset.file.pixels import Values
from mipset.file.training_images import Labels
from mipset.settings.protocol import BATCH, training_epochs
from mipset.units import byte_count, spread


@dataclass(frozen=True)
class Expected:
    """The accuracy, in percent, of networks that were trained on this size with the protocol: mean ± std."""

    mean: float
    std: float  # over networks
    networks: int
    network: str
    protocol: str
    measured: bool  # at this size; if not, it is interpolated between the two nearest measured sizes

    def __str__(self) -> str:
        return self.percent if self.networks > 1 else f"{self.percent} (one network)"

    @property
    def percent(self) -> str:
        """Mean and spread; one network has no spread."""
        return f"{spread(self.mean, self.std, self.networks)} %"


@dataclass(frozen=True)
class Plan:
    """A size that fits, and what training on it takes."""

    size: int  # images per class
    images: int  # training images in an epoch
    file_bytes: int  # of a file of its own
    memory: int  # bytes that training from batches() takes, without the network
    epochs: int | None  # None if neither the caller nor the file gives them
    seconds: float | None  # of training; None without throughput or epochs
    expected: Expected | None  # None if nothing was measured for this size and these epochs


def plan(
    source: Source,
    *,
    bytes: float | None = None,
    memory: float | None = None,
    seconds: float | None = None,
    throughput: float | None = None,
    epochs: int | None = None,
    batch: int = BATCH,
) -> Plan:
    """The largest size within the given limits. Only the header of the file is read.

    - `bytes`: of storage for the prefix as a file.
    - `memory`: bytes for training from `batches(batch)`. Size n needs n · R bytes for the pixels of n ranks, 9/8 · R
      for a rank that arrives, 16 for the place of each training image in an epoch, and 4 · ch · h · w for each float32
      image of two batches (the current and the next) and of the 8 that decoding needs. The network needs more on top.
    - `seconds`: of training, at `throughput` images per second, which `probe` measures: images · epochs / throughput.

    Without `epochs`, the epochs are those with which the accuracies in the file were measured. The plan has the largest
    size and not the one with the highest accuracy in the file, because that would select a size by test images.
    """
    limits = {"bytes": bytes, "memory": memory, "seconds": seconds, "throughput": throughput}
    for name, limit in limits.items():
        if limit is not None:
            check_positive(name, limit)
    epochs, batch = None if epochs is None else checked_count("epochs", epochs), checked_count("batch", batch)
    if seconds is not None and throughput is None:
        raise SettingError("`seconds` needs `throughput`, in images per second. device.probe() measures it.")
    planner = _Planner(source.about, epochs, batch, throughput)
    if seconds is not None and planner.epochs(1) is None:
        raise SettingError(f"{source.name} does not tell for how many epochs to train. Give `epochs`.")
    sizes = range(1, source.about.ipc + 1)
    most = min(
        len(sizes) if limit is None else bisect_right(sizes, limit, key=needed)
        for limit, needed in ((bytes, planner.file_bytes), (memory, planner.memory))
    )
    for size in range(most, 0, -1):
        needed_seconds = planner.seconds(size)
        if seconds is None or needed_seconds is None or needed_seconds <= seconds:  # not monotonic in the size
            return planner.plan(size)
    raise BudgetError(_why_nothing_fits(planner.plan(1), bytes, memory, seconds))


def plans(about: Description, batch: int = BATCH) -> list[Plan]:
    """What every size of a set takes, from its description."""
    planner = _Planner(about, None, batch, None)
    return [planner.plan(size) for size in range(1, about.ipc + 1)]


def probe(
    train_step: Callable[[Values, Labels], object], source: Source, *, batch: int = BATCH, seconds: float = 2.0
) -> float:
    """Training images per second: `train_step(images, labels)` is called with real batches for about `seconds`.

    The time to decode counts. The first call does not count, because it sets things up. One image per class is read.
    """
    batch = checked_count("batch", batch)
    check_positive("seconds", seconds)
    subset, draws = source.prefix(1), np.random.default_rng(0)

    def step() -> None:
        train_step(*subset.take(draws.integers(len(subset), size=batch)))

    step()
    start, steps, spent = time.perf_counter(), 0, 0.0
    while steps == 0 or spent < seconds:
        step()
        steps, spent = steps + 1, time.perf_counter() - start
    return steps * batch / spent


class TrainingTime(NamedTuple):
    """How long the networks of an accuracy curve were trained."""

    epochs: int
    least_steps: int
    batch: int

    def epochs_for(self, images: int) -> int:
        """The epochs on so many training images."""
        return training_epochs(images, *self)


def training_time(curve: Sequence[Accuracy]) -> TrainingTime | None:
    """How long the networks of these points were trained; None if no point tells it."""
    for point in curve:
        if point.epochs is not None and point.least_steps is not None and point.batch is not None:
            return TrainingTime(point.epochs, point.least_steps, point.batch)
    return training_time_of_old_file(curve[0].protocol) if curve else None


def training_time_of_old_file(protocol: str) -> TrainingTime | None:
    """The training time in the text of a protocol, such as `quick, 16 epochs, at least 100 steps`.

    Points of older files have no fields for it. Their protocols had all the same batch, which the text does not tell.
    """
    match = re.search(r"\b([1-9]\d{0,8}) epochs(?:, at least (\d{1,9}) steps)?", protocol)
    return TrainingTime(int(match[1]), int(match[2] or 0), BATCH) if match else None


class _Planner:
    """What each size takes, and its expected accuracy."""

    def __init__(self, about: Description, epochs: int | None, batch: int, throughput: float | None) -> None:
        self._about = about
        self._epochs, self._batch, self._throughput = epochs, batch, throughput
        self._curve = _longest_curve(self._about.accuracy)
        self._training_time = training_time(self._curve)

    def images(self, size: int) -> int:
        return size * self._about.shape[1] * self._about.factor**2

    def file_bytes(self, size: int) -> int:
        return file_bytes(self._about.prefix(size))

    def memory(self, size: int) -> int:
        pixels = (size + 1) * self._about.rank_bytes + self._about.rank_bytes // 8
        return pixels + 16 * self.images(size) + (2 * self._batch + 8) * 4 * prod(self._about.shape[2:])

    def epochs(self, size: int) -> int | None:
        return self._epochs or self._measured_epochs(size)

    def seconds(self, size: int) -> float | None:
        epochs = self.epochs(size)
        return None if epochs is None or self._throughput is None else self.images(size) * epochs / self._throughput

    def plan(self, size: int) -> Plan:
        return Plan(
            size=size,
            images=self.images(size),
            file_bytes=self.file_bytes(size),
            memory=self.memory(size),
            epochs=self.epochs(size),
            seconds=self.seconds(size),
            expected=self._expected(size),
        )

    def _measured_epochs(self, size: int) -> int | None:
        return None if self._training_time is None else self._training_time.epochs_for(self.images(size))

    def _expected(self, size: int) -> Expected | None:
        if self._measured_epochs(size) not in (None, self.epochs(size)):
            return None
        measured = {point.size: point for point in self._curve}
        smaller, larger = [s for s in measured if s <= size], [s for s in measured if s >= size]
        if not smaller or not larger:
            return None
        a, b = measured[max(smaller)], measured[min(larger)]
        share = (size - a.size) / (b.size - a.size) if a is not b else 0.0
        mean, std = (low + share * (high - low) for low, high in ((a.mean, b.mean), (a.std, b.std)))
        return Expected(mean, std, min(a.networks, b.networks), a.network, a.protocol, size in measured)


def _longest_curve(points: Sequence[Accuracy]) -> list[Accuracy]:
    """Points of one protocol, network, dataset and seed: of several such curves, the one with the most sizes."""
    curves: dict[tuple[object, ...], list[Accuracy]] = {}
    for point in points:
        curves.setdefault((point.protocol, point.network, point.data, point.seed), []).append(point)
    return max(curves.values(), key=len, default=[])


def _why_nothing_fits(least: Plan, bytes: float | None, memory: float | None, seconds: float | None) -> str:
    """Why the smallest size does not fit."""
    reasons = []
    if bytes is not None and least.file_bytes > bytes:
        needed, limit = _distinct(least.file_bytes, int(bytes))
        reasons.append(f"its file needs {needed}, and the limit is {limit}")
    if memory is not None and least.memory > memory:
        needed, limit = _distinct(least.memory, int(memory))
        reasons.append(f"training needs {needed} of memory, and the limit is {limit}")
    if seconds is not None and least.seconds is not None and least.seconds > seconds:
        digits = next(digits for digits in (3, 6, 17) if f"{least.seconds:.{digits}g}" != f"{seconds:.{digits}g}")
        reasons.append(f"training takes {least.seconds:.{digits}g} s, and the limit is {seconds:.{digits}g} s")
    return f"Not even one image per class fits: {'; '.join(reasons)}. Raise the limit."


def _distinct(needed: int, limit: int) -> tuple[str, str]:
    """Two numbers of bytes, rounded unless rounding makes them equal."""
    rounded = byte_count(needed), byte_count(limit)
    return rounded if rounded[0] != rounded[1] else (f"{needed:,} B", f"{limit:,} B")
