"""How time and memory grow with the number of classes, the images per class and the resolution.

Measures one inner iteration: the match of all classes and, separately, the training steps after it. Every point runs in
a process of its own, and its peak resident memory is read when it ends. The data are random bytes. Prints a table,
writes docs/growth.csv and draws docs/growth.svg. The column "of linear" is the time divided by the time that linear
growth would give.

Run:   python benchmarks/growth.py        or, to draw docs/growth.csv again: python benchmarks/growth.py draw
Takes: several minutes on 2 cores.
Printed: docs/scaling.md shows the chart.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import noise
import torch

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.costs import cost
from mipset.condensing.learners import Learner
from mipset.data import Dataset
from mipset.display.charts import COLOURS, Axis, Chart, Panel, Series, Style
from mipset.display.tables import in_columns
from mipset.nn.engines import native
from mipset.nn.memory import keep_freed_memory
from mipset.nn.networks import Network
from mipset.settings.recipe import Recipe
from mipset.units import byte_count

WIDTH, PER_CLASS, CLASSES, IPC, RESOLUTION = 32, 64, 10, 10, 32
AXES = {"classes": (10, 20, 50, 100), "images per class": (1, 10, 50), "pixels along a side": (32, 64)}
GROWTH = {"classes": 1, "images per class": 1, "pixels along a side": 2}  # the work grows with this power of the axis
POINTS = Path(__file__).parent.parent / "docs" / "growth.csv"
CHART = POINTS.with_suffix(".svg")
TITLES = ["classes", "images_per_class", "resolution", "match_seconds", "step_seconds", "memory_mb", "estimated_mb"]


@dataclass(frozen=True)
class Place:
    """A place on the three axes, where time and memory are measured."""

    classes: int = CLASSES
    ipc: int = IPC
    resolution: int = RESOLUTION

    @property
    def recipe(self) -> Recipe:
        """One inner iteration to warm up, then two that are timed, or one at 50 images per class."""
        inner = 3 if self.ipc < 50 else 2
        base = Recipe(ipc=self.ipc, policy="every-prefix", init="noise", width=WIDTH)
        return base.replace(outer=1, inner=inner, train_images=256)

    @property
    def data(self) -> Dataset:
        """Random images with labels."""
        train = noise.random_split(self.classes * PER_CLASS, self.classes, self.resolution)
        test = noise.random_split(self.classes, self.classes, self.resolution, seed=1)
        names = tuple(str(c) for c in range(self.classes))
        return Dataset("noise", train, test, names, (0.5,) * 3, (0.29,) * 3)


@dataclass(frozen=True)
class Point:
    """The measured times and memory at a place, and the estimated memory."""

    match: float  # seconds, all classes
    step: float  # seconds of one training step
    memory: int  # measured bytes
    estimate: int  # estimated bytes


class Stopwatch(Learner):
    """A learner that measures the time of its training."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.seconds = learner, 0.0

    def start(self, t: int) -> Network:
        return self.learner.start(t)

    def advance(self, theta: Network, number: int) -> Network:
        start = time.perf_counter()
        theta = self.learner.advance(theta, number)
        self.seconds = time.perf_counter() - start
        return theta


def measure(place: Place) -> tuple[float, float]:
    """The best seconds of one match of all classes and of one training step, without the first iteration."""
    keep_freed_memory()
    recipe = place.recipe
    parts = assemble(recipe, place.data, torch.device("cpu"), engine=native())
    watch = Stopwatch(parts.learner)
    matches, steps = [], []
    start = time.perf_counter()
    for step in condense(replace(parts, learner=watch)):
        trained = 0.0 if step.outer_done else watch.seconds
        matches.append(time.perf_counter() - start - trained)
        steps += [trained / recipe.train_steps(place.classes)] if trained else []
        start = time.perf_counter()
    return min(matches[1:]), min(steps)


def measure_in_a_process(place: Place) -> Point:
    """Measure in a new process, so that its peak memory is that of this place."""
    numbers = [str(number) for number in (place.classes, place.ipc, place.resolution)]
    out = subprocess.run([sys.executable, __file__, *numbers], capture_output=True, text=True, check=True).stdout
    match, step, memory = (float(word) for word in out.split())
    images = place.classes * PER_CLASS
    estimate = cost(place.recipe, (3, place.resolution, place.resolution), place.classes, images).max_memory
    return Point(match, step, int(memory), estimate)


