"""Results of a comparison: one line of JSON for each finished cell, and the tables that are made of them.

A cell is one method with one seed. Two spreads are told apart everywhere: over condensations (the same method with
another seed) and over networks (the same set, other networks trained on it).
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import cycle
from pathlib import Path
from typing import Any

from mipset.display.charts import STYLES, Axis, Panel, Series, Style, chart
from mipset.errors import ArtifactError, printable
from mipset.file.description import Accuracy
from mipset.units import byte_count, duration

BASE = "baseline-c"  # the method that others are compared with, as in the paper


@dataclass(frozen=True)
class Result:
    """What one cell gave, at the end of its run or after `outer` iterations of it."""

    cell: str  # identifies everything that it depends on
    table: str  # identifies what all cells of one table have in common
    method: str
    seed: int
    outer: int
    final: bool
    network: str
    protocol: str
    scores: Mapping[int, Sequence[float]]  # accuracy in percent of each network, for each size
    condensations: int  # processes
    images: int  # stored, all classes together
    bytes: int  # of these images
    seconds: float  # of condensing and choosing; not of evaluating
    forward: int  # passes over a batch
    backward: int
    files: Sequence[str] = field(default_factory=list)
    recipe: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""  # on which it was timed, and by which engine

    @property
    def means(self) -> dict[int, float]:
        """The mean over networks, for each size."""
        return {size: statistics.fmean(values) for size, values in self.scores.items()}

    @property
    def mean(self) -> float:
        """The mean over sizes and networks."""
        return statistics.fmean(self.means.values())

    @property
    def by_network(self) -> list[float]:
        """The mean over sizes, for each network number."""
        return [statistics.fmean(values) for values in zip(*self.scores.values(), strict=True)]


def read_results(path: Path) -> list[Result]:
    """All results in a file of JSON lines; none if there is no file."""
    if not path.exists():
        return []
    with path.open("rb") as stream:
        _wait_for_writers(stream.fileno())
        lines = stream.read().splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_parsed(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ArtifactError(
                f"line {number} of {path} is damaged: remove it, and its cell will be run again."
            ) from error
    return found


KINDS: dict[str, type | tuple[type, ...]] = {"str": str, "int": int, "bool": bool, "float": (int, float)}


def _parsed(content: dict[str, Any]) -> Result:
    scores = {int(size): [float(value) for value in values] for size, values in content["scores"].items()}
    if not scores or not all(scores.values()) or len({len(values) for values in scores.values()}) != 1:
        raise ValueError("scores")
    known = {f.name: content[f.name] for f in fields(Result) if f.name in content}
    for f in fields(Result):
        if f.name in known and not isinstance(known[f.name], KINDS.get(str(f.type), object)):
            raise TypeError(f.name)
    return Result(**{**known, "scores": scores})


def add_result(path: Path, result: Result) -> None:
    """Add one line, whole or not at all; several processes may add to one file."""
    line = (json.dumps(asdict(result)) + "\n").encode()
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        _wait_for_others(handle)
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":  # someone's editor has left it out
            line = b"\n" + line
        written = 0
        try:
            written = os.write(handle, line)
            os.fsync(handle)
        finally:
            if written < len(line):
                os.ftruncate(handle, size)
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(handle)


def _wait_for_others(handle: int) -> None:
    """Until nobody else reads or adds to the file; ends when the file is closed."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)


def _wait_for_writers(handle: int) -> None:
    """Until nobody adds to the file; ends when the file is closed."""
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_SH)


