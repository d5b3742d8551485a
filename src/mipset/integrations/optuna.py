"""Optuna: the size of a condensed set is the fidelity of a trial.

A setting that is bad on one image per class is given up there. Only good settings are tried on larger sizes. The
pruners of Optuna decide which: a trial reports its score at each size, and the size is the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mipset.errors import SettingError
from mipset.integrations import needing

if TYPE_CHECKING:
    from optuna import Trial


def rungs(ipc: int, reduction_factor: int = 2) -> list[int]:
    """The sizes of successive halving, the largest last: `ipc`, and one `reduction_factor`-th for each smaller one.

    A pruner with this `reduction_factor`, whose `min_resource` is the first size, compares trials at each of them.
    """
    if ipc < 1:
        raise SettingError(f"`ipc` is {ipc}: it must be at least 1. Give the images per class of the set.")
    if reduction_factor < 2:
        raise SettingError(f"`reduction_factor` is {reduction_factor}: it must be at least 2. Choose a larger value.")
    sizes = [ipc]
    while sizes[0] >= reduction_factor:
        sizes.insert(0, ipc // reduction_factor ** len(sizes))
    return sizes


def score_on_prefixes(trial: Trial, sizes: Sequence[int], score: Callable[[int], float]) -> float:
    """Score one size after the other, until the pruner of the study gives the trial up. Returns the last score.

    `score(size)` trains on the prefix of this size. The last size is never pruned, because its work is done: the
    trials that reach it are complete, and the best of them is the result of the study.
    """
    with needing("optuna", "optuna", "score_on_prefixes()"):
        from optuna import TrialPruned
    if not sizes or sizes[0] < 1 or any(small >= large for small, large in pairwise(sizes)):
        raise SettingError(f"`sizes` is {list(sizes)}: sizes must grow, from at least 1 on. Use rungs() to make them.")
    for size in sizes[:-1]:
        trial.report(score(size), step=size)
        if trial.should_prune():
            raise TrialPruned(f"given up at size {size} of {sizes[-1]}")
    value = score(sizes[-1])
    trial.report(value, step=sizes[-1])
    return value
