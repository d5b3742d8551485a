"""Format `webdataset`: a tar file with `000000.png` and `000000.cls`, and so on; with tiles also `000000.json`."""

from __future__ import annotations

import io
import json
import tarfile

from mipset.exchange.exports.images import label_list, png_files
from mipset.exchange.exports.metadata import METADATA_FILE, metadata_json
from mipset.file.artifact import Artifact

METADATA_MEMBER = f"__mipset__/{METADATA_FILE}"  # readers of WebDataset skip names like this one


def file_content(artifact: Artifact) -> bytes:
    """The bytes of the file. One sample per image: the picture and its label as a number.

    A sample of a stored image with tiles also has the factor, as JSON.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, METADATA_MEMBER, metadata_json(artifact))
        for number, (picture, label) in enumerate(zip(png_files(artifact), label_list(artifact), strict=True)):
            _add(tar, f"{number:06d}.png", picture)
            _add(tar, f"{number:06d}.cls", str(label).encode("ascii"))
            if artifact.factor > 1:
                _add(tar, f"{number:06d}.json", json.dumps({"factor": artifact.factor}).encode("ascii"))
    return stream.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)  # without date and owner, so that the same set gives the same bytes
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
