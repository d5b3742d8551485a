"""Progress with the time left, on standard error.

On a terminal and in a notebook it is a bar of tqdm, and a second one for the inner iterations of a condensation. In a
log, or without tqdm, it is one line every 15 seconds. Work that ends within two seconds shows nothing.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from threading import RLock
from types import TracebackType
from typing import Any, Protocol, Self, TextIO

from mipset.units import duration

SILENT_SECONDS = 2.0  # shorter work needs no bar
REDRAW_SECONDS = 0.1
LOG_SECONDS = 15.0  # between two lines of a log
STEPS = 1000  # of a bar
WITH_BAR, WITHOUT_BAR = "{percentage:3.0f}% {bar} {desc}", "{desc}"  # as tqdm writes them


class Shown(Protocol):
    """A step of a condensation, as far as a bar shows it."""

    @property
    def share(self) -> float:
        """The part of the run that is done, from 0 to 1."""

    @property
    def outer(self) -> tuple[int, int]:
        """The outer iteration, and the number of them."""

    @property
    def inner(self) -> tuple[int, int]:
        """The inner iteration, and the number of them in an outer iteration."""

    @property
    def note(self) -> str:
        """The loss, and what the policy has decided."""


class Progress:
    """A bar for steps of a condensation, for work that is counted, or for work that reports.

        with Progress("condensing") as bar:
            for step in mipset.condense(parts):
                bar.show(step)

        with Progress("evaluating", total=10) as bar:
            bar.advance(1, "size 3: 60.1 %")

        with Progress() as bar:
            mipset.load("cifar10", report=bar.report)

    The time left assumes that the rest goes as fast as the work of this process so far. Work that an earlier process
    did (`done` at the start) does not count towards the speed.
    """

    def __init__(self, title: str = "", total: float = 0.0, done: float = 0.0, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        # In a notebook, standard error is no terminal.
        self._live = _is_screen(self._stream) or (stream is None and "ipykernel" in sys.modules)
        self._bars: list[Any] = []
        self._own_title = bool(title)
        self._begin(title, total, done)

    def _begin(self, title: str, total: float, done: float) -> None:
        self.title, self.total, self.done = title, total, done
        self.note = ""
        self.outer = self.inner = (0, 0)
        self._first = done
        self._start = self._drawn = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def show(self, step: Shown) -> None:
        """Show a step of a condensation. The bar is that of all inner iterations of the run."""
        self.total, self.outer, self.inner = 1.0, step.outer, step.inner
        self.advance(step.share - self.done, step.note)

    def advance(self, amount: float, note: str = "") -> None:
        """Add `amount` to what is done."""
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now - self._start < SILENT_SECONDS:
            return
        if now - self._drawn >= (REDRAW_SECONDS if self._live else LOG_SECONDS):
            self._draw(now)

    def report(self, stage: str, done: float, total: float) -> None:
        """Show that `done` of `total` is done. This is a `mipset.reporting.Report`.

        A bar that was given a title shows the stage as its note. A bar without one starts again with every new stage.
        """
        if not self._own_title and stage != self.title:
            self.close()
            self._begin(stage, total, 0.0)
        self.total = total
        self.advance(done - self.done, stage if self._own_title else "")

    def close(self) -> None:
        """Draw the last state and leave the line."""
        now = time.monotonic()
        if not self.title or (now - self._start < SILENT_SECONDS and not self._shown):
            return
        self._draw(now)
        for bar in self._bars:  # the upper one first, so that it stays above
            bar.close()
        self._bars = []

    @property
    def share(self) -> float:
        """The part that is done, from 0 to 1; 0 while the total is unknown."""
        return min(1.0, self.done / self.total) if self.total > 0 else 0.0

    def _texts(self, now: float) -> tuple[str, str]:
        """The text beside the bar, and that of the second line: title, time spent, time left if it is known; note."""
        spent = now - self._start
        text = f"{self.title}  {duration(spent)} spent"
        if self.total > 0:
            done_here = self.done - self._first
            rest = max(0.0, self.total - self.done)
            text += f", {duration(spent * rest / done_here) if done_here > 0 else '?'} left"
        note = f"  {self.note}" if self.note else ""
        if not self.inner[1]:
            return text + note, ""
        return f"{text}  outer {_of(self.outer)}", f"inner {_of(self.inner)}{note}"

    def line(self, now: float) -> str:
        """The state as a line of a log."""
        first, second = self._texts(now)
        return (f"{self.share:4.0%}  " if self.total > 0 else "") + (f"{first}  {second}" if second else first)

    def _draw(self, now: float) -> None:
        if self._live and not self._bars:
            self._bars = self._new_bars()
        self._drawn, self._shown = now, True
        if not self._bars:
            self._stream.write(self.line(now) + "\n")
            self._stream.flush()
        shares = (self.share, self.inner[0] / max(1, self.inner[1]))
        for bar, share, text in zip(self._bars, shares, self._texts(now), strict=False):
            bar.n, bar.desc, bar.bar_format = round(STEPS * share), text, WITH_BAR if self.total > 0 else WITHOUT_BAR
            bar.refresh()

    def _new_bars(self) -> list[Any]:
        """The bars of tqdm: one, and a second one if there are inner iterations. None if tqdm is not installed."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # about ipywidgets, without which a notebook shows the bar of a terminal
                from tqdm.auto import tqdm
        except ImportError:
            self._live = False
            return []

        class Bar(tqdm):  # type: ignore[misc]  # a package without types
            """A bar that is redrawn by us only, without a thread or a semaphore of its own."""

            monitor_interval = 0
            _lock = RLock()

        look = {"file": self._stream, "total": STEPS, "dynamic_ncols": True, "bar_format": WITHOUT_BAR}
        return [Bar(desc=self.title, position=place, **look) for place in range(2 if self.inner[1] else 1)]


def _is_screen(stream: TextIO) -> bool:
    """Whether a stream is a terminal that has a size."""
    try:
        return stream.isatty() and min(os.get_terminal_size(stream.fileno())) > 0
    except OSError:  # such as a stream that has no number
        return stream.isatty()


def _of(pair: tuple[int, int]) -> str:
    return f"{pair[0]}/{pair[1]}"
