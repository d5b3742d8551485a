"""Fetching: sources on a server of the test, failures, and that nothing is left on the disk."""

from __future__ import annotations

import errno
import gzip
import http.server
import io
import os
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mipset.data import cache, cifar, fetch, idx, load
from mipset.data.archives import OfficialArchive
from mipset.data.fetching import fetch_from
from mipset.data.official import OFFICIAL, OfficialDataset, at_once
from mipset.data.sources import SOURCES, Archive, DownloadSource, Files, NpmPackage
from mipset.data.specs import CIFAR10, MNIST
from mipset.errors import DataError
from mipset.reporting import silent
from official_files import md5_of, write_eurosat
from tiny_data import (
    equal_splits,
    shrink,
    write_idx,
    write_python_batches,
    write_sheets,
)


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and prints nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are silent."""


class TruncatingHandler(QuietHandler):
    """Promises 1000 bytes and sends 10."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)


@contextmanager
def server(folder: Path, handler: type[QuietHandler]) -> Iterator[str]:
    """The address of a server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}/"
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which a server on this machine offers it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    with server(folder, QuietHandler) as address:
        yield folder, address


def tar_of(folder: Path, prefix: str, target: Path) -> tuple[str, ...]:
    """Pack the files of a folder below `prefix`, and return the names of the members."""
    names = []
    with tarfile.open(target, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            names.append(f"{prefix}/{path.name}")
            tar.add(path, names[-1])
    return tuple(names)


def add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def entries_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_fetch_downloads_single_files(tmp_path: Path, served: tuple[Path, str]) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    mnist, root = OfficialDataset(spec, idx.is_in, at_once(idx.read)), tmp_path / "new" / "home"
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))
    calls: list[tuple[str, float, float]] = []
    path = fetch_from(mnist, (source,), root, lambda *call: calls.append(call))

    assert path == root / "mnist" / "mnist.npz"
    assert entries_below(root) == ["mnist", "mnist/mnist.npz"]
    assert mnist.find(root) == path
    dataset = mnist.open("mnist", path)
    assert equal_splits(dataset.train, train)
    assert equal_splits(dataset.test, test)
    assert equal_splits(mnist.open("mnist:folder", path.parent).train, train)
    size = (served[0] / "train-images-idx3-ubyte.gz").stat().st_size
    assert ("downloading train-images-idx3-ubyte.gz", size, size) in calls
    assert ("decoding", 2, 2) in calls
    assert calls[-1] == ("storing", 1, 1)


def test_fetch_unpacks_only_the_expected_members_of_an_archive(tmp_path: Path, served: tuple[Path, str]) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    official = tmp_path / "official"
    official.mkdir()
    write_python_batches(official, train, test)
    with tarfile.open(served[0] / "c.tar.gz", "w:gz") as tar:
        add_member(tar, "../escaped", b"evil")
        add_member(tar, str(tmp_path / "escaped"), b"evil")
        for path in official.iterdir():
            add_member(tar, f"cifar-10-batches-py/{path.name}", path.read_bytes())
    source = Archive(
        OfficialArchive(
            f"{served[1]}c.tar.gz", tuple(f"cifar-10-batches-py/{path.name}" for path in official.iterdir())
        )
    )
    cifar10, root = OfficialDataset(spec, cifar.is_in, at_once(cifar.read)), tmp_path / "home"
    assert equal_splits(cifar10.open("cifar10", fetch_from(cifar10, (source,), root, silent)).test, test)
    assert entries_below(root) == ["cifar10", "cifar10/cifar10.npz"]
    assert not list(tmp_path.rglob("escaped"))


def test_fetch_checks_the_digest_of_an_archive_and_keeps_the_folders_in_it(
    tmp_path: Path, served: tuple[Path, str]
) -> None:
    write_eurosat(tmp_path / "2750", 5)
    with zipfile.ZipFile(served[0] / "EuroSAT.zip", "w") as zipped:
        for path in sorted((tmp_path / "2750").rglob("*.jpg")):
            zipped.write(path, path.relative_to(tmp_path))
    digest, address = md5_of(served[0] / "EuroSAT.zip"), f"{served[1]}EuroSAT.zip"
    official, root = OFFICIAL["eurosat"], tmp_path / "home"
    small = replace(official, spec=replace(official.spec, train_count=40, test_count=10))
    wrong = Archive(OfficialArchive(address, ("2750/",), "0" * 32))
    message = rf"^eurosat could not be fetched from {address} \(.* MD5 digest {digest} instead of 0+.* Get EuroSAT.zip"
    with pytest.raises(DataError, match=message):
        fetch_from(small, (wrong,), root, silent)
    assert entries_below(root) == []
    path = fetch_from(small, (wrong, Archive(OfficialArchive(address, ("2750/",), digest))), root, silent)
    assert entries_below(root) == ["eurosat", "eurosat/eurosat.npz"]
    assert small.open("eurosat", path).sha256 == small.open("eurosat", tmp_path).sha256


def test_fetch_does_not_follow_a_link_in_an_archive(tmp_path: Path, served: tuple[Path, str]) -> None:
    spec, _, _ = shrink(CIFAR10, 50, 20)
    with tarfile.open(served[0] / "c.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    source = Archive(OfficialArchive(f"{served[1]}c.tar.gz", ("cifar-10-batches-py/data_batch_1",)))
    with pytest.raises(DataError, match="cifar-10-batches-py/data_batch_1 in the archive is not a plain file"):
        fetch_from(OfficialDataset(spec, cifar.is_in, at_once(cifar.read)), (source,), tmp_path / "home", silent)
    assert entries_below(tmp_path / "home") == []


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a shell script")
def test_fetch_falls_back_to_npm(tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec, train, test = shrink(CIFAR10, 50, 20)
    official, programs = tmp_path / "official", tmp_path / "bin"
    official.mkdir()
    programs.mkdir()
    write_sheets(official, train, test)
    members = tar_of(official, "package", tmp_path / "sheets.tgz")
    npm = programs / "npm"
    npm.write_text(
        f'#!/bin/sh\n[ "$*" = "pack --ignore-scripts tiny@1.0" ] && cp "{tmp_path}/sheets.tgz" tiny-1.0.tgz\n'
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    sources: tuple[DownloadSource, ...] = (
        Archive(OfficialArchive(f"{served[1]}absent.tar.gz", ("a",))),
        NpmPackage("tiny@1.0", members),
    )
    cifar10, root = OfficialDataset(spec, cifar.is_in, at_once(cifar.read)), tmp_path / "home"
    assert equal_splits(cifar10.open("cifar10", fetch_from(cifar10, sources, root, silent)).train, train)
    assert entries_below(root) == ["cifar10", "cifar10/cifar10.npz"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a shell script")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first >&2; echo 'npm error 404' >&2; exit 1", r"npm pack tiny@1.0 \(npm error 404\)"),
        ("exit 3", "npm ended with code 3"),
        ("exit 0", "npm left 0 archives"),
        ("echo junk > x.tgz", "the archive is damaged"),
        (None, "npm is not on the PATH"),
    ],
)
def test_fetch_reports_why_npm_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str
) -> None:
    spec, _, _ = shrink(CIFAR10, 50, 20)
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "npm").chmod(0o755)
    with pytest.raises(DataError, match=message):
        fetch_from(
            OfficialDataset(spec, cifar.is_in, at_once(cifar.read)),
            (NpmPackage("tiny@1.0", ("package/a",)),),
            tmp_path / "home",
            silent,
        )
    assert entries_below(tmp_path / "home") == []


def test_failed_fetch_names_every_source_and_leaves_nothing(tmp_path: Path, served: tuple[Path, str]) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    train.images[0] = 0  # so the digest no longer fits
    write_idx(served[0], train, test, zipped=True)
    (served[0] / "cut.tar.gz").write_bytes(gzip.compress(bytes(10240) + b"x" * 5000)[:-20])
    (served[0] / "other.tar.gz").write_bytes(b"no archive")
    tar_of(served[0], "x", tmp_path / "y.tar.gz")
    (tmp_path / "y.tar.gz").rename(served[0] / "y.tar.gz")
    sources: tuple[DownloadSource, ...] = (
        Files("http://127.0.0.1:9/", ("a",)),
        Files(served[1], ("absent",)),
        Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES)),
        Archive(OfficialArchive(f"{served[1]}cut.tar.gz", ("a",))),
        Archive(OfficialArchive(f"{served[1]}other.tar.gz", ("a",))),
        Archive(OfficialArchive(f"{served[1]}y.tar.gz", ("x/absent",))),
    )
    root = tmp_path / "home"
    with pytest.raises(DataError) as caught:
        fetch_from(OfficialDataset(spec, idx.is_in, at_once(idx.read)), sources, root, silent)
    message = str(caught.value)
    assert message.startswith(
        "mnist could not be fetched from http://127.0.0.1:9/ (http://127.0.0.1:9/a could not be read: "
    )
    for part in (
        "the server answered 404",
        "not those of mnist",
        "cut.tar.gz (",
        "the archive is damaged",
        "x/absent is not in the archive",
        "use mnist:PATH instead.",
    ):
        assert part in message
    assert entries_below(root) == []


def test_truncated_download_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    spec, _, _ = shrink(MNIST, 40, 20)
    with (
        server(tmp_path, TruncatingHandler) as address,
        pytest.raises(DataError, match="the connection was closed early, 4 times in a row"),
    ):
        fetch_from(OfficialDataset(spec, idx.is_in, at_once(idx.read)), (Files(address, ("a",)),), tmp_path, silent)
    assert entries_below(tmp_path) == []


def test_interrupted_fetch_leaves_nothing(tmp_path: Path, served: tuple[Path, str]) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))
    root = tmp_path / "home"
    for when in ("downloading t10k", "decoding", "storing"):

        def interrupt(stage: str, done: float, total: float, when: str = when) -> None:  # noqa: ARG001
            if stage.startswith(when):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch_from(OfficialDataset(spec, idx.is_in, at_once(idx.read)), (source,), root, interrupt)
        assert entries_below(root) == []


def test_fetch_to_a_full_disk_is_refused_and_leaves_nothing(
    tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, train, test = shrink(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "write_splits", full)
    root = tmp_path / "home"
    with pytest.raises(DataError, match=r"^The disk that holds .*home is full, so mnist was not stored. Free"):
        fetch_from(OfficialDataset(spec, idx.is_in, at_once(idx.read)), (source, source), root, silent)
    assert entries_below(root) == []


def test_cache_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    spec, _, _ = shrink(MNIST, 40, 20)
    with pytest.raises(DataError, match=r"cannot hold mnist .*Set MIPSET_HOME"):
        fetch_from(OfficialDataset(spec, idx.is_in, at_once(idx.read)), (), tmp_path / "file" / "home", silent)


def test_fetch_does_not_download_a_present_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10.npz").touch()
    assert fetch("cifar10") == tmp_path / "cifar10" / "cifar10.npz"
    assert fetch("cifar10", home=tmp_path) == tmp_path / "cifar10" / "cifar10.npz"
    with pytest.raises(DataError, match=r"could not be read as an .npz file"):
        load("cifar10")


@pytest.mark.parametrize("name", ["folder:x", "imagenet", "cifar10:x"])
def test_fetch_of_an_unknown_dataset_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=rf"'{name}' cannot be fetched. .*Choose cifar10, .* fashion-mini or hf:NAME"):
        fetch(name)


def test_every_dataset_that_can_be_fetched_has_sources_and_a_digest() -> None:
    assert {name for name, dataset in OFFICIAL.items() if dataset.can_be_fetched} == SOURCES.keys()
    for dataset in OFFICIAL.values():
        spec = dataset.spec
        assert len(spec.mean) == len(spec.std) == spec.shape[0]
        assert spec.files
        assert spec.page.startswith("http")
        digests = [*spec.md5.values(), *(archive.md5 for archive in dataset.archives)]
        assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in digests)
        assert digests or len(spec.sha256) == 64 or not dataset.can_be_fetched


def test_cache_file_with_other_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train_images=np.zeros((2, 1, 4, 5), np.uint8))
    with pytest.raises(DataError, match=r"does not hold a stored dataset .*'train_labels'"):
        cache.read_splits(tmp_path / "x.npz")
