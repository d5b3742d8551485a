"""Text for the terminal: counts, amounts of bytes, lines with titles, and messages on standard error."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from mipset.errors import printable
from mipset.units import byte_count


def counted(number: int, noun: str) -> str:
    """`1 image`, `2 images`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def bytes_of(path: Path) -> str:
    """`30.7 kB`: the length of a file, or of all files in a folder."""
    return byte_count(sum(file.stat().st_size for file in (path.rglob("*.*") if path.is_dir() else [path])))


def titled_lines(rows: Mapping[str, str]) -> str:
    """One line per text. Titles are on the left, texts in one column."""
    width = max(map(len, rows)) + 2
    return "\n".join(f"{title:<{width}}{text}" for title, text in rows.items())


def print_message(sentence: str) -> None:
    """Print `mipset: SENTENCE` on standard error."""
    # A file name may contain line breaks and control characters: the message stays one harmless line.
    print("mipset:", printable(" ".join(sentence.split())), file=sys.stderr)
