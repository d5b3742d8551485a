"""Getting a dataset into the cache folder: download, decode, verify, store under its final name."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.data import store
from mipset.data.embedded import PATH as EMBEDDED
from mipset.data.known import FASHION_MINI
from mipset.data.shelf import SHELVES, Shelf
from mipset.data.store import Report
from mipset.errors import DataError, choices
from mipset.io import files

if TYPE_CHECKING:
    from mipset.data.sources import Source

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def fetch(name: str, *, progress: Report | None = None, home: Path | None = None) -> Path:
    """Make sure that `load(name)` finds the dataset, and return where it lies.

    Nothing is downloaded for a dataset that is there already. `progress(stage, done, total)` is called while
    the work goes on.
    """
    if name == FASHION_MINI.name:
        return EMBEDDED
    if name not in SHELVES:
        raise DataError(f"{name!r} cannot be fetched: choose {choices((*SHELVES, FASHION_MINI.name))}.")
    root = files.home() if home is None else home
    shelf = SHELVES[name]
    from mipset.data.sources import SOURCES

    return shelf.find(root) or fetch_from(shelf, SOURCES[name], root, progress or store.silent)


def fetch_from(shelf: Shelf, sources: tuple[Source, ...], root: Path, report: Report) -> Path:
    """Store the dataset of `shelf` below `root` from the first source that delivers what is expected."""
    name, failures = shelf.known.name, []
    try:
        root.mkdir(parents=True, exist_ok=True)
        for source in sources:
            # Below `root`, so that the last step is a rename within one file system.
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as work:
                try:
                    return _fetch_one(shelf, source, Path(work), root, report)
                except (DataError, OSError) as error:
                    if isinstance(error, OSError) and error.errno in DISK_FULL:
                        raise
                    failures.append(f"{source.title} ({str(error) or type(error).__name__})")
    except OSError as error:
        raise DataError(_disk_sentence(name, root, error)) from error
    raise DataError(
        f"{name} could not be fetched from {' or from '.join(failures)}: put its official files into a "
        f"folder and use {name}:PATH instead."
    )


def _fetch_one(shelf: Shelf, source: Source, work: Path, root: Path, report: Report) -> Path:
    source.deliver(work, report)
    report("decoding", 0, 2)
    train, test = shelf.read(work, shelf.known)
    report("decoding", 1, 2)
    shelf.known.dataset(shelf.known.name, train, test)
    report("decoding", 2, 2)
    final = shelf.cached(root)
    written = work / final.name
    report("storing", 0, 1)
    store.write(written, train, test)
    final.parent.mkdir(exist_ok=True)
    os.replace(written, final)  # noqa: PTH105 (replaces in one step on every system)
    report("storing", 1, 1)
    return final


def _disk_sentence(name: str, root: Path, error: OSError) -> str:
    if error.errno in DISK_FULL:
        return (
            f"The disk that holds {root} is full, so {name} was not stored: free some space, or set "
            "MIPSET_HOME to a folder on another disk."
        )
    return f"{root} cannot hold {name} ({error}): set MIPSET_HOME to a folder that can be written to."
