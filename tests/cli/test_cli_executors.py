"""`--executor`, and several commands in one folder: real workers of dask, jobs of submitit, real commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, in_new_session
from mipset.io import executors
from mipset.io.executors import Place

GRID = (*TINY, *BRIEF[:-2], "--methods", "baseline-c,random,herding", "--sizes", "1-2")
WAIT = 120  # seconds, at most, for another process

# Notes who computes what. `slow` lets a cell last until both commands run.
LOGGING = """
import os, sys, time
from pathlib import Path
from mipset.experiments.run import Runner
evaluate = Runner._evaluate
def evaluate_and_note(self, cell, *rest):
    with open("log", "a") as log:
        log.write(f"{os.getpid()} {cell}\\n")
    {more}
    evaluate(self, cell, *rest)
Runner._evaluate = evaluate_and_note
"""
WORKER = """
from distributed.cli.dask_worker import main
main(sys.argv[1:], standalone_mode=False)
"""
COMMAND = """
from mipset import cli
cli.main(sys.argv[1:])
"""


def driver(then: str, more: str = "pass") -> str:
    return LOGGING.replace("{more}", more) + then


def until(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    """Wait for something that other processes do."""
    deadline = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.05)


def started(code: str, *arguments: object, cwd: Path, to: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A process of Python code."""
    return in_new_session([sys.executable, "-c", code, *arguments], cwd, to)


def log(folder: Path) -> list[list[str]]:
    """Who computed what: the process and the cell."""
    path = folder / "log"
    return [line.split(" ", 1) for line in path.read_text().splitlines()] if path.exists() else []


