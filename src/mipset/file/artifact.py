"""The file: one condensed set, of which every prefix is a set. See FORMAT.md; numpy only.

`images` is uint8 `[N, C, ch, h, w]`, rank first, so that S_[n] is the first n ranks and one range of bytes (law 1).
Everything needed to use it stands before it, in the header: whoever has that (a `Description`) can verify ranks one by
one, as they come.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, brief, choices
from mipset.io.files import write_whole

FORMAT = 1
KEY = "mipset"  # of the metadata
DIGEST = "mipset_sha256"  # of what is under that key
METADATA = "__metadata__"
TENSOR = "images"
DECODE = "tiles row by row, each enlarged bilinearly (half-pixel centres) to full size; short sides padded with 0.5"
LENGTH = struct.Struct("<Q")  # what a file begins with: the length of its header
MOST_HEADER = 1 << 23  # bytes; a longer header is refused before it is read
MOST_BYTES = (1 << 63) - 1  # of pixels: what a file can be asked for
MOST_FACTOR = 16  # so that a file decodes to 1,024 times its bytes at most

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Accuracy:
    """What networks reached that were trained on S_[size]: one point of the accuracy curve, in percent."""

    size: int
    mean: float
    std: float  # over networks
    networks: int
    network: str
    protocol: str
    seed: int  # of networks and batches
    data: str  # sha256 of the dataset that was tested with


@dataclass(frozen=True)
class Description:
    """All that a file says about its images, without their pixels."""

    shape: tuple[int, ...]  # [N, C, ch, h, w]
    sha256: tuple[str, ...]  # of each rank
    factor: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    accuracy: tuple[Accuracy, ...] = ()

    def __post_init__(self) -> None:
        _check(self.shape, self)
        if len(self.sha256) != self.ipc or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in self.sha256):
            raise ArtifactError("it does not have one sha256 for each rank.")

    @property
    def ipc(self) -> int:
        """N: stored images per class."""
        return self.shape[0]

    @property
    def rank_bytes(self) -> int:
        """R: the bytes of one image of every class."""
        return prod(self.shape[1:])

    @property
    def file_bytes(self) -> int:
        """How long the file is that `write` makes of this."""
        return len(self.header()) + self.ipc * self.rank_bytes

    def prefix(self, n: int) -> Description:
        """What a file of S_[n] says."""
        known = _points_up_to(n, self)
        return replace(self, shape=(n, *self.shape[1:]), sha256=self.sha256[:n], accuracy=known)

    def verify(self, rank: int, content: bytes | memoryview, name: str) -> None:
        """Refuse the bytes of a rank (counted from 0) of the file called `name` if they were altered."""
        if hashlib.sha256(content).hexdigest() != self.sha256[rank]:
            raise ArtifactError(
                f"{name} is damaged: image {rank + 1} of each class was altered; fetch or make it again."
            )

    def with_images(self, images: Pixels) -> Artifact:
        """The set of these images, which were verified."""
        return Artifact(images, **_shared(self))

    def header(self) -> bytes:
        """What a file has before its pixels: 8 + H bytes. The same description always gives the same bytes."""
        said = {
            "format": FORMAT,
            "formation": {"factor": self.factor, "decode": DECODE},
            "range": [0, 1],
            "mean": list(self.mean),
            "std": list(self.std),
            "classes": list(self.class_names),
            "recipe": dict(self.recipe),
            "provenance": dict(self.provenance),
            "accuracy": [vars(point) for point in self.accuracy],
            "sha256": list(self.sha256),
        }
        try:
            text = _json_text(said, sort_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise ArtifactError(f"recipe and provenance must be plain JSON values ({error}).") from error
        pixels = {"dtype": "U8", "shape": list(self.shape), "data_offsets": [0, prod(self.shape)]}
        header = _json_text({METADATA: {KEY: text, DIGEST: _digest(text)}, TENSOR: pixels}).encode()
        header += b" " * (-len(header) % 8)
        if len(header) > MOST_HEADER:
            raise ArtifactError(f"a header cannot have {len(header):,} bytes: {MOST_HEADER:,} are the most.")
        return LENGTH.pack(len(header)) + header


@dataclass(frozen=True)
class Artifact:
    """A condensed set and what is known about it."""

    images: Pixels  # [N, C, ch, h, w]
    factor: int  # tiles along each side of a stored image
    mean: tuple[float, ...]  # per channel, of images in [0, 1]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    accuracy: tuple[Accuracy, ...] = ()

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8:
            raise _not_images(str(self.images.dtype), self.images.shape)
        _check(self.images.shape, self)

    @property
    def ipc(self) -> int:
        """N: stored images per class."""
        return len(self.images)

    @property
    def rank_sha256(self) -> list[str]:
        """One digest per rank, so that a prefix can be verified without the rest."""
        return [hashlib.sha256(np.ascontiguousarray(rank).tobytes()).hexdigest() for rank in self.images]

    @property
    def description(self) -> Description:
        """All but the pixels."""
        return Description(shape=self.images.shape, sha256=tuple(self.rank_sha256), **_shared(self))

    def prefix(self, n: int) -> Artifact:
        """S_[n] as a set of its own. What was measured of larger sizes is left out."""
        known = _points_up_to(n, self)
        return replace(self, images=self.images[:n], accuracy=known)

    def with_accuracy(self, points: Sequence[Accuracy]) -> Artifact:
        """The same set with `points` on its curve, in place of those of the same size, network and protocol."""
        place = {(p.protocol, p.network, p.data, p.seed, p.size): p for p in (*self.accuracy, *points)}
        return replace(self, accuracy=tuple(place[way] for way in sorted(place)))

    def to_bytes(self) -> bytes:
        """The file's content: the same set always gives the same bytes."""
        return self.description.header() + self.images.tobytes()

    def write(self, path: Path | str) -> None:
        """Write the file whole or not at all."""
        write(path, self.description, self.images)