@dataclass(frozen=True)
class Row:
    """One method, all its seeds together."""

    results: Sequence[Result]

    @property
    def method(self) -> str:
        return self.results[0].method

    @property
    def means(self) -> dict[int, float]:
        """The mean over seeds and networks, for each size."""
        return {size: statistics.fmean(r.means[size] for r in self.results) for size in self.results[0].means}

    @property
    def mean(self) -> float:
        """The mean over sizes, seeds and networks."""
        return statistics.fmean(r.mean for r in self.results)

    @property
    def deviations(self) -> dict[int, float]:
        """The deviation, from one seed to another, of the mean over networks, for each size; empty for one seed."""
        if len(self.results) == 1:
            return {}
        return {size: statistics.stdev(r.means[size] for r in self.results) for size in self.means}

    @property
    def over_condensations(self) -> float | None:
        """The deviation, from one seed to another, of the mean over sizes and networks."""
        return _deviation([r.mean for r in self.results])

    @property
    def over_networks(self) -> float | None:
        """The deviation, from one network to another on the same set, of the mean over sizes."""
        found = [_deviation(r.by_network) for r in self.results]
        known = [value for value in found if value is not None]
        return statistics.fmean(value**2 for value in known) ** 0.5 if known else None

    def spent(self, what: Callable[[Result], float]) -> float:
        """The mean over seeds of something that was counted or timed."""
        return statistics.fmean(what(r) for r in self.results)


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def rows(results: Iterable[Result]) -> list[Row]:
    """The finished cells by method, in the order in which methods first appear."""
    by_method: dict[str, list[Result]] = {}
    for result in results:
        if result.final:
            by_method.setdefault(result.method, []).append(result)
    return [Row(sorted(of_one, key=lambda r: r.seed)) for of_one in by_method.values()]


def accuracy_rows(table: Sequence[Row]) -> list[list[str]]:
    """As in the paper: a row per method, a column per size, their mean, the difference to C; and the two spreads."""
    sizes = list(table[0].means)
    base = next((row.mean for row in table if row.method == BASE), None)
    head = ["method", *map(str, sizes), "mean", f"minus {BASE}", "± runs", "± networks", "runs x networks"]
    body = [
        [
            row.method,
            *(f"{row.means[size]:.2f}" for size in sizes),
            f"{row.mean:.2f}",
            "-" if base is None else f"{row.mean - base:+.2f}",
            *("-" if spread is None else f"{spread:.2f}" for spread in (row.over_condensations, row.over_networks)),
            f"{len(row.results)} x {len(row.results[0].by_network)}",
        ]
        for row in table
    ]
    return [head, *body]


def cost_rows(table: Sequence[Row]) -> list[list[str]]:
    """What each method has spent and what it stores, as a mean over its runs."""
    head = ["method", "condensations", "stored images", "stored bytes", "time", "forward passes", "backward passes"]
    body = [
        [
            row.method,
            f"{row.spent(lambda r: r.condensations):g}",
            f"{row.spent(lambda r: r.images):g}",
            byte_count(round(row.spent(lambda r: r.bytes))),
            duration(row.spent(lambda r: r.seconds)),
            f"{row.spent(lambda r: r.forward):,.0f}",
            f"{row.spent(lambda r: r.backward):,.0f}",
        ]
        for row in table
    ]
    return [head, *body]


@dataclass(frozen=True)
class Moment:
    """All seeds of a method after the same number of outer iterations."""

    row: Row
    outer: int

    @property
    def seconds(self) -> float:
        return self.row.spent(lambda r: r.seconds)


def moments(results: Iterable[Result]) -> dict[str, list[Moment]]:
    """Of each method that was looked at on its way, its states in order, the final one last.

    Only seeds that were looked at in every state count, so that all states are means of the same runs.
    """
    found: dict[str, dict[int, dict[int, Result]]] = {}
    for result in results:
        found.setdefault(result.method, {}).setdefault(result.outer, {})[result.seed] = result
    moments = {}
    for method, states in found.items():
        seeds = sorted(set.intersection(*(set(by_seed) for by_seed in states.values())))
        if len(states) > 1 and seeds:
            moments[method] = [Moment(Row([states[t][seed] for seed in seeds]), t) for t in sorted(states)]
    return moments


def moment_rows(states: Mapping[str, Sequence[Moment]]) -> list[list[str]]:
    """Accuracy of every size against outer iterations and against time."""
    sizes = list(next(iter(states.values()))[0].row.means)
    body = [
        [
            method,
            str(moment.outer),
            duration(moment.seconds),
            *(f"{moment.row.means[size]:.2f}" for size in sizes),
            f"{moment.row.mean:.2f}",
        ]
        for method, its_states in states.items()
        for moment in its_states
    ]
    return [["method", "outer", "time", *map(str, sizes), "mean"], *body]