def places(axis: str) -> list[Place]:
    """The places on one axis."""
    field = dict(zip(AXES, ("classes", "ipc", "resolution"), strict=True))[axis]
    return [replace(Place(), **{field: value}) for value in AXES[axis]]


def table(points: dict[Place, Point]) -> str:
    """One row for each place on each axis."""
    rows = [["", "", "match of all classes", "of linear", "training step", "peak memory", "estimated"]]
    for axis, values in AXES.items():
        first = points[places(axis)[0]]
        for value, place in zip(values, places(axis), strict=True):
            point, linear = points[place], first.match * (value / values[0]) ** GROWTH[axis]
            rows.append(
                [
                    *(axis, str(value), f"{point.match:.2f} s", f"{point.match / linear:.2f}x"),
                    *(f"{1e3 * point.step:.0f} ms", byte_count(point.memory), byte_count(point.estimate)),
                ]
            )
    return in_columns(rows)


# The chart: a panel for each axis, time above and memory below.
LINEAR, ESTIMATED = Style(line="--"), Style(COLOURS[1], line="", marker="o", hollow=True)


def panel(axis: str, measured: list[float], estimated: list[float], unit: str, largest: float) -> Panel:
    """Measured values, linear growth from the first of them (up to `largest`), and estimates if there are any."""
    values, power = AXES[axis], GROWTH[axis]
    end = min(values[-1], values[0] * (largest / measured[0]) ** (1 / power))  # where linear growth leaves the panel
    grown = measured[0] * (end / values[0]) ** power
    series = [
        Series("measured", list(zip(values, measured, strict=True))),
        Series("linear growth", [(values[0], measured[0]), (end, grown)], style=LINEAR),
    ]
    if estimated:
        series.append(Series("estimated", list(zip(values, estimated, strict=True)), style=ESTIMATED))
    return Panel(series, Axis(axis, log=True, ticks=values), Axis(unit, log=True))


def growth_chart(points: dict[Place, Point]) -> Chart:
    """Time and peak memory along each axis."""
    on_axes = {axis: [points[place] for place in places(axis)] for axis in AXES}
    longest = max(point.match for point in points.values())
    largest = max(max(point.memory, point.estimate) for point in points.values()) / 1e6
    times = [panel(axis, [p.match for p in on_axis], [], "seconds", longest) for axis, on_axis in on_axes.items()]
    memories = [
        panel(axis, [p.memory / 1e6 for p in on_axis], [p.estimate / 1e6 for p in on_axis], "MB", largest)
        for axis, on_axis in on_axes.items()
    ]
    title = "Time to match all classes once (above) and peak resident memory (below)"
    return Chart(title, [*times, *memories], columns=len(AXES), panel_inches=(3.2, 2.4), one_scale=True)


def write_points(path: Path, points: dict[Place, Point]) -> None:
    """Write a line for each place."""
    lines = [TITLES]
    for place, point in points.items():
        memories = [f"{memory / 1e6:.0f}" for memory in (point.memory, point.estimate)]
        numbers = [str(number) for number in (place.classes, place.ipc, place.resolution)]
        lines.append([*numbers, f"{point.match:.3g}", f"{point.step:.3g}", *memories])
    path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")


def read_points(path: Path) -> dict[Place, Point]:
    """Read what `write_points` wrote."""
    points = {}
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        classes, ipc, resolution, match, step, memory, estimate = (float(text or "nan") for text in line.split(","))
        place = Place(int(classes), int(ipc), int(resolution))
        points[place] = Point(match, step, int(1e6 * memory), int(1e6 * estimate))
    return points


def main() -> None:
    if len(sys.argv) == 4:
        match, step = measure(Place(*(int(word) for word in sys.argv[1:])))
        unit = 1 if sys.platform == "darwin" else 1024
        print(match, step, unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    if sys.argv[1:] != ["draw"]:
        points: dict[Place, Point] = {}
        for place in dict.fromkeys(place for axis in AXES for place in places(axis)):
            points[place] = measure_in_a_process(place)
            print(place, points[place], file=sys.stderr, flush=True)
        print(
            f"every-prefix, ConvNet-3 of width {WIDTH}; {CLASSES} classes, {IPC} images per class and {RESOLUTION} "
            f"pixels unless the row says otherwise; {torch.get_num_threads()} threads, torch {torch.__version__}"
        )
        print(table(points))
        write_points(POINTS, points)
    growth_chart(read_points(POINTS)).write(CHART)


if __name__ == "__main__":
    main()
