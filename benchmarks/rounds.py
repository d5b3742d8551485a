"""Taking turns: each contender lives in a process of its own, and one round of each follows the other.

So noise of the machine meets all of them, and what one does to its process (memory, threads) does not help another.
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
"""Makes the pieces of work of a contender, by name."""


class Contender:
    """A process that does named pieces of work when asked, and says how long each took."""

    def __init__(self, setup: Setup, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, setup, arguments))
        self._process.start()
        theirs.close()
        self._ours.recv()  # until it is ready

    def seconds(self, name: str) -> float:
        """Do one piece of work."""
        self._ours.send((name, True))
        return float(self._ours.recv())

    def ask(self, name: str) -> Any:
        """Do one piece of work and return what it gives."""
        self._ours.send((name, False))
        return self._ours.recv()

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive():
            self._ours.send(None)
        self._process.join()


@contextmanager
def contenders(*setups: tuple[Any, ...]) -> Iterator[list[Contender]]:
    """One for each (setup, arguments...), ended at the end."""
    made = [Contender(*setup) for setup in setups]
    try:
        yield made
    finally:
        for contender in made:
            contender.close()


def best(turns: Sequence[tuple[Contender, Sequence[str]]], rounds: int, warm: int = 1) -> list[dict[str, float]]:
    """The shortest time of each piece of work of each contender, after `warm` rounds that do not count."""
    times: list[dict[str, float]] = [{} for _ in turns]
    for number in range(warm + rounds):
        for (contender, names), shortest in zip(turns, times, strict=True):
            for name in names:
                seconds = contender.seconds(name)
                if number >= warm:
                    shortest[name] = min(seconds, shortest.get(name, seconds))
    return times


def _serve(pipe: Connection, setup: Setup, arguments: tuple[Any, ...]) -> None:
    work = setup(*arguments)
    pipe.send(None)
    while (asked := pipe.recv()) is not None:
        name, timed = asked
        start = time.perf_counter()
        given = work[name]()
        pipe.send(time.perf_counter() - start if timed else given)
