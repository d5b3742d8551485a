"""Compiling the C++ kernels, and what happens on a machine where that is not possible."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mipset.errors import NoCompilerError
from mipset.nn.engines import native
from mipset.nn.native import Kernels, library


def fake_compiler(folder: Path, script: str) -> str:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


class TestCompiling:
    @pytest.fixture(autouse=True)
    def elsewhere(self, kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))

    def test_kernels_are_compiled_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(
            "CXX",
            fake_compiler(
                tmp_path, f'echo "$@" >> {tmp_path}/calls; case "$1" in --version) echo 1;; *) c++ "$@";; esac'
            ),
        )
        first = library()
        assert library() == first
        calls = (tmp_path / "calls").read_text().splitlines()
        assert [call == "--version" for call in calls] == [True, False, True]
        assert [path.name for path in first.parent.iterdir()] == [first.name]  # no temporary file is left

    def test_damaged_library_is_compiled_again(self) -> None:
        process = subprocess.run(
            [sys.executable, "-c", "from mipset.nn.native import library; print(library())"],
            check=True,
            capture_output=True,
            text=True,
        )  # another process, because a process does not open a library twice
        path = Path(process.stdout.strip())
        whole = path.read_bytes()
        path.write_bytes(whole[:1000])
        assert library() == path
        assert len(path.read_bytes()) == len(whole)

    def test_compiler_command_may_have_arguments(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "env c++")
        assert library().is_file()

    def test_missing_compiler_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(NoCompilerError, match=r"no C\+\+ compiler \(no-such-compiler\) on this .*\. Install g\+\+"):
            native()

    def test_message_of_a_failing_compiler_is_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        complaint = 'echo "In file included from x" >&2; echo "error: unknown flag -fopenmp" >&2; exit 1'
        script = f'case "$1" in --version) echo 1;; *) {complaint};; esac'
        monkeypatch.setenv("CXX", fake_compiler(tmp_path, script))
        with pytest.raises(NoCompilerError, match="does not compile the kernels: error: unknown flag -fopenmp"):
            native()
        assert not list((tmp_path / "home" / "kernels").iterdir())

    def test_unwritable_cache_folder_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "home").write_text("a file in the way")
        with pytest.raises(NoCompilerError, match="Set MIPSET_HOME to another folder"):
            native()

    def test_every_compiler_has_its_own_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        names = []
        for version in ("1", "2"):
            script = f'case "$1" in --version) echo {version};; *) c++ "$@";; esac'
            monkeypatch.setenv("CXX", fake_compiler(tmp_path, script))
            names.append(library().name)
        assert names[0] != names[1]


class TestSafeFolder:
    """A library is code, and its name can be computed: no other user may be able to plant one."""

    @pytest.fixture(autouse=True)
    def path(self, kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """The library in a cache folder of its own. The compiler copies it, which is fast."""
        copy = f'for word; do [ "$last" = -o ] && cp {kernels._library._name} "$word"; last="$word"; done; true'
        script = f'case "$1" in --version) echo 1;; *) {copy};; esac'
        monkeypatch.setenv("CXX", fake_compiler(tmp_path, script))
        monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
        return library()

    @pytest.mark.parametrize("changed", ["home", "home/kernels"])
    def test_folder_that_others_can_change_is_refused(self, tmp_path: Path, path: Path, changed: str) -> None:
        (tmp_path / changed).chmod(0o777)
        with pytest.raises(NoCompilerError, match=rf"other users can change .*{changed}\. Set MIPSET_HOME to a folder"):
            library()
        (tmp_path / changed).chmod(0o755)
        assert library() == path

    def test_folder_with_the_sticky_bit_is_safe_above_the_kernels_only(self, tmp_path: Path, path: Path) -> None:
        (tmp_path / "home").chmod(0o1777)
        assert library() == path
        path.parent.chmod(0o1777)
        with pytest.raises(NoCompilerError, match="other users can change"):
            library()

    def test_library_that_others_can_write_is_compiled_again(self, path: Path) -> None:
        path.chmod(0o777)
        before = path.stat().st_ino
        assert library() == path
        assert path.stat().st_ino != before
        assert path.stat().st_mode & 0o777 == 0o700

    @pytest.mark.skipif(sys.platform == "win32" or os.getuid() != 0, reason="only root can give files away")
    def test_folder_and_library_of_another_user_are_not_used(self, path: Path) -> None:
        os.chown(path, 12345, 12345)
        before = path.stat().st_ino
        assert library().stat().st_ino != before
        os.chown(path.parent, 12345, 12345)
        with pytest.raises(NoCompilerError, match="other users can change"):
            library()
