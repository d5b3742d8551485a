"""Line charts as SVG: values in, text out, by the standard library alone.

A chart is a grid of panels, and a panel holds named series over two axes. A name has one style in all panels and stands
in the legend once; the legend is above the panels where it fits into a line there, and to the right of them otherwise.
Nothing is painted behind, and every colour lies between light and dark, so that a picture can be read on both.

A value that has no place is refused by a ValueError: one that is not finite, and on a logarithmic axis one that is not
positive. A bar whose lower end is not positive reaches down to the edge of such a panel.
"""

from __future__ import annotations

import math
import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from xml.sax.saxutils import escape, quoteattr

INK = "#7d8590"  # of everything that is no series
COLOURS = ("#0072b2", "#d55e00", "#70995c", "#8a2ee6", "#cc7aa3")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
MARKS = {
    "dot": "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z",
    "square": "M-3 -3h6v6h-6z",
    "diamond": "M0 -4.5L4.5 0L0 4.5L-4.5 0z",
    "triangle": "M0 -4L4 3.5L-4 3.5z",
    "ring": "M-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0z",
}
FILLED = ("dot", "square", "diamond", "triangle")

SMALL, NORMAL, LARGE = 11, 12, 14  # sizes of text, in pixels
EDGE = 14  # free around the picture
SAMPLE = 28  # the piece of a line that the legend shows
LEGEND_CHARACTERS = 30  # of a line of the legend beside the panels

LARGEST = sys.float_info.max
LARGEST_POWER = 308.25  # of ten; a little more is no float
NEGLIGIBLE = 1e-290  # differences below it are none: they are too near to the smallest numbers to be divided

Point = tuple[float, float]


@dataclass(frozen=True)
class Style:
    """What a series looks like."""

    colour: str = INK
    dashes: str = ""  # lengths of strokes and gaps; a solid line without
    mark: str = ""  # a name in MARKS; no marks without
    joined: bool = True  # by a line


# Colour and mark together are different for 20 series, and so are colour and dashes.
STYLES = tuple(
    Style(COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS)], FILLED[i % len(FILLED)])
    for i in range(len(COLOURS) * len(DASHES))
)


@dataclass(frozen=True)
class Series:
    """Points that belong together, in the order in which a line joins them."""

    name: str
    points: Sequence[Point]
    spreads: Sequence[float] = ()  # ± of each point, drawn as a bar where it is not 0; no bars without
    style: Style | None = None  # in place of the next one that is free


@dataclass(frozen=True)
class Axis:
    """One direction of a panel."""

    title: str = ""
    log: bool = False
    ticks: Sequence[float] = ()  # in place of round numbers
    shows: Sequence[float] = ()  # values that it reaches, beside those of the points


@dataclass(frozen=True)
class Panel:
    """One frame with what is drawn in it."""

    series: Sequence[Series]
    x: Axis = Axis()
    y: Axis = Axis()
    title: str = ""


def chart(title: str, panels: Sequence[Panel], columns: int = 2, size: tuple[float, float] = (420, 280)) -> str:
    """The picture of some panels, row by row, each with a frame of the same `size` in pixels."""
    if not panels:
        raise ValueError("a chart needs a panel.")
    plots = [_Plot(panel, *size) for panel in panels]
    styles = _styles(panels)
    legend = _Legend(tuple(styles.items()))
    columns = min(columns, len(plots))
    left, right = max(plot.left for plot in plots), max(plot.right for plot in plots)
    above, below = max(plot.above for plot in plots), max(plot.below for plot in plots)
    cell_width, cell_height = left + size[0] + right, above + size[1] + below
    grid_width, grid_height = columns * cell_width, math.ceil(len(plots) / columns) * cell_height
    in_a_line = legend.width_in_a_line <= grid_width - left
    top = EDGE + 1.5 * LARGE + (2 * NORMAL if in_a_line else 0)

    parts = [_element("title", _escaped(title)), _text(left, EDGE + LARGE, title, size=LARGE)]
    if in_a_line:
        parts += legend.in_a_line(left, EDGE + 1.5 * LARGE + NORMAL)
        width, height = grid_width, top + grid_height
    else:
        parts += legend.in_a_column(grid_width, top + above)
        width, height = grid_width + legend.width_in_a_column, top + max(grid_height, above + legend.height)
    for number, plot in enumerate(plots):
        row, column = divmod(number, columns)
        parts.append(_group(plot.elements(styles), left + column * cell_width, top + row * cell_height + above))
    return _picture(parts, max(width, left + _width(title, LARGE)) + EDGE, height + EDGE)


