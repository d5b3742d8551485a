"""Pictures of a file: a contact sheet, with one row per class and one column per rank, and pairs of images.

Names are drawn with a font that has their letters. If this machine has none, a PNG shows `?` for a letter, and an SVG
leaves it to the program that shows it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, missing
from mipset.file.artifact import Artifact
from mipset.io.files import write_whole
from mipset.markup import png

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font: TypeAlias = FreeTypeFont | ImageFont

MARGIN, GAP = 4, 2
CAPTION = 16  # pixels for a line of text
CELL = 64  # small images are enlarged to at least this many pixels per side
MOST_PIXELS = 1 << 25  # of a sheet; if there are many images, they are enlarged less
LONGEST = 60  # longer class names are cut
LETTER, WIDE_LETTER = 7, 14  # pixels that an SVG keeps free for a letter of a name
FONT_SIZE = 11
NO_LETTER = "\U0010ffff"  # which no font has: it shows what a font draws for a letter that it does not have
INK, PAPER = (30, 30, 30), (255, 255, 255)


def contact_sheet(artifact: Artifact) -> Image:
    """All stored images: class names on the left, ranks on top. The first n columns are S_[n]."""
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    _check_channels(artifact)
    ranks, classes, _, height, width = artifact.images.shape
    zoom = _zoom(ranks * classes, height, width)
    cell_h, cell_w = height * zoom + GAP, width * zoom + GAP
    font = ImageFont.load_default()
    class_names = [_drawable(name) for name in artifact.class_names]
    names = max(int(drawn_with.getlength(name)) for name, drawn_with in class_names) + 2 * MARGIN  # their column
    top = CAPTION
    sheet = Image.new("RGB", (names + ranks * cell_w, top + classes * cell_h), PAPER)
    draw = ImageDraw.Draw(sheet)
    for rank in range(ranks):
        draw.text((names + rank * cell_w + cell_w // 2 - 4, 2), str(rank + 1), INK, font)
    for c, (name, drawn_with) in enumerate(class_names):
        draw.text((MARGIN, top + c * cell_h + cell_h // 2 - 6), name, INK, drawn_with)
        for rank in range(ranks):
            place = (names + rank * cell_w, top + c * cell_h)
            sheet.paste(_picture(artifact.images[rank, c], zoom), place)
    return sheet


def contact_sheet_svg(artifact: Artifact) -> str:
    """The same as SVG, with names as text."""
    _check_channels(artifact)
    ranks, classes, channels, height, width = artifact.images.shape
    zoom = _zoom(1, height, width)
    cell_h, cell_w = height * zoom + GAP, width * zoom + GAP
    class_names = [_on_one_line(name) for name in artifact.class_names]
    names = max(map(_svg_width, class_names)) + 2 * MARGIN
    texts = [
        *((names + rank * cell_w + cell_w // 2 - 4, 12, str(rank + 1)) for rank in range(ranks)),
        *((MARGIN, CAPTION + c * cell_h + cell_h // 2 + 4, name) for c, name in enumerate(class_names)),
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{names + ranks * cell_w}" '
        f'height="{CAPTION + classes * cell_h}" font-family="sans-serif" font-size="{FONT_SIZE}">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        *(f'<text x="{x}" y="{y}" fill="rgb{INK}">{escape(text)}</text>' for x, y, text in texts),
    ]
    for rank, c in np.ndindex(ranks, classes):
        pixels = np.moveaxis(artifact.images[rank, c], 0, -1).tobytes()
        lines.append(
            f'<image x="{names + rank * cell_w}" y="{CAPTION + c * cell_h}" width="{width * zoom}" '
            f'height="{height * zoom}" style="image-rendering:pixelated" preserveAspectRatio="none" '
            f'href="data:image/png;base64,{b64encode(png(pixels, height, width, channels)).decode()}"/>'
        )
    return "\n".join([*lines, "</svg>\n"])


def _svg_width(name: str) -> int:
    return sum(LETTER if ord(letter) < 0x1100 else WIDE_LETTER for letter in name)


def _check_channels(artifact: Artifact) -> None:
    channels = artifact.images.shape[2]
    if channels not in (1, 3):
        raise ArtifactError(f"Images of {channels} channels cannot be shown. A picture needs 1 or 3 channels.")


def without_font(names: Iterable[str]) -> list[str]:
    """Those names that no font of this machine has all letters of."""
    lines = map(_on_one_line, names)
    return [line for line in lines if _drawable(line)[0] != line]


def _drawable(name: str) -> tuple[str, Font]:
    """A name, and a font that has its letters. Letters that no font has are replaced by `?`."""
    line = _on_one_line(name)
    for font in _fonts():
        if not _missing_letters(line, font):
            return line, font
    font = next(_fonts())
    gone = _missing_letters(line, font)
    return "".join("?" if letter in gone else letter for letter in line), font


def _missing_letters(line: str, font: Font) -> set[str]:
    """The letters of a line that a font does not have: it draws the same for them as for no letter."""
    absent = _shape(NO_LETTER, font)
    return {letter for letter in set(line) if not letter.isspace() and _shape(letter, font) == absent}


def _shape(letter: str, font: Font) -> tuple[tuple[int, int], bytes] | None:
    try:
        mask = font.getmask(letter)
    except UnicodeEncodeError:  # the font of a Pillow without FreeType has Latin letters only
        return None
    return mask.size, bytes(mask)


def _fonts() -> Iterator[Font]:
    """The font of Pillow, and then those of this machine: matplotlib knows where they are."""
    from PIL import ImageFont

    yield ImageFont.load_default()
    for path in _font_files():
        try:
            yield ImageFont.truetype(path, FONT_SIZE)
        except OSError:  # damaged, or of a kind that Pillow does not know
            continue


@cache
def _font_files() -> tuple[str, ...]:
    try:
        from matplotlib import get_data_path
        from matplotlib.font_manager import findSystemFonts
    except ImportError:
        return ()
    own = Path(get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return str(own), *sorted(findSystemFonts())


def _zoom(images: int, height: int, width: int) -> int:
    """How many times images of this height and width are enlarged."""
    wanted = -(-CELL // max(height, width))
    fitting = (z for z in range(wanted, 1, -1) if images * (height * z + GAP) * (width * z + GAP) <= MOST_PIXELS)
    return next(fitting, 1)


def side_by_side(pairs: npt.NDArray[np.uint8], captions: Sequence[str], columns: int = 4) -> Image:
    """Pairs of images [k, 2, ch, h, w] beside each other, with a caption below each pair."""
    try:
        from PIL import Image, ImageDraw
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    height, width = pairs.shape[3:]
    zoom = _zoom(2 * len(pairs), height, width)
    lines_of_text = [_drawable(text) for text in captions]
    widths = (int(font.getlength(text)) for text, font in lines_of_text)
    wide = max(2 * (width * zoom + GAP), *widths) + 2 * MARGIN
    high = height * zoom + GAP + CAPTION
    lines = -(-len(pairs) // columns)
    sheet = Image.new("RGB", (min(columns, len(pairs)) * wide, lines * high), PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, (pair, (text, font)) in enumerate(zip(pairs, lines_of_text, strict=True)):
        left, top = number % columns * wide + MARGIN, number // columns * high
        for place, pixels in enumerate(pair):
            sheet.paste(_picture(pixels, zoom), (left + place * (width * zoom + GAP), top))
        draw.text((left, top + height * zoom + GAP), text, INK, font)
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
    """Write the contact sheet as an SVG file if the name ends in .svg, else as a PNG file."""
    if path.suffix.lower() == ".svg":
        content = contact_sheet_svg(artifact).encode()
        _write(path, lambda stream: stream.write(content))
    else:
        write_picture(contact_sheet(artifact), path)


def write_picture(sheet: Image, path: Path) -> None:
    """Write a picture as a PNG file."""
    _write(path, lambda stream: sheet.save(stream, format="PNG"))


def _write(path: Path, fill: Callable[[BinaryIO], object]) -> None:
    try:
        write_whole(path, fill)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
