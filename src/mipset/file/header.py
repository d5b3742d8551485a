"""The header of a file: a Description as bytes, and bytes as a Description. See FORMAT.md."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from math import isfinite, prod
from types import UnionType
from typing import Any

from mipset.errors import ArtifactError, brief
from mipset.file.description import Accuracy, Description, not_images

FORMAT = 1
KEY = "mipset"  # of the description in the metadata
DIGEST = "mipset_sha256"  # of the digest of the description
METADATA = "__metadata__"
TENSOR = "images"
DECODE = "tiles row by row, each enlarged bilinearly (half-pixel centres) to full size; short sides padded with 0.5"
LENGTH = struct.Struct("<Q")  # a file begins with H, the length of its header
MOST_HEADER = 1 << 23  # bytes; a longer header is refused before it is read
MOST_BYTES = (1 << 63) - 1  # of pixels: offsets in a file are signed 64-bit integers


def header_bytes(description: Description) -> bytes:
    """The first 8 + H bytes of a file, up to its pixels. The same description always gives the same bytes."""
    fields = {
        "format": FORMAT,
        "formation": {"factor": description.factor, "decode": DECODE},
        "range": [0, 1],
        "mean": list(description.mean),
        "std": list(description.std),
        "classes": list(description.class_names),
        "recipe": dict(description.recipe),
        "provenance": dict(description.provenance),
        "accuracy": [point_fields(point) for point in description.accuracy],
        "sha256": list(description.sha256),
    }
    try:
        text = _json_text(fields, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArtifactError(f"The recipe and the provenance must be plain JSON values ({error}).") from error
    images = {"dtype": "U8", "shape": list(description.shape), "data_offsets": [0, prod(description.shape)]}
    header = _json_text({METADATA: {KEY: text, DIGEST: _digest(text)}, TENSOR: images}).encode()
    header += b" " * (-len(header) % 8)
    if len(header) > MOST_HEADER:
        raise ArtifactError(
            f"The header has {len(header):,} bytes: it may have at most {MOST_HEADER:,}. Shorten the recipe, the "
            "provenance or the class names."
        )
    return LENGTH.pack(len(header)) + header


def file_bytes(description: Description) -> int:
    """The length of the file with this description."""
    return len(header_bytes(description)) + prod(description.shape)


def read_header(read: Callable[[int, int], bytes], name: str) -> tuple[Description, int]:
    """The description of the file called `name`, and where its pixels begin; `read(start, stop)` gives its bytes.

    Only the header is read. A header that is too long is refused before it is read.
    """
    length = read(0, LENGTH.size)
    end = _header_end(length, name)
    return parse_header(length + read(LENGTH.size, end), name), end


def parse_header(header: bytes, name: str) -> Description:
    """The description of the file called `name`, of which these are the first 8 + H bytes."""
    end = _header_end(header, name)
    if len(header) != end:
        raise not_whole(name, f"its header ends after {len(header)} of {end} bytes")
    try:
        entries = strict_json(header[LENGTH.size :].decode("utf-8"), parse_int=_unsigned)
        json.dumps(entries, ensure_ascii=False).encode()  # refuses half of a surrogate pair, which is not text
    except (ValueError, RecursionError) as error:
        raise not_whole(name, f"its header is not JSON: {brief(error)}") from error
    if not isinstance(entries, dict):
        raise not_whole(name, "its header is not a JSON object")
    metadata, entry = entries.get(METADATA), entries.get(TENSOR)
    if entries.keys() != {METADATA, TENSOR} or not isinstance(metadata, dict) or KEY not in metadata:
        raise ArtifactError(
            f"{name} is a safetensors file, but mipset did not write it. FORMAT.md describes such files."
        )
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise not_whole(name, "its header has values of a wrong type")
    if DIGEST in metadata and metadata[DIGEST] != _digest(metadata[KEY]):
        raise ArtifactError(f"{name} is damaged: its description was altered. Download the file or make it again.")
    if entry.get("dtype") != "U8":
        raise ArtifactError(f"{name} holds images of type {brief(entry.get('dtype'), str)}: the type must be U8.")
    shape = _shape(entry, name)
    try:
        fields = strict_json(metadata[KEY])
        version = fields["format"]
        if type(version) is int and version == FORMAT:
            return _parse(fields, shape)
    except ArtifactError as error:
        raise ArtifactError(f"{name} is damaged. {error} Download the file or make it again.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ArtifactError(
            f"{name} is damaged: its description cannot be read ({brief(error)}). Download the file or make it again."
        ) from error
    raise ArtifactError(
        f"{name} has the format {brief(version)}: this version of mipset reads format {FORMAT}. Install another "
        "version."
    )


def check_length(length: int, description: Description, start: int, name: str) -> None:
    """Refuse a file that is shorter or longer than its header says; its pixels begin at `start`."""
    expected = start + prod(description.shape)
    if length != expected:
        raise not_whole(name, f"it has {length:,} bytes, but its header says {expected:,}")


def not_whole(name: str, reason: str) -> ArtifactError:
    """The error for a file that is not a safetensors file, or only a part of one."""
    return ArtifactError(f"{name} is not a complete safetensors file ({reason}). Download it or make it again.")


def _header_end(first: bytes, name: str) -> int:
    """8 + H, from the first bytes of a file."""
    if len(first) < LENGTH.size:
        raise not_whole(name, f"it has {len(first)} bytes")
    (length,) = LENGTH.unpack_from(first)
    if length > MOST_HEADER:
        raise not_whole(name, f"its header would have {length:,} bytes, and {MOST_HEADER:,} is the limit")
    return LENGTH.size + int(length)


def _shape(entry: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The shape in the header's entry of the images, which must agree with the offsets beside it."""
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape):
        raise not_whole(name, f"the shape {brief(shape)} of its images is not valid")
    if len(shape) != 5:
        raise ArtifactError(f"{name} is damaged. {not_images('uint8', shape)} Download the file or make it again.")
    if prod(shape) > MOST_BYTES or offsets != [0, prod(shape)] or not all(type(end) is int for end in offsets):
        raise not_whole(name, f"its images of shape {brief(shape)} cannot have the offsets {brief(offsets)}")
    return tuple(shape)


