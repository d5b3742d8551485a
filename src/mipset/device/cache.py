"""Ranks on disk, so that a restart needs no second download. The name of each file is the digest of its content."""

from __future__ import annotations

from pathlib import Path

from mipset.errors import ArtifactError
from mipset.io.files import write_whole


class Cache:
    """A folder of ranks. Several sets may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def load(self, digest: str, length: int) -> bytes | None:
        """The content that is stored under a digest, if it has this length. The caller verifies it."""
        path = self._path(digest)
        try:
            return path.read_bytes() if path.stat().st_size == length else None
        except OSError:
            return None

    def store(self, digest: str, content: bytes) -> None:
        """Write a rank. After an error, no part of it is left."""
        try:
            write_whole(self._path(digest), lambda stream: stream.write(content))
        except OSError as error:
            raise self._unusable(error) from error

    def delete(self, digest: str) -> None:
        """Delete a rank if it is stored."""
        try:
            self._path(digest).unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.rank"

    def _unusable(self, error: OSError) -> ArtifactError:
        return ArtifactError(
            f"The folder {self.folder} cannot store what is downloaded: {error.strerror or error}. Free some space, or "
            "choose another folder as `cache`."
        )
