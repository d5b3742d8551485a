"""A device reads a prefix of a set in the gallery: only its bytes move, and they are verified against the index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import web
from commands import WITHOUT_TORCH, Here, done, run
from gallery_sets import change_index, make_gallery
from mipset import device, read
from mipset.errors import ArtifactError
from mipset.file.gallery_index import INDEX
from noise_sets import RANK_BYTES, check_prefix, header_length, noise_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A gallery of one set."""
    return make_gallery(tmp_path / "made")


@pytest.fixture
def served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[web.Server]:
    """The gallery on a server."""
    with web.serving((folder / "noise.safetensors").read_bytes()) as server:
        server.others["/index.json"] = (folder / INDEX).read_bytes()
        monkeypatch.setenv("MIPSET_GALLERY", server.url.replace("set.safetensors", INDEX))
        yield server


def test_only_the_bytes_of_the_prefix_move(served: web.Server) -> None:
    source = device.open("gallery:noise")
    check_prefix(source.prefix(3), noise_set(), 3)
    moved = header_length(served.content) + 3 * RANK_BYTES
    assert source.moved == moved
    assert served.sent == moved + len(served.others["/index.json"])


def test_command_fetches_a_prefix_without_torch(served: web.Server, tmp_path: Path) -> None:
    process = run("fetch", "gallery:noise", "--ipc", 2, "--out", "small", code=WITHOUT_TORCH, cwd=tmp_path)
    assert done(process).startswith("small: 2 of 6 images per class, ")
    assert (tmp_path / "small").read_bytes() == noise_set().prefix(2).to_bytes()
    assert served.sent == header_length(served.content) + 2 * RANK_BYTES + len(served.others["/index.json"])
    listed = done(run("gallery", code=WITHOUT_TORCH, cwd=tmp_path))
    assert listed.splitlines()[1].split()[:4] == ["noise", "noise", "6", "5.7"]


def test_file_of_the_gallery_has_its_name_unless_another_is_given(
    served: web.Server, tmp_path: Path, here: Here, refusal: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert here("fetch", "gallery:noise", "--ipc", 2).startswith("noise.safetensors: 2 of 6 images per class")
    assert read("noise.safetensors").ipc == 2
    assert "noise.safetensors exists already" in refusal("fetch", "gallery:noise")
    assert "--out is missing: the file to write." in refusal("fetch", served.url)


def test_header_of_another_file_is_refused(served: web.Server) -> None:
    """A file whose digests fit each other, but that is not the listed one."""
    served.content = noise_set(provenance={"dataset": "nois2"}).to_bytes()
    with pytest.raises(ArtifactError, match=r"is not the file that .* lists as noise \(its header is not the one of"):
        device.open("gallery:noise")


def test_altered_rank_is_refused(served: web.Server, refusal: Here, tmp_path: Path) -> None:
    start = header_length(served.content) + RANK_BYTES
    served.content = served.content[:start] + b"?" + served.content[start + 1 :]
    assert "image 2 of each class was altered" in refusal("fetch", "gallery:noise", "--ipc", 3, "--out", tmp_path / "x")
    device.open("gallery:noise").prefix(1)


def test_whole_set_must_have_the_digest_of_the_index(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_GALLERY", str(folder))
    check_prefix(device.open("gallery:noise").prefix(6), noise_set(), 6)
    change_index(folder, lambda entry: entry.update(sha256="00" * 32))
    source = device.open("gallery:noise")
    source.prefix(5)
    with pytest.raises(ArtifactError, match="its SHA-256 is not the one of the index"):
        source.prefix(6)


def test_whole_set_is_verified_also_from_the_cache_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIPSET_GALLERY", str(folder))
    for _ in range(2):
        check_prefix(device.open("gallery:noise", cache=tmp_path / "ranks").prefix(6), noise_set(), 6)


def test_length_of_the_index_must_be_that_of_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_GALLERY", str(folder))
    change_index(folder, lambda entry: entry.update(bytes=entry["bytes"] + 1))
    with pytest.raises(ArtifactError, match=r"it has [\d,]+ bytes, and the index says"):
        device.open("gallery:noise")
