"""Draw the charts of docs/explanation.md: what `make demo` measured, and how hard each policy pulls each image.

Usage: python scripts/draw_explanation.py
"""

from __future__ import annotations

import csv
from pathlib import Path

from mipset.condensing.policies import balanced_steps
from mipset.display.charts import Axis, Chart, Panel, Series, size_axis

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
SIZES = range(1, 11)
CHOSEN = 3  # the most learnable subset in the example of MDC


def degradation_chart() -> Chart:
    """Accuracy against images per class in the demo, a line per policy."""
    with (FOLDER / "demo.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    series = [Series(line["method"], [(size, float(line[f"size_{size}"])) for size in SIZES]) for line in lines]
    panel = Panel(series, size_axis(SIZES), Axis("accuracy in %"))
    return Chart("The demo: accuracy against images per class", [panel])


def pull_chart() -> Chart:
    """The gradient of each image, in parts of its gradient in Baseline C, if all sizes are equally far from B."""
    only_whole = [0.0] * (len(SIZES) - 1) + [1.0]
    with_subset = [float(n == CHOSEN) + w for n, w in zip(SIZES, only_whole, strict=True)]
    policies = {
        "baseline-c": only_whole,
        f"mdc, while size {CHOSEN} is chosen": with_subset,
        "every-prefix, plain steps": [1.0] * len(SIZES),
    }
    series = [
        Series(name, [(rank, 1 / step) for rank, step in zip(SIZES, balanced_steps(weights), strict=True)])
        for name, weights in policies.items()
    ]
    panel = Panel(series, Axis("rank of the image", ticks=SIZES), Axis("pull, Baseline C = 1", log=True))
    return Chart("How hard an image is pulled", [panel])


def main() -> None:
    degradation_chart().write(FOLDER / "degradation.svg")
    pull_chart().write(FOLDER / "pull.svg")


if __name__ == "__main__":
    main()
