"""Claims: one process computes what several could compute."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from commands import SOURCE
from mipset.io import claims
from mipset.io.claims import HeldError, claimed, claimed_in_turn, holder_of
from mipset.io.locks import Holder

# Claims a path, says so, and dies or waits.
CLAIMING = """
import os, sys, time
from pathlib import Path
from mipset.io.claims import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    if sys.argv[2] == "die":
        os.kill(os.getpid(), 9)
    time.sleep(100)
"""


def claiming(path: Path, then: str) -> subprocess.Popen[str]:
    """A process that has claimed a path."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIMING, str(path), then],
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "claimed\n"
    return process


def files(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


def set_back(path: Path, seconds: float) -> None:
    """As if nobody had touched a file for some seconds."""
    then = path.stat().st_mtime - seconds
    os.utime(path, (then, then))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sets" / "x.claim"


@pytest.fixture
def elsewhere(path: Path) -> Holder:
    """A claim of a process on another machine."""
    path.parent.mkdir()
    holder = Holder(12, "node7", "2024-05-01 12:00:00", "another machine")
    path.with_name("x.claim.1").write_bytes(holder.to_bytes())
    return holder


class TestHolding:
    def test_second_process_is_told_who_has_it(self, path: Path, processes: list[subprocess.Popen[str]]) -> None:
        other = claiming(path, "wait")
        processes.append(other)
        with pytest.raises(HeldError) as held, claimed(path):
            pass
        assert held.value.holder.pid == other.pid
        assert str(held.value.holder).startswith(f"process {other.pid} on ")
        assert holder_of(path) == held.value.holder

    def test_fulfilled_claim_leaves_nothing(self, path: Path) -> None:
        with claimed(path):
            assert files(path) == ["x.claim.1"]
            assert holder_of(path) is not None
        assert files(path) == []
        assert holder_of(path) is None

    def test_claim_is_free_after_an_error(self, path: Path) -> None:
        with pytest.raises(KeyboardInterrupt), claimed(path):
            raise KeyboardInterrupt
        assert holder_of(path) is None
        with claimed(path):
            assert files(path) == ["x.claim.1", "x.claim.2"]
        assert files(path) == []

    def test_one_of_many_threads_gets_it(self, path: Path) -> None:
        outcomes: list[bool] = []
        start, ended = threading.Barrier(8), threading.Barrier(8)

        def compete() -> None:
            start.wait()
            try:
                with claimed(path):
                    ended.wait()  # nobody gives it up before all have tried
                    outcomes.append(True)
            except HeldError:
                outcomes.append(False)
                ended.wait()

        threads = [threading.Thread(target=compete) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False] * 7 + [True]

    def test_waiting_ones_take_turns(self, path: Path) -> None:
        inside: list[int] = []

        def add() -> None:
            with claimed_in_turn(path):
                inside.append(len(inside))
                time.sleep(0.01)
                assert len(inside) == inside[-1] + 1, "alone"

        threads = [threading.Thread(target=add) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert inside == [0, 1, 2, 3, 4]


class TestTakingOver:
    def test_killed_process_of_this_machine_loses_it_at_once(self, path: Path) -> None:
        dead = claiming(path, "die")
        dead.communicate(timeout=20)
        with claimed(path) as claim:
            assert claim.number == 2

    @pytest.mark.usefixtures("elsewhere")
    def test_process_of_another_machine_loses_it_after_a_minute(self, path: Path) -> None:
        file = path.with_name("x.claim.1")
        set_back(file, 50)
        with pytest.raises(HeldError, match="node7"), claimed(path):
            pass
        set_back(file, 11)
        with claimed(path) as claim:
            assert claim.number == 2
        assert files(path) == []

    def test_touched_claim_holds(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(claims, "BEAT_SECONDS", 0.02)
        with claimed(path):
            file = path.with_name("x.claim.1")
            set_back(file, 1000)
            old, deadline = file.stat().st_mtime, time.monotonic() + 5
            while file.stat().st_mtime == old and time.monotonic() < deadline:
                time.sleep(0.01)
            assert holder_of(path) is not None

    def test_process_that_was_taken_for_dead_is_told(self, path: Path) -> None:
        with claimed(path) as first:
            set_back(path.with_name("x.claim.1"), 1000)
            first.check()
            with claimed(path) as second:
                second.check()
                with pytest.raises(HeldError) as held:
                    first.check()
                assert held.value.holder.pid == os.getpid()

    def test_file_that_is_not_written_yet_holds(self, path: Path) -> None:
        path.parent.mkdir()
        path.with_name("x.claim.1").touch()
        with pytest.raises(HeldError, match="unknown"), claimed(path):
            pass
