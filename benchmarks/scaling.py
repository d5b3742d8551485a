"""What the paper's settings cost: write the two tables in docs/scaling.md, between their marks.

The first has a row for each setting, and several GPUs for one condensation. The second has a row for each table of the
paper, and a worker for each condensation.

The FLOPs are counted (mipset.condensing.costs). The times are computed from them with the assumptions below. Nothing
here is measured.

Run:   python benchmarks/scaling.py
Takes: some seconds.
Printed: docs/scaling.md has the tables. The script also prints the parts of each time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mipset.condensing.costs import Cost, cost
from mipset.display.tables import in_columns
from mipset.settings.paper_recipes import PAPER_CIFAR10, paper_recipe
from mipset.settings.recipe import Recipe
from mipset.units import flop_count

DOCUMENT = Path(__file__).parent.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- benchmarks/scaling.py writes from here -->", "<!-- to here -->"
CELLS_BEGIN, CELLS_END = "<!-- benchmarks/scaling.py writes cells from here -->", "<!-- cells to here -->"

# Assumed, not measured.
PEAK = 19.5e12  # FLOP/s of an A100 in float32, by its data sheet
UTILISATION = 0.3
THROUGHPUT = UTILISATION * PEAK
BANDWIDTH = {8: 200e9, 64: 20e9}  # bytes/s in and out of each GPU: within one machine, and between eight of them
LATENCY = {8: 50e-6, 64: 100e-6}  # seconds of every all-reduce
GPUS = (1, 8, 64)
WORKERS = (1, 2, 10, 100)  # with one GPU each
RUNS = 3  # seeds of every method
PAPER_DATA = {"svhn": (10, 73_257), "cifar10": (10, 50_000), "cifar100": (100, 50_000)}  # classes, training images
PAPER_SIZES = {10: [*range(1, 11)], 50: [*range(1, 11), 20, 30, 40, 50]}
PAPER_METHODS = {10: ("baseline-a", "baseline-b", "baseline-c", "mdc"), 50: ("baseline-a", "baseline-c", "mdc")}
HOUR, DAY, YEAR = 3600, 24 * 3600, 365 * 24 * 3600


@dataclass(frozen=True)
class PaperSetting:
    """A dataset and the recipe of the paper for it."""

    title: str
    network: str
    shape: tuple[int, int, int]
    classes: int
    images: int
    recipe: Recipe

    @property
    def cost(self) -> Cost:
        return cost(self.recipe, self.shape, self.classes, self.images)


def paper_settings() -> list[PaperSetting]:
    """Both CIFAR sets at ipc 10 and 50, ImageNet-10 at 20, and ImageNet-1k, which is not in the paper."""
    small, large = (3, 32, 32), (3, 224, 224)
    imagenet = PAPER_CIFAR10.replace(
        network="resnet-ap", width=64, depth=10, factor=3, outer=500, period=50, train_images=500
    )
    return [
        *(
            PaperSetting(name, "ConvNet-3", small, classes, 50_000, PAPER_CIFAR10.replace(ipc=ipc))
            for name, classes in (("CIFAR-10", 10), ("CIFAR-100", 100))
            for ipc in (10, 50)
        ),
        *(
            PaperSetting(name, "ResNet10-AP", large, classes, images, imagenet.replace(ipc=ipc))
            for name, classes, images, ipcs in (
                ("ImageNet-10", 10, 12_800, (20,)),
                ("ImageNet-1k*", 1000, 1_281_167, (10, 50)),
            )
            for ipc in ipcs
        ),
    ]


def all_reduce_time(run: Cost, gpus: int) -> float:
    """The seconds of one all-reduce of the gradients in a ring; 0 for one GPU."""
    if gpus == 1:
        return 0.0
    return LATENCY[gpus] + 2 * (gpus - 1) / gpus * run.gradient_bytes / BANDWIDTH[gpus]


def matching_time(run: Cost, gpus: int) -> float:
    """The seconds of all matches of a run: each GPU has some classes, and the GPU with the most takes the longest."""
    return run.outer * run.inner * math.ceil(run.classes / gpus) * run.match_flops / THROUGHPUT


def training_time(run: Cost, gpus: int, batch: int) -> float:
    """The seconds of all training steps of a run: each GPU has a part of the batch, then gradients are summed."""
    share = math.ceil(batch / gpus) / batch
    return run.training_steps * (share * run.step_flops / THROUGHPUT + all_reduce_time(run, gpus))


def duration(seconds: float) -> str:
    """A time such as `11 h`, `3.4 days` or `12 years`."""
    for unit, length in (("years", YEAR), ("days", DAY)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.{1 if seconds / length < 10 else 0}f} {unit}"
    return f"{seconds / HOUR:.1f} h"


def counted() -> list[tuple[PaperSetting, Cost]]:
    """All settings with their costs."""
    return [(setting, setting.cost) for setting in paper_settings()]


def table(costs: Sequence[tuple[PaperSetting, Cost]]) -> str:
    """A Markdown table with one row for each setting."""
    rows = [
        [
            *("data", "images per class", "network", "one inner iteration", "the run", "of which matching"),
            *(f"{gpus} GPU" + "s" * (gpus > 1) for gpus in GPUS),
            "gradients",
        ]
    ]
    for setting, run in costs:
        batch = setting.recipe.train_batch
        times = [matching_time(run, gpus) + training_time(run, gpus, batch) for gpus in GPUS]
        share = run.matches * run.match_flops / run.run_flops
        rows.append(
            [
                *(setting.title, str(setting.recipe.ipc), setting.network),
                *(flop_count(run.inner_flops), flop_count(run.run_flops), f"{share:.0%}"),
                duration(times[0]),
                *(f"{duration(seconds)} ({times[0] / seconds:.1f}x)" for seconds in times[1:]),
                f"{run.gradient_bytes / 1e6:.1f} MB",
            ]
        )
    return markdown_table(rows)


def condensation_flops(dataset: str, ipc: int, method: str) -> list[float]:
    """FLOPs of each condensation of a cell."""
    classes, images = PAPER_DATA[dataset]
    recipe = paper_recipe(dataset, ipc, policy="mdc" if method == "mdc" else "baseline-c")
    sizes = {"baseline-a": PAPER_SIZES[ipc], "baseline-b": [1] * ipc}.get(method, [ipc])
    one, two = (_run_flops(recipe.replace(ipc=size), classes, images) for size in (1, 2))
    return [one + (size - 1) * (two - one) for size in sizes]  # every further image costs the same


@cache
def _run_flops(recipe: Recipe, classes: int, images: int) -> float:
    return cost(recipe, (3, 32, 32), classes, images).run_flops


def makespan(pieces: Sequence[float], workers: int) -> float:
    """The seconds of pieces of so many FLOPs: the longest first, each to the worker that is free first."""
    free = [0.0] * workers
    for flops in sorted(pieces, reverse=True):
        heapq.heapreplace(free, free[0] + flops / THROUGHPUT)
    return max(free)


def cell_table() -> str:
    """A Markdown table with one row for each table of the paper."""
    titles = ("table", "cells", "condensations", "work", "longest condensation")
    rows = [[*titles, *(f"{n} worker" + "s" * (n > 1) for n in WORKERS)]]
    every: list[list[float]] = []
    for ipc, methods in PAPER_METHODS.items():
        cells = [
            condensation_flops(data, ipc, method) for data in PAPER_DATA for method in methods for _ in range(RUNS)
        ]
        rows.append(_cell_row(f"SVHN, CIFAR-10 and CIFAR-100 at {ipc}", cells))
        every += cells
    rows.append(_cell_row("both", every))
    return markdown_table(rows)


def _cell_row(title: str, cells: Sequence[Sequence[float]]) -> list[str]:
    pieces = [flops for cell in cells for flops in cell]
    one = makespan(pieces, 1)
    times = [f"{duration(makespan(pieces, n))} ({one / makespan(pieces, n):.1f}x)" for n in WORKERS[1:]]
    work, longest = flop_count(round(math.fsum(pieces))), duration(max(pieces) / THROUGHPUT)
    return [title, str(len(cells)), str(len(pieces)), work, longest, duration(one), *times]


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as Markdown; the first has the titles."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def updated(document: str, costs: Sequence[tuple[PaperSetting, Cost]]) -> str:
    """The document with tables of the present costs."""
    document = _replaced(document, BEGIN, table(costs), END)
    return _replaced(document, CELLS_BEGIN, cell_table(), CELLS_END)


def _replaced(document: str, begin: str, written: str, end: str) -> str:
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{written}\n{end}{after}"


def main() -> None:
    """Rewrite the tables, and print the parts of each time."""
    costs = counted()
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8"), costs), encoding="utf-8")
    rows = [["", "", "GPUs", "matching", "training", "of which all-reduce"]]
    for setting, run in costs:
        batch = setting.recipe.train_batch
        for gpus in GPUS:
            reducing = run.training_steps * all_reduce_time(run, gpus)
            parts = (matching_time(run, gpus), training_time(run, gpus, batch), reducing)
            rows.append([setting.title, str(setting.recipe.ipc), str(gpus), *map(duration, parts)])
    print(in_columns(rows))


if __name__ == "__main__":
    main()
