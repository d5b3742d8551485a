"""The published datasets: where their official files may be, and which module reads them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from mipset.data import archives, cache, cifar, eurosat, idx, imagenet, stl10, svhn, tiny_imagenet
from mipset.data.archives import OfficialArchive
from mipset.data.dataset import Dataset, Split, shape_text
from mipset.data.specs import (
    CIFAR10,
    CIFAR100,
    EUROSAT,
    FASHION_MNIST,
    IMAGENET10,
    IMAGENETTE,
    MNIST,
    STL10,
    SVHN,
    TINY_IMAGENET,
    DatasetSpec,
)
from mipset.errors import DataError, SettingError
from mipset.reporting import Report, silent

Splits: TypeAlias = tuple[Split, Split]


@dataclass(frozen=True)
class OfficialDataset:
    """A published dataset, with the two functions that recognise and read a folder of its official files."""

    spec: DatasetSpec
    is_in: Callable[[Path], bool]
    read: Callable[[Path, DatasetSpec, Report], Splits]
    archives: tuple[OfficialArchive, ...] = ()  # in any of which the official files are published
    other_folders: tuple[str, ...] = ()  # where else the files may be: names in the cache folder, or whole paths
    scales: bool = False  # whether its pictures can be read at another resolution

    @property
    def can_be_fetched(self) -> bool:
        """Whether its files can be downloaded without an account."""
        return not self.spec.unpacked_as

    def cache_file(self, root: Path) -> Path:
        """The file below the cache folder `root` to which `fetch` writes the decoded dataset."""
        return root / self.spec.name / f"{self.spec.name}.npz"

    def find(self, root: Path) -> Path | None:
        """The cache file, or the folder with the official files or their archive, or None. Nothing is read."""
        if self.cache_file(root).is_file():
            return self.cache_file(root)
        folders = [root / name for name in (self.spec.name, *self.other_folders)]
        return next((each for each in folders if self.is_in(each) or self._archive_in(each)), None)

    def open(self, name: str, path: Path, resolution: int | None = None, report: Report = silent) -> Dataset:
        """Read the dataset and call it `name`.

        `path` is a cache file, an official archive, or a folder with one of them or with the official files.
        `resolution` is that of the spec if it is None.
        """
        if not path.exists():
            raise DataError(f"{name}: there is nothing at {path}. Correct the path.")
        spec = self.spec if resolution is None else replace(self.spec, shape=(3, resolution, resolution))
        stored, again = path / f"{self.spec.name}.npz" if path.is_dir() else path, ""
        if path.is_file() and any(path.name == each.name for each in self.archives):
            train, test = self._read_archive(path, spec, report)
        elif stored.is_file():
            train, test = cache.read_splits(stored)
            again = f"Delete {stored} and run `mipset data fetch {self.spec.name}`."
            if resolution is not None and train.images.shape[2:] != (resolution, resolution):
                raise SettingError(
                    f"`resolution` is {resolution}, but {stored} holds images of {shape_text(train.images.shape[2:])}. "
                    f"Leave `resolution` out, or unpack {spec.files} into a folder and use {spec.name}:PATH."
                )
        elif not self.is_in(path) and (archive := self._archive_in(path)):
            train, test = self._read_archive(archive, spec, report)
        else:
            train, test = self.read(path, spec, report)
        return spec.verify(name, train, test, again)

    def _archive_in(self, folder: Path) -> Path | None:
        return next((folder / each.name for each in self.archives if (folder / each.name).is_file()), None)

    def _read_archive(self, path: Path, spec: DatasetSpec, report: Report) -> Splits:
        archive = next(each for each in self.archives if each.name == path.name)
        try:
            with tempfile.TemporaryDirectory(prefix="mipset-") as work:
                archive.unpack(path, Path(work), report)
                return self.read(Path(work), spec, report)
        except OSError as error:
            raise DataError(
                f"{path} could not be unpacked ({error}). Unpack it into a folder and use {spec.name}:PATH."
            ) from error


def how_to_get(dataset: OfficialDataset, root: Path) -> str:
    """A sentence that names the official files, where to get them, and where to put them."""
    spec = dataset.spec
    unpacked = f", unpacked as {spec.unpacked_as}" if spec.unpacked_as else ""
    return (
        f"Get {spec.files} from {spec.page} into {root / spec.name}{unpacked}, or into another folder and use "
        f"{spec.name}:PATH instead."
    )


def at_once(read: Callable[[Path, DatasetSpec], Splits]) -> Callable[[Path, DatasetSpec, Report], Splits]:
    """A function that reads a few large files, which takes seconds and reports nothing."""
    return lambda folder, spec, _report: read(folder, spec)


OFFICIAL = {
    dataset.spec.name: dataset
    for dataset in (
        OfficialDataset(CIFAR10, cifar.is_in, at_once(cifar.read), archives.CIFAR10),
        OfficialDataset(CIFAR100, partial(cifar.is_in, layout=cifar.CIFAR100), at_once(cifar.read), archives.CIFAR100),
        OfficialDataset(SVHN, svhn.is_in, at_once(svhn.read)),
        OfficialDataset(
            FASHION_MNIST, idx.is_in, at_once(idx.read), other_folders=("/usr/share/datasets/fashion-mnist",)
        ),
        OfficialDataset(MNIST, idx.is_in, at_once(idx.read)),
        OfficialDataset(STL10, stl10.is_in, at_once(stl10.read), archives.STL10),
        OfficialDataset(EUROSAT, eurosat.is_in, eurosat.read, archives.EUROSAT),
        OfficialDataset(TINY_IMAGENET, tiny_imagenet.is_in, tiny_imagenet.read, archives.TINY_IMAGENET),
        OfficialDataset(
            IMAGENETTE,
            partial(imagenet.is_in, classes=imagenet.CLASSES["imagenette"]),
            imagenet.read,
            archives.IMAGENETTE,
            scales=True,
        ),
        OfficialDataset(
            IMAGENET10,
            partial(imagenet.is_in, classes=imagenet.CLASSES["imagenet10"]),
            imagenet.read,
            other_folders=("imagenet",),
            scales=True,
        ),
    )
}
