"""Comparisons: a grid together with the folder of its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mipset.experiments.builders import Condensation
from mipset.experiments.grid import Cell, EvaluationTarget, Grid
from mipset.experiments.results import Result
from mipset.experiments.store import BuiltSets, RunFolder, Store
from mipset.file.provenance import Provenance


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

    def missing(self, cell: Cell) -> list[EvaluationTarget]:
        """The results of a cell that are not in the folder."""
        finished = {result.cell for result in self.results()}
        return [target for target in cell.targets if self.grid.result_key(cell, target) not in finished]

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
