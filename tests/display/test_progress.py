"""The progress bar, with a clock that the tests control."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys

import pytest

from commands import SOURCE
from mipset.display.progress import LOG_SECONDS, REDRAW_SECONDS, SILENT_SECONDS, Progress
from mipset.units import duration


class Clock:
    """Time stands still until a test lets it go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    """A stream that says it is a terminal. It has no encoding, so that a bar is made of ASCII letters."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.monotonic", clock)
    return clock


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (7.4, "7 s"),
        (59.4, "59 s"),
        (59.6, "1:00"),
        (125, "2:05"),
        (3599.9, "1:00:00"),
        (3725, "1:02:05"),
        (2 * 24 * 3600 - 1, "47:59:59"),
        (24.1 * 24 * 3600, "24.1 days"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_short_work_is_silent(clock: Clock) -> None:
    for stream in (io.StringIO(), Terminal()):
        with Progress("working", 10, stream=stream) as bar:
            for _ in range(10):
                clock.now += SILENT_SECONDS / 11
                bar.advance(1)
        assert stream.getvalue() == ""


def test_time_left_assumes_the_speed_so_far(clock: Clock) -> None:
    bar = Progress("working", 10, stream=io.StringIO())
    bar.advance(2, "loss 3")
    assert bar.line(clock.now + 30) == " 20%  working  30 s spent, 2:00 left  loss 3"


def test_work_of_an_earlier_process_does_not_count_towards_the_speed(clock: Clock) -> None:
    bar = Progress("working", 10, done=8, stream=io.StringIO())
    assert bar.line(clock.now + 5) == " 80%  working  5 s spent, ? left"
    bar.advance(1)
    assert bar.line(clock.now + 5) == " 90%  working  5 s spent, 5 s left"


def test_unknown_total_shows_no_time_left(clock: Clock) -> None:
    bar = Progress("downloading", 0, stream=io.StringIO())
    bar.advance(5000)
    assert bar.line(clock.now + 7) == "downloading  7 s spent"


def test_more_than_the_total_shows_100_percent(clock: Clock) -> None:
    bar = Progress("working", 10, stream=io.StringIO())
    bar.advance(12)
    assert bar.line(clock.now + 6) == "100%  working  6 s spent, 0 s left"


def test_note_stays_until_the_next_note(clock: Clock) -> None:
    bar = Progress("working", 4, stream=io.StringIO())
    bar.advance(1, "first")
    bar.advance(1)
    assert bar.line(clock.now + 1).endswith("  first")
    bar.advance(1, "second")
    assert bar.line(clock.now + 1).endswith("  second")


def test_log_gets_a_line_every_15_seconds(clock: Clock) -> None:
    stream = io.StringIO()
    with Progress("working", 100, stream=stream) as bar:
        for _ in range(100):
            clock.now += LOG_SECONDS / 10
            bar.advance(1)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10 + 1  # one for each LOG_SECONDS, and the last state
    assert "\r" not in stream.getvalue()
    assert lines[0].startswith(" 10%  working  15 s spent, 2:15 left")
    assert lines[-1].startswith("100%  working  2:30 spent, 0 s left")


class Shown:
    """A step of a run of 4 outer iterations of 5 inner ones."""

    def __init__(self, t: int, e: int) -> None:
        self.share, self.outer, self.inner = ((t - 1) * 5 + e) / 20, (t, 4), (e, 5)
        self.note = "loss 3.2, subset 4, frozen 2"


def test_terminal_gets_a_bar_of_tqdm_that_is_redrawn(clock: Clock) -> None:
    stream = Terminal()
    with Progress("working", 100, stream=stream) as bar:
        for _ in range(100):
            clock.now += SILENT_SECONDS
            bar.advance(1, "a note")
        clock.now += REDRAW_SECONDS / 2
        drawn = stream.getvalue()
        bar.advance(0)
        assert stream.getvalue() == drawn  # too soon to draw again
    states = stream.getvalue().split("\r")
    assert " 50% #####      working  1:40 spent, 1:40 left  a note" in [state.rstrip() for state in states]
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().endswith("\n")


def test_terminal_shows_outer_and_inner_iterations_one_above_the_other(clock: Clock) -> None:
    stream = Terminal()
    with Progress("condensing", stream=stream) as bar:
        for t, e in ((1, 5), (2, 1)):
            clock.now += 10
            bar.show(Shown(t, e))
    screen = re.sub(r"\x1b\[A", "", stream.getvalue())
    assert " 25% ##5        condensing  10 s spent, 30 s left  outer 1/4" in screen
    assert "100% ########## inner 5/5  loss 3.2, subset 4, frozen 2" in screen
    last_two = [line.strip() for line in re.split("[\r\n]+", screen) if line.strip()][-2:]
    assert last_two == [
        "30% ###        condensing  20 s spent, 47 s left  outer 2/4",
        "20% ##         inner 1/5  loss 3.2, subset 4, frozen 2",
    ]


def test_log_shows_outer_and_inner_iterations_in_one_line(clock: Clock) -> None:
    bar = Progress("condensing", stream=io.StringIO())
    bar.show(Shown(2, 1))
    assert bar.line(clock.now + 20) == (
        " 30%  condensing  20 s spent, 47 s left  outer 2/4  inner 1/5  loss 3.2, subset 4, frozen 2"
    )


def test_terminal_without_tqdm_gets_plain_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device has numpy only."""
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    stream = Terminal()
    with Progress("reading", 10, stream=stream) as bar:
        for _ in range(10):
            clock.now += LOG_SECONDS
            bar.advance(1)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0] == " 10%  reading  15 s spent, 2:15 left"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize(("size", "text"), [((24, 80), "█ working  "), ((0, 0), "100%  working  ")])