def overtaking(results: Sequence[Result]) -> list[str]:
    """How soon each method that was looked at on its way passed the final mean of C: a sentence each.

    Both are means over the same seeds.
    """
    found = []
    for method, states in moments(results).items():
        seeds = {result.seed for result in states[0].row.results}
        alike = [r for r in results if r.method == BASE and r.final and r.seed in seeds]
        if method == BASE or len(alike) < len(seeds):
            continue
        base = Row(alike)
        goal, whole = base.mean, base.spent(lambda r: r.seconds)
        passed = next((m for m in states if m.row.mean > goal), None)
        what = f"{method} passes the final mean of {BASE} ({goal:.2f} %, {duration(whole)})"
        found.append(
            f"{what} within {passed.outer} outer iterations ({duration(passed.seconds)})."
            if passed
            else f"{method} does not pass the final mean of {BASE} ({goal:.2f} %, {duration(whole)})."
        )
    return found


def markdown(cells: Sequence[Sequence[str]]) -> str:
    """Rows, the first of which is the head, as a Markdown table."""
    head, *body = cells
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ruler, *body))


ACCURACY_PICTURE, PROGRESS_PICTURE = "results.svg", "during.svg"
PICTURES = {ACCURACY_PICTURE, PROGRESS_PICTURE}


def pictures(results: Sequence[Result]) -> dict[str, str]:
    """The charts that there is something to draw in, by the names of their files."""
    found = {}
    if rows(results):
        found[ACCURACY_PICTURE] = accuracy_chart(results)
    if any(moments(chosen) for chosen in by_architecture(results).values()):
        found[PROGRESS_PICTURE] = progress_chart(results)
    return found


def accuracy_chart(results: Sequence[Result]) -> str:
    """Accuracy against images per class: a panel per network, a line per method, a bar where there are more runs."""
    look = _styles(results)
    panels = [
        Panel(
            [
                Series(row.method, sorted(row.means.items()), _in_order(row.deviations), look[row.method])
                for row in table
            ],
            _size_axis(sorted(table[0].means)),
            Axis("accuracy in %"),
            network,
        )
        for network, chosen in by_architecture(results).items()
        if (table := rows(chosen))
    ]
    return chart("Accuracy against images per class", panels)


def curve_chart(title: str, points: Iterable[Accuracy]) -> str:
    """The accuracy curve of a file: a line for each way in which networks were trained, a bar for their spread."""
    lines: dict[str, list[Accuracy]] = {}
    for point in sorted(points, key=lambda point: point.size):
        lines.setdefault(printable(f"{point.network}; {point.protocol}"), []).append(point)
    series = [Series(name, [(p.size, p.mean) for p in its], [p.std for p in its]) for name, its in lines.items()]
    sizes = sorted({point.size for its in lines.values() for point in its})
    return chart(printable(title), [Panel(series, _size_axis(sizes), Axis("accuracy in %"))])


def _styles(results: Sequence[Result]) -> dict[str, Style]:
    """Of each method the style that it has in all charts of these results."""
    return dict(zip(dict.fromkeys(result.method for result in results), cycle(STYLES), strict=False))


def _in_order(of_sizes: Mapping[int, float]) -> list[float]:
    return [of_sizes[size] for size in sorted(of_sizes)]


def _size_axis(sizes: Sequence[int]) -> Axis:
    """Every size has a tick where there are few."""
    return Axis("images per class", log=_wide(sizes), ticks=sizes if len(sizes) <= 12 else ())


def progress_chart(results: Sequence[Result]) -> str:
    """The mean over sizes against time: a panel per network, a line per method that was looked at on its way.

    A dashed line is at the final mean of C, where that is known.
    """
    look = _styles(results)
    panels = [
        _progress_panel(network, chosen, look)
        for network, chosen in by_architecture(results).items()
        if moments(chosen)
    ]
    return chart("Mean accuracy over all sizes during condensation", panels)


