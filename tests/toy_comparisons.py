"""Comparisons of toy size, for the tests of experiments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mipset.data import Dataset
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import EvaluationPlan, Grid
from mipset.experiments.results import Result
from mipset.experiments.scheduling import run_missing
from mipset.experiments.store import Store
from mipset.settings.methods import parse_methods
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

FAST = Protocol("fast", epochs=6, rate=0.2)
PLAN_FIELDS = ("sizes", "protocol", "networks", "architectures", "seed")

Reported = tuple[str, float, float]  # stage, done, total


def toy_comparison(
    folder: Path, data: Dataset, recipe: Recipe, names: str = "baseline-c,mdc", **changes: Any
) -> Comparison:
    """A comparison in `folder`/out. `changes` are fields of the plan or of the grid."""
    methods = parse_methods(names)
    settings = {
        name: value
        for name, value in asdict(recipe).items()
        if name not in ("policy", "prefix_weights", "steps", "seed")
        and any(
            method.reads(name) and recipe.replace(policy=method.settings["policy"]).reads(name) for method in methods
        )
    }
    plan: dict[str, Any] = {"sizes": [1, 2, 3], "protocol": FAST, "networks": 2}
    plan |= {name: changes.pop(name) for name in PLAN_FIELDS if name in changes}
    fields: dict[str, Any] = {"seeds": [0], "changes": settings, **changes}
    return Comparison(Grid("demo", data, methods, plan=EvaluationPlan(**plan), **fields), Store(folder / "out"))


def finished(comparison: Comparison) -> list[Result]:
    """The results after all that is missing was run."""
    run_missing(comparison)
    return comparison.results()


def reports_of(comparison: Comparison) -> list[Reported]:
    """Run what is missing, and return all progress reports."""
    reports: list[Reported] = []
    run_missing(comparison, report=lambda *report: reports.append(report))
    return reports


class StoppedError(Exception):
    """Ends a run in the middle."""


def stop_when(comparison: Comparison, condition: Callable[[], bool]) -> None:
    """Run until a report finds the condition true."""

    def report(*_: object) -> None:
        if condition():
            raise StoppedError

    try:
        run_missing(comparison, report=report)
    except StoppedError:
        return
    raise AssertionError("the run ended before the condition was true")


def stop_after(comparison: Comparison, reports: int) -> None:
    """Run until so many reports were made."""
    counts = iter(range(1, reports + 1))
    stop_when(comparison, lambda: next(counts) == reports)


def sets_in(folder: Path) -> dict[str, bytes]:
    """The bytes of all sets, by their paths in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.safetensors")}


def scores_of(results: Sequence[Result]) -> dict[tuple[str, int, int, str], dict[int, Sequence[float]]]:
    """All accuracies, by method, seed, outer iteration and network."""
    return {(r.method, r.seed, r.outer, r.network): dict(r.scores) for r in results}
