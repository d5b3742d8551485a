"""Runs what is missing of a comparison, in this process or on the workers of an executor.

The folder is the only state. Whoever computes a cell or a condensation claims it, so several commands, on several
machines, may share a folder: none of them computes what another one is computing. It goes on with other cells, and at
last waits.

Workers get pieces. A cell with several condensations, such as Baseline A, is as many pieces as condensations are
missing, and a last one for its sets and their evaluation. So many workers can share one cell, and a condensation that
several cells need is run once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from mipset.errors import DivergedError, LostWorkerError
from mipset.experiments.builders import Condensation
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import Cell
from mipset.experiments.run import FlopProgress, Machine, Runner
from mipset.experiments.store import Store
from mipset.experiments.workload import Workload
from mipset.io.claims import HeldError, holder_of
from mipset.io.executors import Jobs, Sent, ThisProcess, sent
from mipset.io.locks import Holder
from mipset.reporting import Report, silent

POLL_SECONDS = 1.0  # between two looks at what other commands have done
SHOWN = 3  # pieces that are named in a line of progress


def run_missing(
    comparison: Comparison,
    machine: Machine | None = None,
    report: Report = silent,
    executor: Executor | None = None,
) -> None:
    """Run what is missing of a comparison; `report` is called with FLOPs. After each result, tables are written.

    With an executor, its workers run single condensations, and then the rest of each cell. They must see the folder of
    the comparison under the same path.
    """
    folder, machine = comparison.store.folder, machine or Machine()
    folder.mkdir(parents=True, exist_ok=True)
    progress = FlopProgress(Workload(comparison).flops(comparison.grid.cells), report)
    with ExitStack() as stack:
        jobs: Jobs[Piece] = Jobs(ThisProcess() if executor is None else executor)
        if executor is None:
            runner = Runner(comparison, machine, progress)

            def start(piece: Piece) -> None:
                jobs.submit(piece, piece.compute, runner)
        else:
            shared = replace(comparison, store=Store(folder.absolute()))
            work = stack.enter_context(sent((shared, machine), folder))

            def start(piece: Piece) -> None:
                jobs.submit(piece, compute_in_worker, work, piece)

        stack.callback(jobs.cancel)
        _Schedule(comparison, progress, jobs, start, remote=executor is not None).run()


@dataclass(frozen=True)
class Piece:
    """Work for one worker: one condensation of a cell, or everything that is still missing of the cell."""

    number: int  # of the cell
    run: Condensation | None = None

    def compute(self, runner: Runner) -> None:
        """Do the work."""
        cell = runner.comparison.grid.cells[self.number]
        if self.run is None:
            runner.run_cell(cell)
        else:
            runner.condense(self.run, cell)


def compute_in_worker(work: Sent, piece: Piece) -> None:
    """Do a piece of work in the process of a worker."""
    comparison, machine = work.value
    machine.prepare()
    piece.compute(Runner(comparison, machine, FlopProgress(0.0, silent)))


@dataclass
class _Schedule:
    """Gives pieces to workers, until no cell is missing."""

    comparison: Comparison
    progress: FlopProgress
    jobs: Jobs[Piece]
    start: Callable[[Piece], None]
    remote: bool  # whether workers compute, and not this process
    failures: dict[int, DivergedError | LostWorkerError] = field(default_factory=dict)  # by the number of the cell

    def run(self) -> None:
        """Run all cells. Cells that fail are named in one error at the end."""
        unfinished, held, changed = self.comparison.unfinished(), dict[int, Holder](), True
        while True:
            if changed or held:  # else nothing new can be started, and the folder need not be read
                held = self._start_some([number for number in unfinished if number not in self.failures])
            if not self.jobs and not held:
                break
            self._tell(held)
            finished = self._finished()
            changed = bool(finished)
            done = [piece for piece, future in finished if self._is_done(piece, future.exception())]
            before, unfinished = unfinished, self.comparison.unfinished()
            if self.remote or held:
                self._count(set(before) - set(unfinished), done)
        if self.failures:
            lost = any(isinstance(error, LostWorkerError) for error in self.failures.values())
            sentences = [f"{self._cell(number)}: {error}" for number, error in self.failures.items()]
            raise (LostWorkerError if lost else DivergedError)(" ".join(sentences))

    def _cell(self, number: int) -> Cell:
        return self.comparison.grid.cells[number]

    def _name(self, piece: Piece) -> str:
        cell = self._cell(piece.number)
        return str(cell) if piece.run is None else cell.name_of(piece.run)

    def _start_some(self, numbers: list[int]) -> dict[int, Holder]:
        """Start all pieces that can be computed now: all of them on workers, one in this process.

        The result is the cells of which other commands compute a piece.
        """
        held: dict[int, Holder] = {}
        for number in numbers:
            for piece in self._pieces(number):
                holder = self._holder(piece)
                if holder is not None:
                    held[number] = holder
                elif self.remote or not self.jobs:
                    self.start(piece)
        return held

    def _pieces(self, number: int) -> list[Piece]:
        """What can be computed now of a cell, and is not being computed by us."""
        cell, given = self._cell(number), self.jobs.keys
        missing = self.comparison.missing_runs([cell]) if self.remote else []
        if missing:
            running = {piece.run for piece in given}
            return [Piece(number, run) for run in missing if run not in running and run.of not in missing]
        return [] if number in {piece.number for piece in given} else [Piece(number)]

    def _holder(self, piece: Piece) -> Holder | None:
        """The process of another command that computes a piece at the moment."""
        if piece.run is None:
            return self.comparison.holder(self._cell(piece.number))
        return holder_of(self.comparison.run_folder(piece.run).claim)

    def _finished(self) -> list[tuple[Piece, Future[None]]]:
        if not self.jobs:
            time.sleep(POLL_SECONDS)
            return []
        return self.jobs.finished(POLL_SECONDS)

    def _is_done(self, piece: Piece, error: BaseException | None) -> bool:
        if isinstance(error, DivergedError | LostWorkerError):  # the other cells can still be compared
            needs = [n for n, cell in enumerate(self.comparison.grid.cells) if piece.run in cell.condensations]
            self.failures |= dict.fromkeys(needs or [piece.number], error)
        elif error is not None and not isinstance(error, HeldError):  # another command computes a piece that is held
            raise error
        return error is None

    def _count(self, gone: set[int], done: list[Piece]) -> None:
        """Count the work that is finished: pieces that our workers have `done`, and cells of another command."""
        if not gone and not done:
            return
        flops = self.progress.total - self.progress.done - Workload(self.comparison).flops(self.comparison.grid.cells)
        names = map(self._name, done or map(Piece, sorted(gone)))
        stage = f"{'; '.join(names)}: finished"
        if done:
            self.progress.add(flops, stage)
        else:
            self.progress.skip(flops, stage)

    def _tell(self, held: dict[int, Holder]) -> None:
        """Show what workers do, and for which other commands this one waits."""
        given = list(map(self._name, self.jobs.keys)) if self.remote else []
        more = f" and {len(given) - SHOWN} more" if len(given) > SHOWN else ""
        texts = [f"at workers: {'; '.join(given[:SHOWN])}{more}"] if given else []
        texts += [f"waiting for {self._cell(number)}: {held[number]} computes it" for number in list(held)[:SHOWN]]
        if given or (held and not self.jobs):
            self.progress.add(0.0, ", ".join(texts))
