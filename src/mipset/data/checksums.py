"""Published MD5 digests: whether a file is the official one, byte for byte."""

from __future__ import annotations

import hashlib
from pathlib import Path

from mipset.errors import DataError

BLOCK = 1 << 20


def check_md5(path: Path, published: str | None, page: str) -> None:
    """Refuse a file whose MD5 digest is not the published one. None stands for a file without a published digest."""
    if published is None:
        return
    digest = hashlib.md5(usedforsecurity=False)
    size = 0
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise DataError(f"{path} could not be read ({error.strerror}). Get it from {page}.") from error
    if digest.hexdigest() != published:
        raise DataError(
            f"{path} is not the official file: its {size} bytes have the MD5 digest {digest.hexdigest()} instead of "
            f"{published}. Get it again from {page}."
        )
