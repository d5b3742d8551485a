"""Text for people: tables and what is known about a file."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from mipset.errors import printable
from mipset.file.artifact import Artifact
from mipset.file.description import Accuracy
from mipset.units import byte_count, spread


def in_columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text, the first column to the left and the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def accuracy_table(
    curves: Mapping[str, Sequence[Accuracy]], fleets: Mapping[str, Mapping[int, float]] | None = None
) -> str:
    """One row per curve, one column per size, and the mean over sizes; a cell is a mean and a spread over networks.

    Where a set was made for a fleet, of which shares use certain sizes, there is the mean over its devices as well.
    """
    sizes = sorted({point.size for points in curves.values() for point in points})
    fleets = {name: shares for name, shares in (fleets or {}).items() if shares}
    rows = [["images per class", *map(str, sizes), "mean", *(["fleet"] if fleets else [])]]
    for name, points in curves.items():
        cells = {p.size: spread(p.mean, p.std, p.networks, "±") for p in points}
        whole = len(cells) == len(sizes)  # means over different sizes do not compare
        mean = f"{statistics.fmean(p.mean for p in points):.2f}" if whole else "-"
        rows.append([name, *(cells.get(size, "-") for size in sizes), mean])
        if fleets:
            shares, means = fleets.get(name, {}), {p.size: p.mean for p in points}
            known = shares and shares.keys() <= means.keys()
            rows[-1].append(f"{fleet_mean(means, shares):.2f}" if known else "-")
    return in_columns(rows)


def fleet_mean(means: Mapping[int, float], shares: Mapping[int, float]) -> float:
    """The mean accuracy of devices, of which so many use each size."""
    return sum(share * means[size] for size, share in shares.items()) / sum(shares.values())


def description(artifact: Artifact) -> str:
    """What a file holds, where it comes from, and how good each size is known to be."""
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
            ", ".join(f"{key} {value}" for key, value in artifact.provenance.items() if value is not None),
        ],
        ["recipe", ", ".join(f"{key} {value}" for key, value in artifact.recipe.items())],
    ]
    lines = [f"{title:<10}{printable(text)}" for title, text in rows if text]
    heading = ""
    for p in artifact.accuracy:
        other = "" if p.data == artifact.provenance.get("sha256") else f"; tested with data {p.data[:12]}"
        if heading != (heading := f"accuracy in % (protocol {p.protocol}; {p.network}; seed {p.seed}{other})"):
            lines += ["", printable(heading)]
        bar = "█" * round(p.mean / 2.5)
        of = f"over {p.networks} networks" if p.networks > 1 else "of one network"
        lines.append(f"  {p.size:>4}  {bar:<40}  {spread(p.mean, p.std, p.networks)} {of}")
    if not artifact.accuracy:
        lines += ["", "accuracy  not measured yet: `mipset evaluate FILE --save` measures it"]
    return "\n".join(lines)
