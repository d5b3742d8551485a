"""Files of MATLAB 5, as far as SVHN needs them: little-endian arrays of numbers, compressed or not.

A file is a header of 128 bytes and elements. An element is a tag (type and length) and data. Arrays are elements of the
type MATRIX, which holds four others: flags, dimensions, name and values; COMPRESSED holds one element, deflated.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

HEADER = 128
LITTLE_ENDIAN = b"\x00\x01IM"  # version 1, and how the order of bytes is written
MATRIX, COMPRESSED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
NUMERIC_CLASSES = range(6, 16)  # of an array: double, single, and integers of 8 to 64 bits
COMPLEX = 0x0800  # a flag of an array


def read_arrays(content: bytes, max_bytes: int) -> dict[str, npt.NDArray[Any]]:
    """The arrays in a file by name, of which none may have more than `max_bytes` bytes.

    Axes are in the order of C: the last index of MATLAB is the first here. Anything else than arrays of numbers raises
    a ValueError.
    """
    if len(content) < HEADER or content[HEADER - 4 : HEADER] != LITTLE_ENDIAN:
        raise ValueError("it does not begin like a file of MATLAB 5")
    arrays = {}
    for kind, data in _elements(memoryview(content)[HEADER:], "the file"):
        if kind == COMPRESSED:
            kind, data = _only_element(_inflated(data, max_bytes))
        if kind != MATRIX:
            raise ValueError(f"it holds an element of type {kind}, which is no array")
        name, array = _array(data)
        arrays[name] = array
    return arrays


def _elements(data: memoryview, title: str) -> Iterator[tuple[int, memoryview]]:
    """Type and data of each element. Each begins at a multiple of 8 bytes, but not after a compressed one."""
    place = 0
    while place < len(data):
        if len(data) - place < 8:
            raise ValueError(f"{title} ends within the tag of an element")
        kind, length = struct.unpack_from("<II", data, place)
        start, is_small = place + 8, kind > 0xFFFF
        if is_small:  # up to four bytes, in the tag itself
            kind, length, start = kind & 0xFFFF, kind >> 16, place + 4
            if length > 4:
                raise ValueError(f"{title} has a small element of {length} bytes")
        if start + length > len(data):
            raise ValueError(f"{title} is truncated: an element of {length} bytes has only {len(data) - start}")
        yield kind, data[start : start + length]
        padded = length if kind == COMPRESSED else -(-length // 8) * 8
        place += 8 if is_small else 8 + padded


def _inflated(data: memoryview, max_bytes: int) -> memoryview:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(data, max_bytes + 1024)  # and the tags
    except zlib.error as error:
        raise ValueError(f"a compressed element is damaged ({error})") from error
    if not stream.eof:
        raise ValueError("a compressed element is truncated, or larger than it may be")
    return memoryview(inflated)


def _only_element(data: memoryview) -> tuple[int, memoryview]:
    elements = list(_elements(data, "a compressed element"))
    if len(elements) != 1:
        raise ValueError(f"a compressed element holds {len(elements)} elements instead of one")
    return elements[0]


def _array(data: memoryview) -> tuple[str, npt.NDArray[Any]]:
    parts = list(_elements(data, "an array"))
    if len(parts) < 4 or len(parts[0][1]) != 8:
        raise ValueError("an array does not consist of flags, dimensions, name and values")
    flags = struct.unpack_from("<I", parts[0][1])[0]
    if flags & 0xFF not in NUMERIC_CLASSES or flags & COMPLEX:
        raise ValueError("it holds something else than arrays of real numbers")
    dimensions = np.frombuffer(parts[1][1], dtype="<i4").tolist()
    kind, values = parts[3]
    if kind not in NUMBERS:
        raise ValueError(f"an array has values of the unknown type {kind}")
    dtype = np.dtype(NUMBERS[kind])
    if min(dimensions, default=-1) < 0 or math.prod(dimensions) * dtype.itemsize != len(values):
        raise ValueError(f"an array of {dimensions} values has {len(values)} bytes")
    return bytes(parts[2][1]).decode("latin-1"), np.frombuffer(values, dtype=dtype).reshape(dimensions[::-1])
