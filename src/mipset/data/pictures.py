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


@contextmanager
def _picture(source: Path | bytes) -> Iterator[Picture]:
    """The picture in a file, or in the bytes of one. Raises whatever Pillow raises for broken bytes."""
    formats = list(readable())
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats) as file:
            yield file
    except UnidentifiedImageError as error:
        raise ValueError(f"not a {choices(formats)} picture") from error


def opened(source: Path | bytes, resolution: int | None) -> Images:
    """The picture in a file, or in the bytes of one: [ch, h, w], with one channel if it is grey, else three."""
    with _picture(source) as file:
        from PIL.ImageOps import exif_transpose

        return converted(exif_transpose(file), resolution)


def photograph(path: Path, resolution: int) -> Images:
    """A photograph of ImageNet as evaluations read it: [3, resolution, resolution].

    The shorter side is scaled to 8/7 of the resolution (256 for 224) and the centre is cut out, with the rounding and
    the filter of torchvision's Resize and CenterCrop. As there, the orientation in the EXIF data does not count.
    """
    with _picture(path) as file:
        from PIL.Image import Resampling

        shorter = round(resolution * 8 / 7)
        scaled = [shorter * side // min(file.size) for side in file.size]
        scales = [side / new for side, new in zip(file.size, scaled, strict=True)]
        starts = [round((new - resolution) / 2) for new in scaled]
        left, top, right, bottom = (
            (start + shift) * scale for shift in (0, resolution) for start, scale in zip(starts, scales, strict=True)
        )
        # Only the centre is computed, which gives the same pixels and does not enlarge an extremely long picture.
        cut = file.convert("RGB").resize((resolution, resolution), Resampling.BILINEAR, box=(left, top, right, bottom))
        return np.asarray(cut).transpose(2, 0, 1)


def of_size(path: Path, height: int, width: int) -> Images:
    """A picture as [3, height, width]. Raises a ValueError if it has another size."""
    with _picture(path) as file:
        if file.size != (width, height):
            raise ValueError(f"it has {file.height}x{file.width} pixels instead of {height}x{width}")
        return np.asarray(file.convert("RGB")).transpose(2, 0, 1)


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
