"""A folder of PNG files: a sub-folder per class with a file per rank, a contact sheet, and the names of the classes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

from mipset.display.pictures import contact_sheet
from mipset.errors import ArtifactError
from mipset.exchange.exports.images import as_png, labels
from mipset.exchange.exports.names import CLASSES, described, folder_names
from mipset.file.artifact import Artifact
from mipset.io.files import refuse_to_overwrite

SHEET = "sheet.png"


def contents(artifact: Artifact) -> Iterator[tuple[str, bytes]]:
    """Every file of the folder: where it is, and what is in it."""
    yield CLASSES, json.dumps(described(artifact), indent=1).encode("ascii")
    yield from zip(places(artifact), as_png(artifact), strict=True)
    stream = io.BytesIO()
    contact_sheet(artifact).save(stream, format="PNG")
    yield SHEET, stream.getvalue()


def places(artifact: Artifact) -> list[str]:
    """`3-cat/0007.png` for every image, rank by rank; ranks count from 0."""
    ranks, classes = artifact.images.shape[:2]
    folders = folder_names(artifact.class_names)
    digits = max(4, len(str(ranks - 1)))
    return [f"{folders[label]}/{i // classes:0{digits}d}.png" for i, label in enumerate(labels(artifact))]


def check_place(out: Path, force: bool) -> None:
    """Refuse a folder that has something in it, unless it may be replaced and holds an export and nothing else."""
    if not out.is_dir():
        refuse_to_overwrite(out, force)
        if out.exists():
            raise ArtifactError(f"{out} is a file: name a folder, which need not be there yet.")
    elif any(out.iterdir()):
        if not force:
            raise ArtifactError(f"{out} exists already: choose another --out, or add --force to replace the folder.")
        if not is_export(out):
            raise ArtifactError(f"{out} holds more than an export to PNG files: choose another --out, or empty it.")


def is_export(folder: Path) -> bool:
    """Whether nothing would be lost with the folder that `contents` did not put there."""
    try:
        listed = json.loads((folder / CLASSES).read_text("utf-8"))
        classes = {entry["folder"] for entry in listed["classes"]}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False

    def ours(path: Path) -> bool:
        match path.relative_to(folder).parts:
            case (name,):
                return name in (CLASSES, SHEET) or (name in classes and path.is_dir())
            case (name, file):
                return name in classes and file.endswith(".png") and file.removesuffix(".png").isdigit()
            case _:
                return False

    return all(ours(path) for path in folder.rglob("*"))
