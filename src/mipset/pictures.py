"""A contact sheet: every stored image of a file, one row per class, one column per rank."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mipset.artifact import Artifact
from mipset.errors import ArtifactError
from mipset.extras import missing
from mipset.files import write_whole

if TYPE_CHECKING:
    from PIL.Image import Image

MARGIN, GAP = 4, 2
CELL = 64  # pixels on a side that small images are enlarged to, at least
LONGEST = 60  # characters of a class name that are shown
INK, PAPER = (30, 30, 30), (255, 255, 255)


def contact_sheet(artifact: Artifact) -> Image:
    """The picture: class names on the left, ranks on top; S_[n] is what stands left of column n + 1."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    ranks, classes, channels, height, width = artifact.images.shape
    if channels not in (1, 3):
        raise ArtifactError(f"images of {channels} channels cannot be shown: a picture needs 1 or 3.")
    zoom = max(1, -(-CELL // max(height, width)))
    cell_h, cell_w = height * zoom + GAP, width * zoom + GAP
    font = ImageFont.load_default()
    shown = [_shown(name) for name in artifact.class_names]
    names = max(int(font.getlength(name)) for name in shown) + 2 * MARGIN
    top = 16
    sheet = Image.new("RGB", (names + ranks * cell_w, top + classes * cell_h), PAPER)
    draw = ImageDraw.Draw(sheet)
    for rank in range(ranks):
        draw.text((names + rank * cell_w + cell_w // 2 - 4, 2), str(rank + 1), INK, font)
    for c, name in enumerate(shown):
        draw.text((MARGIN, top + c * cell_h + cell_h // 2 - 6), name, INK, font)
        for rank in range(ranks):
            pixels = np.moveaxis(artifact.images[rank, c], 0, -1)  # [h, w, ch]
            picture = Image.fromarray(np.ascontiguousarray(np.broadcast_to(pixels, (height, width, 3))))
            place = (names + rank * cell_w, top + c * cell_h)
            sheet.paste(picture.resize((width * zoom, height * zoom), Image.Resampling.NEAREST), place)
    return sheet


def _shown(name: str) -> str:
    """A name on one line of bearable length: it comes out of a file, so it may be anything."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:LONGEST])


def write_contact_sheet(artifact: Artifact, path: Path) -> None:
    """Write the contact sheet as a PNG file."""
    sheet = contact_sheet(artifact)
    try:
        write_whole(path, lambda stream: sheet.save(stream, format="PNG"))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
