"""The first images of each class, which a device trains on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mipset.device.arguments import MOST, checked_count, checked_integers
from mipset.errors import SettingError
from mipset.file.artifact import Artifact, write
from mipset.file.grids import image_grid
from mipset.file.hugging_face import hf_dataset
from mipset.file.pixels import Pixels, Values
from mipset.file.torch_sets import Transform, torch_dataset
from mipset.file.training_images import Labels, Rank, TrainingImages
from mipset.markup import paragraph
from mipset.units import byte_count

if TYPE_CHECKING:
    import datasets
    from torch.utils.data import Dataset

    from mipset.device.source import Source


class Subset:
    """The first images of each class of a `Source`. It never changes: `grow` and `shrink` return a new one.

    Its `len(subset)` training images are numbered from 0: rank by rank, within a rank class by class, and within a
    stored image tile by tile. They are decoded to floats only when they are used.
    """

    def __init__(self, source: Source, sizes: tuple[int, ...], ranks: Iterable[Rank]) -> None:
        self.sizes = sizes  # one per class
        self._source = source
        self._training = TrainingImages(_cut(ranks, sizes), source.about, source.name)

    def __len__(self) -> int:
        """Training images."""
        return len(self._training)

    def __repr__(self) -> str:
        sizes = self.sizes[0] if len(set(self.sizes)) == 1 else list(self.sizes)
        return f"<Subset of {self._source.name}: {sizes} images per class, {len(self)} to train on>"

    def _repr_html_(self) -> str:
        """Its stored images as a grid."""
        rows: list[list[Pixels]] = [[] for _ in self.sizes]
        for images, classes in self._training.ranks:
            for image, c in zip(images, classes, strict=True):
                rows[c].append(image)
        return paragraph(repr(self).strip("<>")) + image_grid(self._source.about.class_names, rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored pixels in memory; decoded all at once, they take `factor`² · 4 times as many."""
        return self._training.nbytes

    def grow(self, sizes: int | Sequence[int]) -> Subset:
        """A larger subset. Only ranks that neither this subset nor the source has are read."""
        counts = self._source.counts(sizes)
        if any(new < old for new, old in zip(counts, self.sizes, strict=True)):
            raise SettingError(f"{self} cannot grow to {sizes}. Use shrink() to make it smaller.")
        self._source.offer(images for images, _ in self._training.ranks[: min(self.sizes)])
        return self._source.prefix(counts)

    def shrink(self, sizes: int | Sequence[int]) -> Subset:
        """A smaller subset. The source drops the ranks that are not in it, in memory and in the cache folder.

        The memory is free when this larger subset is no longer used: write `subset = subset.shrink(2)`.
        """
        counts = self._source.counts(sizes)
        if any(new > old for new, old in zip(counts, self.sizes, strict=True)):
            raise SettingError(f"{self} cannot shrink to {sizes}. Use grow() to make it larger.")
        self._source.forget(max(counts))
        return Subset(self._source, counts, self._training.ranks)

    def take(self, numbers: Iterable[int]) -> tuple[Values, Labels]:
        """The training images with these numbers, float32 [k, ch, h, w] and normalised, and their labels [k]."""
        wanted = checked_integers("numbers", numbers)
        if not all(0 <= number < len(self) for number in wanted):
            raise IndexError(f"The training images are numbered from 0 to {len(self) - 1}.")
        shape = (len(wanted), *self._source.about.shape[2:])
        try:
            images, labels = np.empty(shape, np.float32), np.empty(len(wanted), np.int64)
        except (MemoryError, ValueError) as error:
            needed = byte_count(4 * int(np.prod([float(side) for side in shape])))
            raise SettingError(f"{shape[0]} images at once need {needed} of memory. Use batches() instead.") from error
        for place, number in enumerate(wanted):
            images[place], labels[place] = self._training.normalised(number), self._training.label(number)
        return images, labels

    def arrays(self) -> tuple[Values, Labels]:
        """All training images, float32 [len, ch, h, w] and normalised, and their labels, int64 [len]."""
        return self.take(range(len(self)))

    def batches(self, batch: int, *, epochs: int | None = 1, seed: int = 0) -> Iterator[tuple[Values, Labels]]:
        """Shuffled batches of at most `batch` training images; each epoch has every training image once.

        An epoch has as few batches as possible, and their lengths differ by at most 1: a short last batch would count
        as much as a full one. Images are decoded when their batch is due. If `epochs` is None, batches never end. The
        same seed gives the same batches.
        """
        number = -(-len(self) // checked_count("batch", batch))
        rounds = count() if epochs is None else range(checked_count("epochs", epochs))
        return self._batches(number, rounds, checked_count("seed", seed, least=0, most=MOST))

    def _batches(self, number: int, epochs: Iterable[int], seed: int) -> Iterator[tuple[Values, Labels]]:
        ends = [len(self) * index // number for index in range(number + 1)]
        for epoch in epochs:
            order = np.random.default_rng([seed, epoch]).permutation(len(self))
            for start, end in pairwise(ends):
                yield self.take(order[start:end])

    def torch(self, transform: Transform | None = None, *, normalised: bool = True) -> Dataset[tuple[Any, int]]:
        """The training images as a map-style dataset of torch, as `Artifact.torch` gives them."""
        return torch_dataset(self._training, transform, normalised)

    def hf(self) -> datasets.Dataset:
        """The training images as a dataset of Hugging Face, as `Artifact.hf` gives them."""
        return hf_dataset(self._training)

    def artifact(self) -> Artifact:
        """The set as `mipset.read` returns it. All classes must have the same size."""
        description = self._source.about.prefix(self._size("An Artifact"))
        return Artifact.of(description, np.stack([images for images, _ in self._training.ranks]))

    def write(self, path: str | Path) -> None:
        """Write a file of its own. All classes must have the same size. After an error, `path` is as it was before."""
        description = self._source.about.prefix(self._size("A file"))
        write(path, description, (images for images, _ in self._training.ranks))

    def _size(self, target: str) -> int:
        """Images per class, which `target` needs to be the same for all classes."""
        size, *others = set(self.sizes)
        if others:
            raise SettingError(
                f"{target} needs the same number of images of each class, but the sizes are {list(self.sizes)[:20]}. "
                "Take a prefix of one size."
            )
        return size


def _cut(ranks: Iterable[Rank], sizes: Sequence[int]) -> Iterator[Rank]:
    """Ranks without the images beyond the size of their class."""
    class_sizes = np.array(sizes)
    for rank, (images, classes) in zip(range(max(sizes)), ranks, strict=False):
        inside = class_sizes[classes] > rank
        yield (images, classes) if inside.all() else (images[inside], classes[inside])
