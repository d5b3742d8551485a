"""Locks: which process of this machine writes what. `mipset.io.claims` is for several machines.

The system holds a lock (flock) for the process that took it, and gives it up when that process ends, however it ends.
So no lock is ever stale: a file that a killed process has left is not locked, and the next process takes it over. Where
there are no such locks (Windows, some network file systems), nothing is locked and nothing is taken for abandoned.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from mipset.errors import ArtifactError, brief


@dataclass(frozen=True)
class Holder:
    """A process that writes or computes something, as its file tells it to other processes."""

    pid: int
    host: str
    since: str
    machine: str = ""  # tells machines and containers apart that have the same name

    @classmethod
    def this_process(cls) -> Holder:
        """This process, from now on."""
        return cls(os.getpid(), platform.node(), time.strftime("%Y-%m-%d %H:%M:%S"), _machine())

    @classmethod
    def from_bytes(cls, content: bytes) -> Holder | None:
        """What `to_bytes` gave; None if it is something else, such as a file that is not written yet."""
        try:
            told = json.loads(content)
            return cls(int(told["pid"]), str(told["host"]), str(told["since"]), str(told.get("machine", "")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def to_bytes(self) -> bytes:
        """One line of JSON."""
        return json.dumps(asdict(self)).encode()

    def __str__(self) -> str:
        return brief(f"process {self.pid} on {self.host}, which began at {self.since}", str)

    @property
    def has_ended(self) -> bool:
        """Whether this is a process of this machine, and has ended. If nobody can know, it has not."""
        if sys.platform == "win32" or not self.machine or self.machine != _machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):  # a process of another user
            return False
        return False


@cache
def _machine() -> str:
    """What processes share that can see each other: the name, the start of the system, and the container."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


@contextmanager
def only_writer(out: Path) -> Iterator[None]:
    """Let no other process write `out` during this block. A second one is refused, and told who writes it."""
    path = out.absolute().parent / f".{out.name}.mipset-lock"
    handle = _opened_and_taken(path, out)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, Holder.this_process().to_bytes())
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before the lock is given up: the next process then makes a new file
        os.close(handle)
        if sys.platform == "win32":  # where an open file cannot be removed
            with suppress(OSError):
                path.unlink()


def _opened_and_taken(path: Path, out: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        if not take(handle):
            holder = Holder.from_bytes(os.read(handle, 1000)) or "another process"
            os.close(handle)
            raise ArtifactError(
                f"{out} is being written by {holder}. Wait until it has ended, or choose another `out`."
            )
        if is_at(path, handle):
            return handle
        os.close(handle)  # its owner removed it meanwhile


def take(handle: int) -> bool:
    """Lock an open file or folder until it is closed. False if another process holds it."""
    return _locked(handle) is not False


def if_abandoned(path: Path, act: Callable[[Path], object]) -> None:
    """Call `act` if no living process has locked this file or folder. If nobody can know, nothing is done."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return
    try:
        if _locked(handle) and is_at(path, handle):
            act(path)  # while it is locked: no other process does the same
    finally:
        os.close(handle)


def is_at(path: Path, handle: int) -> bool:
    """Whether an open file or folder still has this path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def _locked(handle: int) -> bool | None:
    """True: now it is locked for this handle. False: another one has it. None: there are no locks here."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return False if error.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True
