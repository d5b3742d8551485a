"""A fleet of devices whose room for training data comes and goes, served over HTTP.

In every round each device draws how many bytes it may hold, and takes the largest size that fits. With one file of
which every prefix is a set, a device that has more room fetches what is missing, and one that has less fetches nothing.
With a file for each size (Baseline A), another size is another download. Baselines B and C are one file as well, so
they move the same bytes; they differ in accuracy. The server counts what it sends.

The experiment is kept in a folder, so a second run starts from what the first one condensed and measured.

The last run printed (20 devices, 30 rounds, sizes 1, 2, 5 and 10; one seed. A and B condense four and ten times, so
they had several times the work):

    method        files  published    moved  mean accuracy in %
    every-prefix      1    80.5 kB   8.2 MB               73.63
    a                 4   148.1 kB  15.4 MB               74.81
    b                 1    80.5 kB   8.2 MB               74.38
    c                 1    80.5 kB   8.2 MB               73.14
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from common import Setting, at_least, parser
from counting import Server, serving

from mipset import device
from mipset.display.tables import in_columns
from mipset.experiments.experiment import Experiment
from mipset.experiments.methods import methods
from mipset.experiments.results import Result
from mipset.units import byte_count

METHODS = "every-prefix,a,b,c"


class Device:
    """Holds the training data of one size, and changes it by as few bytes as the files allow."""

    def __init__(self) -> None:
        self.url = ""
        self.subset: device.Subset | None = None

    def take(self, url: str, size: int) -> None:
        """Have the first `size` images per class of a file."""
        if self.subset is None or self.url != url:
            self.url, self.subset = url, device.open(url).prefix(size)
        elif size > self.subset.sizes[0]:
            self.subset = self.subset.grow(size)
        else:
            self.subset = self.subset.shrink(size)


def files_by_size(result: Result) -> dict[int, str]:
    """Which file holds each size: one for all of them, or one for each."""
    if len(result.files) == 1:
        return dict.fromkeys(result.scores, result.files[0])
    return dict(zip(result.scores, result.files, strict=True))


def moved(server: Server, files: dict[int, str], plan: Sequence[Sequence[int]]) -> int:
    """The bytes that are sent while every device takes its size, round after round."""
    before, fleet = server.sent, [Device() for _ in plan[0]]
    for sizes in plan:
        for one, size in zip(fleet, sizes, strict=True):
            one.take(server.address(files[size]), size)
    return server.sent - before


def mean_accuracy(scores: Mapping[int, Sequence[float]], plan: Sequence[Sequence[int]]) -> float:
    """Over all rounds and devices: what networks reached on average at the size that each has."""
    return fmean(fmean(scores[size]) for sizes in plan for size in sizes)


def drawn_sizes(file: Path, sizes: Sequence[int], rounds: int, devices: int) -> list[list[int]]:
    """For each round and device the largest size that fits into a drawn number of bytes, small ones as likely."""
    said = device.open(file).about
    needed = {size: said.prefix(size).file_bytes for size in sizes}
    low, high = np.log(needed[sizes[0]]), np.log(1.5 * needed[sizes[-1]])
    budgets = np.exp(np.random.default_rng(0).uniform(low, high, (rounds, devices)))
    return [[max(n for n in sizes if n == sizes[0] or needed[n] <= budget) for budget in row] for row in budgets]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--folder", type=Path, default=Path("out/fleet"), help="where the experiment is kept")
    arguments.add_argument("--devices", type=at_least(1), default=20)
    arguments.add_argument("--rounds", type=at_least(1), default=30)
    chosen = arguments.parse_args()
    setting = Setting(chosen.toy)
    experiment = Experiment(
        *(chosen.folder, "demo", setting.data, methods(METHODS)),
        seeds=[0],
        sizes=[1, 2, 3] if chosen.toy else [1, 2, 5, 10],
        protocol=setting.protocol(),
        networks=1 if chosen.toy else 2,
        given=setting.changes,
        engine=setting.engine,
    )
    for step in experiment.run():
        print(f"{step.note:<60}", end="\r", file=sys.stderr, flush=True)
    results = experiment.results()
    plan = drawn_sizes(chosen.folder / results[0].files[0], experiment.sizes, chosen.rounds, chosen.devices)
    rows = [["method", "files", "published", "moved", "mean accuracy in %"]]
    with serving(chosen.folder) as server:
        for result in results:
            sent = moved(server, files_by_size(result), plan)
            published = sum((chosen.folder / name).stat().st_size for name in result.files)
            mean = mean_accuracy(result.scores, plan)
            rows.append([result.method, str(len(result.files)), *map(byte_count, (published, sent)), f"{mean:.2f}"])
    print(f"{chosen.devices} devices, {chosen.rounds} rounds, sizes {experiment.sizes}")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
