"""Where things are kept, and writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from mipset.extras import missing


def home() -> Path:
    """The folder for what is kept between runs: MIPSET_HOME if set, else the user's cache folder for mipset."""
    chosen = os.environ.get("MIPSET_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    try:
        from platformdirs import user_cache_dir
    except ImportError as error:
        raise missing("platformdirs", "Finding the cache folder (unless MIPSET_HOME names one)") from error
    return Path(user_cache_dir("mipset"))


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then put it in place of `path` in one step.

    Whatever happens on the way (a full disk, an interrupt), `path` is either as it was or complete.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # mkstemp makes a private file; ours is like any other
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
