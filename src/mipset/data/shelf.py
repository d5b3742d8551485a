"""The datasets that can be fetched: where each may lie, and who reads it there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mipset.data import cifar, idx, store
from mipset.data.dataset import Dataset, Split
from mipset.data.known import CIFAR10, FASHION_MNIST, MNIST, Known
from mipset.errors import DataError


@dataclass(frozen=True)
class Shelf:
    """A published dataset, with the two functions that recognise and read its official files."""

    known: Known
    holds: Callable[[Path], bool]
    read: Callable[[Path, Known], tuple[Split, Split]]
    system: tuple[Path, ...] = ()  # folders where the operating system may have put it

    def cached(self, root: Path) -> Path:
        """Where `fetch` stores the decoded dataset below the cache folder `root`."""
        return root / self.known.name / f"{self.known.name}.npz"

    def find(self, root: Path) -> Path | None:
        """Where the dataset lies, without reading it."""
        if self.cached(root).is_file():
            return self.cached(root)
        folders = (root / self.known.name, *self.system)
        return next((folder for folder in folders if self.holds(folder)), None)

    def open(self, name: str, place: Path) -> Dataset:
        """The dataset, called `name`, from its official files in a folder or from the file `fetch` stored."""
        if not place.exists():
            raise DataError(f"{name}: there is nothing at {place}: correct the path.")
        stored = place / f"{self.known.name}.npz" if place.is_dir() else place
        train, test = store.read(stored) if stored.is_file() else self.read(place, self.known)
        return self.known.dataset(name, train, test)


SHELVES = {
    shelf.known.name: shelf
    for shelf in (
        Shelf(CIFAR10, cifar.holds, cifar.read),
        Shelf(FASHION_MNIST, idx.holds, idx.read, (Path("/usr/share/datasets/fashion-mnist"),)),
        Shelf(MNIST, idx.holds, idx.read),
    )
}
