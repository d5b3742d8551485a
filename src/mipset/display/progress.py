"""A progress bar with the time left, on standard error.

On a terminal it is one line that is redrawn. In a log it is one line every 15 seconds. Work that ends within two
seconds shows nothing.
"""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

from mipset.units import duration

SILENT_SECONDS = 2.0  # shorter work needs no bar
REDRAW_SECONDS = 0.1
LOG_SECONDS = 15.0  # between two lines of a log


class Progress:
    """A bar that is either advanced step by step, or passed on as the callback of work that reports.

        with Progress("condensing", total=10) as bar:
            bar.advance(1, "loss 3.2")

        with Progress() as bar:
            mipset.load("cifar10", report=bar.report)

    The time left assumes that the rest goes as fast as the work of this process so far. Work that an earlier process
    did (`done` at the start) does not count towards the speed.
    """

    def __init__(self, title: str = "", total: float = 0.0, done: float = 0.0, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._terminal = self._stream.isatty()
        self._own_title = bool(title)
        self._begin(title, total, done)

    def _begin(self, title: str, total: float, done: float) -> None:
        self.title, self.total, self.done = title, total, done
        self.note = ""
        self._first = done
        self._start = self._drawn = time.monotonic()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def advance(self, amount: float, note: str = "") -> None:
        """Add `amount` to what is done."""
        self.done += amount
        self.note = note or self.note
        now = time.monotonic()
        if now - self._start < SILENT_SECONDS:
            return
        if now - self._drawn >= (REDRAW_SECONDS if self._terminal else LOG_SECONDS):
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
        if self._terminal:
            self._stream.write("\n")
            self._stream.flush()

    def line(self, now: float) -> str:
        """The state as text: share done, time spent, time left (if the total is known), note."""
        spent = now - self._start
        text = f"{self.title}  {duration(spent)} spent"
        if self.total > 0:
            share = min(1.0, self.done / self.total)
            done_here = self.done - self._first
            rest = max(0.0, self.total - self.done)
            left = duration(spent * rest / done_here) if done_here > 0 else "?"
            filled = round(20 * share)
            bar = "█" * filled + "·" * (20 - filled)
            text = f"{self.title} {bar} {share:4.0%}  {duration(spent)} spent, {left} left"
        return f"{text}  {self.note}" if self.note else text

    def _draw(self, now: float) -> None:
        self._drawn, self._shown = now, True
        text = self.line(now)
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write("\r" + text[:width].ljust(width))
        else:
            self._stream.write(text + "\n")
        self._stream.flush()
