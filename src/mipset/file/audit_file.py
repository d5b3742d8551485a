"""The audit of a file, kept beside it as `FILE.audit.json`: the nearest real image of every training image."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from mipset.errors import ArtifactError
from mipset.file.artifact import Artifact
from mipset.io.files import write_whole

SUFFIX = ".audit.json"  # after the name of the file
TYPES = {"int": int, "float": int | float, "str": str}


@dataclass(frozen=True)
class Neighbour:
    """One training image of the file, and the real training image that is nearest to it."""

    rank: int  # from 1, like sizes
    label: int
    tile: int  # from 1, within the stored image
    row: int  # of the real image among the training images
    real_label: int
    distance: float
    share: float  # of the sampled real images: those that are nearer than `distance` to another real image
    file: str = ""  # of the real image, if the data are a folder: its path there


@dataclass(frozen=True)
class AuditFile:
    """What the file of an audit holds."""

    images: str  # SHA-256 of the images that were compared
    data: str  # SHA-256 of the dataset
    usual: float  # median distance of a real image from the nearest other one
    real_class_names: Sequence[str]
    neighbours: Sequence[Neighbour]  # the nearest first


def suspicious(neighbours: Iterable[Neighbour]) -> list[Neighbour]:
    """The images that are nearer to a real image than half of the real images are to another."""
    return [neighbour for neighbour in neighbours if neighbour.share < 0.5]


def path_of(file: Path) -> Path:
    """Where the audit of a file is kept."""
    return file.with_name(file.name + SUFFIX)


def write_audit(path: Path, audit: AuditFile) -> None:
    """Write an audit, whole or not at all."""
    content = json.dumps(asdict(audit)).encode()
    try:
        write_whole(path, lambda stream: stream.write(content))
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def read_audit(path: Path, artifact: Artifact) -> AuditFile | None:
    """The audit of a set; None if there is none, or if it is about other images."""
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        if content["images"] != artifact.images_sha256:
            return None
        neighbours = [Neighbour(**each) for each in content["neighbours"]]
        for neighbour in neighbours:
            for f in fields(Neighbour):
                if not isinstance(getattr(neighbour, f.name), TYPES[str(f.type)]):
                    raise TypeError(f.name)
            ranks, classes = artifact.images.shape[:2]
            if not (1 <= neighbour.rank <= ranks and 0 <= neighbour.label < classes and neighbour.row >= 0):
                raise ValueError
            if not (1 <= neighbour.tile <= artifact.factor**2 and neighbour.real_label >= 0):
                raise ValueError
        names = [str(name) for name in content["real_class_names"]]
        if any(neighbour.real_label >= len(names) for neighbour in neighbours):
            raise ValueError
        return AuditFile(str(content["images"]), str(content["data"]), float(content["usual"]), names, neighbours)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise ArtifactError(f"{path} is damaged. Remove it, or make it again with `mipset audit`.") from error
