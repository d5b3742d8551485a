"""A grid of images as HTML, for notebooks: one row per class, one column per rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mipset import markup
from mipset.file.pixels import Pixels

MOST_ROWS, MOST_COLUMNS = 10, 10  # a notebook keeps what it shows: a larger grid would make its file huge
LARGEST = 64  # pixels per side; larger images are thinned out


def image_grid(names: Sequence[str], rows: Iterable[Sequence[Pixels]]) -> str:
    """The first images [ch, h, w] of each class, and what is left out. A row holds the images of one class."""
    shown = [(name, list(images)) for name, images in zip(names[:MOST_ROWS], rows, strict=False)]
    columns = max(len(images) for _, images in shown)
    pictures = [
        (name, [_picture(image, f"{name}, {rank}") for rank, image in enumerate(images[:MOST_COLUMNS], start=1)])
        for name, images in shown
    ]
    heading = ["", *(str(rank) for rank in range(1, min(columns, MOST_COLUMNS) + 1))]
    return markup.picture_table(heading, pictures) + _left_out(len(names), columns)


def _left_out(classes: int, columns: int) -> str:
    parts = []
    if classes > MOST_ROWS:
        parts.append(f"{MOST_ROWS} of {classes} classes")
    if columns > MOST_COLUMNS:
        parts.append(f"{MOST_COLUMNS} of {columns} images of each")
    return markup.paragraph(f"The first {', and the first '.join(parts)}.") if parts else ""


def _picture(image: Pixels, title: str) -> str:
    """An image [ch, h, w] as HTML. Only grey and RGB images can be shown."""
    step = -(-max(image.shape[1:]) // LARGEST)
    channels, height, width = image[:, ::step, ::step].shape
    if channels not in markup.COLOUR_TYPES:
        return markup.paragraph(f"{channels} channels")
    pixels = np.moveaxis(image[:, ::step, ::step], 0, -1).tobytes()
    return markup.picture(pixels, height, width, channels, title)
