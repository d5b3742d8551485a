"""A condensed set with its pixels, and the file that it is written to and read from. See FORMAT.md.

The images are uint8 `[N, C, ch, h, w]`, rank first, so S_[n] is the first n ranks and one range of bytes (law 1 in
docs/architecture.md).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mipset.errors import ArtifactError
from mipset.file.curves import curve_table, longest_curve_text
from mipset.file.description import (
    Accuracy,
    Description,
    check_fields,
    contents,
    end_of_prefix,
    not_images,
    points_up_to,
    shared_fields,
)
from mipset.file.gallery import ListedSet, find, is_listed
from mipset.file.grids import image_grid
from mipset.file.header import check_length, header_bytes, not_whole, read_header
from mipset.file.hugging_face import hf_dataset
from mipset.file.pixels import Pixels
from mipset.file.provenance import Provenance
from mipset.file.torch_sets import Transform, torch_dataset
from mipset.file.training_images import TrainingImages, labelled
from mipset.io.files import write_whole
from mipset.markup import paragraph

if TYPE_CHECKING:
    import datasets
    from torch.utils.data import Dataset


@dataclass(frozen=True)
class Artifact:
    """A condensed set: its images and their description."""

    images: Pixels  # [N, C, ch, h, w]
    factor: int  # tiles along each side of a stored image
    mean: tuple[float, ...]  # per channel, of values in [0, 1]
    std: tuple[float, ...]
    class_names: tuple[str, ...]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    accuracy: tuple[Accuracy, ...] = ()

    def __post_init__(self) -> None:
        if self.images.dtype != np.uint8:
            raise not_images(str(self.images.dtype), self.images.shape)
        check_fields(self.images.shape, self)

    def __repr__(self) -> str:
        measured = f"\naccuracy {longest_curve_text(self.accuracy)}" if self.accuracy else ""
        return f"<Artifact: {contents(self.images.shape, self)}{measured}>"

    def _repr_html_(self) -> str:
        """The images as a grid, and the accuracy of each size."""
        text = paragraph(contents(self.images.shape, self))
        grid = image_grid(self.class_names, list(np.swapaxes(self.images, 0, 1)))
        return text + grid + (curve_table(self.accuracy) if self.accuracy else "")

    def __getitem__(self, key: slice) -> Artifact:
        """`condensed[:n]` is `condensed.prefix(n)`. Other slices are refused."""
        return self.prefix(end_of_prefix(key, self.ipc))

    @classmethod
    def of(cls, description: Description, images: Pixels) -> Artifact:
        """The set of these images, which were verified against the description."""
        return cls(images, **shared_fields(description))

    @property
    def ipc(self) -> int:
        """N: stored images per class."""
        return len(self.images)

    @property
    def rank_sha256(self) -> list[str]:
        """One digest per rank, so that a prefix can be verified without the rest."""
        return [hashlib.sha256(np.ascontiguousarray(rank).tobytes()).hexdigest() for rank in self.images]

    @property
    def images_sha256(self) -> str:
        """A digest of all images."""
        return hashlib.sha256(np.ascontiguousarray(self.images).data).hexdigest()

    @property
    def description(self) -> Description:
        """The description that the file of this set has."""
        return Description(shape=self.images.shape, sha256=tuple(self.rank_sha256), **shared_fields(self))

    def prefix(self, n: int) -> Artifact:
        """S_[n] as a set. Accuracies of larger sizes are left out."""
        points = points_up_to(n, self)
        return replace(self, images=self.images[:n], accuracy=points)

    @property
    def training_images(self) -> TrainingImages:
        """The training images, one at a time, decoded when they are used."""
        return TrainingImages(labelled(self.images), self, "The set")

    def torch(self, transform: Transform | None = None, *, normalised: bool = True) -> Dataset[tuple[Any, int]]:
        """The training images as a map-style dataset of torch: pairs of an image, float32 [ch, h, w], and an int.

        Images are decoded when they are asked for, and the dataset can be pickled for the workers of a DataLoader.
        They are normalised with the mean and std of the file, or have values in [0, 1] if `normalised` is False.
        `transform` is called with each image.
        """
        return torch_dataset(self.training_images, transform, normalised)

    def hf(self) -> datasets.Dataset:
        """The training images as a dataset of Hugging Face `datasets`, with the columns `image` and `label`.

        They are pictures, rounded to bytes, in the order of `torch()`.
        """
        return hf_dataset(self.training_images)

    def with_accuracy(self, points: Sequence[Accuracy]) -> Artifact:
        """The same set with `points` on its accuracy curve.

        They replace points of the same size, network, protocol, seed and dataset.
        """
        curve = {(p.protocol, p.network, p.data, p.seed, p.size): p for p in (*self.accuracy, *points)}
        return replace(self, accuracy=tuple(curve[key] for key in sorted(curve)))

    def to_bytes(self) -> bytes:
        """The content of the file. The same set always gives the same bytes."""
        return header_bytes(self.description) + self.images.tobytes()

    def write(self, path: Path | str) -> None:
        """Write the file. After an error, `path` is as it was before."""
        write(path, self.description, self.images)


def write(path: Path | str, description: Description, ranks: Iterable[Pixels]) -> None:
    """Write a file of these ranks, which the description describes. After an error, `path` is as it was before."""
    header = header_bytes(description)

    def fill(stream: BinaryIO) -> None:
        stream.write(header)
        for rank in ranks:
            stream.write(np.ascontiguousarray(rank).data)

    try:
        write_whole(Path(path), fill)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error


def read(path: Path | str) -> Artifact:
    """Read and verify a file, or gallery:NAME, a set of the gallery.

    Anything else than a complete and unaltered condensed set raises an ArtifactError.
    """
    if is_listed(path):
        return _read_listed(find(path))
    name = str(path)
    with opened(Path(path)) as stream:
        length = os.fstat(stream.fileno()).st_size

        def read_range(start: int, stop: int) -> bytes:
            stream.seek(start)
            return stream.read(min(stop, length) - start)  # no memory for a header longer than the file

        description, start = read_header(read_range, name)
        check_length(length, description, start, name)
        stream.seek(start)
        try:
            pixels = np.fromfile(stream, np.uint8, prod(description.shape))
        except MemoryError as error:
            raise ArtifactError(
                f"{name} needs {prod(description.shape):,} bytes of memory, which is more than this machine has free. "
                "Read a prefix of it with mipset.device.open()."
            ) from error
    return _verified(description, pixels, name)


def _read_listed(listed: ListedSet) -> Artifact:
    """A set of the gallery. Its whole file is verified against the index."""
    content, name = listed.content(), listed.name
    description, start = read_header(lambda start, stop: content[start:stop], name)
    listed.entry.check_header(hashlib.sha256(content[:start]).hexdigest(), description, start, name)
    return _verified(description, np.frombuffer(bytearray(content[start:]), np.uint8), name)


def _verified(description: Description, pixels: Pixels, name: str) -> Artifact:
    """The set of these pixels, if they are those of the description."""
    if len(pixels) != prod(description.shape):  # another program made the file shorter meanwhile
        raise not_whole(name, "its pixels end early")
    images = pixels.reshape(description.shape)
    for number, rank in enumerate(images):
        description.verify(number, rank.data, name)
    return Artifact.of(description, images)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """An existing file, opened to be read; an ArtifactError tells why it cannot be opened or read."""
    try:
        if path.is_dir():
            raise ArtifactError(f"{path} is a folder. Give the path of a file.")
        if not path.is_file():
            is_address = re.match("https?:/", str(path))
            advice = "`mipset fetch` downloads a file from an address" if is_address else "`mipset condense` makes one"
            raise ArtifactError(f"There is no file {path}: {advice}.")
        with path.open("rb") as stream:
            yield stream
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error
