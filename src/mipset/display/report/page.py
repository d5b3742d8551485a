"""The page: a template with style, program, pictures and content in it, so that it needs no other file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mipset.display.report.content import Report, ShownSet, as_json
from mipset.display.report.sheets import ranks_that_fit, sheet
from mipset.errors import missing
from mipset.units import byte_count

FOLDER = Path(__file__).parent


class Sheet(NamedTuple):
    """A picture in the page."""

    name: str  # by which the content names it
    address: str
    text: str  # what it shows


def html(report: Report, version: str = "") -> bytes:
    """The page, in UTF-8.

    With a `version`, it asks its server for another one, and loads itself again when there is one.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise missing("Jinja2", "A report") from error
    sheets: list[Sheet] = []
    pictures = [_pictures(number, shown, sheets) for number, shown in enumerate(report.sets)]
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    page = environment.get_template("page.html").render(
        title=report.title,
        style=(FOLDER / "page.css").read_text("utf-8"),
        program=(FOLDER / "page.js").read_text("utf-8"),
        content=json_block(as_json(report, pictures)),
        sheets=sheets,
        version=version,
    )
    return page.encode(errors="replace")  # the name of a file may hold bytes that are no text


def json_block(content: object) -> str:
    """JSON that no text in it can end: it has no <, > and &."""
    text = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _finite(content: Any) -> Any:
    """The same values, with None for numbers that JSON does not have: a file from elsewhere may hold any."""
    if isinstance(content, Mapping):
        return {str(name): _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


def _pictures(number: int, shown: ShownSet, sheets: list[Sheet]) -> dict[str, Any]:
    """Add the sheets of a set, and return what its content tells of them."""
    images, named = shown.artifact.images, {"sheet": "", "start": "", "pairs": "", "shown_ranks": 0, "pictures": ""}
    ranks = ranks_that_fit(images)
    if images.shape[2] not in (1, 3):
        return {**named, "pictures": f"Images of {images.shape[2]} channels cannot be shown: a picture has 1 or 3."}
    if not ranks:
        size = byte_count(images[0].nbytes)
        return {**named, "pictures": f"The images are not shown: one of each class has {size}, too much for a page."}

    def add(name: str, content: Sequence[Any] | np.ndarray[Any, Any], text: str) -> str:
        sheets.append(Sheet(f"{name}-{number}", sheet(np.asarray(content)), f"{shown.name}: {text}"))
        return sheets[-1].name

    named |= {"shown_ranks": ranks, "sheet": add("sheet", images[:ranks], "all images, one row per class")}
    if ranks < len(images):
        named["pictures"] = f"The first {ranks} of {len(images)} images per class are shown: a page cannot hold more."
    if shown.start is not None:
        named["start"] = add("start", shown.start[:ranks], "the first images of the condensation")
    if shown.pairs is not None:
        named["pairs"] = add("pairs", shown.pairs.transpose(1, 0, 2, 3, 4), "images beside real images")
    return named
