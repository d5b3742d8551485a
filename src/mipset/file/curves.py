"""An accuracy curve as a notebook shows it: short as text, a table as HTML."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from mipset import markup
from mipset.errors import brief
from mipset.file.description import Accuracy
from mipset.file.measured import measured_curves
from mipset.units import spread

MOST_POINTS = 10  # of the text; the table has all


class Curve(list[Accuracy]):
    """The accuracies of some sizes: a list of points, which a notebook shows as a table."""

    def __repr__(self) -> str:
        return f"<Curve: {curve_text(self)}>"

    def _repr_html_(self) -> str:
        return curve_table(self)


def curve_text(points: Iterable[Accuracy]) -> str:
    """`53.0 ± 1.0 % at size 1, 71.0 ± 0.4 % at size 3`; of many points, the first ones and the last."""
    curve = list(points)
    listed = curve if len(curve) <= MOST_POINTS else [*curve[: MOST_POINTS - 1], curve[-1]]
    texts = [f"{_percent(point)} % at size {point.size}" for point in listed]
    if len(curve) > len(listed):
        texts.insert(-1, "...")
    return ", ".join(texts) or "no accuracy was measured"


def longest_curve_text(points: Iterable[Accuracy]) -> str:
    """The text of the curve with the longest training, with its network and protocol, and how many others there are."""
    longest, *others = measured_curves(points) or [[]]
    if not longest:
        return curve_text(longest)
    way = brief(f"{longest[0].network}; protocol {longest[0].protocol}", str)
    more = f"; {len(others)} more {'curve' if len(others) == 1 else 'curves'} in `accuracy`" if others else ""
    return f"{curve_text(longest)} ({way}){more}"


def curve_table(points: Iterable[Accuracy]) -> str:
    """A table with one row for each network, protocol, seed and dataset, and one column for each size, as HTML."""
    lines: dict[tuple[str, str, int, str], dict[int, Accuracy]] = {}
    for point in points:
        lines.setdefault((point.network, point.protocol, point.seed, point.data), {})[point.size] = point
    sizes = sorted({size for line in lines.values() for size in line})
    rows = []
    for (network, protocol, seed, _), line in lines.items():
        cells = [_percent(line[size]) if size in line else "" for size in sizes]
        mean = f"{statistics.fmean(point.mean for point in line.values()):.1f}" if len(line) == len(sizes) else ""
        rows.append([f"{network}; {protocol}; seed {seed}", *cells, mean])
    if not rows:
        return markup.paragraph("No accuracy was measured.")
    return markup.table(["accuracy in % at size", *map(str, sizes), "mean"], rows)


def _percent(point: Accuracy) -> str:
    return spread(point.mean, point.std, point.networks)
