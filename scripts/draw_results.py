"""Draw the charts of docs/results from the CSV files beside them.

`mipset compare` draws such charts itself. This script draws them again from the stored numbers, for example after a
change of the style. spreads.csv has the standard deviations over runs at each size, which results.csv does not have.

Usage: python scripts/draw_results.py
"""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean

from mipset.display.charts import COLOURS, LINES, MARKERS, Axis, Chart, Panel, Series, Style, size_axis
from mipset.settings.methods import REFERENCE
from mipset.settings.paper import ACCURACIES

FOLDER = Path(__file__).parent.parent / "docs" / "results"
TITLES = {"cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST"}
MAIN_METHODS = ("baseline-c", "mdc", "every-prefix")
PAPER_LINES = {"mdc": "MDC of the paper: 15 GPU-hours", "baseline-a": "Baseline A of the paper: 115 GPU-hours"}
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


def time_chart() -> Chart:
    """The mean accuracy over sizes 1 to 10 against processor time: a colour per policy, a line style per objective."""
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in read_csv("cifar10-time"):
        curves.setdefault((line["policy"], line["objective"]), []).append(
            (float(line["minutes"]), interpolated_mean(measured(line)))
        )
    objectives = list(dict.fromkeys(objective for _, objective in curves))
    ours = [
        Series(
            f"{policy}, {objective}",
            points,
            style=Style(
                COLOURS[MAIN_METHODS.index(policy)],
                LINES[objectives.index(objective)],
                MARKERS[objectives.index(objective)],
            ),
        )
        for (policy, objective), points in curves.items()
    ]
    times = sorted({minutes for points in curves.values() for minutes, _ in points})
    paper = [
        Series(
            name,
            [(time, fmean(ACCURACIES["cifar10", 10][method].values())) for time in (times[0], times[-1])],
            style=Style(line=line),
        )
        for (method, name), line in zip(PAPER_LINES.items(), LINES[2:], strict=True)
    ]
    panel = Panel(
        [*ours, *paper],
        Axis("minutes of one CPU core, everything included", log=True, ticks=times),
        Axis("accuracy in %"),
    )
    return Chart("CIFAR-10: mean accuracy of sizes 1 to 10 against time", [panel])


def interpolated_mean(points: list[tuple[float, float]]) -> float:
    """The mean over all sizes; between the sizes that were measured, the accuracy is taken to be linear."""
    accuracies = []
    for size in SIZES:
        (low, first), (high, last) = max(p for p in points if p[0] <= size), min(p for p in points if p[0] >= size)
        accuracies.append(first if low == high else first + (last - first) * (size - low) / (high - low))
    return fmean(accuracies)


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
    time_chart().write(FOLDER / "cifar10-time.svg")
    progress_chart("cifar10").write(FOLDER / "cifar10-during.svg")


if __name__ == "__main__":
    main()