def _picture(parts: Sequence[str], width: float, height: float) -> str:
    across, down = math.ceil(width), math.ceil(height)
    about = f'width="{across}" height="{down}" viewBox="0 0 {across} {down}" font-family="sans-serif" role="img"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {about}>', *parts, "</svg>", ""])


def _styles(panels: Sequence[Panel]) -> dict[str, Style]:
    """The style of each name, in the order in which names first appear."""
    found: dict[str, Style] = {}
    free = 0
    for series in (series for panel in panels for series in panel.series):
        if series.name in found:
            continue
        found[series.name] = series.style or STYLES[free % len(STYLES)]
        free += series.style is None
    return found


# scales


@dataclass(frozen=True)
class Scale:
    """From values to places. `low` and `high` are the values at its ends, or their logarithms (to base 10)."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
        """One that has all the values, and a little room beside the outermost."""
        known = [math.log10(value) for value in values] if log else values
        low, high = _apart(min(known), max(known))
        room = 0.1 * (high / 2 - low / 2)  # 5 %; of halves, for the whole may be too large for a float
        return cls(max(low - room, -LARGEST), min(high + room, LARGEST), start, end, log)

    def __call__(self, value: float) -> float:
        at = math.log10(value) if self.log else value
        share = (at / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + share * (self.end - self.start)

    def has(self, value: float) -> bool:
        """Whether a value lies between its ends."""
        if self.log:
            return value > 0 and self.low <= math.log10(value) <= self.high
        return self.low <= value <= self.high

    def ticks(self, most: int) -> list[float]:
        """About as many round numbers as `most`, or fewer."""
        found = log_ticks(self.low, self.high, most) if self.log else round_ticks(self.low, self.high, most)
        return [tick for tick in found if self.has(tick)]


def _apart(low: float, high: float) -> Point:
    """The two, moved apart where they are too near to each other for places between them."""
    largest = max(abs(low), abs(high))
    if high - low > max(1e-9 * largest, NEGLIGIBLE):
        return low, high
    room = 0.1 * largest if largest > 10 * NEGLIGIBLE else 1.0
    return max(low - room, -LARGEST), min(high + room, LARGEST)


def round_ticks(low: float, high: float, most: int) -> list[float]:
    """The multiples between two values of 1, 2 or 5 times a power of ten."""
    rough = (high / 2 - low / 2) / most * 2
    if rough < NEGLIGIBLE:
        return []
    power = math.floor(math.log10(rough))
    step = next(step for digit in (1, 2, 5, 10) if (step := float(f"{digit}e{power}")) >= rough)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2 and 5 times the powers of ten between two exponents; powers alone where that is too many.

    Round numbers as on a linear axis, where the two are so near to each other that there are not even two of these.
    """
    powers = range(math.floor(low), math.ceil(high) + 1)
    for digits in ((1, 2, 5), (1,)):
        values = [float(f"{digit}e{power}") for power in powers for digit in digits]
        inside = [value for value in values if 0 < value <= LARGEST and low <= math.log10(value) <= high]
        if 2 <= len(inside) <= most:
            return inside
    if len(inside) > most:
        return inside[:: math.ceil(len(inside) / most)]
    start, end = (10.0 ** min(power, LARGEST_POWER) for power in (low, high))
    return round_ticks(start, end, most)


def number_text(value: float) -> str:
    """`0.5`, `20,000`, `2e9`, with as many digits as it needs, twelve at most."""
    if value == 0 or 1e-4 <= abs(value) < 1e7:
        return f"{value:,.12g}"
    digits, _, power = f"{value:.11e}".partition("e")
    return f"{float(digits):.12g}e{int(power)}"


# one panel


