"""What stops a command before its end: Ctrl-C, SIGTERM, or a limit of time.

A signal interrupts a command at once, as a KeyboardInterrupt, except for work that asks now and then whether it should
stop, and then has time to save what it has done. After the first signal, Ctrl-C ends the process at once: the system
does that, so there is no traceback. Files are written completely or not at all, so nothing is damaged by it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from mipset.errors import SettingError
from mipset.reporting import Report
from mipset.units import parse_duration

SIGNALS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
TIME_IS_UP = 124  # the exit code, as of the command `timeout`


class Stopping:
    """Whether the command should stop, and why. As a context, it handles signals."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._limit = ""  # as the user typed it
        self._seconds = float("inf")
        self._received: signal.Signals | None = None
        self._waits = False  # for work that asks
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # no other thread may change handlers
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: object) -> None:
        if self._received is not None:  # it is stopping already
            return
        if _torch_is_being_imported():
            later = threading.Timer(0.1, _send_to_itself, (number,))
            later.daemon = True
            later.start()
            return
        self._received = signal.Signals(number)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if not self._waits:
            raise KeyboardInterrupt(self.reason)
        if sys.stderr.isatty():
            os.write(sys.stderr.fileno(), b"\nStopping after this iteration. Press Ctrl-C again to stop at once.\n")

    def after(self, limit: str | None) -> None:
        """Stop when this time is over, such as `2h`, counted from the start of the command."""
        if limit is None:
            return
        try:
            self._seconds, self._limit = parse_duration(limit), limit
        except ValueError:
            raise SettingError(f"`max_time` is {limit!r}. Write a time such as 90s, 3min or 2h.") from None

    @property
    def asked(self) -> bool:
        """Whether the command should stop."""
        return self._received is not None or time.monotonic() - self._start > self._seconds

    @property
    def reason(self) -> str:
        """Why it stops."""
        if self._received is not None:
            return SIGNALS[self._received]
        return f"The {self._limit} of --max-time are over" if self.asked else "Another process of this run was stopped"

    @property
    def code(self) -> int:
        """The exit code for it: 130 after Ctrl-C, 143 after SIGTERM, 124 if the time is over."""
        if self._received is None:
            return TIME_IS_UP if self.asked else 128 + signal.SIGINT
        return 128 + self._received

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Around work that asks: a signal does not interrupt it, nor the message of an error that ends it."""
        self._waits = True
        yield
        self._waits = False  # not after an error: torchrun sends SIGTERM to the processes that tell of one that died

    def asking(self, report: Report) -> Report:
        """The callback for work that reports: it is interrupted only after a report, as long as there is more to do."""

        def report_and_ask(stage: str, done: float, total: float) -> None:
            report(stage, done, total)
            self._waits = False
            if self.asked:
                raise KeyboardInterrupt(self.reason)
            self._waits = done < total

        return report_and_ask


def _send_to_itself(number: int) -> None:
    """Send a signal to this process. On Windows, os.kill would end it without asking its handler."""
    if sys.platform == "win32":
        signal.raise_signal(number)
    else:
        os.kill(os.getpid(), number)


def _torch_is_being_imported() -> bool:
    """Whether `import torch` has begun and not ended. A KeyboardInterrupt meanwhile would abort the process in C++."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))
