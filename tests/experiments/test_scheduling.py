"""Scheduling: any executor gives the same results; lost workers; several commands in one folder."""

from __future__ import annotations

import subprocess
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mipset.data import Dataset
from mipset.errors import LostWorkerError
from mipset.experiments import scheduling
from mipset.experiments.run import Machine
from mipset.experiments.scheduling import Piece, run_missing
from mipset.io.executors import ThisProcess
from mipset.settings.recipe import Recipe
from toy_comparisons import Reported, finished, scores_of, sets_in, toy_comparison

CLAIMING = """
import sys, time
from pathlib import Path
from mipset.io.claims import claimed
with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(100)
"""


class Losing(ThisProcess):
    """An executor whose workers end in the first piece, so many times. It remembers what it was given."""

    def __init__(self, losses: int) -> None:
        self.losses, self.given = losses, list[Piece]()

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        self.given.append(arguments[-1])
        if self.given[-1] == self.given[0] and self.given.count(self.given[0]) <= self.losses:
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("killed"))
            return future
        return super().submit(function, *arguments, **named)


def test_any_executor_gives_the_same_results(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    """Of three cells, two share a condensation, which is run once."""
    names = "baseline-c,svd-truncate,random"
    expected = finished(toy_comparison(tmp_path / "whole", toy, recipe, names, networks=1, sizes=[3]))
    comparison = toy_comparison(tmp_path / "x", toy, recipe, names, networks=1, sizes=[3])
    reports: list[Reported] = []
    with ThreadPoolExecutor(3) as executor:
        run_missing(comparison, Machine(threads=1), lambda *report: reports.append(report), executor)
    assert scores_of(comparison.results()) == scores_of(expected)
    assert sets_in(tmp_path / "x") == sets_in(tmp_path / "whole")
    assert len(comparison.store.results()) == 3
    assert reports[0][0] == "at workers: baseline-c, seed 0; random, seed 0"
    assert reports[-1][0].endswith(": finished")
    assert reports[-1][1] == pytest.approx(reports[-1][2])
    run_missing(comparison, executor=Losing(9))  # nothing is missing


@pytest.mark.parametrize("losses", [2, 3])
def test_lost_cell_is_run_again_a_limited_number_of_times(
    tmp_path: Path, toy: Dataset, recipe: Recipe, losses: int
) -> None:
    comparison = toy_comparison(tmp_path, toy, recipe, "random,herding", networks=1, sizes=[1])
    executor = Losing(losses)
    if losses == 2:
        run_missing(comparison, executor=executor)
        assert len(comparison.results()) == 2
    else:
        with pytest.raises(LostWorkerError, match=r"^random, seed 0: Its worker ended .* 3 of 3 times"):
            run_missing(comparison, executor=executor)
        assert [result.method for result in comparison.results()] == ["herding"]
    assert executor.given.count(executor.given[0]) == 3


def test_workers_get_single_condensations(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    """Cells share them, and one that needs the result of another one is given out after it."""
    names, changes = "baseline-c,baseline-a,recondense", {"networks": 1, "sizes": [1, 3]}
    expected = finished(toy_comparison(tmp_path / "whole", toy, recipe, names, **changes))
    comparison = toy_comparison(tmp_path / "x", toy, recipe, names, **changes)
    executor = Losing(0)
    run_missing(comparison, Machine(threads=1), executor=executor)
    assert scores_of(comparison.results()) == scores_of(expected)
    assert sets_in(tmp_path / "x") == sets_in(tmp_path / "whole")
    baseline_c, baseline_a, recondense = comparison.grid.cells
    whole, alone, again = baseline_c.condensations[0], baseline_a.condensations[0], recondense.condensations[1]
    assert executor.given[:2] == [Piece(0, whole), Piece(1, alone)]
    assert set(executor.given[2:]) == {Piece(2, again), Piece(0), Piece(1), Piece(2)}
    assert len(executor.given) == 6


def test_all_cells_that_need_a_lost_condensation_are_named(tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
    names = "baseline-c,svd-truncate,random"
    comparison = toy_comparison(tmp_path, toy, recipe, names, networks=1, sizes=[3])
    with pytest.raises(LostWorkerError, match=r"^baseline-c, seed 0: Its worker .* svd-truncate, seed 0: Its worker "):
        run_missing(comparison, executor=Losing(9))
    assert [result.method for result in comparison.results()] == ["random"]


@pytest.mark.parametrize("part", ["cell", "condensation"])
def test_command_waits_for_another_one_and_takes_over_what_it_leaves(
    tmp_path: Path,
    toy: Dataset,
    recipe: Recipe,
    processes: list[subprocess.Popen[str]],
    monkeypatch: pytest.MonkeyPatch,
    part: str,
) -> None:
    """A real process has claimed the second cell or its condensation. It is killed while this one waits for it."""
    monkeypatch.setattr(scheduling, "POLL_SECONDS", 0.05)
    comparison = toy_comparison(tmp_path, toy, recipe, "random,baseline-c,herding", networks=1, sizes=[1])
    cell = comparison.grid.cells[1]
    path = comparison.claim(cell) if part == "cell" else comparison.run_folder(cell.condensations[0]).claim
    other = start_claiming(path, tmp_path, processes)
    stages: list[str] = []

    def report(stage: str, *_: float) -> None:
        stages.append(stage)
        if stage.startswith("waiting") and other.poll() is None:
            assert {result.method for result in comparison.results()} == {"random", "herding"}, "first what is free"
            other.kill()
            other.wait()

    run_missing(comparison, report=report)
    waiting = next(stage for stage in stages if stage.startswith("waiting"))
    assert waiting.startswith(f"waiting for baseline-c, seed 0: process {other.pid} on ")
    assert len(comparison.results()) == 3
    assert not list(tmp_path.rglob("*claim.*"))


def start_claiming(path: Path, cwd: Path, processes: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    from commands import start

    (cwd / "here").mkdir()
    return start(CLAIMING, path, cwd=cwd / "here", until="claimed", processes=processes)


def test_results_of_another_command_are_used(
    tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command finishes the cell while this one waits: its work reduces the total."""
    monkeypatch.setattr(scheduling, "POLL_SECONDS", 0.05)
    comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c", networks=1, sizes=[1])
    reports: list[Reported] = []

    def wait_for_it(*report: Any) -> None:
        reports.append(report)
        if len(reports) == 1:
            file.unlink()  # the other one has finished
            finished(toy_comparison(tmp_path, toy, recipe, "baseline-c", networks=1, sizes=[1]))

    file = comparison.claim(comparison.grid.cells[0]).with_suffix(".claim.1")
    file.parent.mkdir(parents=True)
    file.touch()
    run_missing(comparison, report=wait_for_it)
    assert [stage.partition(":")[0] for stage, _, _ in reports] == [
        "waiting for baseline-c, seed 0",
        "baseline-c, seed 0",
    ]
    assert reports[-1][1:] == pytest.approx((0, 0), abs=1)
    assert len(comparison.store.results()) == 1
    assert not list(file.parent.glob("*.claim.*"))
