"""Measure several implementations fairly: each runs in a process of its own, and they take turns.

Other work on the machine then slows all of them, and what one changes in its process (memory, threads) does not help
another.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

Work = Callable[[], object]
Setup = Callable[..., dict[str, Work]]
"""Prepares an implementation and returns its pieces of work by name."""


class Contender:
    """An implementation in a process of its own, which does named pieces of work and measures how long each takes."""

    def __init__(self, setup: Setup, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, setup, arguments))
        self._process.start()
        theirs.close()
        self._ours.recv()  # wait until it is ready

    def seconds(self, name: str) -> float:
        """Do one piece of work and return how long it takes."""
        self._ours.send((name, True))
        return float(self._ours.recv())

    def result(self, name: str) -> Any:
        """Do one piece of work and return its result."""
        self._ours.send((name, False))
        return self._ours.recv()

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._ours.send(None)
        self._process.join()


@contextmanager
def contenders(*setups: tuple[Any, ...]) -> Iterator[list[Contender]]:
    """Start one contender for each (setup, arguments...), and end them with the `with` block."""
    started = [Contender(*setup) for setup in setups]
    try:
        yield started
    finally:
        for contender in started:
            contender.close()


def best_times(
    turns: Sequence[tuple[Contender, Sequence[str]]], rounds: int, warmup: int = 1
) -> list[dict[str, float]]:
    """The shortest time of each piece of work of each contender, after `warmup` rounds that do not count."""
    times: list[dict[str, float]] = [{} for _ in turns]
    for number in range(warmup + rounds):
        for (contender, names), shortest in zip(turns, times, strict=True):
            for name in names:
                seconds = contender.seconds(name)
                if number >= warmup:
                    shortest[name] = min(seconds, shortest.get(name, seconds))
    return times


def serve(pipe: Connection, setup: Setup, arguments: tuple[Any, ...]) -> None:
    """Answer the requests of a Contender until it sends None."""
    work = setup(*arguments)
    pipe.send(None)
    while (request := pipe.recv()) is not None:
        name, timed = request
        start = time.perf_counter()
        result = work[name]()
        pipe.send(time.perf_counter() - start if timed else result)
