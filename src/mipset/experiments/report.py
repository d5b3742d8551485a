"""Reports of a comparison: tables as Markdown and CSV, and charts."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle

from mipset.display.charts import STYLES, Axis, Chart, Panel, Series, Style, is_wide, size_axis
from mipset.errors import MissingExtraError
from mipset.experiments.comparison import Comparison
from mipset.experiments.results import Result
from mipset.experiments.store import write_text
from mipset.experiments.summary import Moment, Row, by_architecture, moments, one_per_run, rows
from mipset.io.files import write_whole
from mipset.settings.methods import REFERENCE
from mipset.units import byte_count, duration

ACCURACY_CHART, PROGRESS_CHART = "results.svg", "during.svg"
COSTS = ("condensations", "images", "bytes", "seconds", "forward", "backward")

Table = list[list[str]]  # the first row has the titles


# Tables


def accuracy_table(methods: Sequence[Row]) -> Table:
    """As in the paper: a row per method, a column per size, their mean, the difference to Baseline C; both spreads."""
    sizes = list(methods[0].means)
    reference = next((row.mean for row in methods if row.method == REFERENCE), None)
    titles = ["method", *map(str, sizes), "mean", f"minus {REFERENCE}", "± runs", "± networks", "runs x networks"]
    body = [
        [
            row.method,
            *(f"{row.means[size]:.2f}" for size in sizes),
            f"{row.mean:.2f}",
            "-" if reference is None else f"{row.mean - reference:+.2f}",
            *map(_spread_text, (row.spread_over_runs, row.spread_over_networks)),
            f"{len(row.results)} x {len(row.results[0].by_network)}",
        ]
        for row in methods
    ]
    return [titles, *body]


def _spread_text(spread: float | None) -> str:
    return "-" if spread is None else f"{spread:.2f}"


def cost_table(methods: Sequence[Row]) -> Table:
    """What each method computes and stores, as a mean over its runs."""
    titles = ["method", "condensations", "stored images", "stored bytes", "time", "forward passes", "backward passes"]
    body = [
        [
            row.method,
            f"{row.mean_of(lambda r: r.condensations):g}",
            f"{row.mean_of(lambda r: r.images):g}",
            byte_count(round(row.mean_of(lambda r: r.bytes))),
            duration(row.seconds),
            f"{row.mean_of(lambda r: r.forward):,.0f}",
            f"{row.mean_of(lambda r: r.backward):,.0f}",
        ]
        for row in methods
    ]
    return [titles, *body]


def moment_table(curves: Mapping[str, Sequence[Moment]]) -> Table:
    """Accuracy of every size after some outer iterations, and the time until then."""
    sizes = list(next(iter(curves.values()))[0].row.means)
    body = [
        [
            method,
            str(moment.outer),
            duration(moment.row.seconds),
            *(f"{moment.row.means[size]:.2f}" for size in sizes),
            f"{moment.row.mean:.2f}",
        ]
        for method, curve in curves.items()
        for moment in curve
    ]
    return [["method", "outer", "time", *map(str, sizes), "mean"], *body]


def overtaking_sentences(results: Sequence[Result]) -> list[str]:
    """For each method with moments a sentence: when its mean is above the final mean of Baseline C.

    Both are means over the same seeds.
    """
    sentences = []
    for method, curve in moments(results).items():
        seeds = {result.seed for result in curve[0].row.results}
        finals = [r for r in results if r.method == REFERENCE and r.final and r.seed in seeds]
        if method == REFERENCE or len(finals) < len(seeds):
            continue
        reference = Row(finals)
        goal = f"the final mean of {REFERENCE} ({reference.mean:.2f} %, {duration(reference.seconds)})"
        above = next((moment for moment in curve if moment.row.mean > reference.mean), None)
        if above is None:
            sentences.append(f"{method} does not pass {goal}.")
        else:
            when = f"{above.outer} outer iterations ({duration(above.row.seconds)})"
            sentences.append(f"{method} passes {goal} within {when}.")
    return sentences


def markdown_table(table: Table) -> str:
    """A table as Markdown."""
    titles, *body = table
    ruler = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(line)} |" for line in (titles, ruler, *body))


def markdown(title: str, notes: Sequence[str], results: Sequence[Result], charts: Sequence[str] = ()) -> str:
    """All tables of a comparison as Markdown. `charts` names the charts that there are."""
    accuracy, during = [], []
    for network, group in by_architecture(results).items():
        methods, curves = rows(group), moments(group)
        if methods:
            heading = f"## Accuracy in %, {network}, {group[0].protocol}"
            accuracy += [heading, markdown_table(accuracy_table(methods))]
        if curves:
            heading = f"## During condensation, {network}"
            during += [heading, markdown_table(moment_table(curves)), *overtaking_sentences(group)]
    if ACCURACY_CHART in charts:
        accuracy.append(f"![Accuracy against images per class]({ACCURACY_CHART})")
    if PROGRESS_CHART in charts:
        during.append(f"![Mean accuracy during condensation]({PROGRESS_CHART})")
    methods = rows(one_per_run(results))
    costs = ["## What it took", markdown_table(cost_table(methods))] if methods else []
    return "\n\n".join([f"# {title}", *notes, *accuracy, *during, *costs]) + "\n"


def csv_text(results: Sequence[Result]) -> str:
    """One line per method, architecture and moment. Numbers have all their digits."""
    sizes = list(results[0].scores)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    titles = ["method", "network", "protocol", "outer", "final", "runs", "networks"]
    spreads = ("minus_c", "sd_runs", "sd_networks")
    writer.writerow([*titles, *(f"size_{size}" for size in sizes), "mean", *spreads, *COSTS])
    groups: dict[tuple[str, str, int, bool], list[Result]] = {}
    for result in results:
        groups.setdefault((result.network, result.method, result.outer, result.final), []).append(result)
    references = {
        network: Row(group).mean
        for (network, method, _, final), group in groups.items()
        if final and method == REFERENCE
    }
    for (network, method, outer, final), group in groups.items():
        row = Row(group)
        difference = row.mean - references[network] if network in references else None
        writer.writerow(
            [
                *(method, network, group[0].protocol, outer, int(final), len(group), len(group[0].by_network)),
                *(row.means[size] for size in sizes),
                row.mean,
                *(
                    "" if value is None else value
                    for value in (difference, row.spread_over_runs, row.spread_over_networks)
                ),
                *(statistics.fmean(getattr(result, name) for result in group) for name in COSTS),
            ]
        )
    return stream.getvalue()


# Charts


def charts(results: Sequence[Result]) -> dict[str, Chart]:
    """The charts that these results give, by file name."""
    styles = dict(zip(dict.fromkeys(result.method for result in results), cycle(STYLES), strict=False))
    groups = by_architecture(results)
    accuracy = [_accuracy_panel(name, group, styles) for name, group in groups.items() if rows(group)]
    progress = [_progress_panel(name, group, styles) for name, group in groups.items() if moments(group)]
    drawn = {}
    if accuracy:
        drawn[ACCURACY_CHART] = Chart("Accuracy against images per class", accuracy)
    if progress:
        drawn[PROGRESS_CHART] = Chart("Mean accuracy over all sizes during condensation", progress)
    return drawn


def _accuracy_panel(network: str, results: Sequence[Result], styles: Mapping[str, Style]) -> Panel:
    """A line per method; bars are the spread over runs."""
    methods = rows(results)
    lines = [
        Series(
            row.method,
            sorted(row.means.items()),
            [row.spreads[size] for size in sorted(row.spreads)],
            styles[row.method],
        )
        for row in methods
    ]
    return Panel(lines, size_axis(methods[0].means), Axis("accuracy in %"), network)


def _progress_panel(network: str, results: Sequence[Result], styles: Mapping[str, Style]) -> Panel:
    """A line per method with moments, against time. A dashed line is the final mean of Baseline C."""
    curves = moments(results)
    times = [moment.row.seconds for curve in curves.values() for moment in curve]
    unit, seconds = _time_unit(max(times))
    lines = [
        Series(
            method,
            [(moment.row.seconds / seconds, moment.row.mean) for moment in curve],
            [moment.row.spread_over_runs or 0.0 for moment in curve],
            styles[method],
        )
        for method, curve in curves.items()
    ]
    ends = (min(times) / seconds, max(times) / seconds)
    goals = [
        Series(f"final mean of {REFERENCE}", [(end, row.mean) for end in ends], style=Style(line="--"))
        for row in rows(results)
        if row.method == REFERENCE
    ]
    return Panel([*lines, *goals], Axis(f"{unit} of condensation", is_wide(times)), Axis("mean accuracy in %"), network)


def _time_unit(longest: float) -> tuple[str, int]:
    """The unit for times up to `longest` seconds, and its length in seconds."""
    units = (("hours", 3600), ("minutes", 60))
    return next(((name, seconds) for name, seconds in units if longest >= 3 * seconds), ("seconds", 1))


# Files


def write_tables(comparison: Comparison) -> None:
    """Write results.md and results.csv of the results so far."""
    _write_tables(comparison, comparison.results(), ())


def write_report(comparison: Comparison) -> list[str]:
    """Write all tables and charts, and return the names of the files.

    Where matplotlib is not installed, there are no charts: the list then has no name of a chart.
    """
    results, folder = comparison.results(), comparison.store.folder
    drawn: dict[str, bytes] = {}
    with suppress(MissingExtraError):
        drawn = {name: chart.svg() for name, chart in charts(results).items()}
    for name in {ACCURACY_CHART, PROGRESS_CHART} - drawn.keys():  # charts of an earlier table
        (folder / name).unlink(missing_ok=True)
    for name, picture in drawn.items():
        write_whole(folder / name, lambda stream, picture=picture: stream.write(picture))  # type: ignore[misc]
    if not results:
        return []
    _write_tables(comparison, results, list(drawn))
    return ["results.md", *drawn, "results.csv", "results.jsonl"]


def _write_tables(comparison: Comparison, results: Sequence[Result], charts: Sequence[str]) -> None:
    if results:
        folder, grid = comparison.store.folder, comparison.grid
        title = f"{grid.data.name}, recipe {grid.recipe}"
        write_text(folder / "results.md", markdown(title, _notes(comparison, results), results, charts))
        write_text(folder / "results.csv", csv_text(results))


def _notes(comparison: Comparison, results: Sequence[Result]) -> list[str]:
    """Paragraphs that readers need to understand the tables."""
    data, changes = comparison.grid.data, comparison.grid.changes
    settings = ", ".join(f"{name} {value}" for name, value in changes.items() if name != "seed")
    paragraph = (
        f"{len(data.train):,} training images and {len(data.test):,} test images, {data.classes} classes; "
        f"settings: {settings or 'those of the recipe'}. {comparison.remark}"
    )
    return [
        paragraph.rstrip(),
        "Accuracy on test images after the last epoch. `± runs` is the standard deviation of the mean over sizes "
        "between condensations with different seeds, `± networks` between networks trained on the same set.",
        "Times were measured on " + "; ".join(dict.fromkeys(result.machine for result in results)) + ".",
    ]
