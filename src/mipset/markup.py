"""HTML for notebooks: text that is safe in a page, tables, and images. It needs the standard library only.

Names come from files and folders, so they may hold anything: everything that is written here is escaped.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from mipset.errors import printable

LONGEST = 60  # letters of a name; longer ones are cut
CELL = 48  # a page shows images with at least this many pixels per side
COLOUR_TYPES = {1: 0, 3: 2}  # of a PNG, by the number of channels


def paragraph(text: str) -> str:
    """A text as a paragraph."""
    return f"<p>{_safe(text)}</p>"


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of texts. The first cell of a row is its title. Without a heading, there are only rows."""
    head = f"<thead><tr>{_cells(heading, 'th')}</tr></thead>" if heading else ""
    body = "".join(f"<tr>{_cells(row[:1], 'th')}{_cells(row[1:], 'td')}</tr>" for row in rows)
    return f"<table>{head}<tbody>{body}</tbody></table>"


def picture_table(heading: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> str:
    """A table of pictures: each row has a title, and one `picture` under each cell of the heading but the first."""
    body = "".join(
        f"<tr>{_cells([_cut(title)], 'th')}{''.join(f'<td>{each}</td>' for each in pictures)}</tr>"
        for title, pictures in rows
    )
    return f"<table><thead><tr>{_cells(heading, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def picture(pixels: bytes, height: int, width: int, channels: int, title: str) -> str:
    """An image with its pixels in it, [height, width, channel] as bytes, enlarged without smoothing."""
    zoom = -(-CELL // max(height, width))
    source = b64encode(png(pixels, height, width, channels)).decode("ascii")
    return (
        f'<img alt="{_safe(title)}" title="{_safe(title)}" width="{width * zoom}" height="{height * zoom}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{source}">'
    )


def png(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """The bytes of a PNG file; `pixels` are [height, width, channel], grey or RGB."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    length = width * channels
    lines = b"".join(b"\0" + pixels[start : start + length] for start in range(0, height * length, length))
    header = struct.pack(">IIBBBBB", width, height, 8, COLOUR_TYPES[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{_safe(text)}</{tag}>" for text in texts)


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[:LONGEST]}..."


def _safe(text: str) -> str:
    return escape(printable(text))
