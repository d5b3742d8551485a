"""Planning: the largest size that fits a device, how long training on it takes, and its expected accuracy."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mipset.device.arguments import check_positive, checked_count
from mipset.device.source import Source
from mipset.errors import BudgetError, SettingError, brief, choose
from mipset.file.description import Accuracy, Description
from mipset.file.header import file_bytes
from mipset.file.measured import measured_curves, protocol_name, training_time
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
    others: tuple[Expected, ...] = ()  # of this size after other trainings, which the file has too


def plan(
    source: Source,
    *,
    bytes: float | None = None,
    memory: float | None = None,
    seconds: float | None = None,
    throughput: float | None = None,
    epochs: int | None = None,
    batch: int = BATCH,
    protocol: str | None = None,
) -> Plan:
    """The largest size within the given limits. Only the header of the file is read.

    - `bytes`: of storage for the prefix as a file.
    - `memory`: bytes for training from `batches(batch)`. Size n needs n · R bytes for the pixels of n ranks, 9/8 · R
      for a rank that arrives, 16 for the place of each training image in an epoch, and 4 · ch · h · w for each float32
      image of two batches (the current and the next) and of the 8 that decoding needs. The network needs more on top.
    - `seconds`: of training, at `throughput` images per second, which `probe` measures: images · epochs / throughput.

    Without `epochs`, the epochs are those with which the accuracies in the file were measured. A file may have several
    curves of accuracies, each of one network and protocol. For every size, that of the longest training counts, which
    has the most epochs, among the curves that were measured at this size, or at a smaller and a larger one. `protocol`
    is the name of a protocol in the file, such as standard: then only its curves count. With `epochs`, only curves of
    so many epochs do. `others` of the plan is what the other curves say about its size.

    The plan has the largest size and not the one with the highest accuracy in the file, because that would select a
    size by test images.
    """
    limits = {"bytes": bytes, "memory": memory, "seconds": seconds, "throughput": throughput}
    for name, limit in limits.items():
        if limit is not None:
            check_positive(name, limit)
    epochs, batch = None if epochs is None else checked_count("epochs", epochs), checked_count("batch", batch)
    if seconds is not None and throughput is None:
        raise SettingError("`seconds` needs `throughput`, in images per second. device.probe() measures it.")
    if protocol is not None:
        _check_protocol(protocol, source)
    planner = _Planner(source.about, epochs, batch, throughput, protocol)
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
    planner = _Planner(about, None, batch, None, None)
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


class _Planner:
    """What each size takes, and its expected accuracy."""

    def __init__(
        self, about: Description, epochs: int | None, batch: int, throughput: float | None, protocol: str | None
    ) -> None:
        self._about = about
        self._epochs, self._batch, self._throughput = epochs, batch, throughput
        self._curves = measured_curves(about.accuracy)  # the longest training first
        self._chosen = [curve for curve in self._curves if protocol in (None, protocol_name(curve[0].protocol))]

    def images(self, size: int) -> int:
        return size * self._about.shape[1] * self._about.factor**2

    def file_bytes(self, size: int) -> int:
        return file_bytes(self._about.prefix(size))

    def memory(self, size: int) -> int:
        pixels = (size + 1) * self._about.rank_bytes + self._about.rank_bytes // 8
        return pixels + 16 * self.images(size) + (2 * self._batch + 8) * 4 * prod(self._about.shape[2:])

    def epochs(self, size: int) -> int | None:
        if self._epochs is not None:
            return self._epochs
        curve = next((curve for curve in self._chosen if _covers(curve, size)), self._chosen[0] if self._chosen else [])
        return self._measured_epochs(curve, size)

    def seconds(self, size: int) -> float | None:
        epochs = self.epochs(size)
        return None if epochs is None or self._throughput is None else self.images(size) * epochs / self._throughput

    def plan(self, size: int) -> Plan:
        expected = next((curve for curve in self._chosen if self._is_of(curve, size)), None)
        others = (curve for curve in self._curves if curve is not expected and _covers(curve, size))
        return Plan(
            size=size,
            images=self.images(size),
            file_bytes=self.file_bytes(size),
            memory=self.memory(size),
            epochs=self.epochs(size),
            seconds=self.seconds(size),
            expected=None if expected is None else _expected(expected, size),
            others=tuple(_expected(curve, size) for curve in others),
        )

    def _is_of(self, curve: Sequence[Accuracy], size: int) -> bool:
        """Whether a curve tells what to expect of this size after the planned epochs."""
        return _covers(curve, size) and self._measured_epochs(curve, size) in (None, self.epochs(size))

    def _measured_epochs(self, curve: Sequence[Accuracy], size: int) -> int | None:
        time = training_time(curve)
        return None if time is None else training_epochs(self.images(size), *time)


def _covers(curve: Sequence[Accuracy], size: int) -> bool:
    """Whether a curve was measured at this size, or at a smaller and a larger one."""
    return curve[0].size <= size <= curve[-1].size


def _expected(curve: Sequence[Accuracy], size: int) -> Expected:
    """What a curve says about a size that it covers."""
    measured = {point.size: point for point in curve}
    a = measured[max(each for each in measured if each <= size)]
    b = measured[min(each for each in measured if each >= size)]
    share = (size - a.size) / (b.size - a.size) if a is not b else 0.0
    mean, std = (low + share * (high - low) for low, high in ((a.mean, b.mean), (a.std, b.std)))
    return Expected(mean, std, min(a.networks, b.networks), a.network, a.protocol, size in measured)


def _check_protocol(protocol: str, source: Source) -> None:
    """Refuse the name of a protocol that the file has no accuracies of."""
    names = dict.fromkeys(brief(protocol_name(point.protocol), str) for point in source.about.accuracy)
    if not names:
        raise SettingError(f"`protocol` is {brief(protocol)}, but {source.name} has no accuracies. Leave it out.")
    if protocol not in names:
        raise SettingError(
            f"`protocol` is {brief(protocol)}, but {source.name} has no accuracies of it. {choose(protocol, names)}."
        )


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
