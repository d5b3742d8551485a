"""The folder of a comparison.

    runs/KEY/      one condensation: sets after chosen outer iterations and at the end, with notes; log; checkpoint
    sets/          sets that were built from several condensations, selected or reordered, with notes
    *.claim.1      in both: which process computes it now (`mipset.io.claims`)
    results.jsonl  one line for each result
    results.md, results.csv, results.svg, during.svg   what `mipset.experiments.report` writes

KEY is a hash of the recipe, the data and the version, so methods that need the same condensation share it. Networks are
evaluated on sets that were read from these files, never on sets in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mipset.condensing.passes import Passes
from mipset.errors import ArtifactError
from mipset.experiments.digests import with_digest, without_digest
from mipset.experiments.results import LOG, Result, add_result, read_results
from mipset.file.artifact import Artifact, read
from mipset.io.files import write_whole


@dataclass(frozen=True)
class RunFolder:
    """The folder of one condensation."""

    path: Path

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def claim(self) -> Path:
        """Of the process that runs the condensation."""
        return self.path / "claim"

    @property
    def log(self) -> Path:
        return self.path / LOG

    def set_file(self, outer: int) -> Path:
        """The set after an outer iteration."""
        return self.path / f"{outer}.safetensors"

    def holds(self, outers: Iterable[int]) -> bool:
        """Whether the sets after all these outer iterations are there."""
        return all(
            self.set_file(outer).exists() and self.set_file(outer).with_suffix(".json").exists() for outer in outers
        )

    def write(self, outer: int, artifact: Artifact, seconds: float, about: Mapping[str, Any]) -> None:
        """Store the set after an outer iteration, and how long the run took until then."""
        artifact.write(self.set_file(outer))
        note = with_digest({"seconds": round(seconds, 3), **about})
        write_text(self.set_file(outer).with_suffix(".json"), note)

    def read(self, outer: int) -> tuple[Artifact, float]:
        """The set after an outer iteration, and how long the run took until then."""
        file = self.set_file(outer)
        return _read_set(file, remove=self.path), float(_read_note(file.with_suffix(".json"), self.path)["seconds"])


@dataclass(frozen=True)
class BuiltSets:
    """The sets of a cell: the file that holds each size, and the cost of all of them."""

    paths: Mapping[int, Path]
    seconds: float
    passes: Passes

    def by_file(self) -> Iterator[tuple[Artifact, list[int]]]:
        """Each file with the sizes that are prefixes of it."""
        for path in self.files:
            in_run = path.parent.parent.name == "runs"
            yield _read_set(path, path.parent if in_run else path), [n for n in self.paths if self.paths[n] == path]

    @property
    def files(self) -> list[Path]:
        """Each file once."""
        return list(dict.fromkeys(self.paths.values()))


@dataclass(frozen=True)
class Store:
    """The folder of a comparison. Keys and names come from `mipset.experiments.grid`."""

    folder: Path

    def run(self, key: str) -> RunFolder:
        """The folder of the condensation with this key."""
        return RunFolder(self.folder / "runs" / key)

    def set_file(self, name: str) -> Path:
        """A set that is not the set of one condensation."""
        return self.folder / "sets" / f"{name}.safetensors"

    def claim(self, name: str) -> Path:
        """Of the process that computes the cell whose sets have this name."""
        return self.set_file(name).with_suffix(".claim")

    def write_set(self, name: str, artifact: Artifact) -> Path:
        """Store a set that is not the set of one condensation."""
        path = self.set_file(name)
        path.parent.mkdir(exist_ok=True)
        artifact.write(path)
        return path

    def write_sets_note(self, name: str, sets: BuiltSets) -> None:
        """Note which files hold the sets of a cell."""
        paths = {size: self.relative(path) for size, path in sets.paths.items()}
        note = self.set_file(name).with_suffix(".json")
        note.parent.mkdir(exist_ok=True)
        write_text(note, with_digest({"paths": paths, "seconds": round(sets.seconds, 3), **asdict(sets.passes)}))

    def read_sets_note(self, name: str) -> BuiltSets | None:
        """The sets of a cell, if an earlier process built them and all files are there."""
        path = self.set_file(name).with_suffix(".json")
        if not path.exists():
            return None
        note = _read_note(path, remove=path)
        try:
            paths = {int(size): self.folder / file for size, file in note["paths"].items()}
            passes = Passes(int(note["forward"]), int(note["backward"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unusable(path, remove=path) from error
        if not all(file.exists() for file in paths.values()):
            return None
        return BuiltSets(paths, float(note["seconds"]), passes)

    def relative(self, path: Path) -> str:
        """A path within the folder, as results and notes hold it."""
        return path.relative_to(self.folder).as_posix()

    @property
    def results_file(self) -> Path:
        return self.folder / "results.jsonl"

    def results(self) -> list[Result]:
        """All results, in the order in which they were added."""
        return read_results(self.results_file)

    def add_result(self, result: Result) -> None:
        """Add a result, whole or not at all."""
        add_result(self.results_file, result)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda stream: stream.write(text.encode()))


def _unusable(path: Path, remove: Path) -> ArtifactError:
    return ArtifactError(f"{path} is damaged. Remove {remove}, and the next run makes it again.")


def _read_set(path: Path, remove: Path) -> Artifact:
    """Read a set; `remove` is what the user must remove if the set is damaged."""
    try:
        return read(path)
    except ArtifactError as error:
        raise _unusable(path, remove) from error


def _read_note(path: Path, remove: Path) -> dict[str, Any]:
    """Read the note beside a set."""
    try:
        note = without_digest(path.read_bytes())
        float(note["seconds"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unusable(path, remove) from error
    return note