SHARED = ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy")


def _shared(said: Artifact | Description) -> dict[str, Any]:
    """What a set and its description both say."""
    return {name: getattr(said, name) for name in SHARED}


def _check(shape: tuple[int, ...], said: Artifact | Description) -> None:
    """Refuse what contradicts itself, or the shape of the images."""
    if len(shape) != 5 or 0 in shape:
        raise _not_images("uint8", shape)
    if len(said.class_names) != shape[1]:
        raise ArtifactError(f"there are {shape[1]} classes of images, but {len(said.class_names)} class names.")
    if len(said.mean) != shape[2] or len(said.std) != shape[2]:
        raise ArtifactError(f"mean and std need one value for each of {shape[2]} channels.")
    if not all(map(isfinite, said.mean)) or not all(0 < s < float("inf") for s in said.std):
        raise ArtifactError(f"mean {brief(said.mean)} and std {brief(said.std)} must be finite, and std above 0.")
    if not 1 <= said.factor <= MOST_FACTOR or not cuts(said.factor, shape[3:]):
        raise ArtifactError(
            f"a factor of {brief(said.factor)} does not cut {shape[3]} x {shape[4]} pixels: {MOST_FACTOR} is the most, "
            "and each tile has a pixel of its own."
        )
    for p in said.accuracy:
        if not (1 <= p.size <= shape[0] and 0 <= p.mean <= 100 and 0 <= p.std <= 100 and p.networks >= 1):
            raise ArtifactError(f"{brief(p)} cannot be: sizes go from 1 to {shape[0]}, accuracies from 0 to 100.")


