"""Line charts, drawn by matplotlib as SVG or PNG.

A chart is data: panels of named series over two axes. A name has the same style in all panels and is in the legend
once. The background is transparent and all colours lie between light and dark, so a chart can be read on both.
The same values give the same bytes.
"""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset.errors import missing, printable
from mipset.file.description import Accuracy
from mipset.io.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.figure import Figure

INK = "#7d8590"  # of text and axes
COLOURS = ("#0072b2", "#d55e00", "#70995c", "#8a2ee6", "#cc7aa3")
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "D", "^")
LONGEST_TEXT, LEGEND_CHARACTERS = 200, 32  # longer texts are cut; longer lines of the legend are wrapped
FEW_TICKS = 12  # each size has a tick if there are not more sizes
LARGEST = 1e30  # larger numbers cannot be drawn
WIDE = 20  # the ratio of the largest to the smallest value from which an axis is logarithmic


@dataclass(frozen=True)
class Style:
    """How a series looks."""

    colour: str = INK
    line: str = "-"  # as matplotlib writes it; "" for no line
    marker: str = ""  # as matplotlib writes it; "" for no markers
    hollow: bool = False


# Colour and marker together are different for 20 series, and so are colour and line.
STYLES = tuple(
    Style(COLOURS[i % len(COLOURS)], LINES[i // len(COLOURS)], MARKERS[i % len(MARKERS)])
    for i in range(len(COLOURS) * len(LINES))
)


@dataclass(frozen=True)
class Series:
    """Named points, joined by a line in their order."""

    name: str
    points: Sequence[tuple[float, float]]
    spreads: Sequence[float] = ()  # ± of each point, drawn as a bar; empty for no bars
    style: Style | None = None  # None for the next free style


@dataclass(frozen=True)
class Axis:
    """One axis of a panel."""

    title: str = ""
    log: bool = False
    ticks: Sequence[float] = ()  # empty for round numbers


@dataclass(frozen=True)
class Panel:
    """One frame with its series."""

    series: Sequence[Series]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""


@dataclass(frozen=True)
class Chart:
    """Panels, row by row."""

    title: str
    panels: Sequence[Panel]
    columns: int = 2
    panel_inches: tuple[float, float] = (5.2, 3.6)
    one_scale: bool = False  # whether the panels of a row have the same y axis

    def __post_init__(self) -> None:
        if not self.panels or not all(panel.series for panel in self.panels):
            raise ValueError("A chart needs a panel, and each panel needs a series.")
        for panel in self.panels:
            for series in panel.series:
                _check(series, panel)

    def write(self, path: Path) -> None:
        """Write a PNG if the file name ends in .png, else an SVG; whole or not at all."""
        content = self.png() if path.suffix.lower() == ".png" else self.svg()
        write_whole(path, lambda stream: stream.write(content))

    def svg(self) -> bytes:
        return self._render("svg", {"Date": None, "Creator": None, "Title": _text(self.title)})

    def png(self) -> bytes:
        return self._render("png", {"Software": None})

    def _render(self, kind: str, metadata: Mapping[str, str | None]) -> bytes:
        try:
            from matplotlib import rc_context, rcdefaults, rcParams
        except ImportError as error:
            raise missing("matplotlib", "Drawing a chart") from error
        stream = io.BytesIO()
        with rc_context(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as glyphs that the font of matplotlib does not have
            rcdefaults()  # the user's settings of matplotlib do not change our charts
            rcParams.update(_SETTINGS)
            _figure(self).savefig(stream, format=kind, metadata=metadata, bbox_inches="tight", transparent=True)
        return stream.getvalue()


_SETTINGS: dict[Any, Any] = {
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.titlesize": "large",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # the font that matplotlib brings, so that all machines give the same layout
    "font.size": 10,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "mipset",
    "text.parse_math": False,  # a "$" in a name is a "$"
    "text.usetex": False,
}


def _check(series: Series, panel: Panel) -> None:
    """Refuse values that have no place on their axes."""
    if series.spreads and len(series.spreads) != len(series.points):
        raise ValueError(f"{series.name!r} has {len(series.points)} points, but {len(series.spreads)} spreads.")
    if not series.points:
        raise ValueError(f"{series.name!r} has no points.")
    for value in (*(value for point in series.points for value in point), *series.spreads):
        if not abs(value) <= LARGEST:
            raise ValueError(f"{series.name!r} contains {value}: values must be from {-LARGEST:g} to {LARGEST:g}.")
    if min(series.spreads, default=0) < 0:
        raise ValueError(f"{series.name!r} has a spread of {min(series.spreads)}: it must be at least 0.")
    for axis, values in zip((panel.x, panel.y), zip(*series.points, strict=True), strict=True):
        if axis.log and min(values) <= 0:
            raise ValueError(f"{series.name!r} contains {min(values)}: values on a logarithmic axis must be above 0.")


def _figure(chart: Chart) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    columns = min(chart.columns, len(chart.panels))
    lines = -(-len(chart.panels) // columns)
    width, height = columns * chart.panel_inches[0], lines * chart.panel_inches[1]
    left, bottom, right, top = 0.7 / width, 0.6 / height, 1 - 0.1 / width, 1 - 0.3 / height
    figure = Figure(figsize=(width, height))
    figure.subplots_adjust(left, bottom, right, top, wspace=0.2, hspace=0.45)
    frames = figure.subplots(lines, columns, squeeze=False, sharey="row" if chart.one_scale else False).flat
    styles = _styles(chart.panels)
    for number, panel in enumerate(chart.panels):
        _draw(next(frames), panel, styles, f"panel-{number}")
    for unused in frames:
        unused.set_axis_off()
    # Title and legend are outside of the figure, which grows by them when it is saved. So panels keep their size.
    beside = sum(len(_text(name)) + 7 for name in styles) > 12 * width
    figure.text(left, 1 + (0.15 if beside else 0.45) / height, _text(chart.title), fontsize="large")
    legend = figure.legend(
        [Line2D([], [], **_look(style)) for style in styles.values()],
        ["" for _ in styles],
        loc="upper left" if beside else "lower left",
        bbox_to_anchor=(1.0, top) if beside else (left, 1.0),
        borderaxespad=0.0,
        ncols=1 if beside else len(styles),
    )
    for label, name in zip(legend.get_texts(), styles, strict=True):  # later, since a label "_x" would be left out
        label.set_text("\n".join(textwrap.wrap(_text(name), LEGEND_CHARACTERS) or [""]) if beside else _text(name))
    return figure


def _draw(frame: Axes, panel: Panel, styles: Mapping[str, Style], group: str) -> None:
    frame.set_title(_text(panel.title), loc="left")
    frame.set_xlabel(_text(panel.x.title))
    frame.set_ylabel(_text(panel.y.title))
    if panel.x.log:
        frame.set_xscale("log")
    if panel.y.log:
        frame.set_yscale("log")
    for number, series in reversed(list(enumerate(panel.series))):  # the first series is on top
        x, y = zip(*series.points, strict=True)
        spreads = list(series.spreads) or None
        line, *_ = frame.errorbar(x, y, spreads, capsize=2, elinewidth=1, **_look(styles[series.name]))
        line.set_gid(f"{group}-series-{number}")
    _set_ticks(frame.xaxis, panel.x)
    _set_ticks(frame.yaxis, panel.y)


def _look(style: Style) -> dict[str, Any]:
    """A style as arguments of matplotlib."""
    filling = {"markerfacecolor": "none", "markersize": 9} if style.hollow else {}
    return {"color": style.colour, "linestyle": style.line, "marker": style.marker, **filling}


def _set_ticks(drawn: MatplotlibAxis, axis: Axis) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if axis.log:
        low, high = drawn.get_view_interval()
        drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)))
        drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # the default writes mathematics
        drawn.set_minor_locator(NullLocator())
    if axis.ticks:
        drawn.set_ticks(list(axis.ticks), [f"{tick:g}" for tick in axis.ticks])


def _styles(panels: Sequence[Panel]) -> dict[str, Style]:
    """The style of each name, in the order in which names first appear."""
    styles: dict[str, Style] = {}
    used = 0
    for series in (series for panel in panels for series in panel.series):
        if series.name not in styles:
            styles[series.name] = series.style or STYLES[used % len(STYLES)]
            used += series.style is None
    return styles


def _text(text: str) -> str:
    """A text that XML and terminals can hold."""
    return printable(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}...")


def is_wide(values: Sequence[float]) -> bool:
    """Whether values differ so much that only a logarithmic axis shows them all."""
    return min(values) > 0 and max(values) / min(values) >= WIDE


def size_axis(sizes: Iterable[int]) -> Axis:
    """The axis of images per class. Each size has a tick if there are few."""
    ordered = sorted(set(sizes))
    return Axis("images per class", log=is_wide(ordered), ticks=ordered if len(ordered) <= FEW_TICKS else ())


def accuracy_curve(title: str, points: Iterable[Accuracy]) -> Chart:
    """The accuracy curve of a file: a line for each architecture and protocol, a bar for the spread over networks."""
    lines: dict[str, list[Accuracy]] = {}
    for point in sorted(points, key=lambda point: point.size):
        lines.setdefault(f"{point.network}; {point.protocol}", []).append(point)
    series = [
        Series(name, [(point.size, point.mean) for point in curve], [point.std for point in curve])
        for name, curve in lines.items()
    ]
    sizes = [point.size for curve in lines.values() for point in curve]
    return Chart(title, [Panel(series, size_axis(sizes), Axis("accuracy in %"))])
