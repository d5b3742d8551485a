"""Where a file is, and reading ranges of its bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from mipset.errors import ArtifactError, ChangedError
from mipset.file.artifact import opened

BLOCK = 1 << 16


class Place(Protocol):
    """A file that can be read in parts."""

    @property
    def name(self) -> str:
        """How messages call it."""

    @property
    def length(self) -> int | None:
        """How many bytes it has, as far as is known after something was read."""

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`, in order, as they come: all of them, or an error at the end.

        Blocks are empty while bytes pass by that were not asked for.
        """

    def piece(self, start: int, stop: int, tell: Callable[[int], object]) -> bytes:
        """The same at once, and of one version of the file; `tell` is called with how many have come."""


class LocalFile:
    """A file on this machine."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path.absolute()  # which stays the same in another working folder
        with opened(path) as stream:
            self._version = _version(stream.fileno())

    @property
    def length(self) -> int:
        return self._version[0]

    def blocks(self, start: int, stop: int) -> Iterator[bytes]:
        if not self._path.exists():
            raise ChangedError(f"{self.name} is no longer where it was opened: open it again where it is.")
        with opened(self._path) as stream:
            if _version(stream.fileno()) != self._version:
                raise ChangedError(f"{self.name} was changed since it was opened: open it again.")
            if stop > self.length:
                raise self._too_short(self.length, stop)
            stream.seek(start)
            while start < stop:
                block = stream.read(min(BLOCK, stop - start))
                if not block:  # it became shorter while it was read
                    raise self._too_short(start, stop)
                start += len(block)
                yield block

    def piece(self, start: int, stop: int, tell: Callable[[int], object]) -> bytes:
        content = b"".join(self.blocks(start, stop))
        tell(len(content))
        return content

    def _too_short(self, end: int, stop: int) -> ArtifactError:
        return ArtifactError(
            f"{self.name} is not a whole safetensors file (it ends after {end:,} of {stop:,} bytes): "
            "fetch or make it again."
        )


def _version(handle: int) -> tuple[int, int, int]:
    """What is another after a file was written again."""
    state = os.fstat(handle)
    return state.st_size, state.st_mtime_ns, state.st_ino
