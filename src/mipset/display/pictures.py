"""Pictures of a file: a contact sheet, with one row per class and one column per rank, and pairs of images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, missing
from mipset.file.artifact import Artifact
from mipset.io.files import write_whole

if TYPE_CHECKING:
    from PIL.Image import Image

MARGIN, GAP = 4, 2
CAPTION = 16  # pixels for a line of text
CELL = 64  # small images are enlarged to at least this many pixels per side
MOST_PIXELS = 1 << 25  # of a sheet; if there are many images, they are enlarged less
LONGEST = 60  # longer class names are cut
INK, PAPER = (30, 30, 30), (255, 255, 255)


def contact_sheet(artifact: Artifact) -> Image:
    """All stored images: class names on the left, ranks on top. The first n columns are S_[n]."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    ranks, classes, channels, height, width = artifact.images.shape
    if channels not in (1, 3):
        raise ArtifactError(f"Images of {channels} channels cannot be shown. A picture needs 1 or 3 channels.")
    zoom = _zoom(ranks * classes, height, width)
    cell_h, cell_w = height * zoom + GAP, width * zoom + GAP
    font = ImageFont.load_default()
    class_names = [_on_one_line(name) for name in artifact.class_names]
    names = max(int(font.getlength(name)) for name in class_names) + 2 * MARGIN  # the width of their column
    top = CAPTION
    sheet = Image.new("RGB", (names + ranks * cell_w, top + classes * cell_h), PAPER)
    draw = ImageDraw.Draw(sheet)
    for rank in range(ranks):
        draw.text((names + rank * cell_w + cell_w // 2 - 4, 2), str(rank + 1), INK, font)
    for c, name in enumerate(class_names):
        draw.text((MARGIN, top + c * cell_h + cell_h // 2 - 6), name, INK, font)
        for rank in range(ranks):
            place = (names + rank * cell_w, top + c * cell_h)
            sheet.paste(_picture(artifact.images[rank, c], zoom), place)
    return sheet


def _zoom(images: int, height: int, width: int) -> int:
    """How many times images of this height and width are enlarged."""
    wanted = -(-CELL // max(height, width))
    fitting = (z for z in range(wanted, 1, -1) if images * (height * z + GAP) * (width * z + GAP) <= MOST_PIXELS)
    return next(fitting, 1)


def side_by_side(pairs: npt.NDArray[np.uint8], captions: Sequence[str], columns: int = 4) -> Image:
    """Pairs of images [k, 2, ch, h, w] beside each other, with a caption below each pair."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    height, width = pairs.shape[3:]
    zoom = _zoom(2 * len(pairs), height, width)
    font = ImageFont.load_default()
    wide = max(2 * (width * zoom + GAP), *(int(font.getlength(_on_one_line(text))) for text in captions)) + 2 * MARGIN
    high = height * zoom + GAP + CAPTION
    lines = -(-len(pairs) // columns)
    sheet = Image.new("RGB", (min(columns, len(pairs)) * wide, lines * high), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (pair, text) in enumerate(zip(pairs, captions, strict=True)):
        left, top = number % columns * wide + MARGIN, number // columns * high
        for place, pixels in enumerate(pair):
            sheet.paste(_picture(pixels, zoom), (left + place * (width * zoom + GAP), top))
        draw.text((left, top + height * zoom + GAP), _on_one_line(text), INK, font)
    return sheet


def _picture(pixels: npt.NDArray[np.uint8], zoom: int) -> Image:
    """An image [ch, h, w] as an enlarged RGB picture."""
    from PIL import Image

    height, width = pixels.shape[1:]
    colours = np.broadcast_to(np.moveaxis(pixels, 0, -1), (height, width, 3))
    picture = Image.fromarray(np.ascontiguousarray(colours))
    return picture.resize((width * zoom, height * zoom), Image.Resampling.NEAREST)


def _on_one_line(name: str) -> str:
    """A name without line breaks and not too long. It comes from a file, so it may be any text."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST])


def write_contact_sheet(artifact: Artifact, path: Path) -> None:
    """Write the contact sheet as a PNG file."""
    write_picture(contact_sheet(artifact), path)


def write_picture(sheet: Image, path: Path) -> None:
    """Write a picture as a PNG file."""
    try:
        write_whole(path, lambda stream: sheet.save(stream, format="PNG"))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
