"""The description of a set: everything in the header of its file. FORMAT.md lists the fields."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from operator import index
from typing import Any, Protocol

from mipset.errors import ArtifactError, SettingError, brief
from mipset.file.provenance import Provenance
from mipset.units import byte_count

MOST_FACTOR = 16  # limits what a file can decode to: 1,024 times its bytes
MOST_COUNT = 10**9  # epochs, steps or images in a batch: more is not a number of training


@dataclass(frozen=True)
class Accuracy:
    """One point of the accuracy curve: the accuracy, in percent, of networks that were trained on S_[size].

    The last three fields tell how long the networks were trained. Older files lack them.
    """

    size: int
    mean: float
    std: float  # over networks
    networks: int
    network: str
    protocol: str
    seed: int  # of networks and batches
    data: str  # sha256 of the dataset whose test images were used
    epochs: int | None = None
    least_steps: int | None = None  # small subsets were trained for more epochs, until there were so many steps
    batch: int | None = None  # training images in one step


class SetFields(Protocol):
    """The fields that a description and an artifact share."""

    @property
    def ipc(self) -> int: ...
    @property
    def factor(self) -> int: ...
    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def std(self) -> tuple[float, ...]: ...
    @property
    def class_names(self) -> tuple[str, ...]: ...
    @property
    def recipe(self) -> Mapping[str, Any]: ...
    @property
    def provenance(self) -> Provenance: ...
    @property
    def accuracy(self) -> tuple[Accuracy, ...]: ...


SHARED_FIELDS = ("factor", "mean", "std", "class_names", "recipe", "provenance", "accuracy")


@dataclass(frozen=True)
class Description:
    """Everything that a file contains beside its pixels."""

    shape: tuple[int, ...]  # [N, C, ch, h, w]
    sha256: tuple[str, ...]  # of each rank
    factor: int  # tiles along each side of a stored image
    mean: tuple[float, ...]  # per channel, of values in [0, 1]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    accuracy: tuple[Accuracy, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self.shape, self)
        if len(self.sha256) != self.ipc or not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in self.sha256):
            raise ArtifactError(f"The field 'sha256' must have one SHA-256 digest for each of {self.ipc} ranks.")

    def __repr__(self) -> str:
        return f"<Description: {contents(self.shape, self)}>"

    @property
    def ipc(self) -> int:
        """N: stored images per class."""
        return self.shape[0]

    @property
    def rank_bytes(self) -> int:
        """R: the bytes of one image of every class."""
        return prod(self.shape[1:])

    def prefix(self, n: int) -> Description:
        """The description of S_[n]."""
        points = points_up_to(n, self)
        return replace(self, shape=(n, *self.shape[1:]), sha256=self.sha256[:n], accuracy=points)

    def verify(self, rank: int, content: bytes | memoryview, name: str) -> None:
        """Refuse the bytes of a rank (counted from 0) of the file called `name` if they were altered."""
        if hashlib.sha256(content).hexdigest() != self.sha256[rank]:
            raise ArtifactError(
                f"{name} is damaged: image {rank + 1} of each class was altered. Download the file or make it again."
            )


def shared_fields(fields: SetFields) -> dict[str, Any]:
    """The fields that a description and an artifact share, by name."""
    return {name: getattr(fields, name) for name in SHARED_FIELDS}


def contents(shape: Sequence[int], fields: SetFields) -> str:
    """What a set holds, in one line: its images, how many bytes they have, and where they come from."""
    ranks, classes, channels, height, width = shape
    tiles = f", {fields.factor**2} training images in each" if fields.factor > 1 else ""
    known = {"of": fields.provenance.get("dataset"), "policy": fields.recipe.get("policy")}
    origin = "".join(f", {title} {brief(value, str)}" for title, value in known.items() if value is not None)
    return (
        f"{ranks} {'image' if ranks == 1 else 'images'} per class, {classes} classes, "
        f"{channels} x {height} x {width} pixels{tiles}, {byte_count(prod(shape))}{origin}"
    )


def end_of_prefix(key: object, ipc: int) -> int:
    """n of the slice `[:n]` of a set. Anything else is refused: only the first images are a subset (law 1)."""
    if not isinstance(key, slice) or key.start not in (None, 0) or key.step not in (None, 1):
        limits = (key.start, key.stop, key.step) if isinstance(key, slice) else (key,)
        written = ":".join("" if limit is None else brief(limit) for limit in limits)
        raise SettingError(
            f"[{written}] is no subset. Write [:n] for the first n images of each class, n from 1 to {ipc}; "
            "`images` holds all of them as an array."
        )
    try:
        n = ipc if key.stop is None else index(key.stop)
    except TypeError:
        raise no_such_size(key.stop, ipc) from None
    if not 1 <= n <= ipc:
        raise no_such_size(n, ipc)
    return n


def points_up_to(n: int, fields: SetFields) -> tuple[Accuracy, ...]:
    """The points of the accuracy curve that belong to S_[n]; refuses a size that the set does not have."""
    if not 1 <= n <= fields.ipc:
        raise no_such_size(n, fields.ipc)
    return tuple(point for point in fields.accuracy if point.size <= n)


def no_such_size(n: object, ipc: int) -> ArtifactError:
    """The error for a size that a set does not have."""
    return ArtifactError(f"There is no subset of size {brief(n)}. Choose a size from 1 to {ipc}.")


def check_fields(shape: Sequence[int], fields: SetFields) -> None:
    """Refuse fields that contradict each other or the shape of the images."""
    if len(shape) != 5 or 0 in shape:
        raise not_images("uint8", shape)
    if len(fields.class_names) != shape[1]:
        raise ArtifactError(
            f"The images have {shape[1]} classes, but there are {len(fields.class_names)} class names. "
            "Give one name for each class."
        )
    if len(fields.mean) != shape[2] or len(fields.std) != shape[2]:
        raise ArtifactError(f"The mean and the std must have one value for each of {shape[2]} channels.")
    if not all(map(isfinite, fields.mean)) or not all(0 < s < float("inf") for s in fields.std):
        raise ArtifactError(
            f"The mean is {brief(fields.mean)} and the std is {brief(fields.std)}: both must be finite, "
            "and the std must be above 0."
        )
    if not 1 <= fields.factor <= MOST_FACTOR or not tiles_fit(fields.factor, shape[3:]):
        raise ArtifactError(
            f"The factor is {brief(fields.factor)}, which does not divide {shape[3]} x {shape[4]} pixels into tiles: "
            f"it must be from 1 to {MOST_FACTOR}, and each tile must have at least one pixel."
        )
    for point in fields.accuracy:
        check_point(point, shape[0])


def check_point(point: Accuracy, ipc: int) -> None:
    """Refuse a point that a set of `ipc` images per class cannot have."""
    if not (1 <= point.size <= ipc and 0 <= point.mean <= 100 and 0 <= point.std <= 100 and point.networks >= 1):
        raise ArtifactError(
            f"The accuracy point {brief(point)} is not valid: sizes go from 1 to {ipc}, accuracies and their std from "
            "0 to 100, and there is at least one network."
        )
    for value, least in ((point.epochs, 1), (point.least_steps, 0), (point.batch, 1)):
        if value is not None and not least <= value <= MOST_COUNT:
            raise ArtifactError(
                f"The accuracy point {brief(point)} is not valid: epochs and batch go from 1, and least_steps from 0, "
                f"to {MOST_COUNT:,}."
            )


def tiles_fit(factor: int, resolution: Sequence[int]) -> bool:
    """Whether each of factor² tiles of an image of this height and width has at least one pixel of the image."""
    return all((factor - 1) * -(-side // factor) < side for side in resolution)


def not_images(dtype: str, shape: Sequence[int]) -> ArtifactError:
    """The error for an array that cannot be the images of a set."""
    return ArtifactError(
        f"The images are {dtype} {brief(list(shape))}: they must be uint8 [rank, class, channel, height, width], "
        "and no side may be 0."
    )