@dataclass(frozen=True)
class _Plot:
    """A panel with its scales. The upper left corner of its frame is (0, 0)."""

    panel: Panel
    width: float
    height: float

    def __post_init__(self) -> None:
        if not any(series.points for series in self.panel.series):
            raise ValueError("a panel needs a point.")
        for axis in (self.panel.x, self.panel.y):
            for value in axis.shows:
                _check_value(value, axis, f"the axis {axis.title!r} is to show")
        for series in self.panel.series:
            _check(series, self.panel)

    @cached_property
    def x(self) -> Scale:
        axis = self.panel.x
        values = [x for series in self.panel.series for x, _ in series.points]
        return Scale.over([*axis.shows, *values], 0, self.width, axis.log)

    @cached_property
    def y(self) -> Scale:
        axis = self.panel.y
        values = [y for series in self.panel.series for _, y in series.points]
        ends = [end for series in self.panel.series for _, *pair in _bars(series) for end in pair]
        shown = [end for end in ends if end > 0 or not axis.log]
        return Scale.over([*axis.shows, *values, *shown], self.height, 0, axis.log)

    @cached_property
    def x_ticks(self) -> list[float]:
        """Those whose labels do not touch."""
        wanted = self.panel.x.ticks or self.x.ticks(max(2, int(self.width / 60)))
        kept: list[float] = []
        reached = -math.inf
        for tick in sorted(tick for tick in wanted if self.x.has(tick)):
            half = _width(number_text(tick), SMALL) / 2
            if self.x(tick) - half > reached:
                kept.append(tick)
                reached = self.x(tick) + half + 4
        return kept

    @cached_property
    def y_ticks(self) -> list[float]:
        axis = self.panel.y
        return [tick for tick in axis.ticks if self.y.has(tick)] or self.y.ticks(max(2, int(self.height / 26)))

    # the room that is needed around the frame

    @property
    def left(self) -> float:
        widest = max((_width(number_text(tick), SMALL) for tick in self.y_ticks), default=0)
        return EDGE + widest + 8 + (1.5 * NORMAL if self.panel.y.title else 0)

    @property
    def right(self) -> float:
        return max([EDGE, *(_width(number_text(tick), SMALL) / 2 for tick in self.x_ticks)])

    @property
    def above(self) -> float:
        return 2 * NORMAL if self.panel.title else 0.5 * NORMAL

    @property
    def below(self) -> float:
        return 2 * SMALL + (1.5 * NORMAL if self.panel.x.title else 0)

    # what is drawn

    def elements(self, styles: dict[str, Style]) -> Iterator[str]:
        """The frame, and the series on it, the first of them on top."""
        yield from self._frame()
        for series in reversed(self.panel.series):
            yield _element("g", _element("title", _escaped(series.name)), *self._series(series, styles[series.name]))

    def _frame(self) -> Iterator[str]:
        width, height = self.width, self.height
        yield _element("rect", x=0, y=0, width=width, height=height, fill="none", stroke=INK, opacity="0.5")
        for tick in self.y_ticks:
            at = self.y(tick)
            yield _line([(0, at), (width, at)], Style(), opacity="0.2", stroke_width=1)
            yield _text(-6, at + 4, number_text(tick), "end")
        for tick in self.x_ticks:
            at = self.x(tick)
            yield _line([(at, height), (at, height + 4)], Style(), opacity="0.5", stroke_width=1)
            yield _text(at, height + 1.5 * SMALL, number_text(tick), "middle")
        yield _text(width / 2, -0.7 * NORMAL, self.panel.title, "middle", NORMAL)
        yield _text(width / 2, height + 2 * SMALL + NORMAL, self.panel.x.title, "middle", NORMAL)
        aside, middle = -self.left + EDGE + 0.8 * NORMAL, height / 2
        turned = f"rotate(-90 {aside:.1f} {middle:.1f})"
        yield _text(aside, middle, self.panel.y.title, "middle", NORMAL, transform=turned)

    def _series(self, series: Series, style: Style) -> Iterator[str]:
        if style.joined and len(series.points) > 1:
            yield _line([(self.x(x), self.y(y)) for x, y in series.points], style)
        for x, low, high in _bars(series):
            bottom = self.y(low) if low > 0 or not self.y.log else self.y.start
            yield _line([(self.x(x), bottom), (self.x(x), self.y(high))], Style(style.colour), opacity="0.6")
        for (x, y), spread in zip_longest(series.points, series.spreads):
            more = f" ± {spread:.3g}" if spread else ""
            yield _mark(self.x(x), self.y(y), style, f"{series.name}: {number_text(x)}, {y:.5g}{more}")


def _check(series: Series, panel: Panel) -> None:
    """A ValueError if something of a series has no place in its panel."""
    if len(series.spreads) not in (0, len(series.points)):
        raise ValueError(f"{series.name!r} has {len(series.points)} points, but {len(series.spreads)} spreads.")
    if not all(math.isfinite(spread) and spread >= 0 for spread in series.spreads):
        raise ValueError(f"{series.name!r} has a spread that is negative or not finite.")
    for point in series.points:
        for value, axis in zip(point, (panel.x, panel.y), strict=True):
            _check_value(value, axis, f"{series.name!r} has a point at")


