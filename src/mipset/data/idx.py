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
    absent = [f"{name}.gz" for name in TRAIN_FILES + TEST_FILES if _find(folder, name) is None]
    if absent:
        raise DataError(
            f"{folder} does not hold all of {spec.name}: there is no {choices(absent)}. Get "
            f"{'it' if len(absent) == 1 else 'them'} from {spec.page} and put {'it' if len(absent) == 1 else 'them'} "
            "there, packed or unpacked."
        )
    return _read_split(folder, TRAIN_FILES, spec.train_count, spec), _read_split(
        folder, TEST_FILES, spec.test_count, spec
    )


def read_idx(path: Path, shape: tuple[int, ...], spec: DatasetSpec) -> Images:
    """Read the array in one IDX file of unsigned bytes. It must have this shape."""
    try:
        with path.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if compressed else file
            return _parse(stream, shape)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} could not be read ({error}). {spec.get_file_again(path)}") from error
    except ValueError as error:
        raise DataError(f"{path} {error}. {spec.get_file_again(path)}") from error


def _find(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _read_split(folder: Path, names: tuple[str, str], count: int, spec: DatasetSpec) -> Split:
    images, labels = (path for name in names if (path := _find(folder, name)))
    return Split.of(
        read_idx(images, (count, *spec.shape[1:]), spec).reshape(count, *spec.shape), read_idx(labels, (count,), spec)
    )


def _parse(stream: BinaryIO, shape: tuple[int, ...]) -> Images:
    """Read the array. Raises a ValueError that says what the file is or does."""
    header_bytes = 4 + 4 * len(shape)
    header = stream.read(header_bytes)
    if header[:4] != bytes((0, 0, UNSIGNED_BYTE, len(shape))):
        raise ValueError(
            f"does not begin like an IDX file of unsigned bytes with {len(shape)} axes (found "
            f"{header[:4].hex(' ') or 'nothing'})"
        )
    if len(header) < header_bytes:
        raise ValueError("ends within its header")
    stated = struct.unpack(f">{len(shape)}I", header[4:])
    if stated != shape:
        raise ValueError(f"says that it holds {shape_text(stated)} values instead of {shape_text(shape)}")
    expected = math.prod(shape)
    content = stream.read(expected + 1)  # one more, to notice surplus bytes
    if len(content) > expected:
        raise ValueError(f"has more bytes than the {expected:,} that its header says")
    if len(content) < expected:
        raise ValueError(f"is truncated: it holds {len(content):,} of {expected:,} bytes")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
