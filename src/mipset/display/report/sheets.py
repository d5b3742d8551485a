"""The images of a set as one PNG: a row for each class, a column for each rank, without gaps. The page cuts it."""

from __future__ import annotations

import base64
import io

import numpy as np

from mipset.errors import missing
from mipset.file.pixels import Pixels

MOST_BYTES = 1 << 24  # of the pixels of one sheet: more ranks than fit are left out


def ranks_that_fit(images: Pixels) -> int:
    """How many ranks of stored images [N, C, ch, h, w] a sheet can hold."""
    return min(len(images), MOST_BYTES // int(images[0].nbytes))


def sheet(images: Pixels) -> str:
    """Images [columns, rows, ch, h, w] as a PNG, in an address that holds the picture itself."""
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow", "A picture") from error
    columns, rows, channels, height, width = images.shape
    pixels = images.transpose(1, 3, 0, 4, 2).reshape(rows * height, columns * width, channels)
    picture = Image.fromarray(np.ascontiguousarray(pixels[..., 0] if channels == 1 else pixels))
    stream = io.BytesIO()
    picture.save(stream, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode()
