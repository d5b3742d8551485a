"""Comparisons: a grid together with the folder of its results."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from mipset.experiments.builders import Condensation
from mipset.experiments.grid import Cell, EvaluationTarget, Grid
from mipset.experiments.results import Result
from mipset.experiments.store import BuiltSets, RunFolder, Store
from mipset.file.provenance import Provenance
from mipset.io.claims import holder_of
from mipset.io.locks import Holder


@dataclass(frozen=True)
class Comparison:
    """Knows which parts of a grid are finished and which are missing."""

    grid: Grid
    store: Store
    origin: Provenance = field(default_factory=Provenance)  # arguments with which the data were loaded
    remark: str = ""  # a sentence for readers of the tables

    def results(self) -> list[Result]:
        """All results in the folder that belong to the table of this grid."""
        return self.grid.table(self.store.results())

    def others(self) -> int:
        """How many results in the folder do not belong to this table, because their settings are others."""
        shown = {result.cell for result in self.results()}
        return len({result.cell for result in self.store.results()} - shown)

    def missing(self, cell: Cell) -> list[EvaluationTarget]:
        """The results of a cell that are not in the folder."""
        return self._missing(cell, self._finished())

    def unfinished(self) -> list[int]:
        """The numbers of the cells of which results are missing. The folder is read once."""
        finished = self._finished()
        return [number for number, cell in enumerate(self.grid.cells) if self._missing(cell, finished)]

    def _finished(self) -> set[str]:
        """The keys of the results in the folder."""
        return {result.cell for result in self.results()}

    def _missing(self, cell: Cell, finished: Set[str]) -> list[EvaluationTarget]:
        return [target for target in cell.targets if self.grid.result_key(cell, target) not in finished]

    def claim(self, cell: Cell) -> Path:
        """The claim of the process that computes a cell."""
        return self.store.claim(self.grid.sets_name(cell, cell.recipe.outer))

    def holder(self, cell: Cell) -> Holder | None:
        """The process that computes a cell, or one of its condensations, at the moment."""
        runs = (self.run_folder(run) for run in cell.condensations)
        claims = [self.claim(cell), *(run.claim for run in runs if not run.holds(cell.outers))]
        return next((holder for holder in map(holder_of, claims) if holder is not None), None)

    def missing_runs(self, cells: Sequence[Cell]) -> list[Condensation]:
        """The condensations that the missing results of some cells need, each once."""
        runs = dict.fromkeys(run for cell in cells if self.missing(cell) for run in cell.condensations)
        outers: dict[Condensation, set[int]] = {}
        for cell in cells:
            for run in cell.condensations:
                outers.setdefault(run, set()).update(cell.outers)
        return [run for run in runs if not self.run_folder(run).holds(outers[run])]

    def run_folder(self, run: Condensation) -> RunFolder:
        """The folder of a condensation."""
        return self.store.run(self.grid.run_key(run))

    def built_sets(self, cell: Cell, outer: int) -> BuiltSets | None:
        """The sets of a cell, if an earlier process built them."""
        return self.store.read_sets_note(self.grid.sets_name(cell, outer))
