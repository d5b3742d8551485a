"""Devices whose free storage changes: how many bytes they download over HTTP, and how accurate they are.

In each round, every device draws a number of free bytes and takes the largest size that fits. With one file whose every
prefix is a training set, a device with more storage downloads only the missing images, and a device with less storage
downloads nothing. Baseline A has one file for each size, so every other size is a new download. Baselines B and C are
one file too: they move the same number of bytes, but their accuracies differ. The server counts the bytes it sends.

Run:   python examples/fleet.py
Takes: some minutes on 2 cores. `--toy` takes some seconds.
       The experiment stays in a folder (`--folder`), so a second run only serves the files again.
Printed (recipe `fashion-mini-gradient-cpu`; 20 devices, 30 rounds, sizes 1, 2, 5 and 10; one seed. Baselines A and B
condense 4 and 10 times, so they do several times the work):

    method        files  published    moved  mean accuracy in %
    every-prefix      1    80.5 kB   8.2 MB               73.63
    baseline-a        4   148.1 kB  15.4 MB               74.81
    baseline-b        1    80.5 kB   8.2 MB               74.38
    baseline-c        1    80.5 kB   8.2 MB               73.14
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from common import Setting, argument_parser, at_least
from counting import CountingServer, serving

from mipset import device
from mipset.display.tables import in_columns
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import EvaluationPlan, Grid
from mipset.experiments.results import Result
from mipset.experiments.run import Machine
from mipset.experiments.scheduling import run_missing
from mipset.experiments.store import Store
from mipset.settings.methods import parse_methods
from mipset.units import byte_count

METHODS = "every-prefix,baseline-a,baseline-b,baseline-c"


class Device:
    """Holds the training images of one size. To change the size, it downloads as few bytes as the files allow."""

    def __init__(self) -> None:
        self.url = ""
        self.subset: device.Subset | None = None

    def take(self, url: str, size: int) -> None:
        """Hold the first `size` images per class of the file at `url`."""
        if self.subset is None or self.url != url:
            self.url, self.subset = url, device.open(url).prefix(size)
        elif size > self.subset.sizes[0]:
            self.subset = self.subset.grow(size)
        else:
            self.subset = self.subset.shrink(size)


def file_of_each_size(result: Result) -> dict[int, str]:
    """The name of the file that holds each size: one file for all sizes, or one file for each."""
    if len(result.files) == 1:
        return dict.fromkeys(result.scores, result.files[0])
    return dict(zip(result.scores, result.files, strict=True))


def moved_bytes(server: CountingServer, files: dict[int, str], schedule: Sequence[Sequence[int]]) -> int:
    """The bytes that the server sends while every device takes its size in every round of the schedule."""
    before, devices = server.sent, [Device() for _ in schedule[0]]
    for sizes in schedule:
        for client, size in zip(devices, sizes, strict=True):
            client.take(server.url(files[size]), size)
    return server.sent - before


def mean_accuracy(scores: Mapping[int, Sequence[float]], schedule: Sequence[Sequence[int]]) -> float:
    """The mean accuracy over all rounds and devices; a device has the mean accuracy of its size."""
    return fmean(fmean(scores[size]) for sizes in schedule for size in sizes)


def drawn_schedule(file: Path, sizes: Sequence[int], rounds: int, devices: int) -> list[list[int]]:
    """For each round and device, the largest size that fits into a drawn number of bytes (log-uniform)."""
    source = device.open(file)
    needed = {size: source.file_bytes(size) for size in sizes}
    low, high = np.log(needed[sizes[0]]), np.log(1.5 * needed[sizes[-1]])
    budgets = np.exp(np.random.default_rng(0).uniform(low, high, (rounds, devices)))
    return [[max(n for n in sizes if n == sizes[0] or needed[n] <= budget) for budget in row] for row in budgets]


def show_stage(stage: str, done: float, total: float) -> None:  # noqa: ARG001
    """Show the present stage of the comparison on one line."""
    print(f"{stage:<60}", end="\r", file=sys.stderr, flush=True)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out/fleet"), help="folder of the experiment")
    parser.add_argument("--devices", type=at_least(1), default=20)
    parser.add_argument("--rounds", type=at_least(1), default=30)
    arguments = parser.parse_args()
    setting = Setting(arguments.toy)
    plan = EvaluationPlan(
        sizes=[1, 2, 3] if arguments.toy else [1, 2, 5, 10],
        protocol=setting.protocol(),
        networks=1 if arguments.toy else 2,
    )
    grid = Grid("fashion-mini-gradient-cpu", setting.data, parse_methods(METHODS), [0], plan, setting.recipe_changes)
    comparison = Comparison(grid, Store(arguments.folder))
    run_missing(comparison, Machine(engine=setting.engine), show_stage)
    results = comparison.results()
    first_file = arguments.folder / results[0].files[0]
    schedule = drawn_schedule(first_file, plan.sizes, arguments.rounds, arguments.devices)
    rows = [["method", "files", "published", "moved", "mean accuracy in %"]]
    with serving(arguments.folder) as server:
        for result in results:
            moved = moved_bytes(server, file_of_each_size(result), schedule)
            published = sum((arguments.folder / name).stat().st_size for name in result.files)
            mean = mean_accuracy(result.scores, schedule)
            rows.append([result.method, str(len(result.files)), *map(byte_count, (published, moved)), f"{mean:.2f}"])
    print(f"{arguments.devices} devices, {arguments.rounds} rounds, sizes {plan.sizes}")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
