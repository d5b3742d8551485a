"""Fetch a dataset into the cache folder: download its files, decode them, verify them, and store one file."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.data import cache, hf
from mipset.data.embedded import PATH as EMBEDDED
from mipset.data.official import OFFICIAL, OfficialDataset, how_to_get
from mipset.data.specs import FASHION_MINI
from mipset.errors import DataError, brief, choose
from mipset.io import files
from mipset.reporting import Report, silent

if TYPE_CHECKING:
    from mipset.data.sources import DownloadSource

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def fetch(name: str, *, report: Report = silent, home: Path | None = None) -> Path:
    """Make sure that `load(name)` finds the dataset, and return the path of its file or folder.

    A dataset that is already there is not downloaded again. `home` is the cache folder; the default is
    `mipset.data.home()`. `report(stage, done, total)` is called during the work. A dataset of Hugging Face, hf:NAME,
    goes into the cache folder of that library.
    """
    if name == FASHION_MINI.name:
        return EMBEDDED
    kind, _, given = name.partition(":")
    if kind == hf.KIND and given:
        return hf.fetch(name, given, report)
    from mipset.data.sources import SOURCES  # only here, since it imports modules for the network

    root = files.home() if home is None else home
    if name in OFFICIAL and not OFFICIAL[name].can_be_fetched:
        raise DataError(f"{name} cannot be fetched by a program. {how_to_get(OFFICIAL[name], root)}")
    if name not in SOURCES:
        fetched = (*SOURCES, FASHION_MINI.name, f"{hf.KIND}:NAME")
        raise DataError(f"{brief(name)} cannot be fetched. {choose(name, fetched)}.")
    return OFFICIAL[name].find(root) or fetch_from(OFFICIAL[name], SOURCES[name], root, report)


def fetch_from(dataset: OfficialDataset, sources: tuple[DownloadSource, ...], root: Path, report: Report) -> Path:
    """Store the dataset below the cache folder `root`, from the first source that delivers the right files."""
    name, failures = dataset.spec.name, []
    try:
        root.mkdir(parents=True, exist_ok=True)
        for source in sources:
            # Below `root`, so that the last step is a rename within one file system.
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=root) as work:
                try:
                    return _fetch_from_source(dataset, source, Path(work), root, report)
                except (DataError, OSError) as error:
                    if isinstance(error, OSError) and error.errno in DISK_FULL:
                        raise
                    failures.append(f"{source.title} ({str(error) or type(error).__name__})")
    except OSError as error:
        raise DataError(_disk_message(name, root, error)) from error
    raise DataError(f"{name} could not be fetched from {' or from '.join(failures)}. {how_to_get(dataset, root)}")


def _fetch_from_source(
    dataset: OfficialDataset, source: DownloadSource, work: Path, root: Path, report: Report
) -> Path:
    source.deliver(work, report)
    report("decoding", 0, 2)
    train, test = dataset.read(work, dataset.spec, report)
    report("decoding", 1, 2)
    dataset.spec.verify(dataset.spec.name, train, test)
    report("decoding", 2, 2)
    final = dataset.cache_file(root)
    written = work / final.name
    report("storing", 0, 1)
    cache.write_splits(written, train, test)
    final.parent.mkdir(exist_ok=True)
    os.replace(written, final)  # noqa: PTH105 (replaces in one step on every system)
    report("storing", 1, 1)
    return final


def _disk_message(name: str, root: Path, error: OSError) -> str:
    if error.errno in DISK_FULL:
        return (
            f"The disk that holds {root} is full, so {name} was not stored. Free some space, or set "
            "MIPSET_HOME to a folder on another disk."
        )
    return f"{root} cannot hold {name} ({error}). Set MIPSET_HOME to a folder that can be written to."
