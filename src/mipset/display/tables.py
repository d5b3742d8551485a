"""Text for the terminal: tables, and the description of a file."""

from __future__ import annotations

import statistics
import unicodedata
from collections.abc import Collection, Mapping, Sequence

from mipset.errors import printable
from mipset.file.artifact import Artifact
from mipset.file.description import Accuracy
from mipset.file.gallery_index import Entry
from mipset.file.measured import measured_curves, protocol_name
from mipset.settings.recipe import settings_read
from mipset.units import byte_count, spread


def in_columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """Rows of cells as text. The columns `left` are aligned to the left, the others to the right."""
    widths = [max(_width(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        padding = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = (
            cell + pad if i in left else pad + cell for i, (cell, pad) in enumerate(zip(row, padding, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide letter, none for an accent of its own."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def accuracy_table(
    curves: Mapping[str, Sequence[Accuracy]], fleets: Mapping[str, Mapping[int, float]] | None = None
) -> str:
    """A table with one row per curve, one column per size, and the mean over sizes.

    A cell is a mean and a standard deviation over networks. `fleets` gives, for sets that were condensed for a fleet,
    the share of devices that use each size: the last column is the mean over these devices.
    """
    sizes = sorted({point.size for points in curves.values() for point in points})
    fleets = {name: shares for name, shares in (fleets or {}).items() if shares}
    rows = [["images per class", *map(str, sizes), "mean", *(["fleet"] if fleets else [])]]
    for name, points in curves.items():
        cells = {p.size: spread(p.mean, p.std, p.networks, "±") for p in points}
        has_all_sizes = len(cells) == len(sizes)  # means over different sizes cannot be compared
        mean = f"{statistics.fmean(p.mean for p in points):.2f}" if has_all_sizes else "-"
        rows.append([name, *(cells.get(size, "-") for size in sizes), mean])
        if fleets:
            shares, means = fleets.get(name, {}), {p.size: p.mean for p in points}
            is_measured = shares and shares.keys() <= means.keys()
            rows[-1].append(f"{fleet_mean(means, shares):.2f}" if is_measured else "-")
    return in_columns(rows)


def fleet_mean(means: Mapping[int, float], shares: Mapping[int, float]) -> float:
    """The mean accuracy over devices. `shares` says which part of them uses each size."""
    return sum(share * means[size] for size, share in shares.items()) / sum(shares.values())


def description(artifact: Artifact) -> str:
    """What a file holds, where it comes from, and the accuracy of each size."""
    ranks, classes, channels, height, width = artifact.images.shape
    rank_bytes = artifact.images[0].nbytes
    per = artifact.factor**2
    rows = [
        ["images", f"{ranks} per class, {classes} classes, {channels} x {height} x {width} pixels"],
        [
            "decoding",
            f"{per} training images in each" if per > 1 else "none: a stored image is a training image",
        ],
        [
            "bytes",
            f"{byte_count(rank_bytes)} for each image per class, {byte_count(ranks * rank_bytes)} in all",
        ],
        ["classes", ", ".join(artifact.class_names)],
        [
            "from",
            ", ".join(
                f"{key} {value}" for key, value in artifact.provenance.items() if value is not None and key != "parts"
            ),
        ],
        ["parts", _parts(artifact.provenance.get("parts"))],
        ["recipe", ", ".join(f"{key} {value}" for key, value in settings_read(artifact.recipe).items())],
    ]
    lines = [f"{title:<10}{printable(text)}" for title, text in rows if text]
    heading = ""
    for p in (point for curve in measured_curves(artifact.accuracy) for point in curve):
        other = "" if p.data == artifact.provenance.get("sha256") else f"; tested with data {p.data[:12]}"
        if heading != (heading := f"accuracy in % (protocol {p.protocol}; {p.network}; seed {p.seed}{other})"):
            lines += ["", printable(heading)]
        bar = "█" * round(p.mean / 2.5)
        of = f"over {p.networks} networks" if p.networks > 1 else "of one network"
        lines.append(f"  {p.size:>4}  {bar:<40}  {spread(p.mean, p.std, p.networks)} {of}")
    if not artifact.accuracy:
        lines += ["", "accuracy  not measured yet"]
    return "\n".join(lines)


def gallery_table(entries: Sequence[Entry]) -> str:
    """The sets of a gallery: what they are, how large and how good."""
    rows = [["name", "dataset", "images per class", "size", "accuracy in % (images per class)", "protocol", "licence"]]
    for entry in entries:
        curve = next(iter(measured_curves(entry.accuracy)), [])
        shown = [point for place, point in enumerate(curve) if place in (0, len(curve) // 2, len(curve) - 1)]
        rows.append(
            [
                entry.name,
                printable(entry.dataset),
                str(entry.ipc),
                byte_count(entry.bytes),
                ", ".join(f"{point.mean:.1f} ({point.size})" for point in shown) or "not measured",
                printable(protocol_name(curve[0].protocol)) if curve else "",
                printable(entry.licence),
            ]
        )
    return in_columns(rows, left=(0, 1, 4, 5, 6))


def _parts(parts: object) -> str:
    """The parts of a method that are not those of the recipe. A file from elsewhere may hold anything."""
    if isinstance(parts, dict):
        return "; ".join(f"{axis} {text}" for axis, text in parts.items())
    return "" if parts is None else str(parts)
