"""MNIST and Fashion-MNIST: four IDX files, gzipped or plain."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from mipset.data.dataset import Images, Split, shape_text
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError, choices

TRAIN_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST_FILES = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
UNSIGNED_BYTE = 0x08


def is_in(folder: Path) -> bool:
    """Whether all four files are in the folder. They are not read."""
    return all(_find(folder, name) is not None for name in TRAIN_FILES + TEST_FILES)


def read(folder: Path, spec: DatasetSpec) -> tuple[Split, Split]:
    """Read the training and test split from the four files in the folder."""
    return _read_split(folder, TRAIN_FILES, spec.train_count, spec), _read_split(
        folder, TEST_FILES, spec.test_count, spec
    )


def read_idx(path: Path, shape: tuple[int, ...]) -> Images:
    """Read the array in one IDX file of unsigned bytes. It must have this shape."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
            return _parse(stream, path, shape)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} could not be read ({error}). Get the file again.") from error


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_split(folder: Path, names: tuple[str, str], count: int, spec: DatasetSpec) -> Split:
    paths = [_find(folder, name) for name in names]
    for name, path in zip(names, paths, strict=True):
        if path is None:
            raise DataError(
                f"{folder} does not hold {spec.name}. Put {choices([name, f'{name}.gz'])} there, next to "
                "the other three files."
            )
    images, labels = (path for path in paths if path is not None)
    return Split.of(read_idx(images, (count, *spec.shape[1:])).reshape(count, *spec.shape), read_idx(labels, (count,)))


def _parse(stream: BinaryIO, path: Path, shape: tuple[int, ...]) -> Images:
    header_bytes = 4 + 4 * len(shape)
    header = stream.read(header_bytes)
    if header[:4] != bytes((0, 0, UNSIGNED_BYTE, len(shape))):
        raise DataError(
            f"{path} does not begin like an IDX file of unsigned bytes with {len(shape)} axes (found "
            f"{header[:4].hex(' ') or 'nothing'}). Get the file again."
        )
    if len(header) < header_bytes:
        raise DataError(f"{path} ends within its header. Get the file again.")
    stated = struct.unpack(f">{len(shape)}I", header[4:])
    if stated != shape:
        raise DataError(
            f"{path} says that it holds {shape_text(stated)} values instead of {shape_text(shape)}. Get the file again."
        )
    expected = math.prod(shape)
    content = stream.read(expected + 1)  # one more, to notice surplus bytes
    if len(content) != expected:
        problem = "is truncated" if len(content) < expected else "has more bytes than its header says"
        raise DataError(f"{path} {problem} ({expected} bytes were expected). Get the file again.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