def test_real_terminal(size: tuple[int, int], text: str) -> None:
    """A terminal without a size, as some programs make it, gets plain lines."""
    import pty
    import termios

    code = (
        "import time; from mipset.display import progress; progress.SILENT_SECONDS = 0.0\n"
        "with progress.Progress('working', 2) as bar:\n    bar.advance(1); time.sleep(0.2); bar.advance(1)"
    )
    reading, writing = pty.openpty()
    termios.tcsetwinsize(writing, size)
    with subprocess.Popen([sys.executable, "-c", code], stderr=writing, env={**os.environ, "PYTHONPATH": SOURCE}) as p:
        os.close(writing)
        shown = b""
        with contextlib.suppress(OSError):  # the end of a pseudo-terminal
            while part := os.read(reading, 1000):
                shown += part
    os.close(reading)
    assert p.returncode == 0
    assert text in shown.decode()


def test_last_state_is_drawn_when_work_fails(clock: Clock) -> None:
    stream = io.StringIO()
    with contextlib.suppress(ValueError), Progress("working", 4, stream=stream) as bar:
        bar.advance(1)
        clock.now += 10
        raise ValueError("broken")
    assert stream.getvalue() == " 25%  working  10 s spent, 30 s left\n"


def test_bar_is_drawn_on_standard_error(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("working", 1) as bar:
        clock.now += 10
        bar.advance(1)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("100%  working  ")


class TestReport:
    """A bar as the callback of work that reports (stage, done, total)."""

    def test_bar_without_title_starts_again_with_every_stage(self, clock: Clock) -> None:
        stream = io.StringIO()
        with Progress(stream=stream) as bar:
            bar.report("downloading", 1, 4)
            clock.now += LOG_SECONDS
            bar.report("downloading", 3, 4)
            bar.report("decoding", 5, 10)
            clock.now += LOG_SECONDS
            bar.report("decoding", 10, 10)
        assert [line.split()[:2] for line in stream.getvalue().splitlines()] == [
            *[["75%", "downloading"]] * 2,
            *[["100%", "decoding"]] * 2,
        ]

    def test_bar_with_title_shows_the_stage_as_its_note(self, clock: Clock) -> None:
        bar = Progress("reordering set", stream=io.StringIO())
        bar.report("epoch 1 of 4", 1, 4)
        assert bar.line(clock.now + 3) == " 25%  reordering set  3 s spent, 9 s left  epoch 1 of 4"

    def test_work_that_never_reports_shows_nothing(self, clock: Clock) -> None:
        stream = Terminal()
        with Progress(stream=stream):
            clock.now += 100
        assert stream.getvalue() == ""
