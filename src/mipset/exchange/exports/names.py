"""Names for folders and C code.

Class names come from a file and may be anything: a path, empty, a megabyte long.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_LETTERS = 40  # more letters of a name are dropped


def folder_names(class_names: Sequence[str]) -> list[str]:
    """One folder name for each class, such as `3-cat`. Sorted by name, the folders are in the order of the labels.

    The number makes all names different, and keeps each from being a special name on any system.
    """
    digits = len(str(len(class_names) - 1))
    numbered = [f"{label:0{digits}d}-{_ascii_words(name, '-')}" for label, name in enumerate(class_names)]
    return [folder.rstrip("-") for folder in numbered]


def c_identifier(stem: str) -> str:
    """An identifier for C that resembles the stem of a file name."""
    identifier = _ascii_words(stem, "_").lower() or "mipset"
    return f"set_{identifier}" if identifier[0].isdigit() else identifier


def _ascii_words(text: str, separator: str) -> str:
    """Letters and digits, without their accents, with `separator` for everything between them."""
    plain = unicodedata.normalize("NFKD", text[: 4 * MAX_LETTERS]).encode("ascii", "ignore").decode("ascii")
    return re.sub(r"[^A-Za-z0-9]+", separator, plain)[:MAX_LETTERS].strip(separator)