def same_results(one: Path, other: Path) -> None:
    """All sets are equal, byte for byte, and so are all accuracies, passes and bytes."""
    sets = [
        {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.safetensors")} for folder in (one, other)
    ]
    assert sets[0] == sets[1]
    results = []
    for folder in (one, other):
        lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
        measured = {"seconds", "machine", "sha256"}
        results.append({line["cell"]: {k: v for k, v in line.items() if k not in measured} for line in lines})
    assert results[0] == results[1]
    assert not list(other.rglob("*.claim.*"))
    assert not list(other.rglob("*.work"))


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real dask scheduler."""
    folder = tmp_path_factory.mktemp("scheduler")
    processes: list[subprocess.Popen[str]] = []
    code = "import sys; from distributed.cli.dask_scheduler import main; main(sys.argv[1:], standalone_mode=False)"
    flags = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", "address.json")
    process = started(code, *flags, cwd=folder, to=processes)
    try:
        until((folder / "address.json").exists, process)
        until(lambda: bool((folder / "address.json").read_text()), process)
        yield json.loads((folder / "address.json").read_text())["address"]
    finally:
        process.kill()
        process.communicate()


def start_worker(scheduler: str, code: str, cwd: Path, to: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    return started(code, scheduler, "--no-nanny", "--nthreads", 1, "--no-dashboard", cwd=cwd, to=to)


class TestDask:
    def test_worker_that_is_killed_in_the_middle_of_a_cell_costs_nothing(
        self, here: Here, tmp_path: Path, pets: Path, scheduler: str, processes: list[subprocess.Popen[str]]
    ) -> None:
        """Two workers, of which one stops in its first cell, before the evaluation, and is killed there."""
        command = ("compare", f"npz:{pets}", *GRID)
        here(*command, "--out", tmp_path / "local", "--workers", 1)
        doomed = start_worker(scheduler, driver(WORKER, "time.sleep(1000)"), tmp_path, processes)
        flags = (*command, "--out", "shared", "--executor", f"dask:{scheduler}")
        coordinator = started(f"import sys\n{COMMAND}", *flags, cwd=tmp_path, to=processes)
        until(lambda: str(doomed.pid) in {pid for pid, _ in log(tmp_path)}, coordinator)
        other = start_worker(scheduler, driver(WORKER), tmp_path, processes)
        until(lambda: str(other.pid) in {pid for pid, _ in log(tmp_path)}, coordinator)
        doomed.kill()
        doomed.wait()
        table, messages = coordinator.communicate(timeout=WAIT)
        assert coordinator.returncode == 0, messages
        assert [line.split()[0] for line in table.splitlines()[2:5]] == ["baseline-c", "random", "herding"]
        same_results(tmp_path / "local", tmp_path / "shared")
        begun = log(tmp_path)
        (lost,) = [cell for pid, cell in begun if pid == str(doomed.pid)]
        assert sorted(cell for pid, cell in begun if pid == str(other.pid)) == [
            "baseline-c, seed 0",
            "herding, seed 0",
            "random, seed 0",
        ], f"the other worker also computed {lost}"
        set_file = tmp_path / "shared" / first_file(tmp_path / "shared")
        evaluate = ("evaluate", set_file, "--data", f"npz:{pets}", *BRIEF[:-2])
        table = here(*evaluate, "--workers", 1)
        assert here(*evaluate, "--executor", f"dask:{scheduler}").splitlines()[1:] == table.splitlines()[1:]

    def test_address_without_a_scheduler_is_refused(
        self, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(executors, "CONNECT_SECONDS", 0.3)
        message = refusal("compare", f"npz:{pets}", *GRID, "--out", tmp_path / "x", "--executor", "dask:127.0.0.1:1")
        assert "--executor dask:127.0.0.1:1: there is no dask scheduler at 127.0.0.1:1. Start one with `dask" in message


def first_file(folder: Path) -> str:
    return str(json.loads((folder / "results.jsonl").read_text().splitlines()[0])["files"][0])


class TestSubmitit:
    def test_jobs_of_this_machine_give_the_same_table(self, here: Here, tmp_path: Path, pets: Path) -> None:
        command = ("compare", f"npz:{pets}", *GRID, "--methods", "baseline-c,random")
        here(*command, "--out", tmp_path / "local", "--workers", 1)
        table = here(*command, "--out", tmp_path / "jobs", "--executor", "submitit:local")
        assert [line.split()[0] for line in table.splitlines()[2:4]] == ["baseline-c", "random"]
        same_results(tmp_path / "local", tmp_path / "jobs")
        assert not (tmp_path / "jobs" / "jobs").exists(), "logs are kept only if a job failed"


class TestSeveralCommands:
    def test_two_commands_compute_each_cell_once(
        self, tmp_path: Path, pets: Path, processes: list[subprocess.Popen[str]]
    ) -> None:
        """Each waits in its first cell until both have begun one. The second one also has a cell of its own."""
        both = "while len(set(open('log').read().split('\\n'))) < 3: time.sleep(0.02)"
        code = driver(COMMAND, both)
        command = ("compare", f"npz:{pets}", *GRID, "--workers", 1, "--out", "shared")
        commands = [started(code, *command, cwd=tmp_path, to=processes) for _ in range(2)]
        for process in commands:
            table, messages = process.communicate(timeout=WAIT)
            assert process.returncode == 0, messages
            assert [line.split()[0] for line in table.splitlines()[2:5]] == ["baseline-c", "random", "herding"]
        computed = log(tmp_path)
        assert sorted(cell for _, cell in computed) == ["baseline-c, seed 0", "herding, seed 0", "random, seed 0"]
        assert {pid for pid, _ in computed} == {str(process.pid) for process in commands}
        assert len((tmp_path / "shared" / "results.jsonl").read_text().splitlines()) == 3
        assert not list((tmp_path / "shared").rglob("*.claim.*"))


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("dask", "--executor is 'dask': the address of the scheduler is missing. Start one with `dask scheduler`"),
            ("dask:", "--executor is 'dask:': the address of the scheduler is missing. Start one with `dask schedule"),
            ("dusk", "--executor is 'dusk'. Did you mean dask:? Choose processes, dask:ADDRESS, slurm, slurm:SETTING"),
            ("proceses", "--executor is 'proceses'. Did you mean processes? Choose processes, dask:ADDRESS"),
            ("slurm:fast", "--executor is 'slurm:fast': 'fast' is no setting. Write settings as in slurm:partition="),
            ("slurm:partitio=x", "'partitio=x' is no setting. Did you mean partition? Write settings as in"),
            ("slurm:time=1h", "--executor is 'slurm:time=1h': time must be a whole number above 0. Change it."),
            ("slurm", "--executor is slurm, but this machine cannot submit jobs to Slurm: there is no srun. Run this"),
        ],
    )
    def test_wrong_executor_is_refused(
        self, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
    ) -> None:
        monkeypatch.setenv("PATH", "/nowhere")  # without srun
        assert message in refusal("compare", f"npz:{pets}", *GRID, "--out", tmp_path / "x", "--executor", name)

    def test_workers_of_dask_start_no_processes(self, refusal: Here, condensed: Path) -> None:
        message = refusal("evaluate", condensed, "--executor", "dask:tcp://127.0.0.1:1", "--workers", 2)
        assert "--workers is 2, but a worker of dask starts no processes. Leave out --workers" in message

    @pytest.mark.parametrize(("name", "package"), [("dask:x", "distributed"), ("slurm", "submitit")])
    def test_missing_library_is_named(
        self, refusal: Here, condensed: Path, monkeypatch: pytest.MonkeyPatch, name: str, package: str
    ) -> None:
        monkeypatch.setattr("mipset.io.executors.find_spec", lambda _: None)
        message = refusal("evaluate", condensed, "--executor", name)
        assert f"needs {package}, which is not installed: run pip install " in message
        assert message.endswith(f'[{name.partition(":")[0]}]".\n')


def test_slurm_settings_are_those_of_submitit() -> None:
    place = Place.named("slurm:partition=cpu,time=60,cpus=4")
    assert (place.kind, place.settings, place.threads) == ("slurm", {"partition": "cpu", "time": 60, "cpus": 4}, 4)
    assert Place.named("submitit:local").threads == 1


@pytest.mark.slow
def test_interrupted_command_cancels_what_is_queued(
    here: Here, tmp_path: Path, pets: Path, processes: list[subprocess.Popen[str]]
) -> None:
    """Ctrl-C while one job runs and others wait: nothing goes on, and the same command continues."""
    code = driver("executors.os.cpu_count = lambda: 1\n" + COMMAND)  # one job at once
    code = f"import sys\nfrom mipset.io import executors\n{code}"
    command = ("compare", f"npz:{pets}", *GRID, "--out", "x", "--executor", "submitit:local")
    process = started(code, *command, cwd=tmp_path, to=processes)
    until(lambda: any((tmp_path / "x").rglob("*.claim.1")), process)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert " of 3 cells finished: the same command continues.\n" in messages.splitlines(keepends=True)[-1]
    assert "Traceback" not in messages
    assert not list((tmp_path / "x").glob("*.work"))
    here(*command[:-4], "--workers", 1, "--out", tmp_path / "x")
    assert len((tmp_path / "x" / "results.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
def test_interrupted_command_ends_the_jobs_that_run(
    tmp_path: Path, pets: Path, processes: list[subprocess.Popen[str]]
) -> None:
    """Ctrl-C while jobs condense, which would take hours. The jobs are in the process group of the command."""
    command = ("compare", f"npz:{pets}", *GRID, "--outer", 10**6, "--out", "x", "--executor", "submitit:local")
    process = started(f"import sys\n{COMMAND}", *command, cwd=tmp_path, to=processes)
    until(lambda: any((tmp_path / "x").rglob("*.claim.1")), process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
