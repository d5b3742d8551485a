"""Claims: which process computes what, in a folder that several machines share.

A claim is a file that is made only if it is not there (O_EXCL), which every file system can do, also NFS and those of
Windows. Its process touches it every ten seconds. A claim holds no longer

    if it was given up,
    if its process was one of this machine and has ended, or
    if nobody has touched it for a minute, by the clock of the disk.

Then another process takes it over: it makes the file with the next number. Only one process can make that file, and no
process ever changes the file of another one.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mipset.io.locks import Holder

BEAT_SECONDS = 10.0  # between two touches
STALE_SECONDS = 60.0  # without a touch: its machine is lost
PAUSE_SECONDS = 0.05  # between two tries of one who waits
NOBODY = Holder(0, "an unknown machine", "an unknown time")  # of a claim whose file is not written yet


class HeldError(Exception):
    """Another process has the claim."""

    def __init__(self, holder: Holder) -> None:
        super().__init__(holder)
        self.holder = holder


class Claim:
    """A claim of this process."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self._ended = threading.Event()
        threading.Thread(target=self._beat, daemon=True, name="claim").start()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(_file(self.path, self.number))

    def check(self) -> None:
        """Raise a HeldError if another process has taken the claim over, because this one did not touch it in time."""
        following = _file(self.path, self.number + 1)
        if following.exists():
            raise HeldError(_told(following) or NOBODY)

    def give_up(self) -> None:
        """Let the next process take it over at once."""
        self._ended.set()
        with suppress(OSError):
            os.utime(_file(self.path, self.number), (0, 0))

    def fulfil(self) -> None:
        """Remove the claim, and those that it took over: what it was for is done."""
        self._ended.set()
        for number in range(self.number, 0, -1):
            with suppress(OSError):
                _file(self.path, number).unlink()


@contextmanager
def claimed(path: Path) -> Iterator[Claim]:
    """A claim for this block. A HeldError if another process has it. After an error, the next process can have it."""
    claim = _take(path)
    try:
        yield claim
    except BaseException:
        claim.give_up()
        raise
    claim.fulfil()


@contextmanager
def claimed_in_turn(path: Path) -> Iterator[Claim]:
    """The same, for a short block: it waits while another process has the claim."""
    while True:
        try:
            claim = _take(path)
            break
        except HeldError:
            time.sleep(PAUSE_SECONDS * random.uniform(0.5, 1.5))
    try:
        yield claim
    finally:
        claim.fulfil()


def holder_of(path: Path) -> Holder | None:
    """The process that has a claim; None if it is free."""
    return _holder(path, _newest(path))


def _take(path: Path) -> Claim:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        number = _newest(path)
        holder = _holder(path, number)
        if holder is not None:
            raise HeldError(holder)
        file = _file(path, number + 1)
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:  # another process was faster
            continue
        try:
            os.write(handle, Holder.this_process().to_bytes())
        except OSError:  # such as a full disk
            file.unlink(missing_ok=True)
            raise
        finally:
            os.close(handle)
        return Claim(path, number + 1)


def _file(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _newest(path: Path) -> int:
    """The number of the last claim; 0 if there is none. Files are opened, since the list of a folder may be old."""
    number = 0
    while _file(path, number + 1).exists():
        number += 1
    return number


def _holder(path: Path, number: int) -> Holder | None:
    """The process that has this claim, if it holds."""
    file = _file(path, number)
    try:
        touched = file.stat().st_mtime if number else 0.0
    except FileNotFoundError:  # it was fulfilled just now
        return None
    if touched <= 1.0:  # none, or given up
        return None
    holder = _told(file) or NOBODY
    if holder.has_ended or _clock(path.parent) - touched > STALE_SECONDS:
        return None
    return holder


def _told(file: Path) -> Holder | None:
    try:
        return Holder.from_bytes(file.read_bytes())
    except OSError:
        return None


def _clock(folder: Path) -> float:
    """The time of the disk: the clocks of machines differ."""
    with tempfile.TemporaryFile(dir=folder, prefix=".clock-") as stream:
        return os.fstat(stream.fileno()).st_mtime
