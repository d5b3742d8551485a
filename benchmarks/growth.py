"""How time and memory grow with classes, images per class and image size.

One inner iteration is timed: the match of all classes, and the training steps after it apart. Every point runs in a
process of its own, whose peak resident memory is read when it ends; data are random bytes. Prints a table, in which
"of linear" is the time divided by what it would be if it had grown as the axis did, and draws docs/growth.svg.

Usage: growth.py [SVG]
"""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import noise
import torch

from mipset.condense import condense
from mipset.costs import cost
from mipset.data import Dataset
from mipset.engines import native
from mipset.learners import Learner
from mipset.memory import keep_freed_memory
from mipset.networks import Network
from mipset.recipes import Recipe, assemble
from mipset.tables import byte_count, in_columns

WIDTH, PER_CLASS, CLASSES, IPC, SIZE = 32, 64, 10, 10, 32
AXES = {"classes": (10, 20, 50, 100), "images per class": (1, 10, 50), "pixels along a side": (32, 64)}
GROWTH = {"classes": 1, "images per class": 1, "pixels along a side": 2}  # as which power of the axis the work grows
PICTURE = Path(__file__).parent.parent / "docs" / "growth.svg"


@dataclass(frozen=True)
class Place:
    """Where on the three axes a point lies."""

    classes: int = CLASSES
    ipc: int = IPC
    size: int = SIZE

    @property
    def recipe(self) -> Recipe:
        """Two inner iterations that are timed after one that is not; one at 50 images per class."""
        inner = 3 if self.ipc < 50 else 2
        base = Recipe(ipc=self.ipc, policy="every-prefix", init="noise", width=WIDTH)
        return base.replace(outer=1, inner=inner, train_images=256)

    @property
    def data(self) -> Dataset:
        """Noise with labels."""
        train = noise.split(self.classes * PER_CLASS, self.classes, self.size)
        test = noise.split(self.classes, self.classes, self.size, seed=1)
        names = tuple(str(c) for c in range(self.classes))
        return Dataset("noise", train, test, names, (0.5,) * 3, (0.29,) * 3)


@dataclass(frozen=True)
class Point:
    """What was measured at a place, and what was estimated."""

    match: float  # seconds, all classes
    step: float  # seconds of one training step
    memory: int
    estimate: int


class Stopwatch(Learner):
    """A learner whose training is timed."""

    def __init__(self, learner: Learner) -> None:
        self.learner, self.seconds = learner, 0.0

    def start(self, t: int) -> Network:
        return self.learner.start(t)

    def advance(self, theta: Network, number: int) -> None:
        start = time.perf_counter()
        self.learner.advance(theta, number)
        self.seconds = time.perf_counter() - start


def measure(place: Place) -> tuple[float, float]:
    """Seconds of matching all classes once, and of one training step: the best after the first."""
    keep_freed_memory()
    recipe = place.recipe
    parts = assemble(recipe, place.data, torch.device("cpu"), engine=native())
    watch = Stopwatch(parts.learner)
    matches, steps = [], []
    start = time.perf_counter()
    for step in condense(replace(parts, learner=watch)):
        trained = 0.0 if step.outer_done else watch.seconds
        matches.append(time.perf_counter() - start - trained)
        steps += [trained / recipe.train_steps] if trained else []
        start = time.perf_counter()
    return min(matches[1:]), min(steps)


def in_a_process(place: Place) -> Point:
    numbers = [str(number) for number in (place.classes, place.ipc, place.size)]
    out = subprocess.run([sys.executable, __file__, *numbers], capture_output=True, text=True, check=True).stdout
    match, step, memory = (float(word) for word in out.split())
    images = place.classes * PER_CLASS
    estimate = cost(place.recipe, (3, place.size, place.size), place.classes, images).max_memory
    return Point(match, step, int(memory), estimate)


def places(axis: str) -> list[Place]:
    field = dict(zip(AXES, ("classes", "ipc", "size"), strict=True))[axis]
    return [replace(Place(), **{field: value}) for value in AXES[axis]]


def table(found: dict[Place, Point]) -> str:
    rows = [["", "", "match of all classes", "of linear", "training step", "peak memory", "estimated"]]
    for axis, values in AXES.items():
        first = found[places(axis)[0]]
        for value, place in zip(values, places(axis), strict=True):
            point, linear = found[place], first.match * (value / values[0]) ** GROWTH[axis]
            rows.append(
                [
                    *(axis, str(value), f"{point.match:.2f} s", f"{point.match / linear:.2f}x"),
                    *(f"{1e3 * point.step:.0f} ms", byte_count(point.memory), byte_count(point.estimate)),
                ]
            )
    return in_columns(rows)


