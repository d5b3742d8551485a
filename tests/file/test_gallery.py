"""The gallery: where it is, what its index may hold, and reading a whole set of it."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mipset
import web
from gallery_sets import Change, change_index, make_gallery
from mipset.errors import ArtifactError, MipsetError, SettingError
from mipset.file import gallery as module
from mipset.file.gallery import find
from mipset.file.gallery_index import INDEX, MOST_INDEX, MOST_TEXT, Entry, index_bytes, parse_index
from noise_sets import noise_set, quick

ENTRY = Entry("x", "a/b.safetensors", "0" * 64, "0" * 64, 5, "d\ud800", 6, "r", "mit", "©", "c", noise_set().accuracy)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gallery of one set, which MIPSET_GALLERY names."""
    made = make_gallery(tmp_path / "made")
    monkeypatch.setenv("MIPSET_GALLERY", str(made))
    return made


def refusal() -> str:
    """The one line with which `gallery:noise` is refused."""
    with pytest.raises(MipsetError) as raised:
        mipset.read("gallery:noise")
    message = str(raised.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


class TestWhere:
    def test_a_set_is_read_from_a_folder_an_index_and_an_address(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        content = (folder / "noise.safetensors").read_bytes()
        with web.serving(content) as server:
            address = server.url.replace("set.safetensors", "sets/index.json?token=1")
            server.others["/sets/index.json?token=1"] = (folder / INDEX).read_bytes()
            for where in (folder, folder / INDEX, address):
                monkeypatch.setenv("MIPSET_GALLERY", str(where))
                read = mipset.read("gallery:noise")
                np.testing.assert_array_equal(read.images, noise_set().images)
                assert read.accuracy == noise_set().accuracy
                assert read.images.flags.writeable
                assert [entry.name for entry in mipset.gallery()] == ["noise"]
            assert find("gallery:noise").file == server.url.replace("set.", "sets/noise.")
            server.others["/sets/index.json"] = (folder / INDEX).read_bytes()
            monkeypatch.setenv("MIPSET_GALLERY", server.url.replace("set.safetensors", "sets/"))
            assert mipset.gallery()[0].ipc == 6
            monkeypatch.setenv("MIPSET_GALLERY", server.url.replace("/set.safetensors", ""))
            server.content = b"<html>"  # as servers show a folder
            with pytest.raises(ArtifactError, match=r"is not JSON.* let it end in / or in /index\.json\.$"):
                mipset.gallery()

    def test_an_index_here_may_point_to_a_file_elsewhere(self, folder: Path) -> None:
        with web.serving((folder / "noise.safetensors").read_bytes()) as server:
            change_index(folder, lambda entry: entry.update(file=server.url))
            (folder / "noise.safetensors").unlink()
            np.testing.assert_array_equal(mipset.read(Path("gallery:noise")).images, noise_set().images)

    def test_the_source_tree_has_a_gallery_and_an_installed_package_needs_the_setting(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("MIPSET_GALLERY", raising=False)
        assert module.where() == Path(mipset.__file__).parents[2] / "gallery" / INDEX
        for tree in (None, tmp_path):
            monkeypatch.setattr(module, "source_tree", lambda tree=tree: tree)
            with pytest.raises(SettingError) as raised:
                mipset.read("gallery:noise")
            assert str(raised.value) == (
                "No gallery is known: set MIPSET_GALLERY to a folder with an index.json, to the path of such a file, "
                "or to its address."
            )

    def test_unknown_name_is_followed_by_what_there_is(self, folder: Path) -> None:
        with pytest.raises(ArtifactError) as raised:
            mipset.read("gallery:nois")
        assert str(raised.value) == (
            f"The gallery {folder / INDEX} has no set 'nois'. Did you mean noise? It has noise."
        )
        index = json.loads((folder / INDEX).read_text())
        index["sets"] += [{**index["sets"][0], "name": name} for name in ("a", "b")]
        (folder / INDEX).write_text(json.dumps(index))
        with pytest.raises(ArtifactError, match=r"It has a, b and noise\.$"):
            mipset.read("gallery:x")

    def test_missing_gallery_and_missing_files_are_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "noise.safetensors").unlink()
        assert f"{folder / 'noise.safetensors'} cannot be read: No such file" in refusal()
        monkeypatch.setenv("MIPSET_GALLERY", str(folder / "nothing"))
        assert f"{folder / 'nothing'} cannot be read: No such file or directory. Check MIPSET_GALLERY" in refusal()
        with web.serving(b"") as server:
            server.always = web.with_status(404)
            monkeypatch.setenv("MIPSET_GALLERY", f"{server.url}?secret=1")
            assert f"{server.url} cannot be read: the server answered 404" in refusal()


class TestHostileIndex:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda entry: entry.update(file="../../etc/passwd"), "'file' is '../../etc/passwd': it must be"),
            (lambda entry: entry.update(file="/etc/passwd"), "'file' is '/etc/passwd'"),
            (lambda entry: entry.update(file="a/../../b"), "'file' is 'a/../../b'"),
            (lambda entry: entry.update(file="a\\..\\b"), "'file' is "),
            (lambda entry: entry.update(file="C:/x"), "'file' is 'C:/x'"),
            (lambda entry: entry.update(file="file:///etc/passwd"), "'file' is 'file:///etc/passwd'"),
            (lambda entry: entry.update(file="%2e%2e/x"), "'file' is '%2e%2e/x'"),
            (lambda entry: entry.update(file="x\0y"), "'file' is "),
            (lambda entry: entry.update(card="../README.md"), "'card' is '../README.md'"),
            (lambda entry: entry.update(file=["x"]), "'file' is ['x'], which is not of type str"),
            (lambda entry: entry.update(name="../x"), "'../x' is no name of a set: it must be at most 64"),
            (lambda entry: entry.update(name="x" * 65), " is no name of a set"),
            (lambda entry: entry.update(name="con"), "'con' is no name of a set: on Windows it is the name of a"),
            (lambda entry: entry.update(bytes="12"), "'bytes' is '12', which is not of type int"),
            (lambda entry: entry.update(bytes=True), "'bytes' is True, which is not of type int"),
            (lambda entry: entry.update(bytes=-1), "'bytes' is -1: it must be from 1 to "),
            (lambda entry: entry.update(bytes=10**30), "it must be from 1 to 9,223,372,036,854,775,807"),
            (lambda entry: entry.update(bytes=1 << 62), "which is more than half of the free memory"),
            (lambda entry: entry.update(ipc=10**10), "'ipc' is 10000000000"),
            (lambda entry: entry.update(ipc=1.5), "'ipc' is 1.5, which is not of type int"),
            (lambda entry: entry.update(sha256="00"), "'sha256' is '00', which is not a SHA-256 digest"),
            (lambda entry: entry.update(header_sha256="G" * 64), "which is not a SHA-256 digest"),
            (lambda entry: entry.update(licence=""), "'licence' has 0 letters"),
            (lambda entry: entry.update(recipe="x" * (MOST_TEXT + 1)), "'recipe' has 10,001 letters"),
            (lambda entry: entry.update(accuracy={}), "'accuracy' is {}, which is not a list"),
            (lambda entry: entry.update(accuracy=[3]), "a point of 'accuracy' is not valid"),
            (lambda entry: entry["accuracy"][0].update(size=7), "sizes go from 1 to 6"),
            (lambda entry: entry["accuracy"][0].update(mean="best"), "Its field 'mean' has a value of type str"),
            (lambda entry: entry["accuracy"][0].update(mean=101), "accuracies and their std from 0 to 100"),
            (lambda entry: entry["accuracy"][0].pop("protocol"), "a point of 'accuracy' is not valid"),
            (lambda entry: entry.pop("sha256"), "'sha256' is missing"),
            (lambda entry: entry.update(sha256="00" * 32), "its SHA-256 is not the one of the index"),
            (lambda entry: entry.update(header_sha256="00" * 32), "its header is not the one of the index"),
            (lambda entry: entry.update(bytes=entry["bytes"] - 1), "it does not have the"),
            (lambda entry: entry.update(bytes=entry["bytes"] + 1), "it does not have the"),
            (lambda entry: entry["accuracy"][0].update(mean=99), "the index has other sizes or accuracies"),
        ],
    )  # fmt: skip
    def test_wrong_entry_is_one_sentence(self, folder: Path, change: Change, reason: str) -> None:
        change_index(folder, change)
        assert reason in refusal()

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "it is not JSON"),
            (b"\xff{}", "it is not JSON"),
            (b"[" * 100_000, "it is not JSON"),
            (b'{"mipset_gallery": 1, "mipset_gallery": 1}', "a key is repeated"),
            (b'{"mipset_gallery": NaN}', "is not a finite number"),
            (b'{"mipset_gallery": ' + b"9" * 5000 + b"}", "it is not JSON"),
            (b"[]", "it has no field 'mipset_gallery'"),
            (b'{"mipset_gallery": 2, "sets": []}', "its version is 2, and this mipset reads version 1"),
            (b'{"mipset_gallery": 1}', "it has no list 'sets'"),
            (b'{"mipset_gallery": 1, "sets": [7]}', "in its set 1, there is 7 instead of an object"),
            (b" " * (MOST_INDEX + 1), "has more than 8,388,608 bytes, which is too long for an index"),
        ],
        ids=lambda value: value[:20].decode("latin-1") if isinstance(value, bytes) else "",
    )
    def test_wrong_index_is_one_sentence(self, folder: Path, content: bytes, reason: str) -> None:
        (folder / INDEX).write_bytes(content)
        assert reason in refusal()

    def test_name_may_be_listed_once(self, folder: Path) -> None:
        index: dict[str, Any] = json.loads((folder / INDEX).read_bytes())
        index["sets"] *= 2
        (folder / INDEX).write_text(json.dumps(index), "utf-8")
        assert "it lists noise twice" in refusal()

    def test_fields_of_later_versions_are_ignored(self, folder: Path) -> None:
        change_index(folder, lambda entry: entry.update(stars=5))
        assert mipset.read("gallery:noise").ipc == 6

    def test_endless_index_of_a_server_is_given_up(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with web.serving(b" " * (2 * MOST_INDEX)) as server:
            monkeypatch.setenv("MIPSET_GALLERY", server.url)
            assert "which is too long for an index" in refusal()

    @pytest.mark.skipif(os.name == "nt", reason="links need a permission there")
    def test_link_that_leaves_the_folder_is_refused(self, folder: Path, tmp_path: Path) -> None:
        shutil.move(folder / "noise.safetensors", tmp_path / "elsewhere")
        (folder / "noise.safetensors").symlink_to(tmp_path / "elsewhere")
        assert "is a link that leaves the folder of the gallery" in refusal()

    def test_altered_file_is_refused(self, folder: Path) -> None:
        file = folder / "noise.safetensors"
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert "is not the file that the gallery lists as noise (its SHA-256 is not the one of the index)" in refusal()

    def test_long_card_is_refused(self, folder: Path) -> None:
        (folder / "README.md").write_bytes(b"x" * ((1 << 20) + 1))
        with pytest.raises(ArtifactError, match="too long for a card"):
            find("gallery:noise").card()


@quick
@given(place=st.integers(0, 10**6), letters=st.binary(min_size=1, max_size=3), cut=st.booleans())
def test_damaged_index_gives_entries_or_an_error(place: int, letters: bytes, cut: bool) -> None:
    content = index_bytes([ENTRY])
    start = place % len(content)
    damaged = content[:start] + letters + (b"" if cut else content[start + len(letters) :])
    with suppress(ArtifactError):
        entries = parse_index(damaged, "x")
        assert not any({"", ".", ".."} & {*entry.file.split("/")} for entry in entries)


def test_index_is_written_as_it_is_read(folder: Path) -> None:
    content = (folder / INDEX).read_bytes()
    entries = parse_index(content, "x")
    assert index_bytes(entries) == content
    assert entries[0].accuracy == noise_set().accuracy
