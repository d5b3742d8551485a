"""The folder for downloads, and writing files and folders so that an error leaves them as they were."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mipset.errors import ArtifactError
from mipset.io import locks
from mipset.io.names import portable_name
from mipset.units import byte_count

BINARY: int = getattr(os, "O_BINARY", 0)  # for os.open: Windows changes the ends of lines otherwise


def home() -> Path:
    """The folder for files that several runs use: MIPSET_HOME if set, otherwise the user's cache folder for mipset."""
    configured = os.environ.get("MIPSET_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    try:
        if sys.platform == "win32":
            local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
            return Path(local) / "mipset" / "mipset" / "Cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "mipset"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "mipset"
    except RuntimeError as error:
        raise ArtifactError(
            "The home folder of this user is unknown. Set MIPSET_HOME to a folder for files."
        ) from error


def write_whole(path: Path, write: Callable[[BinaryIO], object], previous: Path | None = None) -> None:
    """Let `write` fill a temporary file beside `path`, then replace `path` by it in one step.

    After an error, such as a full disk, or an interrupt, `path` is as it was before. A file that is replaced keeps its
    permissions. What killed processes left beside `path` is removed. With `previous`, the file that was at `path` is
    then there: a process that is killed between these two steps leaves it there, and no file at `path`.
    """
    remove_leftovers(path)
    with _part_of(path, _make_file) as part:
        with part.open("r+b") as stream:
            with suppress(FileNotFoundError):
                shutil.copymode(path, part)
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        if previous is not None:
            with suppress(FileNotFoundError):
                path.replace(previous)
        part.replace(path)
    _sync_folder(path.absolute().parent)


def append_whole(handle: int, content: bytes, path: Path) -> None:
    """Add bytes to the end of an open file, all of them or none. `path` is for the error."""
    length, written = os.fstat(handle).st_size, 0
    try:
        written = os.write(handle, content)
    finally:
        if written < len(content):
            os.ftruncate(handle, length)
    if written < len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def write_folder(path: Path, contents: Iterable[tuple[str, bytes]]) -> None:
    """Write files, each with its path within the folder, into a temporary folder; then replace `path` by it.

    After an error, `path` is as it was before. On success, the old folder is removed.
    """
    path = path.resolve()
    remove_leftovers(path)
    with _part_of(path, Path.mkdir) as part:
        for place, content in contents:
            file = part / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        if not path.exists():
            part.rename(path)
        elif exchange_names(part, path):
            shutil.rmtree(part)
        else:
            _replace_folder(part, path)
    _sync_folder(path.parent)


@contextmanager
def _part_of(path: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """A new file or folder beside `path`, which is locked during this block and removed after an error."""
    while True:
        part = path.parent / f".{path.name}.{os.urandom(4).hex()}.part"
        make(part)
        try:
            handle = _opened(part)
        except FileNotFoundError:  # another process took it for abandoned, before it was opened
            continue
        if handle is None or (locks.take(handle) and locks.is_at(part, handle)):
            break
        os.close(handle)  # the same, before it was locked
    try:
        yield part
    except BaseException:
        _remove(part)
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _make_file(path: Path) -> None:
    path.open("xb").close()


def _opened(path: Path) -> int | None:
    """The file or folder, open for a lock. None on Windows, where it could then not be renamed."""
    return None if sys.platform == "win32" else os.open(path, os.O_RDONLY)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(path: Path) -> None:
    """Remove what processes left that were killed while they wrote `path`. Names and locks tell what that is."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.(part|old)")
    with suppress(OSError):  # a folder that cannot be listed: then nothing is removed
        for entry in list(os.scandir(path.absolute().parent)):
            if name.fullmatch(entry.name):
                locks.if_abandoned(Path(entry.path), lambda left: _tidy(left, path))


def _tidy(left: Path, path: Path) -> None:
    if left.suffix == ".old" and not path.exists():  # killed between the two steps of `_replace_folder`
        left.rename(path)
    else:
        _remove(left)


def exchange_names(one: Path, other: Path) -> bool:
    """Let two files or folders change their names, in one step. False if the system cannot do that."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    from_here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return renameat2 is not None and not renameat2(
        from_here, os.fsencode(one), from_here, os.fsencode(other), ctypes.c_uint(exchange)
    )


def _replace_folder(part: Path, path: Path) -> None:
    """Replace a folder in two steps. The next write repairs what a process leaves that is killed between them."""
    old, handle = part.with_suffix(".old"), _opened(path)
    try:
        if handle is not None:
            locks.take(handle)
        path.rename(old)
        try:
            part.rename(path)
        except BaseException:
            old.rename(path)
            raise
    finally:
        if handle is not None:
            os.close(handle)
    shutil.rmtree(old)


def _sync_folder(folder: Path) -> None:
    """Put the names of a folder on the disk, where the system can: a file that was renamed then survives a crash."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # the file itself is complete
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
    check_writable(path, argument)


def refuse_to_replace(
    folder: Path, force: bool, is_ours: Callable[[Path], bool], content: str, argument: str = "out"
) -> None:
    """Refuse a folder that is not empty, unless `force` is set and `is_ours` says that nothing else is lost with it.

    `content` is what we would write there, in words; `argument` is the name of the argument that gave the path.
    """
    if not folder.is_dir():
        refuse_to_overwrite(folder, force, argument)
        if folder.exists():
            raise ArtifactError(
                f"{folder} is a file. Name a folder as `{argument}`; it is created if it does not exist."
            )
    elif any(folder.iterdir()):
        if not force:
            raise ArtifactError(
                f"{folder} exists already. Choose another `{argument}`, or set `force` to replace the folder."
            )
        if not is_ours(folder):
            raise ArtifactError(
                f"{folder} holds more than {content}. Choose another `{argument}`, or empty the folder."
            )


def check_writable(path: Path, argument: str = "out") -> None:
    """Raise an error if a file cannot be made beside `path`: no permission, a disk without space, a bad name."""
    portable = portable_name(path.name)
    if sys.platform == "win32" and portable != path.name:  # it would write a stream of another file, or to a device
        raise ArtifactError(f"{path.name} is no name of a file on Windows. Choose another `{argument}`: {portable}.")
    try:
        with _part_of(path, _make_file) as part:
            part.unlink()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise ArtifactError(f"{path} cannot be written: {reason}. Choose another `{argument}`.") from error


def check_space(path: Path, needed: int, argument: str = "out") -> None:
    """Raise an error if the disk of `path` has less than `needed` bytes left."""
    free = free_bytes(path.absolute().parent)
    if free is not None and free < needed:
        raise ArtifactError(
            f"The disk of {path} has {byte_count(free)} left, but writing it needs {byte_count(needed)}, with its "
            f"checkpoints. Free some space, or choose another `{argument}`."
        )


def free_bytes(folder: Path) -> int | None:
    """The bytes that are left on the disk of a folder; None if its file system does not say."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
