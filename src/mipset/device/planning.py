"""Which size fits a device, how long training on it takes, and how good the result can be expected to be."""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mipset.device.arguments import counted, number
from mipset.device.normalising import Images, Labels
from mipset.device.source import Source
from mipset.errors import BudgetError, SettingError
from mipset.file.artifact import Accuracy, Description
from mipset.units import byte_count, spread

BATCH = 64  # that of the protocols, which their names do not tell


@dataclass(frozen=True)
class Expected:
    """What networks reached, in percent, that were trained on this size as the protocol says: mean ± std."""

    mean: float
    std: float  # over networks
    networks: int
    network: str
    protocol: str
    measured: bool  # at this size; otherwise it lies on the line between the two nearest sizes

    def __str__(self) -> str:
        return self.percent if self.networks > 1 else f"{self.percent} (one network)"

    @property
    def percent(self) -> str:
        """Without a spread where one network has none."""
        return f"{spread(self.mean, self.std, self.networks)} %"


@dataclass(frozen=True)
class Plan:
    """A size that fits, and what it takes."""

    size: int  # images per class
    images: int  # training images in an epoch
    file_bytes: int  # of a file of its own
    memory: int  # bytes that training from batches() takes, without the network
    epochs: int | None  # None where neither the caller nor the file says
    seconds: float | None  # of training; None without throughput or epochs
    expected: Expected | None  # None where nothing was measured, or not after so many epochs


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
    """The largest size within the limits that are given. Nothing but the header is read.

    - `bytes`: of storage, for the prefix as a file.
    - `memory`: bytes for training from `batches(batch)`. For size n that is n · R for the pixels of n ranks and 9/8 · R
      for one on its way, 16 for the place of each training image in an epoch, and 4 · ch · h · w for each float32 image
      of two batches (the one in use and the next) and of the 8 that decoding needs. The network comes on top.
    - `seconds`: of training, at `throughput` images per second, which `probe` measures: images · epochs / throughput.

    `epochs` are those of the protocol that the accuracies in the file were measured with, unless given. The size is the
    largest, and not the one with the highest accuracy in the file, because that would be chosen by test images.
    """
    limits = {"bytes": bytes, "memory": memory, "seconds": seconds, "throughput": throughput}
    for name, limit in limits.items():
        if limit is not None:
            number(name, limit)
    epochs, batch = None if epochs is None else counted("epochs", epochs), counted("batch", batch)
    if seconds is not None and throughput is None:
        raise SettingError("seconds of training cannot be counted without throughput: device.probe() measures it.")
    planner = _Planner(source.about, epochs, batch, throughput)
    if seconds is not None and planner.epochs(1) is None:
        raise SettingError(f"{source.name} does not say for how many epochs to train: give epochs.")
    sizes = range(1, source.about.ipc + 1)
    most = min(
        len(sizes) if limit is None else bisect_right(sizes, limit, key=needed)
        for limit, needed in ((bytes, planner.file_bytes), (memory, planner.memory))
    )
    for size in range(most, 0, -1):
        takes = planner.seconds(size)
        if seconds is None or takes is None or takes <= seconds:  # small sizes may be trained for more epochs
            return planner.plan(size)
    raise BudgetError(_too_much(planner.plan(1), bytes, memory, seconds))


def probe(
    train_step: Callable[[Images, Labels], object], source: Source, *, batch: int = BATCH, seconds: float = 2.0
) -> float:
    """Training images per second: `train_step(images, labels)` is called with real batches for about so many seconds.

    Decoding counts; the first call does not, since that is when things are set up. One image per class is read for it.
    """
    batch = counted("batch", batch)
    number("seconds", seconds)
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
    """What each size takes and gives."""

    def __init__(self, said: Description, epochs: int | None, batch: int, throughput: float | None) -> None:
        self._said, self._given, self._batch, self._throughput = said, epochs, batch, throughput
        self._curve = _curve(said.accuracy)
        protocol = self._curve[0].protocol if self._curve else ""
        self._rule = re.search(r"\b([1-9]\d{0,8}) epochs(?:, at least (\d{1,9}) steps)?", protocol)

    def images(self, size: int) -> int:
        return size * self._said.shape[1] * self._said.factor**2

    def file_bytes(self, size: int) -> int:
        return self._said.prefix(size).file_bytes

    def memory(self, size: int) -> int:
        pixels = (size + 1) * self._said.rank_bytes + self._said.rank_bytes // 8
        return pixels + 16 * self.images(size) + (2 * self._batch + 8) * 4 * prod(self._said.shape[2:])

    def epochs(self, size: int) -> int | None:
        return self._given or self._measured_epochs(size)

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
        """How long the networks of the curve were trained, as its protocol has it: `16 epochs, at least 100 steps`."""
        if self._rule is None:
            return None
        steps_per_epoch = -(-self.images(size) // BATCH)
        return max(int(self._rule[1]), -(-int(self._rule[2] or 0) // steps_per_epoch))

    def _expected(self, size: int) -> Expected | None:
        if self._measured_epochs(size) not in (None, self.epochs(size)):
            return None
        known = {point.size: point for point in self._curve}
        smaller, larger = [s for s in known if s <= size], [s for s in known if s >= size]
        if not smaller or not larger:
            return None
        a, b = known[max(smaller)], known[min(larger)]
        share = (size - a.size) / (b.size - a.size) if a is not b else 0.0
        mean, std = (one + share * (other - one) for one, other in ((a.mean, b.mean), (a.std, b.std)))
        return Expected(mean, std, min(a.networks, b.networks), a.network, a.protocol, size in known)


def _curve(points: Sequence[Accuracy]) -> list[Accuracy]:
    """The points that belong together, measured in one way: of several ways, the one with the most sizes."""
    ways: dict[tuple[object, ...], list[Accuracy]] = {}
    for point in points:
        ways.setdefault((point.protocol, point.network, point.data, point.seed), []).append(point)
    return max(ways.values(), key=len, default=[])


def _too_much(least: Plan, bytes: float | None, memory: float | None, seconds: float | None) -> str:
    """Why the smallest size does not fit."""
    reasons = []
    if bytes is not None and least.file_bytes > bytes:
        needed, room = _apart(least.file_bytes, int(bytes))
        reasons.append(f"its file has {needed}, and there is room for {room}")
    if memory is not None and least.memory > memory:
        needed, room = _apart(least.memory, int(memory))
        reasons.append(f"training takes {needed} of memory, and there are {room}")
    if seconds is not None and least.seconds is not None and least.seconds > seconds:
        digits = next(digits for digits in (3, 6, 17) if f"{least.seconds:.{digits}g}" != f"{seconds:.{digits}g}")
        reasons.append(f"training takes {least.seconds:.{digits}g} s, and there are {seconds:.{digits}g}")
    return f"not even one image per class fits: {'; '.join(reasons)}."


def _apart(needed: int, room: int) -> tuple[str, str]:
    """Two numbers of bytes, to the byte where they are alike otherwise."""
    short = byte_count(needed), byte_count(room)
    return short if short[0] != short[1] else (f"{needed:,} B", f"{room:,} B")
