"""Format `png`: a folder with a sub-folder per class and a file per rank, a contact sheet, and the class names.

Stored images with tiles say so in their names, such as `0007-2x2.png`, and a file beside the folders explains it.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

from mipset.display.pictures import contact_sheet
from mipset.exchange.exports.images import label_list, png_files
from mipset.exchange.exports.metadata import METADATA_FILE, metadata_json
from mipset.exchange.exports.names import folder_names
from mipset.file.artifact import Artifact

CONTACT_SHEET = "sheet.png"
NOTE_FILE = "README.txt"
NOTE = """\
Each picture here is a stored image of a condensed set: a mosaic of {factor} x {factor} training images. A network that
is trained on the mosaics learns nothing useful. Cut each picture into its tiles and enlarge them (the section
"Decoding" of mipset's FORMAT.md), or export the training images.
"""
PICTURE = re.compile(r"\d+(-\d+x\d+)?\.png")


def folder_content(artifact: Artifact) -> Iterator[tuple[str, bytes]]:
    """Every file of the folder: its path within the folder, and its bytes."""
    yield METADATA_FILE, metadata_json(artifact)
    if artifact.factor > 1:
        yield NOTE_FILE, NOTE.format(factor=artifact.factor).encode("ascii")
    yield from zip(picture_paths(artifact), png_files(artifact), strict=True)
    stream = io.BytesIO()
    contact_sheet(artifact).save(stream, format="PNG")
    yield CONTACT_SHEET, stream.getvalue()


def picture_paths(artifact: Artifact) -> list[str]:
    """The path of every image within the folder, rank by rank, such as `3-cat/0007.png`. Ranks count from 0."""
    ranks, classes = artifact.images.shape[:2]
    folders = folder_names(artifact.class_names)
    digits = max(4, len(str(ranks - 1)))
    tiles = f"-{artifact.factor}x{artifact.factor}" if artifact.factor > 1 else ""
    return [f"{folders[label]}/{i // classes:0{digits}d}{tiles}.png" for i, label in enumerate(label_list(artifact))]


def is_export(folder: Path) -> bool:
    """Whether the folder holds only files that `folder_content` describes, so nothing else is lost with it."""
    try:
        metadata = json.loads((folder / METADATA_FILE).read_text("utf-8"))
        classes = {entry["folder"] for entry in metadata["classes"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False

    def is_exported(path: Path) -> bool:
        match path.relative_to(folder).parts:
            case (name,):
                return name in (METADATA_FILE, CONTACT_SHEET, NOTE_FILE) or (name in classes and path.is_dir())
            case (name, file):
                return name in classes and PICTURE.fullmatch(file) is not None
            case _:
                return False

    return all(is_exported(path) for path in folder.rglob("*"))
