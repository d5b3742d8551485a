"""Cells per hour of a comparison on the workers of a dask scheduler on this machine, with 1 and 2 workers.

A cell is a method with a seed: a condensation of fashion-mini and the evaluation of two sizes, with one thread.
Workers have imported everything and have computed a cell before the time begins.

Run:   python benchmarks/executors.py
Takes: some minutes, of which a free core computes one for each number of workers.
Printed: cells per hour, the speed-up, and the processor time of a cell and of the process that gives out the work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from mipset import load
from mipset.display.tables import in_columns
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import EvaluationPlan, Grid
from mipset.experiments.run import Machine
from mipset.experiments.scheduling import run_missing
from mipset.experiments.store import Store
from mipset.io.executors import Place
from mipset.settings.methods import parse_methods
from mipset.settings.protocol import PROTOCOLS

WORKERS = (1, 2)
METHODS, SEEDS = "baseline-c,mdc,every-prefix", range(2)
GRADIENT = {"objective": "gradient", "learner": "trained", "pixel_optimiser": "sgd"}
CHANGES = {**GRADIENT, "ipc": 4, "outer": 2, "inner": 4, "train_images": 128, "width": 32}


def comparison(folder: Path, methods: str, seeds: range) -> Comparison:
    """The cells that are computed."""
    brief = replace(PROTOCOLS["quick"], epochs=2, least_steps=20)
    plan = EvaluationPlan([1, 4], brief, networks=1)
    changes = CHANGES if methods != "random" else {"ipc": 4, "width": 32}
    grid = Grid("demo", load("fashion-mini"), parse_methods(methods), seeds, plan, changes)
    return Comparison(grid, Store(folder))


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[Executor]:
    """The executor of a real scheduler and so many worker processes of one thread."""
    file = folder / "address.json"
    flags = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    processes = [_started("dask_scheduler", flags)]
    try:
        while not (file.exists() and file.read_text()):
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        one = [address, "--no-nanny", "--nthreads", "1", "--no-dashboard"]
        processes += [_started("dask_worker", one) for _ in range(workers)]
        with Place.named(f"dask:{address}").opened(folder) as executor:
            assert executor is not None
            yield executor
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _started(verb: str, flags: list[str]) -> subprocess.Popen[bytes]:
    code = f"import sys; from distributed.cli.{verb} import main; main(sys.argv[1:], standalone_mode=False)"
    return subprocess.Popen([sys.executable, "-c", code, *flags], stderr=subprocess.DEVNULL)


def measured(workers: int, folder: Path) -> tuple[float, float, float]:
    """Seconds of all cells, processor seconds of the workers for them, and those of this process."""
    machine = Machine(threads=1)
    with cluster(workers, folder) as executor:
        run_missing(comparison(folder / "warm", "random", range(2 * workers)), machine, executor=executor)
        before = _all_processor_seconds(executor, workers)
        start, own = time.monotonic(), time.process_time()
        run_missing(comparison(folder / "cells", METHODS, SEEDS), machine, executor=executor)
        seconds, own = time.monotonic() - start, time.process_time() - own
        return seconds, _all_processor_seconds(executor, workers) - before, own


def _all_processor_seconds(executor: Executor, workers: int) -> float:
    """The sum over workers; each is asked several times, since dask chooses who answers."""
    answers = [executor.submit(_who_and_how_long) for _ in range(20 * workers)]
    return sum(dict(answer.result() for answer in answers).values())


def _who_and_how_long() -> tuple[int, float]:
    time.sleep(0.02)
    return os.getpid(), time.process_time()


def main() -> None:
    """Measure, and print the table."""
    cells = len(METHODS.split(",")) * len(SEEDS)
    rows = [["workers", "cells", "time", "cells per hour", "processor time per cell", "of the giving process"]]
    for workers in WORKERS:
        with TemporaryDirectory() as folder:
            seconds, theirs, own = measured(workers, Path(folder))
        per_hour = f"{cells / seconds * 3600:,.0f}"
        rows.append([str(workers), str(cells), f"{seconds:.1f} s", per_hour, f"{theirs / cells:.2f} s", f"{own:.2f} s"])
    print(in_columns(rows))


if __name__ == "__main__":
    main()
