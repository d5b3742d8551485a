"""The folder for downloads, and writing files and folders so that an error leaves them as they were."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from mipset.errors import ArtifactError, missing


def home() -> Path:
    """The folder for files that several runs use: MIPSET_HOME if set, otherwise the user's cache folder for mipset."""
    configured = os.environ.get("MIPSET_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    try:
        from platformdirs import user_cache_dir
    except ImportError as error:
        raise missing("platformdirs", "Finding the cache folder (unless MIPSET_HOME names one)") from error
    return Path(user_cache_dir("mipset"))


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then replace `path` by it in one step.

    After an error, such as a full disk, or an interrupt, `path` is as it was before. A file that is replaced keeps its
    permissions.
    """
    part = _beside(path)
    stream = part.open("xb")
    try:
        with stream:
            with suppress(FileNotFoundError):
                shutil.copymode(path, part)
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_folder(path: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write files, each with its path within the folder, into a temporary folder; then replace `path` by it.

    After an error, `path` is as it was before. On success, the old folder is removed.
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


def refuse_to_overwrite(path: Path, force: bool, argument: str = "out") -> None:
    """Raise an error before any work is done if `path` cannot be written, or exists and `force` is not set.

    `argument` is the name of the argument that gave the path.
    """
    if path.is_dir():
        raise ArtifactError(f"{path} is a folder. Add a file name to it.")
    if path.exists() and not force:
        raise ArtifactError(f"{path} exists already. Choose another `{argument}`, or set `force` to overwrite it.")
    if not path.absolute().parent.is_dir():
        raise ArtifactError(f"There is no folder {path.absolute().parent} to write {path.name} into. Make it first.")


def _beside(path: Path) -> Path:
    """A unique name for the temporary file or folder that becomes `path` when it is complete."""
    return path.parent / f".{path.name}.{os.urandom(4).hex()}.part"
