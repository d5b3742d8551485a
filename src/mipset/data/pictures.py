"""One picture, from a file, from bytes or from Pillow, as an array of bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mipset.data.dataset import Images
from mipset.errors import choices, missing
from mipset.file.pixels import to_uint8

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

# Formats are opened by their content. Only these are tried: others, such as EPS, would start programs.
FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "BMP": (".bmp",),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "TIFF": (".tif", ".tiff"),
}
PLUGINS = {"AVIF": (".avif",), "HEIF": (".heic", ".heif")}  # read if Pillow can
ADVICE = {"AVIF": "Pillow with AVIF", "HEIF": "pillow-heif"}  # what to install for them
GREY = ("1", "L")
MAX_16_BITS = 65535


def readable() -> dict[str, tuple[str, ...]]:
    """The formats that can be read here, and the suffixes of their files."""
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise missing("Pillow", "Reading pictures") from error
    return _formats_here()


@cache
def _formats_here() -> dict[str, tuple[str, ...]]:
    from PIL import features

    formats = dict(FORMATS)
    if features.check("avif"):
        formats["AVIF"] = PLUGINS["AVIF"]
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        return formats
    register_heif_opener()
    return {**formats, "HEIF": PLUGINS["HEIF"]}


def readable_suffixes() -> frozenset[str]:
    """The suffixes of files that can be read here."""
    return frozenset(suffix for suffixes in readable().values() for suffix in suffixes)


def advice_for(suffix: str) -> str:
    """What to install so that pictures with this suffix can be read, or an empty text."""
    return next((ADVICE[name] for name, suffixes in PLUGINS.items() if suffix in suffixes), "")


@contextmanager
def without_bombs() -> Iterator[None]:
    """Turn Pillow's warning about an extremely large picture into an error; ignore its warnings about metadata."""
    try:
        from PIL.Image import DecompressionBombWarning
    except ImportError:  # then there are only arrays
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", DecompressionBombWarning)
        yield


def opened(source: Path | bytes, resolution: int | None) -> Images:
    """The picture in a file, or in the bytes of one: [ch, h, w], with one channel if it is grey, else three.

    Raises whatever Pillow raises for broken bytes.
    """
    formats = list(readable())
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats) as file:
            return converted(ImageOps.exif_transpose(file), resolution)
    except UnidentifiedImageError as error:
        raise ValueError(f"not a {choices(formats)} picture") from error


def converted(picture: Picture, resolution: int | None) -> Images:
    """A picture of Pillow as [ch, h, w]. With a `resolution`, its centred square is scaled to that."""
    if picture.mode.startswith(("I", "F")):
        from PIL.Image import fromarray

        picture = fromarray(_eight_bits(np.asarray(picture), picture.mode))
    picture = picture.convert("L" if picture.mode in GREY else "RGB")
    pixels = np.asarray(picture if resolution is None else square(picture, resolution))
    return pixels[np.newaxis] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def scaled(image: Images, resolution: int) -> Images:
    """The centred square of an image [ch, h, w], scaled to `resolution` x `resolution`."""
    from PIL.Image import fromarray

    pixels = image[0] if len(image) == 1 else np.ascontiguousarray(image.transpose(1, 2, 0))
    return converted(fromarray(pixels), resolution)


def _eight_bits(values: npt.NDArray[Any], mode: str) -> Images:
    """Values of 16 bits, or floats from 0 to 1, as bytes."""
    low, high = float(values.min()), float(values.max())
    if mode.startswith("F"):
        if not (low >= 0 and high <= 1):
            raise ValueError(f"holds floats from {low:g} to {high:g}, not from 0 to 1")
        return to_uint8(values)
    if low < 0 or high > MAX_16_BITS:
        raise ValueError(f"holds values from {low:g} to {high:g}, which are more than 16 bits")
    return to_uint8(values.astype(np.float32) / MAX_16_BITS)


def square(picture: Picture, resolution: int) -> Picture:
    """The centred square of a picture, scaled to `resolution` x `resolution`.

    The result is the same as scaling the shorter side to `resolution` and cropping the rest. But an extremely long
    picture is never enlarged along its longer side.
    """
    from PIL.Image import Resampling

    if picture.size == (resolution, resolution):
        return picture
    width, height = picture.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    return picture.resize((resolution, resolution), Resampling.BICUBIC, box=(left, top, left + side, top + side))