def _parse(fields: Mapping[str, Any], shape: tuple[int, ...]) -> Description:
    return Description(
        shape=shape,
        sha256=tuple(_checked("sha256", digest, str) for digest in _typed(fields, "sha256", list)),
        factor=_typed(fields["formation"], "factor", int),
        mean=tuple(float(_checked("mean", value, int | float)) for value in _typed(fields, "mean", list)),
        std=tuple(float(_checked("std", value, int | float)) for value in _typed(fields, "std", list)),
        class_names=tuple(_checked("classes", name, str) for name in _typed(fields, "classes", list)),
        recipe=_typed(fields, "recipe", dict),
        provenance=_typed(fields, "provenance", dict),
        accuracy=tuple(parse_point(point) for point in _typed(fields, "accuracy", list)),
    )


def point_fields(point: Accuracy) -> dict[str, Any]:
    """The fields of a point, without those that are unknown."""
    return {name: value for name, value in vars(point).items() if value is not None}


def parse_point(fields: Mapping[str, Any]) -> Accuracy:
    """A point of an accuracy curve, as `point_fields` gives it."""
    return Accuracy(
        size=_typed(fields, "size", int),
        mean=float(_typed(fields, "mean", int | float)),
        std=float(_typed(fields, "std", int | float)),
        networks=_typed(fields, "networks", int),
        network=_typed(fields, "network", str),
        protocol=_typed(fields, "protocol", str),
        seed=_typed(fields, "seed", int),
        data=_typed(fields, "data", str),
        epochs=_optional(fields, "epochs", int),
        least_steps=_optional(fields, "least_steps", int),
        batch=_optional(fields, "batch", int),
    )


def _optional(fields: Mapping[str, Any], name: str, kind: type | UnionType) -> Any:
    return _typed(fields, name, kind) if name in fields else None


def _typed(fields: Mapping[str, Any], name: str, kind: type | UnionType) -> Any:
    return _checked(name, fields[name], kind)


def _checked(name: str, value: Any, kind: type | UnionType) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):  # Python counts a bool as an int
        raise ArtifactError(f"Its field {name!r} has a value of type {type(value).__name__}, which FORMAT.md forbids.")
    return value


def _json_text(value: object, sort_keys: bool = False) -> str:
    """A value as JSON without spaces; half of a surrogate pair, which is not text, is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def strict_json(text: str, parse_int: Callable[[str], int] = int) -> Any:
    """The value of JSON text in which all numbers are finite and no key is repeated within an object."""
    return json.loads(text, parse_int=parse_int, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_unique)


def _unsigned(text: str) -> int:
    if text.startswith("-"):
        raise ValueError(f"{brief(text, str)} is below 0")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{brief(text, str)} is not a finite number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key is repeated")
    return unique
