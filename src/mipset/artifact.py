"""The file: one condensed set, of which every prefix is a set. See FORMAT.md; numpy and safetensors only.

`images` is uint8 `[N, C, ch, h, w]`, rank first, so that S_[n] is the first n ranks and one range of bytes (law 1).
Everything needed to use it stands beside it as JSON in the metadata.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from mipset.errors import ArtifactError, choices
from mipset.files import write_whole

FORMAT = 1
KEY = "mipset"  # of the metadata
TENSOR = "images"
DECODE = "tiles row by row, each enlarged bilinearly (half-pixel centres) to full size; short sides padded with 0.5"

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
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 5 or 0 in shape:
            raise ArtifactError(
                f"images must be uint8 [rank, class, channel, height, width] and not empty, "
                f"but they are {self.images.dtype} {list(shape)}."
            )
        if len(self.class_names) != shape[1]:
            raise ArtifactError(f"there are {shape[1]} classes of images, but {len(self.class_names)} class names.")
        if len(self.mean) != shape[2] or len(self.std) != shape[2]:
            raise ArtifactError(f"mean and std need one value for each of {shape[2]} channels.")
        if not all(np.isfinite(self.mean)) or not all(0 < s < float("inf") for s in self.std):
            raise ArtifactError(f"mean {self.mean} and std {self.std} must be finite, and std above 0.")
        if self.factor < 1 or any((self.factor - 1) * -(-side // self.factor) >= side for side in shape[3:]):
            raise ArtifactError(f"a factor of {self.factor} does not cut {shape[3]} x {shape[4]} pixels.")
        for p in self.accuracy:
            if not (1 <= p.size <= shape[0] and 0 <= p.mean <= 100 and 0 <= p.std <= 100 and p.networks >= 1):
                raise ArtifactError(f"{p} cannot be: sizes go from 1 to {shape[0]}, accuracies from 0 to 100.")

    @property
    def ipc(self) -> int:
        """N: stored images per class."""
        return len(self.images)

    @property
    def rank_sha256(self) -> list[str]:
        """One digest per rank, so that a prefix can be verified without the rest."""
        return [hashlib.sha256(np.ascontiguousarray(rank).tobytes()).hexdigest() for rank in self.images]

    def prefix(self, n: int) -> Artifact:
        """S_[n] as a set of its own. What was measured of larger sizes is left out."""
        if not 1 <= n <= self.ipc:
            raise ArtifactError(f"there is no subset of size {n}: choose from 1 to {self.ipc}.")
        known = tuple(point for point in self.accuracy if point.size <= n)
        return replace(self, images=self.images[:n], accuracy=known)

    def with_accuracy(self, points: Sequence[Accuracy]) -> Artifact:
        """The same set with `points` on its curve, in place of those of the same size, network and protocol."""
        place = {(p.protocol, p.network, p.data, p.seed, p.size): p for p in (*self.accuracy, *points)}
        return replace(self, accuracy=tuple(place[way] for way in sorted(place)))

    def to_bytes(self) -> bytes:
        """The file's content: the same set always gives the same bytes."""
        header = {
            "format": FORMAT,
            "formation": {"factor": self.factor, "decode": DECODE},
            "range": [0, 1],
            "mean": list(self.mean),
            "std": list(self.std),
            "classes": list(self.class_names),
            "recipe": dict(self.recipe),
            "provenance": dict(self.provenance),
            "accuracy": [vars(point) for point in self.accuracy],
            "sha256": self.rank_sha256,
        }
        try:
            text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ArtifactError(f"recipe and provenance must be plain JSON values ({error}).") from error
        return to_safetensors({TENSOR: np.ascontiguousarray(self.images)}, metadata={KEY: text})

    def write(self, path: Path | str) -> None:
        """Write the file whole or not at all."""
        content = self.to_bytes()
        try:
            write_whole(Path(path), lambda stream: stream.write(content))
        except OSError as error:
            raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path | str) -> Artifact:
    """Read and verify a file; anything that is not a whole and unaltered condensed set is an ArtifactError."""
    path = Path(path)
    try:
        if path.is_dir():
            raise ArtifactError(f"{path} is a folder, not a file: name a file in it.")
        if not path.is_file():
            raise ArtifactError(f"there is no file {path}: `mipset condense` makes one.")
        with safe_open(path, framework="numpy") as stored:
            metadata = stored.metadata() or {}
            if list(stored.keys()) != [TENSOR] or KEY not in metadata:
                raise ArtifactError(f"{path} is a safetensors file, but not one of mipset's: see FORMAT.md.")
            declared = stored.get_slice(TENSOR).get_dtype()
            if declared != "U8":
                raise ArtifactError(f"{path} holds images of type {declared}, not U8: see FORMAT.md.")
            images: Pixels = stored.get_tensor(TENSOR)
    except SafetensorError as error:
        raise ArtifactError(f"{path} is not a whole safetensors file ({error}): fetch or make it again.") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        artifact, digests = _parse(metadata[KEY], images)
    except ArtifactError as error:
        raise ArtifactError(f"{path} is damaged: {error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ArtifactError(f"{path} is damaged: its description cannot be understood ({error!r}).") from error
    for rank, (found, expected) in enumerate(zip(artifact.rank_sha256, digests, strict=True), start=1):
        if found != expected:
            raise ArtifactError(f"{path} is damaged: image {rank} of each class was altered; fetch or make it again.")
    return artifact


def _parse(text: str, images: Pixels) -> tuple[Artifact, list[str]]:
    header = json.loads(text, parse_float=_finite, parse_constant=_finite)
    version = header["format"]
    if type(version) is not int or version != FORMAT:
        raise ArtifactError(f"its format is {version!r}, and this version of mipset reads {choices([str(FORMAT)])}.")
    digests = _typed(header, "sha256", list)
    if len(digests) != len(images):
        raise ArtifactError("it does not have one sha256 for each rank.")
    artifact = Artifact(
        images=images,
        factor=_typed(header["formation"], "factor", int),
        mean=tuple(float(_of("mean", value, int | float)) for value in _typed(header, "mean", list)),
        std=tuple(float(_of("std", value, int | float)) for value in _typed(header, "std", list)),
        class_names=tuple(_of("classes", name, str) for name in _typed(header, "classes", list)),
        recipe=_typed(header, "recipe", dict),
        provenance=_typed(header, "provenance", dict),
        accuracy=tuple(_accuracy(point) for point in _typed(header, "accuracy", list)),
    )
    return artifact, digests


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


def _finite(text: str) -> float:
    """JSON has no infinity, but Python's reader knows several ways to write it."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
