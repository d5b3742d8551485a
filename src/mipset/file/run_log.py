"""The log of a run: JSON lines beside the file that the run writes.

The first line describes the run. Each further line is about one outer iteration. Lines are only added, so a process
that is killed can leave a part of a last line: it is not read, and a run that goes on removes it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mipset.errors import ArtifactError, brief
from mipset.io.files import BINARY, append_whole, write_whole

SUFFIX = ".log.jsonl"  # of the log of a file, after its name
VERSION = 1
DIGITS = 6  # of numbers


@dataclass(frozen=True)
class Entry:
    """What is known after an outer iteration."""

    outer: int  # its number, from 1
    loss: float  # of its last inner iteration
    distances: tuple[float, ...]  # of each size, by the metric, the mean over classes; empty if it was not measured
    selected: tuple[int, ...]  # for each class the size that the policy has selected last; 0 if none
    frozen: tuple[int, ...]  # for each class the length of the frozen prefix
    seconds: float  # since the first iteration of the run, without the time between its processes
    processor_seconds: float  # of the leading process, for the same time
    memory: int | None  # bytes that this process holds; None if the system does not say


@dataclass(frozen=True)
class RunLog:
    """What a log holds."""

    about: Mapping[str, Any]  # the run: class names, recipe, provenance, ...
    entries: Sequence[Entry] = field(default_factory=tuple)

    @property
    def classes(self) -> int:
        return len(self.about["class_names"])


def read_run_log(path: Path) -> RunLog:
    """Read and check a log. A part of a last line, which a killed process can leave, does not count."""
    log, damaged = _read(path)
    if damaged:
        raise ArtifactError(f"Line {damaged} of {path} is damaged. Remove it and all lines after it.")
    return log


def is_run_log(path: Path) -> bool:
    """Whether a file is a log, damaged or not, or empty: then a run may replace it."""
    try:
        with path.open("rb") as stream:
            first = stream.readline()
        return not first or _begins_log(json.loads(first))
    except (OSError, ValueError, RecursionError):
        return False


def begin(path: Path, about: Mapping[str, Any], kept_until: int = 0) -> None:
    """Write the first line of a log. A run that goes on keeps the lines of its first `kept_until` iterations."""
    entries: list[Entry] = []
    with suppress(ArtifactError):  # there is none, or it is damaged: then a new one begins here
        before, _ = _read(path)
        if before.about["recipe"] == json.loads(json.dumps(about["recipe"])):
            entries = [entry for entry in before.entries if entry.outer <= kept_until]
    lines = [json.dumps({"mipset_log": VERSION, **about}), *map(_line, entries)]
    write_whole(path, lambda stream: stream.write("".join(f"{line}\n" for line in lines).encode()))


def add(path: Path, entry: Entry) -> None:
    """Add a line, whole or not at all."""
    line = f"{_line(entry)}\n".encode()
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | BINARY)
    try:
        append_whole(handle, line, path)
    finally:
        os.close(handle)


def _line(entry: Entry) -> str:
    """An entry as JSON: numbers with few digits, and one number for values that all classes share."""
    values: dict[str, Any] = asdict(entry)
    for name in ("selected", "frozen"):
        of_classes: tuple[int, ...] = values[name]
        if len(set(of_classes)) == 1:
            values[name] = of_classes[0]
    values["distances"] = [_short(value) for value in entry.distances]
    values["seconds"], values["processor_seconds"] = round(entry.seconds, 3), round(entry.processor_seconds, 3)
    return json.dumps({**values, "loss": _short(entry.loss)})


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _read(path: Path) -> tuple[RunLog, int]:
    """The lines of a log up to the first that is damaged, and the number of that line, or 0."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
    lines = content.split(b"\n")[:-1]  # after the last end of line there is nothing, or a part of a line
    try:
        about = json.loads(lines[0])
        _check(_begins_log(about) and _is_described(about))
    except (IndexError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} is not the log of a run of mipset.") from error
    classes, damaged = len(about["class_names"]), 0
    entries: dict[int, Entry] = {}  # processes that share a comparison may write the same iteration twice
    for number, line in enumerate(lines[1:], start=2):
        try:
            entry = _entry(json.loads(line), classes)
        except (ValueError, TypeError, KeyError, RecursionError):
            damaged = number
            break
        entries[entry.outer] = entry
    return RunLog(about, [entries[outer] for outer in sorted(entries)]), damaged


def _begins_log(content: object) -> bool:
    return isinstance(content, dict) and content.get("mipset_log") == VERSION


def _is_described(about: Mapping[str, Any]) -> bool:
    """Whether the first line has what readers need."""
    names = about.get("class_names")
    return (
        isinstance(names, list)
        and bool(names)
        and all(isinstance(name, str) for name in names)
        and all(isinstance(about.get(key), dict) for key in ("recipe", "provenance"))
        and type(about.get("outer")) is int
    )


def _entry(content: Mapping[str, Any], classes: int) -> Entry:
    values = {f.name: content[f.name] for f in fields(Entry)}
    for name in ("selected", "frozen"):
        if type(values[name]) is int:
            values[name] = [values[name]] * classes
        values[name] = tuple(values[name])
        _check(len(values[name]) == classes and all(type(value) is int for value in values[name]))
    values["distances"] = tuple(values["distances"])
    numbers = (values["loss"], values["seconds"], values["processor_seconds"], *values["distances"])
    _check(all(_is_number(number) for number in numbers))
    _check(type(values["outer"]) is int and (values["memory"] is None or type(values["memory"]) is int))
    return Entry(**values)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("A value is not possible here.")


def refuse_other_file(path: Path) -> None:
    """Refuse to replace a file that is not a log."""
    if path.exists() and not is_run_log(path):
        raise ArtifactError(f"`log` {brief(path, str)} exists already, and is not a log. Choose another name.")
