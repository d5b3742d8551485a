"""Text for the terminal: counts, amounts of bytes, lines with titles, results, and messages on standard error."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mipset.errors import printable
from mipset.units import byte_count, duration


def counted(number: int, noun: str) -> str:
    """`1 image`, `2 images`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def time_of_run(seconds: float, of_experts: float | None, kind: str = "") -> str:
    """`3:00, of which 1:00 for experts`: how long a condensation took. `kind` is said after the first time."""
    return duration(seconds) + kind + (f", of which {duration(of_experts)} for experts" if of_experts else "")


def bytes_of(path: Path) -> str:
    """`30.7 kB`: the length of a file, or of all files in a folder."""
    return byte_count(length_of(path))


def length_of(path: Path) -> int:
    """The bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in (path.rglob("*.*") if path.is_dir() else [path]))


def titled_lines(rows: Mapping[str, str]) -> str:
    """One line per text. Titles are on the left, texts in one column."""
    width = max(map(len, rows)) + 2
    return "\n".join(f"{title:<{width}}{text}" for title, text in rows.items())


def print_result(arguments: argparse.Namespace, facts: object, text: str) -> None:
    """Print what a verb has found or done: as text, or with `--json` as one value of JSON, which programs can read."""
    print(json.dumps(facts, indent=2, default=str) if arguments.json else text)


def file_facts(path: Path, ipc: int, class_names: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """What every verb that writes a set says about it."""
    return {"file": str(path), "ipc": ipc, "classes": len(class_names), "bytes": length_of(path), **more}


def print_message(sentence: str) -> None:
    """Print `mipset: SENTENCE` on standard error."""
    # A file name may contain line breaks and control characters: the message stays one harmless line.
    print("mipset:", printable(" ".join(sentence.split())), file=sys.stderr)
