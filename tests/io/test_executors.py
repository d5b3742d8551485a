"""Work on executors: lost workers, and values that workers read from a file."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mipset.errors import ArtifactError, LostWorkerError
from mipset.io import executors
from mipset.io.executors import Jobs, Place, ThisProcess, WorkerEndedError, sent


def result(jobs: Jobs[str]) -> Future[Any]:
    finished: list[tuple[str, Future[Any]]] = []
    while jobs:
        finished += jobs.finished()
    ((_, future),) = finished
    return future


class TestLostWorkers:
    @pytest.mark.parametrize("losses", [0, 1, 2])
    def test_work_is_done_again(self, losses: int) -> None:
        tries: list[int] = []

        def work() -> str:
            tries.append(1)
            if len(tries) <= losses:
                raise BrokenExecutor("killed")
            return "done"

        jobs: Jobs[str] = Jobs(ThisProcess())
        jobs.submit("x", work)
        assert result(jobs).result() == "done"
        assert len(tries) == losses + 1

    @pytest.mark.parametrize(("final", "tries"), [(False, 3), (True, 1)])
    def test_work_is_done_again_a_limited_number_of_times(self, final: bool, tries: int) -> None:
        begun: list[int] = []

        def work() -> None:
            begun.append(1)
            raise WorkerEndedError("its log is x", final)

        jobs: Jobs[str] = Jobs(ThisProcess())
        jobs.submit("x", work)
        with pytest.raises(LostWorkerError, match=rf"{tries} of 3 times, .* \(its log is x\)\. The same command tries"):
            result(jobs).result()
        assert len(begun) == tries

    def test_pool_that_is_broken_is_an_error(self) -> None:
        """A real process that ends at once."""
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            jobs: Jobs[str] = Jobs(pool)
            jobs.submit("x", os._exit, 1)
            with pytest.raises(LostWorkerError, match="2 of 3 times"):
                result(jobs).result()

    @pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither of the signals")
    @pytest.mark.parametrize("name", ["SIGUSR2", "SIGKILL"])  # the time limit of a job; too little memory
    def test_work_of_a_job_that_gets_a_signal_is_done_again(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
    ) -> None:
        """A job of submitit, whose handler of SIGUSR2 takes it for the end of a time limit of a minute."""
        monkeypatch.setattr(executors, "NO_LIMIT_MINUTES", 1)
        monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0)  # for the result of a job that has ended
        begun = tmp_path / "begun"

        def work() -> str:
            with begun.open("a") as file:
                file.write("x")
            if begun.read_text() == "x":
                os.kill(os.getpid(), getattr(signal, name))
                time.sleep(60)
            return "done"

        with Place("submitit").opened(tmp_path / "jobs") as executor:
            assert executor is not None
            jobs: Jobs[str] = Jobs(executor)
            jobs.submit("x", work)
            assert result(jobs).result() == "done"
        assert begun.read_text() == "xx"
        assert (tmp_path / "jobs").exists(), "the log of the lost job is kept"


class TestSentValues:
    def test_worker_reads_the_value_once(self, tmp_path: Path) -> None:
        with sent({"a": 1}, tmp_path) as work:
            (file,) = tmp_path.iterdir()
            again = pickle.loads(pickle.dumps(work))
            assert again.value == {"a": 1}
            assert again.value is work.value
        assert not file.exists()

    def test_folder_that_the_worker_does_not_see_is_named(self, tmp_path: Path) -> None:
        with sent(1, tmp_path) as work:
            work.path.unlink()
            with pytest.raises(ArtifactError, match=r"A worker cannot read .*: No such file .* disk that all machines"):
                _ = work.value

    def test_changed_file_is_refused(self, tmp_path: Path) -> None:
        with sent(2, tmp_path) as work:
            work.path.write_bytes(b"x")
            with pytest.raises(ArtifactError, match="is damaged: a worker read other bytes"):
                _ = work.value
