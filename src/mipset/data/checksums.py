"""Published MD5 digests and lengths: whether a file is the official one, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mipset.errors import DataError

BLOCK = 1 << 20


def check_md5(path: Path, published: str | None, again: str) -> None:
    """Refuse a file whose MD5 digest is not the published one. None stands for a file without a published digest.

    `again` is the advice after a file that is another one: where to get it.
    """
    if published is None:
        return
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise DataError(f"{path} could not be read ({error.strerror}). {again}") from error
    if digest.hexdigest() != published:
        raise DataError(
            f"{path} is not the official file: it has the MD5 digest {digest.hexdigest()} instead of {published}. "
            f"{again}"
        )


def wrong_length(path: Path, official: int) -> str:
    """A sentence about a file that has another length than the official one, or nothing. 0 is an unknown length."""
    found = path.stat().st_size if official and path.is_file() else official
    return "" if found == official else f"It has {found:,} bytes, but the official file has {official:,}. "