def cuts(factor: int, size: Sequence[int]) -> bool:
    """Whether every tile of an image of this height and width has a pixel of its own."""
    return all((factor - 1) * -(-side // factor) < side for side in size)


def _not_images(dtype: str, shape: Sequence[int]) -> ArtifactError:
    return ArtifactError(
        f"images must be uint8 [rank, class, channel, height, width] and not empty, "
        f"but they are {dtype} {brief(list(shape))}."
    )


def _points_up_to(n: int, said: Artifact | Description) -> tuple[Accuracy, ...]:
    if not 1 <= n <= said.ipc:
        raise ArtifactError(f"there is no subset of size {n}: choose from 1 to {said.ipc}.")
    return tuple(point for point in said.accuracy if point.size <= n)


def write(path: Path | str, said: Description, ranks: Iterable[Pixels]) -> None:
    """Write a file of these ranks, which are those that it is said to have; whole or not at all."""
    header = said.header()

    def fill(stream: BinaryIO) -> None:
        stream.write(header)
        for rank in ranks:
            stream.write(np.ascontiguousarray(rank).data)

    try:
        write_whole(Path(path), fill)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path | str) -> Artifact:
    """Read and verify a file; anything that is not a whole and unaltered condensed set is an ArtifactError."""
    name = str(path)
    with opened(Path(path)) as stream:
        length = os.fstat(stream.fileno()).st_size

        def piece(start: int, stop: int) -> bytes:
            stream.seek(start)
            return stream.read(min(stop, length) - start)  # a header that is not there takes no memory

        said, start = read_header(piece, name)
        check_length(length, said, start, name)
        stream.seek(start)
        try:
            pixels = np.fromfile(stream, np.uint8, prod(said.shape))
        except MemoryError as error:
            raise ArtifactError(
                f"{name} needs {prod(said.shape):,} bytes of memory, which are not there: take a prefix of it with "
                "mipset.device.open()."
            ) from error
    if len(pixels) != prod(said.shape):  # it became shorter while it was read
        raise _not_whole(name, "its pixels end early")
    images = pixels.reshape(said.shape)
    for number, rank in enumerate(images):
        said.verify(number, rank.data, name)
    return said.with_images(images)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file that is there and can be read, or an ArtifactError that says why not."""
    try:
        if path.is_dir():
            raise ArtifactError(f"{path} is a folder, not a file: name a file in it.")
        if not path.is_file():
            is_address = re.match("https?:/", str(path))
            instead = "`mipset fetch` gets what is at an address" if is_address else "`mipset condense` makes one"
            raise ArtifactError(f"there is no file {path}: {instead}.")
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error


def read_header(read: Callable[[int, int], bytes], name: str) -> tuple[Description, int]:
    """What the file called `name` says, and where its pixels begin; `read(start, stop)` gives its bytes.

    No more than the header is read, and nothing of a header that is too long.
    """
    length = read(0, LENGTH.size)
    end = _header_end(length, name)
    return describe(length + read(LENGTH.size, end), name), end


def describe(header: bytes, name: str) -> Description:
    """What the file called `name` says, whose first 8 + H bytes are these."""
    end = _header_end(header, name)
    if len(header) != end:
        raise _not_whole(name, f"its header ends after {len(header)} of {end} bytes")
    try:
        entries = _json(header[LENGTH.size :].decode("utf-8"), parse_int=_unsigned)
        json.dumps(entries, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError) as error:
        raise _not_whole(name, f"its header is no JSON: {brief(error)}") from error
    if not isinstance(entries, dict):
        raise _not_whole(name, "its header is no JSON object")
    metadata, entry = entries.get(METADATA), entries.get(TENSOR)
    if entries.keys() != {METADATA, TENSOR} or not isinstance(metadata, dict) or KEY not in metadata:
        raise ArtifactError(f"{name} is a safetensors file, but not one of mipset's: see FORMAT.md.")
    if not isinstance(entry, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _not_whole(name, "its header has values of other types than it should")
    if DIGEST in metadata and metadata[DIGEST] != _digest(metadata[KEY]):
        raise ArtifactError(f"{name} is damaged: its description was altered; fetch or make it again.")
    if entry.get("dtype") != "U8":
        raise ArtifactError(f"{name} holds images of type {brief(entry.get('dtype'), str)}, not U8: see FORMAT.md.")
    shape = _shape(entry, name)
    try:
        return _parse(metadata[KEY], shape)
    except ArtifactError as error:
        raise ArtifactError(f"{name} is damaged: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ArtifactError(f"{name} is damaged: its description cannot be understood ({brief(error)}).") from error


def check_length(length: int, said: Description, start: int, name: str) -> None:
    """Refuse a file that is shorter or longer than its header says."""
    expected = start + prod(said.shape)
    if length != expected:
        raise _not_whole(name, f"it has {length:,} bytes, but its header says {expected:,}")


def _header_end(first: bytes, name: str) -> int:
    """8 + H, from the first bytes of a file."""
    if len(first) < LENGTH.size:
        raise _not_whole(name, f"it has {len(first)} bytes")
    (length,) = LENGTH.unpack_from(first)
    if length > MOST_HEADER:
        raise _not_whole(name, f"a header cannot have {length:,} bytes")
    return LENGTH.size + int(length)


def _shape(entry: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """The shape in the header's entry of a tensor, which must agree with the place that it gives."""
    shape, place = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not all(type(side) is int and 0 <= side <= MOST_BYTES for side in shape):
        raise _not_whole(name, f"its images cannot have the shape {brief(shape)}")
    if len(shape) != 5:
        raise ArtifactError(f"{name} is damaged: {_not_images('uint8', shape)}")
    if prod(shape) > MOST_BYTES or place != [0, prod(shape)] or not all(type(end) is int for end in place):
        raise _not_whole(name, f"its images of shape {brief(shape)} cannot be at {brief(place)}")
    return tuple(shape)


def _not_whole(name: str, reason: str) -> ArtifactError:
    return ArtifactError(f"{name} is not a whole safetensors file ({reason}): fetch or make it again.")


def _parse(text: str, shape: tuple[int, ...]) -> Description:
    header = _json(text)
    version = header["format"]
    if type(version) is not int or version != FORMAT:
        known = choices([str(FORMAT)])
        raise ArtifactError(f"its format is {brief(version)}, and this version of mipset reads {known}.")
    return Description(
        shape=shape,
        sha256=tuple(_of("sha256", digest, str) for digest in _typed(header, "sha256", list)),
        factor=_typed(header["formation"], "factor", int),
        mean=tuple(float(_of("mean", value, int | float)) for value in _typed(header, "mean", list)),
        std=tuple(float(_of("std", value, int | float)) for value in _typed(header, "std", list)),
        class_names=tuple(_of("classes", name, str) for name in _typed(header, "classes", list)),
        recipe=_typed(header, "recipe", dict),
        provenance=_typed(header, "provenance", dict),
        accuracy=tuple(_accuracy(point) for point in _typed(header, "accuracy", list)),
    )


def _accuracy(point: Mapping[str, Any]) -> Accuracy:
    return Accuracy(
        size=_typed(point, "size", int),
        mean=float(_typed(point, "mean", int | float)),
        std=float(_typed(point, "std", int | float)),
        networks=_typed(point, "networks", int),
        network=_typed(point, "network", str),
        protocol=_typed(point, "protocol", str),
        seed=_typed(point, "seed", int),
        data=_typed(point, "data", str),
    )


def _typed(header: Mapping[str, Any], name: str, kind: type | UnionType) -> Any:
    return _of(name, header[name], kind)


def _of(name: str, value: Any, kind: type | UnionType) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):  # a bool is an int, but not here
        raise ArtifactError(f"its field {name!r} has a value of type {type(value).__name__}: see FORMAT.md.")
    return value


def _json_text(value: object, sort_keys: bool = False) -> str:
    """A value as JSON without spaces; half of a surrogate pair, which is no text, is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "backslashreplace").decode()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _json(text: str, parse_int: Callable[[str], int] = int) -> Any:
    """What JSON text says, if its numbers are finite and no key comes twice in an object."""
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
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice")
    return found
