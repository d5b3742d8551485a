"""Where a file is, and reading ranges of its bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from mipset.errors import ArtifactError, ChangedError
from mipset.file.artifact import opened
from mipset.file.header import not_whole

BLOCK = 1 << 16  # bytes that are read at once


class Place(Protocol):
    """A file that can be read in ranges of bytes."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def length(self) -> int | None:
        """How many bytes it has; None until a read has told it."""

    @property
    def moved(self) -> int:
        """How many bytes of it have been read, also those that were not requested."""

    @property
    def ranges(self) -> bool | None:
        """Whether its server sends ranges of bytes; None without a server, and until an answer has told it."""

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`, in order, as they arrive: all of them, or an error at the end.

        Blocks are empty while bytes pass by that were not requested.
        """

    def piece(self, start: int, stop: int, arrived: Callable[[int], object]) -> bytes:
        """The same at once, of one version of the file; `arrived` is called with the number of bytes so far."""


class LocalFile:
    """A file on this machine."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path.absolute()  # does not depend on the working folder
        self.moved = 0
        self.ranges: bool | None = None
        with opened(path) as stream:
            self._version = _version(stream.fileno())

    @property
    def length(self) -> int:
        return self._version[0]

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        if not self._path.exists():
            raise ChangedError(f"{self.name} was moved or deleted after it was opened. Open it again at its new place.")
        with opened(self._path) as stream:
            if _version(stream.fileno()) != self._version:
                raise ChangedError(f"{self.name} was changed after it was opened. Open it again.")
            if stop > self.length:
                raise self._too_short(self.length, stop)
            stream.seek(start)
            while start < stop:
                block = stream.read(min(BLOCK, stop - start))
                if not block:  # another program made the file shorter meanwhile
                    raise self._too_short(start, stop)
                start += len(block)
                self.moved += len(block)
                yield block

    def piece(self, start: int, stop: int, arrived: Callable[[int], object]) -> bytes:
        content = b"".join(self.blocks(start, stop))
        arrived(len(content))
        return content

    def _too_short(self, end: int, stop: int) -> ArtifactError:
        return not_whole(self.name, f"it ends after {end:,} of {stop:,} bytes")


def _version(handle: int) -> tuple[int, int, int]:
    """Length, time of the last change, and identity on disk: writing a file again changes at least one of them."""
    state = os.fstat(handle)
    return state.st_size, state.st_mtime_ns, state.st_ino
