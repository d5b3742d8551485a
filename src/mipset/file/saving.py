"""Adding accuracies to a file that is there, while other processes may do the same or replace the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mipset.errors import ChangedError
from mipset.file.artifact import Artifact, opened, read
from mipset.file.description import Accuracy, shared_fields

MEASURED = ("factor", "mean", "std", "class_names")  # what an accuracy depends on, beside the images


def save_accuracy(path: Path, measured: Artifact, points: Sequence[Accuracy]) -> None:
    """Add points to the accuracy curve of the file at `path`, which `measured` was read from.

    Points that other processes have added meanwhile stay. If the file holds other images by now, it is left alone, and
    a ChangedError says so.
    """
    with _alone(path):
        present = read(path)
        same = present.rank_sha256 == measured.rank_sha256
        if not same or any(shared_fields(present)[name] != shared_fields(measured)[name] for name in MEASURED):
            raise ChangedError(
                f"{path} was replaced by another set while the old one was evaluated, so the accuracies were not "
                f"saved. Evaluate it again."
            )
        present.with_accuracy(points).write(path)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process adds accuracies to a file, and let none begin.

    Writing replaces the file. A process that has waited for a file which was replaced waits for the new one.
    """
    if sys.platform == "win32":  # has no such locks
        yield
        return
    import fcntl

    while True:
        with opened(path) as stream:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(stream, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(stream.fileno()), path.stat()):
                yield
                return
