"""Results: one line of JSON for each finished cell and architecture.

Several processes may read and add to one file. A cell is one method with one seed.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from mipset.errors import ArtifactError
from mipset.experiments.digests import with_digest, without_digest
from mipset.io.claims import claimed_in_turn
from mipset.io.files import BINARY, append_whole

READS, READ_PAUSE = 5, 0.05  # of a file whose last line is not whole, and the seconds between them
LOG = "log.jsonl"  # the log of a condensation, in its folder


@dataclass(frozen=True)
class Result:
    """What one cell gave, at the end of its run or after `outer` iterations of it."""

    cell: str  # hash of everything that the result depends on
    table: str  # hash of everything that the cells of one table share
    method: str
    seed: int
    outer: int
    final: bool
    network: str
    protocol: str
    scores: Mapping[int, Sequence[float]]  # for each size the accuracy of each network, in percent
    condensations: int
    images: int  # stored images of all classes
    bytes: int  # of these images
    seconds: float  # of condensation and selection, without evaluation
    forward: int  # passes over a batch
    backward: int
    files: Sequence[str] = field(default_factory=list)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""  # on which `seconds` were measured

    @property
    def means(self) -> dict[int, float]:
        """For each size the mean over networks."""
        return {size: statistics.fmean(values) for size, values in self.scores.items()}

    @property
    def mean(self) -> float:
        """The mean over sizes and networks."""
        return statistics.fmean(self.means.values())

    @property
    def by_network(self) -> list[float]:
        """For each network the mean over sizes."""
        return [statistics.fmean(values) for values in zip(*self.scores.values(), strict=True)]


def read_results(path: Path) -> list[Result]:
    """All results in a file of JSON lines; an empty list if there is no file."""
    if not path.exists():
        return []
    for _ in range(READS):
        content = path.read_bytes()
        results = [_read_line(line) for line in content.splitlines()]
        if content.endswith(b"\n") or not content or results[-1] is not None:
            break
        time.sleep(READ_PAUSE)  # another process adds a line at the moment
    if None in results:
        number = results.index(None) + 1
        raise ArtifactError(f"Line {number} of {path} is damaged. Remove the line, and its cell is run again.")
    return [result for result in results if result is not None]


def _read_line(line: bytes) -> Result | None:
    """The result in a line; None if the line is damaged."""
    try:
        return _parse(without_digest(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


TYPES: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def _parse(content: dict[str, Any]) -> Result:
    scores = {int(size): [float(value) for value in values] for size, values in content["scores"].items()}
    if not scores or not all(scores.values()) or len({len(values) for values in scores.values()}) != 1:
        raise ValueError("scores")
    values = {f.name: content[f.name] for f in fields(Result) if f.name in content}
    for f in fields(Result):
        if f.name in values and not isinstance(values[f.name], TYPES.get(str(f.type), object)):
            raise TypeError(f.name)
    return Result(**{**values, "scores": scores})


def add_result(path: Path, result: Result) -> None:
    """Add one line, whole or not at all. Processes of all machines that share the disk take turns."""
    line = (with_digest(asdict(result)) + "\n").encode()
    with claimed_in_turn(path.with_suffix(".claim")):
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | BINARY, 0o666)
        try:
            if os.fstat(handle).st_size:
                os.lseek(handle, -1, os.SEEK_END)
                if os.read(handle, 1) != b"\n":  # an editor can remove the last end of line
                    line = b"\n" + line
            append_whole(handle, line, path)
            os.fsync(handle)
        finally:
            os.close(handle)
