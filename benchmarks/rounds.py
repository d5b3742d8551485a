"""Taking turns: each contender lives in a process of its own, and one round of each follows the other.

So noise of the machine meets all of them, and what one does to its process (memory, threads) does not help another.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

Setup = Callable[..., dict[str, Callable[[], object]]]
"""Makes the pieces of work of a contender, by name."""


class Contender:
    """A process that does named pieces of work when asked, and says how long each took."""

    def __init__(self, setup: Setup, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, setup, arguments), daemon=True)
        self._process.start()
        self.names: list[str] = self._ours.recv()

    def seconds(self, name: str) -> float:
        """Do one piece of work."""
        self._ours.send(name)
        return float(self._ours.recv())

    def ask(self, name: str) -> Any:
        """Do one piece of work and return what it gives."""
        self._ours.send((name,))
        return self._ours.recv()

    def close(self) -> int:
        """End the process; its peak resident memory in bytes."""
        self._ours.send(None)
        peak = int(self._ours.recv())
        self._process.join()
        return peak


@contextmanager
def contenders(*setups: tuple[Any, ...]) -> Iterator[list[Contender]]:
    """One for each (setup, arguments...), ended at the end."""
    made = [Contender(*setup) for setup in setups]
    try:
        yield made
    finally:
        for contender in made:
            contender.close()


def best(made: Sequence[Contender], rounds: int) -> list[dict[str, float]]:
    """The shortest time of each piece of work of each contender, after one round that does not count."""
    times: list[dict[str, list[float]]] = [{name: [] for name in contender.names} for contender in made]
    for _ in range(rounds + 1):
        for contender, its in zip(made, times, strict=True):
            for name in contender.names:
                its[name].append(contender.seconds(name))
    return [{name: min(values[1:]) for name, values in its.items()} for its in times]


def _serve(pipe: Connection, setup: Setup, arguments: tuple[Any, ...]) -> None:
    work = setup(*arguments)
    pipe.send(list(work))
    while (asked := pipe.recv()) is not None:
        if isinstance(asked, tuple):
            pipe.send(work[asked[0]]())
            continue
        start = time.perf_counter()
        work[asked]()
        pipe.send(time.perf_counter() - start)
    pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
