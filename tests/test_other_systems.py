"""Windows and macOS: no name, call or signal that only Linux has. The real command runs without these things."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mipset
from commands import BRIEF, TINY, Here, names
from export_sets import HOSTILE, small_set
from mipset.cli import stopping
from mipset.errors import ArtifactError
from mipset.exchange.exports.names import folder_names
from mipset.exchange.exports.png import folder_content
from mipset.experiments.results import add_result
from mipset.file import run_log
from mipset.io import files, locks
from mipset.io.names import portable_name
from toy_results import result

RESERVED = {"CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(10))}


def valid_on_windows(name: str) -> bool:
    """By the rules of Microsoft's "Naming Files, Paths, and Namespaces", written without the code under test."""
    forbidden = set('<>:"/\\|?*') | set(map(chr, range(32)))
    return (
        bool(name)
        and not forbidden & set(name)
        and name[-1] not in ". "
        and name.split(".")[0].rstrip().upper() not in RESERVED
    )


TYPED = [*HOSTILE, "folder:pets", "nul", "com1.txt", "CON .x", "LPT9 ", "a.", "my_module:My"]


@given(st.one_of(st.sampled_from(TYPED), st.text()))
def test_names_made_from_what_a_user_types_are_valid_everywhere(text: str) -> None:
    made = [portable_name(text), portable_name(f"compare-{text}"), *folder_names([text, "x"])]
    assert all(valid_on_windows(name) for name in made), made
    if valid_on_windows(text) and "$" not in text:
        assert portable_name(text) == text


def test_files_of_an_export_are_valid_everywhere() -> None:
    paths = [path for path, _ in folder_content(small_set(1, tuple(HOSTILE), size=(2, 2)))]
    assert all(valid_on_windows(part) for path in paths for part in path.split("/"))
    assert len({path.lower() for path in paths}) == len(paths)  # also where capitals do not count


SYSTEMS = Path(__file__).with_name("other_systems.py")


def on_system(platform: str, *words: object, cwd: Path) -> str:
    """What commands print in a process that looks like one on another system."""
    done = subprocess.run(
        [sys.executable, str(SYSTEMS), platform, *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1]), "MIPSET_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("platform", ["win32", pytest.param("darwin", marks=pytest.mark.slow)])
def test_commands_run_without_what_only_linux_has(platform: str, tmp_path: Path, pets: Path) -> None:
    (tmp_path / "pets.npz").write_bytes(pets.read_bytes())
    condense = ("condense", "npz:pets.npz", "--out", "x.safetensors", *TINY)
    evaluate = ("evaluate", "x.safetensors", "--data", "npz:pets.npz", "--save", *BRIEF, "--sizes", "1")
    compare = ("compare", "npz:pets.npz", *TINY, *BRIEF, "--methods", "random", "--sizes", "1")
    rest = ("+", *evaluate, "+", *compare, "+", *compare) if platform == "win32" else ()
    printed = on_system(platform, *condense, *rest, cwd=tmp_path)
    assert mipset.read(tmp_path / "x.safetensors").ipc == 2
    if rest:
        assert len(mipset.read(tmp_path / "x.safetensors").accuracy) == 1
        assert "compare-npz-pets.npz: results.md" in printed
    made = {part for path in tmp_path.rglob("*") for part in path.relative_to(tmp_path).parts}
    assert all(map(valid_on_windows, made)), made
    assert not [name for name in made if re.search(r"\.(part|old|mipset-lock)$", name)]


def test_comparison_goes_on_in_a_folder_with_the_name_of_earlier_versions(
    here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets.npz").write_bytes(pets.read_bytes())
    command = ("compare", "npz:pets.npz", *TINY, *BRIEF, "--methods", "random", "--sizes", "1")
    printed = here(*command)
    assert "compare-npz-pets.npz: " in printed
    (tmp_path / "compare-npz-pets.npz").rename(tmp_path / "compare-npz:pets.npz")
    results = (tmp_path / "compare-npz:pets.npz" / "results.jsonl").read_bytes()
    assert "compare-npz:pets.npz: " in here(*command)
    assert names(tmp_path) == {"pets.npz", "compare-npz:pets.npz"}
    assert (tmp_path / "compare-npz:pets.npz" / "results.jsonl").read_bytes() == results  # nothing was run again


class TestWindows:
    @pytest.fixture(autouse=True)
    def windows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "platform", "win32")
        for name in ("pread", "pwrite"):
            monkeypatch.delattr(os, name)

    @pytest.mark.parametrize("name", ["a:b", "what?", "nul", "NUL.safetensors", "end."])
    def test_file_that_windows_cannot_name_is_refused_at_once(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(ArtifactError, match=r"is no name of a file on Windows\. Choose another `out`: "):
            files.refuse_to_overwrite(tmp_path / name, force=False)
        assert names(tmp_path) == set()

    def test_lock_file_is_removed_although_an_open_file_cannot_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unlink, close, is_open = Path.unlink, os.close, set[int]()

        def closing(handle: int) -> None:
            is_open.clear()
            close(handle)

        def removing(path: Path, missing_ok: bool = False) -> None:
            if is_open:
                raise PermissionError(13, "The process cannot access the file")
            unlink(path, missing_ok)

        with locks.only_writer(tmp_path / "x"):
            assert names(tmp_path) == {".x.mipset-lock"}
            handle = os.open(tmp_path / ".x.mipset-lock", os.O_RDONLY)
            assert f"process {os.getpid()} on " in str(locks.Holder.from_bytes(os.read(handle, 1000)))
            os.close(handle)
            is_open.add(1)
            monkeypatch.setattr(os, "close", closing)
            monkeypatch.setattr(Path, "unlink", removing)
        assert names(tmp_path) == set()

    def test_signal_during_the_import_of_torch_is_handled_later(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """os.kill would end the process on Windows."""
        monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("os.kill ends a process on Windows"))
        received: list[int] = []
        before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        try:
            stopping._send_to_itself(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, before)
        assert received == [signal.SIGTERM]


def test_files_that_grow_are_opened_without_changing_ends_of_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows writes \\r\\n for \\n, unless O_BINARY is given."""
    (tmp_path / "log").touch()
    used: list[int] = []
    open_file, binary = os.open, 1 << 29

    def recording(path: Path, flags: int, *mode: int) -> int:
        if Path(path).name in ("log", "results"):  # claims have no ends of lines
            used.append(flags)
        return open_file(path, flags & ~binary, *mode)

    monkeypatch.setattr(os, "open", recording)
    monkeypatch.setattr(run_log, "BINARY", binary)
    monkeypatch.setattr("mipset.experiments.results.BINARY", binary)
    run_log.add(tmp_path / "log", run_log.Entry(1, 0.5, (), (1,), (0,), 1.0, 1.0, None))
    for _ in range(2):
        add_result(tmp_path / "results", result())
    assert len(used) == 3
    assert all(flags & binary for flags in used)
    assert (tmp_path / "results").read_bytes().count(b"\n") == 2
