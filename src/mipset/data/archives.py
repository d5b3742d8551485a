"""The archives in which datasets are published, and how they are unpacked."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from mipset.data.checksums import check_md5, wrong_length
from mipset.errors import DataError
from mipset.reporting import Report

BLOCK = 1 << 18
MAX_FILE = 1 << 32  # far above every dataset here, so a larger file is a wrong one


@dataclass(frozen=True)
class OfficialArchive:
    """A .tar.gz or .zip file at one address. Only the named members are read.

    A name that ends in a slash stands for all files below that folder. `md5` is published; an empty one is not checked.
    `length` is for messages; 0 is unknown.
    """

    url: str
    members: tuple[str, ...]
    md5: str = ""
    length: int = 0

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2]

    def unpack(self, archive: Path, folder: Path, report: Report) -> None:
        """Write the named members of the archive at this path into the folder, with their folders."""
        report(f"checking {self.name}", 0, 0)
        again = f"{wrong_length(archive, self.length)}Get it again from {self.url}."
        check_md5(archive, self.md5 or None, again)
        missing, written = set(self.members), 0
        try:
            for name, size, content in _files(archive):
                member = name if name in missing else self._folder_of(name)
                if member is None:
                    continue
                if content is None or size > MAX_FILE or ".." in PurePosixPath(name).parts:
                    raise DataError(f"{name} in the archive is not a plain file of a plausible size. {again}")
                _copy(content, folder / name)
                missing.discard(member)
                written += 1
                report(f"unpacking {self.name}", written, 0)
                if not missing and not any(each.endswith("/") for each in self.members):
                    break
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError) as error:
            raise DataError(f"{archive}: the archive is damaged ({error}). {again}") from error
        if missing:
            raise DataError(f"{archive}: {min(missing)} is not in the archive. {again}")

    def _folder_of(self, name: str) -> str | None:
        """The name in `members` of the folder above a file, or None."""
        return next((each for each in self.members if each.endswith("/") and name.startswith(each)), None)


def _files(archive: Path) -> Iterator[tuple[str, int, IO[bytes] | None]]:
    """Name, size and content of everything in the archive but folders; the content of a link is None."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as zipped:
            for entry in zipped.infolist():
                if not entry.is_dir():
                    yield entry.filename, entry.file_size, zipped.open(entry)
        return
    with tarfile.open(archive, mode="r:gz") as tar:
        for member in tar:
            if not member.isdir():
                yield member.name, member.size, tar.extractfile(member) if member.isfile() else None


def _copy(content: IO[bytes], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file, BLOCK)


_KRIZ = "https://www.cs.toronto.edu/~kriz/"
_CIFAR10_FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_STL10_FILES = ("train_X.bin", "train_y.bin", "test_X.bin", "test_y.bin")

CIFAR10 = (
    OfficialArchive(
        f"{_KRIZ}cifar-10-python.tar.gz",
        tuple(f"cifar-10-batches-py/{name}" for name in _CIFAR10_FILES),
        "c58f30108f718f92721af3b95e74349a",
        170_498_071,
    ),
    OfficialArchive(
        f"{_KRIZ}cifar-10-binary.tar.gz",
        tuple(f"cifar-10-batches-bin/{name}.bin" for name in _CIFAR10_FILES),
        "c32a1d4ab5d03f1284b67883e8d87530",
        170_052_171,
    ),
)
CIFAR100 = (
    OfficialArchive(
        f"{_KRIZ}cifar-100-python.tar.gz",
        ("cifar-100-python/train", "cifar-100-python/test"),
        "eb9058c3a382ffc7106e4002c42a8d85",
        169_001_437,
    ),
    OfficialArchive(
        f"{_KRIZ}cifar-100-binary.tar.gz",
        ("cifar-100-binary/train.bin", "cifar-100-binary/test.bin"),
        "03b5dce01913d631647c71ecec9e9cb8",
        168_513_733,
    ),
)
STL10 = (
    OfficialArchive(
        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
        tuple(f"stl10_binary/{name}" for name in _STL10_FILES),
        "91f7769df0f17e558f3565bffb0c7dfb",
    ),
)
EUROSAT = (
    OfficialArchive(
        "https://madm.dfki.de/files/sentinel/EuroSAT.zip",
        ("2750/",),
        "c8fa014336c82ac7804f0398fcb19387",
    ),
)
TINY_IMAGENET = (
    OfficialArchive(
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
        ("tiny-imagenet-200/train/", "tiny-imagenet-200/val/"),
        "90528d7ca1a48142e341f4ef8d21d0de",
        248_100_043,
    ),
)
IMAGENETTE = (
    OfficialArchive(
        "https://s3.amazonaws.com/fast-ai-imageclas/imagenette2.tgz",
        ("imagenette2/train/", "imagenette2/val/"),
        "fe2fc210e6bb7c5664d602c3cd71e612",
    ),
)