def _progress_panel(network: str, results: Sequence[Result], look: Mapping[str, Style]) -> Panel:
    states = moments(results)
    times = [moment.seconds for its_states in states.values() for moment in its_states]
    unit, length = _unit(max(times))
    lines = [
        Series(
            method,
            [(moment.seconds / length, moment.row.mean) for moment in its_states],
            [moment.row.over_condensations or 0.0 for moment in its_states],
            look[method],
        )
        for method, its_states in states.items()
    ]
    ends = [end / length for end in (min(times), max(times))]
    goals = [
        Series(f"final mean of {BASE}", [(end, row.mean) for end in ends], style=Style(dashes="5 4"))
        for row in rows(results)
        if row.method == BASE
    ]
    return Panel([*lines, *goals], Axis(f"{unit} of condensing", _wide(times)), Axis("mean accuracy in %"), network)


def _unit(longest: float) -> tuple[str, int]:
    """What times are told in, and how many seconds that is."""
    units = (("hours", 3600), ("minutes", 60))
    return next(((name, length) for name, length in units if longest >= 3 * length), ("seconds", 1))


def _wide(values: Sequence[float]) -> bool:
    """Whether values are so different that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) / min(values) >= 20


def document(title: str, intro: Sequence[str], results: Sequence[Result]) -> str:
    """Everything about one comparison, as Markdown, with each picture behind the tables that it draws."""
    accuracy, during = [], []
    for network, chosen in by_architecture(results).items():
        table, states = rows(chosen), moments(chosen)
        if table:
            accuracy += [f"## Accuracy in %, {network}, {chosen[0].protocol}", markdown(accuracy_rows(table))]
        if states:
            during += [f"## During condensation, {network}", markdown(moment_rows(states)), *overtaking(chosen)]
    accuracy += [f"![Accuracy against images per class]({ACCURACY_PICTURE})"] if accuracy else []
    during += [f"![Mean accuracy during condensation]({PROGRESS_PICTURE})"] if during else []
    spent = rows(once(results))
    costs = ["## What it took", markdown(cost_rows(spent))] if spent else []
    return "\n\n".join([f"# {title}", *intro, *accuracy, *during, *costs]) + "\n"


def by_architecture(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each architecture that was evaluated with."""
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.network, []).append(result)
    return found


def once(results: Sequence[Result]) -> list[Result]:
    """One result of each run: others, with other networks, repeat what was spent."""
    return list({(r.method, r.seed, r.outer): r for r in reversed(results)}.values())[::-1]


def comma_separated(results: Sequence[Result]) -> str:
    """One line per method and network, and per state on the way: numbers with all their digits."""
    sizes = list(results[0].scores)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    spreads = ("minus_c", "sd_runs", "sd_networks")
    head = ["method", "network", "protocol", "outer", "final", "runs", "networks"]
    writer.writerow([*head, *(f"size_{n}" for n in sizes), "mean", *spreads, *COUNTED])
    groups: dict[tuple[str, str, int, bool], list[Result]] = {}
    for result in results:
        groups.setdefault((result.network, result.method, result.outer, result.final), []).append(result)
    base = {network: Row(of_one).mean for (network, method, _, end), of_one in groups.items() if end and method == BASE}
    for (network, method, outer, end), of_one in groups.items():
        row = Row(of_one)
        difference = row.mean - base[network] if network in base else None
        writer.writerow(
            [
                *(method, network, of_one[0].protocol, outer, int(end), len(of_one), len(of_one[0].by_network)),
                *(row.means[n] for n in sizes),
                row.mean,
                *("" if value is None else value for value in (difference, row.over_condensations, row.over_networks)),
                *(statistics.fmean(getattr(result, name) for result in of_one) for name in COUNTED),
            ]
        )
    return stream.getvalue()


COUNTED = ("condensations", "images", "bytes", "seconds", "forward", "backward")
