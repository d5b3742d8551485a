"""Where things are kept, and writing a file or a folder whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from mipset.errors import ArtifactError, missing


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
    part = _beside(path)
    stream = part.open("xb")
    try:
        with stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_folder(path: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write files, each with its place in the folder, into a temporary folder; then put that in place of `path`.

    Whatever happens on the way, `path` is either as it was or complete. A folder that was there is removed.
    """
    path = path.resolve()
    part = _beside(path)
    part.mkdir()
    try:
        for place, content in contents:
            file = part / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if path.exists():
            _exchange(part, path)
        else:
            part.rename(path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _exchange(part: Path, path: Path) -> None:
    old = part.with_suffix(".old")
    path.rename(old)
    try:
        part.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old)


def refuse_to_overwrite(path: Path, force: bool, flag: str = "--out") -> None:
    """Say so before any work is done if a file cannot be written to `path`, or may not be without `force`."""
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder: add a file name to it.")
    if path.exists() and not force:
        raise ArtifactError(f"{path} exists already: choose another {flag}, or add --force to overwrite it.")
    if not path.absolute().parent.is_dir():
        raise ArtifactError(f"there is no folder {path.absolute().parent} to write {path.name} into: make it first.")


def _beside(path: Path) -> Path:
    """A name that nobody else has, for what becomes `path` when it is complete."""
    return path.parent / f".{path.name}.{os.urandom(4).hex()}.part"
