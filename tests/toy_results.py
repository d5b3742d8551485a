"""Results for the tests of summaries and reports."""

from __future__ import annotations

from dataclasses import replace

from mipset.experiments.results import Result


def result(
    method: str = "baseline-c", seed: int = 0, scores: dict[int, list[float]] | None = None, **changes: object
) -> Result:
    base = Result(
        cell=f"{method}-{seed}",
        table="t",
        method=method,
        seed=seed,
        outer=10,
        final=True,
        network="convnet-3, width 64",
        protocol="quick, 16 epochs",
        scores=scores or {1: [10.0, 20.0], 2: [30.0, 50.0]},
        condensations=1,
        images=20,
        bytes=2000,
        seconds=60.0,
        forward=100,
        backward=150,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


# Two methods, one of them with two seeds.
FINAL = (
    result("baseline-c", scores={1: [20.0, 22.0], 10: [40.0, 40.0]}),
    result("mdc", scores={1: [30.0, 32.0], 10: [40.0, 42.0]}),
    result("mdc", seed=1, scores={1: [32.0, 34.0], 10: [42.0, 44.0]}),
)

# Two methods, one of them evaluated during its run.
WITH_MOMENTS = (
    result("baseline-c", scores={1: [20.0]}, seconds=100.0),
    result("mdc", scores={1: [15.0]}, outer=2, final=False, seconds=20.0),
    result("mdc", scores={1: [22.0]}, outer=5, final=False, seconds=50.0),
    result("mdc", scores={1: [30.0]}, seconds=110.0),
)