# The picture: three panels beside each other, time above and memory below, on logarithmic axes. Its colours are
# between light and dark, so that they can be read on both.
PANEL_W, PANEL_H, LEFT, TOP, GAP_X, GAP_Y = 210, 130, 70, 44, 62, 62
INK, LINE, RING = "#7d8590", "#3b82f6", "#d97706"

Span = tuple[float, float]


@dataclass(frozen=True)
class Scale:
    """From values to places, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return self.start + share * (self.end - self.start)


def text(x: float, y: float, words: str, anchor: str = "middle", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{INK}">{words}</text>'


def line(points: Sequence[tuple[float, float]], colour: str, dashes: str = "") -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-dasharray="{dashes}"/>'


def dot(x: float, y: float, radius: float, fill: str, stroke: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every power of ten between the two."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**power for power in powers for step in (1, 2, 5) if low <= step * 10.0**power <= high]


def panel(
    left: float, top: float, axis: str, measured: list[float], estimated: list[float], unit: str, span: Span
) -> Iterator[str]:
    values, power = AXES[axis], GROWTH[axis]
    across = Scale(values[0] / 1.15, values[-1] * 1.15, left, left + PANEL_W)
    up = Scale(*span, top + PANEL_H, top)
    yield f'<rect x="{left}" y="{top}" width="{PANEL_W}" height="{PANEL_H}" fill="none" stroke="{INK}" opacity="0.5"/>'
    for tick in ticks(*span):
        yield f'<path d="M{left} {up(tick):.1f}h{PANEL_W}" stroke="{INK}" opacity="0.2"/>'
        yield text(left - 6, up(tick) + 4, f"{tick:g} {unit}", "end")
    for value in values:
        yield text(across(value), top + PANEL_H + 16, str(value))
    yield text(left + PANEL_W / 2, top + PANEL_H + 34, axis, size=12)
    end = min(values[-1], values[0] * (span[1] / measured[0]) ** (1 / power))  # where linear growth leaves the panel
    grown = measured[0] * (end / values[0]) ** power
    yield line([(across(values[0]), up(measured[0])), (across(end), up(grown))], INK, "5 4")
    yield line([(across(v), up(y)) for v, y in zip(values, measured, strict=True)], LINE)
    for value, y in zip(values, measured, strict=True):
        yield dot(across(value), up(y), 3.5, LINE, "none")
    for value, y in zip(values, estimated, strict=False):
        yield dot(across(value), up(y), 5.5, "none", RING)


def picture(found: dict[Place, Point]) -> str:
    width, height = LEFT + 3 * PANEL_W + 2 * GAP_X + 20, TOP + 2 * PANEL_H + GAP_Y + 50
    times = [point.match for point in found.values()]
    sizes = [size / 1e6 for point in found.values() for size in (point.memory, point.estimate)]
    spans = [(min(times) / 1.5, max(times) * 1.5), (min(sizes) / 1.3, max(sizes) * 1.3)]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" role="img">',
        "<title>Time of one inner iteration and peak memory, by classes, images per class and image size</title>",
        text(LEFT, 18, "Time to match all classes once (above) and peak resident memory (below)", "start", 13),
        text(
            LEFT,
            34,
            "dots: measured; dashed: linear growth; rings: estimated",
            "start",
        ),
    ]
    for column, axis in enumerate(AXES):
        points = [found[place] for place in places(axis)]
        left = LEFT + column * (PANEL_W + GAP_X)
        parts += panel(left, TOP, axis, [point.match for point in points], [], "s", spans[0])
        memory, estimate = ([getattr(p, name) / 1e6 for p in points] for name in ("memory", "estimate"))
        parts += panel(left, TOP + PANEL_H + GAP_Y, axis, memory, estimate, "MB", spans[1])
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    if len(sys.argv) == 4:
        match, step = measure(Place(*(int(word) for word in sys.argv[1:])))
        unit = 1 if sys.platform == "darwin" else 1024
        print(match, step, unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    found: dict[Place, Point] = {}
    for place in dict.fromkeys(place for axis in AXES for place in places(axis)):
        found[place] = in_a_process(place)
        print(place, found[place], file=sys.stderr, flush=True)
    print(
        f"every-prefix, ConvNet-3 of width {WIDTH}; {CLASSES} classes, {IPC} images per class and {SIZE} pixels where "
        f"nothing else is said; {torch.get_num_threads()} threads, torch {torch.__version__}"
    )
    print(table(found))
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    where.write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
