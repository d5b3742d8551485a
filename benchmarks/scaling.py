"""What the paper's settings cost: writes the table in docs/scaling.md, between its two marks.

FLOPs are counted (mipset.costs); times follow from them by the assumptions below. Nothing here is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mipset.condensing.costs import Cost, cost
from mipset.display.tables import in_columns
from mipset.settings.catalogue import PAPER_CIFAR10
from mipset.settings.recipe import Recipe
from mipset.units import flop_count

DOCUMENT = Path(__file__).parent.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- benchmarks/scaling.py writes from here -->", "<!-- to here -->"

# Assumed, not measured.
PEAK = 19.5e12  # FLOP/s of an A100 in float32, by its data sheet
UTILISATION = 0.3
THROUGHPUT = UTILISATION * PEAK
BANDWIDTH = {8: 200e9, 64: 20e9}  # bytes/s in and out of each GPU: within one machine, and between eight of them
LATENCY = {8: 50e-6, 64: 100e-6}  # seconds of every all-reduce
GPUS = (1, 8, 64)
HOUR, DAY, YEAR = 3600, 24 * 3600, 365 * 24 * 3600


@dataclass(frozen=True)
class Setting:
    """A dataset and how the paper condenses it."""

    title: str
    network: str
    shape: tuple[int, int, int]
    classes: int
    images: int
    recipe: Recipe

    @property
    def cost(self) -> Cost:
        return cost(self.recipe, self.shape, self.classes, self.images)


def settings() -> list[Setting]:
    """ipc 10 and 50 of both CIFAR sets; ImageNet-10 at 20, as in the paper; ImageNet-1k as if it were in the paper."""
    small, large = (3, 32, 32), (3, 224, 224)
    imagenet = PAPER_CIFAR10.replace(
        network="resnet-ap", width=64, depth=10, factor=3, outer=500, period=50, train_images=500
    )
    return [
        *(
            Setting(name, "ConvNet-3", small, classes, 50_000, PAPER_CIFAR10.replace(ipc=ipc))
            for name, classes in (("CIFAR-10", 10), ("CIFAR-100", 100))
            for ipc in (10, 50)
        ),
        *(
            Setting(name, "ResNet10-AP", large, classes, images, imagenet.replace(ipc=ipc))
            for name, classes, images, ipcs in (
                ("ImageNet-10", 10, 12_800, (20,)),
                ("ImageNet-1k*", 1000, 1_281_167, (10, 50)),
            )
            for ipc in ipcs
        ),
    ]


def communication(found: Cost, gpus: int) -> float:
    """Seconds of one all-reduce of the gradients, in a ring; 0 where there is nobody to talk to."""
    if gpus == 1:
        return 0.0
    return LATENCY[gpus] + 2 * (gpus - 1) / gpus * found.gradient_bytes / BANDWIDTH[gpus]


def matching_time(found: Cost, gpus: int) -> float:
    """Seconds of all matches of a run: classes are shared out, and the slowest GPU has the most of them."""
    return found.outer * found.inner * math.ceil(found.classes / gpus) * found.match_flops / THROUGHPUT


def training_time(found: Cost, gpus: int, batch: int) -> float:
    """Seconds of all training steps of a run: images of a batch are shared out, then gradients are summed."""
    share = math.ceil(batch / gpus) / batch
    return found.training_steps * (share * found.step_flops / THROUGHPUT + communication(found, gpus))


def long(seconds: float) -> str:
    """`11 h`, `3.4 days`, `12 years`."""
    for unit, size, least in (("years", YEAR, 2 * YEAR), ("days", DAY, 2 * DAY)):
        if seconds >= least:
            return f"{seconds / size:,.{1 if seconds / size < 10 else 0}f} {unit}"
    return f"{seconds / HOUR:.1f} h"


def counted() -> list[tuple[Setting, Cost]]:
    return [(setting, setting.cost) for setting in settings()]


def table(costs: Sequence[tuple[Setting, Cost]]) -> str:
    """One row for each setting, as Markdown."""
    rows = [
        [
            *("data", "images per class", "network", "one inner iteration", "the run", "of which matching"),
            *(f"{gpus} GPU" + "s" * (gpus > 1) for gpus in GPUS),
            "gradients",
        ]
    ]
    for setting, found in costs:
        batch = setting.recipe.train_batch
        times = [matching_time(found, gpus) + training_time(found, gpus, batch) for gpus in GPUS]
        share = found.matches * found.match_flops / found.run_flops
        rows.append(
            [
                *(setting.title, str(setting.recipe.ipc), setting.network),
                *(flop_count(found.inner_flops), flop_count(found.run_flops), f"{share:.0%}"),
                long(times[0]),
                *(f"{long(seconds)} ({times[0] / seconds:.1f}x)" for seconds in times[1:]),
                f"{found.gradient_bytes / 1e6:.1f} MB",
            ]
        )
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|---" * len(rows[0]) + "|", *body])


def updated(document: str, costs: Sequence[tuple[Setting, Cost]]) -> str:
    """The document with the table as it is counted now."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(costs)}\n{END}{after}"


def main() -> None:
    """Rewrite the table, and print where each time comes from."""
    costs = counted()
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8"), costs), encoding="utf-8")
    rows = [["", "", "GPUs", "matching", "training", "of which all-reduce"]]
    for setting, found in costs:
        batch = setting.recipe.train_batch
        for gpus in GPUS:
            talk = found.training_steps * communication(found, gpus)
            parts = (matching_time(found, gpus), training_time(found, gpus, batch), talk)
            rows.append([setting.title, str(setting.recipe.ipc), str(gpus), *map(long, parts)])
    print(in_columns(rows))


if __name__ == "__main__":
    main()
