"""A condensed set on a web server."""

from __future__ import annotations

from mipset.errors import ArtifactError, MipsetError
from mipset.io.http import WebFile


class RemoteFile(WebFile):
    """A file of mipset at an address."""

    def too_short(self, length: int | None, stop: int | None) -> MipsetError:
        end = "early" if length is None or stop is None else f"after {length:,} of {stop:,} bytes"
        return ArtifactError(f"{self.name} is not a complete safetensors file (it ends {end}). Publish it again.")
