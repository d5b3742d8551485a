"""Draw the charts of docs/results from the CSV files beside them.

`mipset compare` draws such charts itself. This script draws them again from the stored numbers, for example after a
change of the style. spreads.csv has the standard deviations over runs at each size, which results.csv does not have.

Usage: python scripts/draw_results.py
"""

from __future__ import annotations

import csv
from pathlib import Path

from mipset.display.charts import Axis, Chart, Panel, Series, Style, size_axis
from mipset.settings.methods import REFERENCE
from mipset.settings.paper import ACCURACIES

FOLDER = Path(__file__).parent.parent / "docs" / "results"
TITLES = {"cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}
MAIN_METHODS = ("baseline-c", "mdc", "every-prefix")
SIZES = range(1, 11)

Lines = list[dict[str, str]]


def read_csv(name: str) -> Lines:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def values(line: dict[str, str]) -> list[float]:
    return [float(line[f"size_{size}"]) for size in SIZES]


def measured(line: dict[str, str]) -> list[tuple[float, float]]:
    """The sizes that were measured, with their accuracies."""
    return [(size, float(line[f"size_{size}"])) for size in SIZES if line[f"size_{size}"]]


def accuracy_chart(dataset: str, lines: Lines) -> Chart:
    """Accuracy against images per class, a line per method."""
    spreads = {line["method"]: values(line) for line in read_csv("spreads") if line["dataset"] == dataset}
    series = [
        Series(line["method"], list(zip(SIZES, values(line), strict=True)), spreads.get(line["method"], []))
        for line in lines
    ]
    panel = Panel(series, size_axis(SIZES), Axis("accuracy in %"), lines[0]["network"])
    return Chart(f"{TITLES[dataset]}: accuracy against images per class", [panel])


def main_chart() -> Chart:
    """The chart of the README: what minutes of one core reach, and what the paper reaches in hours of a GPU."""
    series = [Series(line["method"], measured(line)) for line in read_csv("cifar10-main")]
    reported = ACCURACIES["cifar10", 10]["mdc"]
    series.append(Series("the paper's MDC, 15 GPU-hours", list(reported.items()), style=Style(line="--")))
    panel = Panel(series, size_axis(SIZES), Axis("accuracy in %"))
    return Chart("CIFAR-10: accuracy against images per class", [panel])


def progress_chart(dataset: str) -> Chart:
    """Mean accuracy against time, a line per method."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for line in read_csv(f"{dataset}-during"):
        curves.setdefault(line["method"], []).append((float(line["minutes"]), float(line["mean"])))
    times = [minutes for points in curves.values() for minutes, _ in points]
    final = curves[REFERENCE][-1][1]
    goal = Series(f"final mean of {REFERENCE}", [(min(times), final), (max(times), final)], style=Style(line="--"))
    series = [*(Series(method, points) for method, points in curves.items()), goal]
    panel = Panel(series, Axis("minutes of condensation"), Axis("mean accuracy in %"))
    return Chart(f"{TITLES[dataset]}: mean accuracy over all sizes during condensation", [panel])


def main() -> None:
    for dataset in TITLES:
        lines = read_csv(dataset)
        accuracy_chart(dataset, lines).write(FOLDER / f"{dataset}.svg")
    main_chart().write(FOLDER / "cifar10-main.svg")
    progress_chart("cifar10").write(FOLDER / "cifar10-during.svg")


if __name__ == "__main__":
    main()
