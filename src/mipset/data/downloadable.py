"""The published datasets that can be downloaded: where their files may be, and which module reads them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mipset.data import cache, cifar, idx
from mipset.data.dataset import Dataset, Split
from mipset.data.specs import CIFAR10, FASHION_MNIST, MNIST, DatasetSpec
from mipset.errors import DataError


@dataclass(frozen=True)
class DownloadableDataset:
    """A published dataset, with the two functions that recognise and read a folder of its official files."""

    spec: DatasetSpec
    is_in: Callable[[Path], bool]
    read: Callable[[Path, DatasetSpec], tuple[Split, Split]]
    system_folders: tuple[Path, ...] = ()  # where the operating system may have installed it

    def cache_file(self, root: Path) -> Path:
        """The file below the cache folder `root` to which `fetch` writes the decoded dataset."""
        return root / self.spec.name / f"{self.spec.name}.npz"

    def find(self, root: Path) -> Path | None:
        """The cache file, or the folder with the official files, or None. Nothing is read."""
        if self.cache_file(root).is_file():
            return self.cache_file(root)
        folders = (root / self.spec.name, *self.system_folders)
        return next((folder for folder in folders if self.is_in(folder)), None)

    def open(self, name: str, path: Path) -> Dataset:
        """Read the dataset and call it `name`. `path` is a cache file, or a folder with it or the official files."""
        if not path.exists():
            raise DataError(f"{name}: there is nothing at {path}. Correct the path.")
        stored = path / f"{self.spec.name}.npz" if path.is_dir() else path
        train, test = cache.read_splits(stored) if stored.is_file() else self.read(path, self.spec)
        return self.spec.verify(name, train, test)


DOWNLOADABLE = {
    dataset.spec.name: dataset
    for dataset in (
        DownloadableDataset(CIFAR10, cifar.is_in, cifar.read),
        DownloadableDataset(FASHION_MNIST, idx.is_in, idx.read, (Path("/usr/share/datasets/fashion-mnist"),)),
        DownloadableDataset(MNIST, idx.is_in, idx.read),
    )
}
