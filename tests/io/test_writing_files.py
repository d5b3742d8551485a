"""Writing files: what is refused before any work is done, and what killed processes leave."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import BinaryIO

import pytest

import mipset
from mipset.errors import ArtifactError
from mipset.io import files
from mipset.io.files import check_space, refuse_to_overwrite, write_folder, write_whole
from mipset.io.locks import only_writer


@pytest.mark.skipif(sys.platform == "win32", reason="has no modes")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    """Also while it is written: nobody else may read the new content."""
    path, modes = tmp_path / "private", []
    path.write_bytes(b"old")
    path.chmod(mode)

    def write(stream: BinaryIO) -> None:
        modes.append(stat.S_IMODE(os.fstat(stream.fileno()).st_mode))
        stream.write(b"new")

    write_whole(path, write)
    assert path.read_bytes() == b"new"
    assert [*modes, stat.S_IMODE(path.stat().st_mode)] == [mode, mode]


def test_existing_file_is_overwritten_only_with_force(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.touch()
    refuse_to_overwrite(path, force=True)
    with pytest.raises(ArtifactError, match=r"old exists already\. Choose another `out`, or set `force` to overwrite"):
        refuse_to_overwrite(path, force=False)
    with pytest.raises(ArtifactError) as caught:
        refuse_to_overwrite(path, force=False, argument="png")
    assert caught.value.settings == ("png", "force")


@pytest.mark.parametrize("force", [True, False])
def test_folder_is_never_overwritten(tmp_path: Path, force: bool) -> None:
    with pytest.raises(ArtifactError, match=r"is a folder\. Add a file name to it\.$"):
        refuse_to_overwrite(tmp_path, force)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"^There is no folder .*nowhere to write new into\. Make it first\.$"):
        refuse_to_overwrite(tmp_path / "nowhere" / "new", force=False)
    refuse_to_overwrite(tmp_path / "new", force=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_folder_without_permission_is_found_before_the_work(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ArtifactError, match=r"new cannot be written: Permission denied\. Choose another `out`\.$"):
        refuse_to_overwrite(tmp_path / "new", force=False)


@pytest.mark.parametrize(("name", "reason"), [("x" * 250, "File name too long"), ("a\0b", "embedded null byte")])
def test_impossible_name_is_found_before_the_work(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(ArtifactError, match=rf"cannot be written: {reason}\. Choose another `out`\.$"):
        refuse_to_overwrite(tmp_path / name, force=False)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_found_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 9_000, 1_000))
    check_space(tmp_path / "x", 1_000)
    with pytest.raises(ArtifactError, match=r"The disk of .*x has 1\.0 kB left, but writing it needs 1\.5 kB, with"):
        check_space(tmp_path / "x", 1_500)


def killed(code: str, path: Path) -> None:
    """Run code in a process that kills itself."""
    begin = (
        "import os, shutil, signal, sys; from pathlib import Path; from mipset.io import files\n"
        "path = Path(sys.argv[1])\n"
        "def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])}
    ended = subprocess.run([sys.executable, "-c", begin + code, str(path)], env=environment, check=False)
    assert ended.returncode == -signal.SIGKILL


class TestKilled:
    def test_part_of_a_killed_process_is_removed_by_the_next_write(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"old")
        others = [".x.part", ".y.00112233.part", ".x.notours!.part", ".xx.00112233.part"]
        for name in others:
            (tmp_path / name).touch()
        killed("files.write_whole(path, die)", path)
        assert len(list(tmp_path.iterdir())) == 2 + len(others)
        assert path.read_bytes() == b"old"
        write_whole(path, lambda stream: stream.write(b"new"))
        assert {entry.name for entry in tmp_path.iterdir()} == {"x", *others}

    def test_part_of_a_living_process_is_not_removed(self, tmp_path: Path) -> None:
        path = tmp_path / "x"

        def write_twice(stream: BinaryIO) -> None:
            write_whole(path, lambda inner: inner.write(b"second"))
            stream.write(b"first")

        write_whole(path, write_twice)
        assert path.read_bytes() == b"first"

    @pytest.mark.skipif(sys.platform != "linux", reason="names are exchanged in one step on Linux only")
    def test_folder_is_there_whenever_its_writer_is_killed(self, tmp_path: Path) -> None:
        path = tmp_path / "folder"
        write_folder(path, [("a", b"old")])
        killed("shutil.rmtree = die; files.write_folder(path, [('a', b'new')])", path)  # right after the exchange
        assert (path / "a").read_bytes() == b"new"
        killed("files.exchange_names = die; files.write_folder(path, [('a', b'newer')])", path)  # right before it
        assert (path / "a").read_bytes() == b"new"
        write_folder(path, [("a", b"newest")])
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]

    def test_folder_is_restored_if_names_cannot_be_exchanged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "folder"
        write_folder(path, [("a", b"old")])
        between = (
            "rename = Path.rename\n"
            "Path.rename = lambda part, to: die() if part.suffix == '.part' else rename(part, to)\n"
            "files.exchange_names = lambda *_: False; files.write_folder(path, [('a', b'new')])"
        )
        killed(between, path)
        assert not path.exists()

        with pytest.raises(ZeroDivisionError):
            write_folder(path, (("a", bytes(1 // 0)) for _ in "x"))
        assert (path / "a").read_bytes() == b"old"
        monkeypatch.setattr(files, "exchange_names", lambda *_: False)
        write_folder(path, [("a", b"new")])
        assert (path / "a").read_bytes() == b"new"
        assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


WRITING = """
import sys
from pathlib import Path
from mipset.io.files import write_whole
for number in range(300):
    write_whole(Path(sys.argv[1]), lambda stream: stream.write(b"whole"))
"""


def test_processes_that_write_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    """None takes the new part of another one for abandoned, or minds that another one did."""
    environment = {**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])}
    command = [sys.executable, "-c", WRITING, str(tmp_path / "file")]
    writers = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(writer.communicate()[1], writer.returncode) for writer in writers] == [("", 0)] * 3
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("file", b"whole")]


def test_folder_is_synced_after_a_file_got_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[bool, bool]] = []
    monkeypatch.setattr(
        os, "fsync", lambda h: synced.append((stat.S_ISDIR(os.fstat(h).st_mode), (tmp_path / "x").exists()))
    )
    write_whole(tmp_path / "x", lambda stream: stream.write(b"x"))
    assert synced == [(False, False), (True, True)]


def test_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.touch(mode=0o600)
    write_whole(path, lambda stream: stream.write(b"x"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


class TestLock:
    def test_second_writer_is_refused_and_told_who_writes(self, tmp_path: Path) -> None:
        with (
            only_writer(tmp_path / "x"),
            pytest.raises(ArtifactError, match=rf"x is being written by process {os.getpid()} on .+, which began at 2"),
            only_writer(tmp_path / "x"),
        ):
            pass
        with only_writer(tmp_path / "x"), only_writer(tmp_path / "y"):
            pass
        assert list(tmp_path.iterdir()) == []

    def test_lock_of_a_dead_process_is_taken_over(self, tmp_path: Path) -> None:
        killed("from mipset.io.locks import only_writer\nwith only_writer(path): die()", tmp_path / "x")
        assert [entry.name for entry in tmp_path.iterdir()] == [".x.mipset-lock"]
        with only_writer(tmp_path / "x"):
            pass
        assert list(tmp_path.iterdir()) == []