def _check_value(value: float, axis: Axis, whose: str) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{whose} {value}, which is not finite.")
    if axis.log and value <= 0:
        raise ValueError(f"{whose} {value}, which is not positive: a logarithmic axis has no place for it.")


def _bars(series: Series) -> list[tuple[float, float, float]]:
    """Where the bars of a series are: x, the lower and the upper end."""
    return [
        (x, max(y - spread, -LARGEST), min(y + spread, LARGEST))
        for (x, y), spread in zip(series.points, series.spreads, strict=False)
        if spread > 0
    ]


# the legend


@dataclass(frozen=True)
class _Legend:
    """A sample of each style, with its name."""

    entries: Sequence[tuple[str, Style]]

    @property
    def width_in_a_line(self) -> float:
        return sum(_entry_width(name) for name, _ in self.entries)

    @property
    def width_in_a_column(self) -> float:
        return max(_entry_width(line) for name, _ in self.entries for line in _lines(name))

    @property
    def height(self) -> float:
        return 1.5 * NORMAL * sum(len(_lines(name)) for name, _ in self.entries)

    def in_a_line(self, x: float, y: float) -> Iterator[str]:
        for name, style in self.entries:
            yield _group(_entry([name], style), x, y)
            x += _entry_width(name)

    def in_a_column(self, x: float, y: float) -> Iterator[str]:
        for name, style in self.entries:
            yield _group(_entry(_lines(name), style), x, y + 0.75 * NORMAL)
            y += 1.5 * NORMAL * len(_lines(name))


def _entry_width(line: str) -> float:
    return SAMPLE + 6 + _width(line, NORMAL) + 12


def _entry(lines: Sequence[str], style: Style) -> Iterator[str]:
    if style.joined:
        yield _line([(0, 0), (SAMPLE, 0)], style)
    yield _mark(SAMPLE / 2, 0, style)
    for number, line in enumerate(lines):
        yield _text(SAMPLE + 6, 4 + 1.2 * NORMAL * number, line, size=NORMAL)


def _lines(name: str) -> list[str]:
    return textwrap.wrap(name, LEGEND_CHARACTERS) or [name]


# elements


def _element(tag: str, *content: str, **attributes: float | str) -> str:
    """One element; `stroke_width=2` is written as stroke-width="2.0", and content stays as it is."""
    told = ((key, value if isinstance(value, str) else f"{value:.1f}") for key, value in attributes.items())
    start = " ".join([tag, *(f"{key.replace('_', '-')}={quoteattr(value)}" for key, value in told)])
    return f"<{start}>{''.join(content)}</{tag}>" if content else f"<{start}/>"


def _group(parts: Iterator[str], x: float, y: float) -> str:
    return _element("g", "\n", *(f"{part}\n" for part in parts if part), transform=f"translate({x:.1f} {y:.1f})")


def _text(x: float, y: float, words: str, anchor: str = "start", size: int = SMALL, **more: str) -> str:
    if not words:
        return ""
    return _element("text", _escaped(words), x=x, y=y, text_anchor=anchor, font_size=str(size), fill=INK, **more)


def _line(points: Sequence[Point], style: Style, opacity: str = "1", stroke_width: float = 1.5) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    look: dict[str, float | str] = {"stroke": style.colour, "stroke_width": stroke_width}
    look |= {"stroke_dasharray": style.dashes} if style.dashes else {}
    look |= {"opacity": opacity} if opacity != "1" else {}
    return _element("polyline", points=path, fill="none", **look)


def _mark(x: float, y: float, style: Style, about: str = "") -> str:
    """The mark of a style, with words that are shown where the mouse rests on it."""
    if not style.mark:
        return ""
    fill = style.colour if style.mark in FILLED else "none"
    told = [_element("title", _escaped(about))] if about else []
    where = f"translate({x:.1f} {y:.1f})"
    return _element("path", *told, transform=where, d=MARKS[style.mark], fill=fill, stroke=style.colour)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _escaped(words: str) -> str:
    """Words that mean themselves in XML; a character that XML cannot hold becomes a question mark in a diamond."""
    return escape(_NOT_IN_XML.sub("\ufffd", words))


def _width(words: str, size: int) -> float:
    """About how wide a text is, rather more than less: fonts differ."""
    return size * sum(1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.62 for letter in words)
