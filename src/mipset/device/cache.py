"""Ranks on disk, so that a restart needs no second download. A file's name is the digest of what must be in it."""

from __future__ import annotations

from pathlib import Path

from mipset.errors import ArtifactError
from mipset.io.files import write_whole


class Cache:
    """A folder of ranks, which several sets may share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._useless(error) from error

    def load(self, digest: str, length: int) -> bytes | None:
        """What is kept under a digest, if it has this length. Whether it is what it should be, the caller verifies."""
        path = self._path(digest)
        try:
            return path.read_bytes() if path.stat().st_size == length else None
        except OSError:
            return None

    def keep(self, digest: str, content: bytes) -> None:
        """Write a rank, whole or not at all."""
        try:
            write_whole(self._path(digest), lambda stream: stream.write(content))
        except OSError as error:
            raise self._useless(error) from error

    def forget(self, digest: str) -> None:
        """Delete a rank, if it is there."""
        try:
            self._path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise self._useless(error) from error

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.rank"

    def _useless(self, error: OSError) -> ArtifactError:
        return ArtifactError(
            f"the folder {self.folder} cannot keep what is fetched: {error.strerror or error}; "
            "make room, or name another as cache."
        )
