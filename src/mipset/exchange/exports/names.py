"""What to call things elsewhere. Class names come out of a file and may be anything: a path, nothing, a megabyte."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from mipset.file.artifact import Artifact

LONGEST = 40  # characters that are kept of a name
CLASSES = "classes.json"


def described(artifact: Artifact) -> dict[str, Any]:
    """What an image file cannot say: the true name of every class, and how to decode and to normalise."""
    folders = folder_names(artifact.class_names)
    return {
        "classes": [
            {"label": label, "name": name, "folder": folder}
            for label, (name, folder) in enumerate(zip(artifact.class_names, folders, strict=True))
        ],
        "factor": artifact.factor,
        "mean": list(artifact.mean),
        "std": list(artifact.std),
    }


def folder_names(class_names: Sequence[str]) -> list[str]:
    """One folder for each class, such as `3-cat`: sorted by name they are in the order of the labels.

    The number makes them differ whatever the names are, and keeps them from being a special name on any system.
    """
    digits = len(str(len(class_names) - 1))
    numbered = [f"{label:0{digits}d}-{_ascii(name, '-')}" for label, name in enumerate(class_names)]
    return [folder.rstrip("-") for folder in numbered]


def identifier(stem: str) -> str:
    """A name for C that is close to the name of a file."""
    found = _ascii(stem, "_").lower() or "mipset"
    return f"set_{found}" if found[0].isdigit() else found


def distinct(names: Sequence[str]) -> list[str]:
    """The names in Unicode that can be written, where a second `cat` becomes `cat (2)`."""
    found: dict[str, int] = {}  # in their order, each with the number that was last tried behind it
    for name in names:
        candidate = written = name.encode("utf-8", "replace").decode("utf-8")
        while candidate in found:
            found[written] += 1
            candidate = f"{written} ({found[written]})"
        found[candidate] = 1
    return list(found)


def _ascii(text: str, gap: str) -> str:
    """Letters and digits, without their accents, with `gap` for everything between them."""
    plain = unicodedata.normalize("NFKD", text[: 4 * LONGEST]).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[^A-Za-z0-9]+", gap, plain)[:LONGEST].strip(gap)
