"""A tar file for WebDataset: `000000.png` and `000000.cls`, and so on."""

from __future__ import annotations

import io
import json
import tarfile

from mipset.exchange.exports.images import as_png, labels
from mipset.exchange.exports.names import CLASSES, described
from mipset.file.artifact import Artifact

ASIDE = f"__mipset__/{CLASSES}"  # readers pass over names like this one


def content(artifact: Artifact) -> bytes:
    """One sample per image: the picture and its label as a number."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, ASIDE, json.dumps(described(artifact), indent=1).encode("ascii"))
        for number, (picture, label) in enumerate(zip(as_png(artifact), labels(artifact), strict=True)):
            _add(tar, f"{number:06d}.png", picture)
            _add(tar, f"{number:06d}.cls", str(label).encode("ascii"))
    return stream.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # of 1970 and nobody's, so that the same set gives the same bytes
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
