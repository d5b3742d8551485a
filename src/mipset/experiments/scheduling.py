"""Runs what is missing of a comparison, in this process or on the workers of an executor.

The folder is the only state. Whoever computes a cell claims it, so several commands, on several machines, may share a
folder: none of them computes what another one is computing. It goes on with other cells, and at last waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from mipset.errors import DivergedError, LostWorkerError
from mipset.experiments.comparison import Comparison
from mipset.experiments.run import FlopProgress, Machine, Runner
from mipset.experiments.store import Store
from mipset.experiments.workload import Workload
from mipset.io.claims import HeldError
from mipset.io.executors import Jobs, Sent, ThisProcess, sent
from mipset.io.locks import Holder
from mipset.reporting import Report, silent

POLL_SECONDS = 1.0  # between two looks at what other commands have done
SHOWN = 3  # cells that are named in a line of progress


def run_missing(
    comparison: Comparison,
    machine: Machine | None = None,
    report: Report = silent,
    executor: Executor | None = None,
) -> None:
    """Run what is missing of a comparison; `report` is called with FLOPs. After each result, tables are written.

    With an executor, its workers run whole cells. They must see the folder of the comparison under the same path.
    """
    folder, machine = comparison.store.folder, machine or Machine()
    folder.mkdir(parents=True, exist_ok=True)
    progress = FlopProgress(Workload(comparison).flops(comparison.grid.cells), report)
    with ExitStack() as stack:
        jobs: Jobs[int] = Jobs(ThisProcess() if executor is None else executor)
        if executor is None:
            runner = Runner(comparison, machine, progress)

            def start(number: int) -> None:
                jobs.submit(number, runner.run_cell, comparison.grid.cells[number])
        else:
            shared = replace(comparison, store=Store(folder.absolute()))
            work = stack.enter_context(sent((shared, machine), folder))

            def start(number: int) -> None:
                jobs.submit(number, run_in_worker, work, number)

        stack.callback(jobs.cancel)
        _Schedule(comparison, progress, jobs, start, remote=executor is not None).run()


def run_in_worker(work: Sent, number: int) -> None:
    """Run a cell in the process of a worker."""
    comparison, machine = work.value
    machine.prepare()
    Runner(comparison, machine, FlopProgress(0.0, silent)).run_cell(comparison.grid.cells[number])


@dataclass
class _Schedule:
    """Gives cells to workers, until no cell is missing."""

    comparison: Comparison
    progress: FlopProgress
    jobs: Jobs[int]
    start: Callable[[int], None]
    remote: bool  # whether workers compute, and not this process
    failures: dict[int, DivergedError | LostWorkerError] = field(default_factory=dict)

    def run(self) -> None:
        """Run all cells. Cells that fail are named in one error at the end."""
        unfinished = self.comparison.unfinished()
        while True:
            held = self._start_some([n for n in unfinished if n not in {*self.jobs.keys, *self.failures}])
            if not self.jobs and not held:
                break
            self._tell(held)
            done = {number for number, future in self._finished() if self._is_done(number, future.exception())}
            before, unfinished = unfinished, self.comparison.unfinished()
            if self.remote or held:
                self._count(set(before) - set(unfinished), done)
        if self.failures:
            lost = any(isinstance(error, LostWorkerError) for error in self.failures.values())
            sentences = [f"{self._name(number)}: {error}" for number, error in self.failures.items()]
            raise (LostWorkerError if lost else DivergedError)(" ".join(sentences))

    def _start_some(self, numbers: list[int]) -> dict[int, Holder]:
        """Start all cells that can be computed now: all of them on workers, one in this process.

        The result is the cells that other commands compute. Cells that share a condensation take turns.
        """
        cells = self.comparison.grid.cells
        runs = {run for number in self.jobs.keys for run in cells[number].condensations}
        held: dict[int, Holder] = {}
        for number in numbers:
            needed = set(self.comparison.missing_runs([cells[number]]))
            holder = None if needed & runs else self.comparison.holder(cells[number])
            if holder is not None:
                held[number] = holder
            elif not needed & runs and (self.remote or not self.jobs):
                self.start(number)
                runs |= needed
        return held

    def _finished(self) -> list[tuple[int, Future[None]]]:
        if not self.jobs:
            time.sleep(POLL_SECONDS)
            return []
        return self.jobs.finished(POLL_SECONDS)

    def _is_done(self, number: int, error: BaseException | None) -> bool:
        if isinstance(error, DivergedError | LostWorkerError):  # the other cells can still be compared
            self.failures[number] = error
        elif error is not None and not isinstance(error, HeldError):  # another command computes a cell that is held
            raise error
        return error is None

    def _count(self, gone: set[int], done: set[int]) -> None:
        """Count the work of cells that are finished: `done` by our workers, or by another command."""
        if not gone:
            return
        flops = self.progress.total - self.progress.done - Workload(self.comparison).flops(self.comparison.grid.cells)
        stage = f"{'; '.join(map(self._name, sorted(gone)))}: finished"
        if gone & done:
            self.progress.add(flops, stage)
        else:
            self.progress.skip(flops, stage)

    def _tell(self, held: dict[int, Holder]) -> None:
        """Show what workers do, and for which other commands this one waits."""
        given = [self._name(number) for number in self.jobs.keys] if self.remote else []
        more = f" and {len(given) - SHOWN} more" if len(given) > SHOWN else ""
        texts = [f"at workers: {'; '.join(given[:SHOWN])}{more}"] if given else []
        texts += [f"waiting for {self._name(number)}: {held[number]} computes it" for number in list(held)[:SHOWN]]
        if given or (held and not self.jobs):
            self.progress.add(0.0, ", ".join(texts))

    def _name(self, number: int) -> str:
        return str(self.comparison.grid.cells[number])
