"""The size of a prefix as the fidelity of the real pruners of Optuna."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mipset.errors import MissingExtraError, SettingError
from mipset.integrations.optuna import rungs, score_on_prefixes

QUALITIES = (3.0, 1.0, 4.0, 2.0, 0.0, 5.0)  # of six settings, in the order in which they are tried


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    yield
    optuna.logging.set_verbosity(before)


def searched(
    pruner: optuna.pruners.BasePruner, sizes: list[int], qualities: Sequence[float] = QUALITIES
) -> tuple[optuna.Study, list[tuple[int, int]]]:
    """A study of these settings, and the (setting, size) that were scored, in order."""
    scored: list[tuple[int, int]] = []

    def objective(trial: optuna.Trial) -> float:
        def score(size: int) -> float:
            scored.append((trial.number, size))
            return qualities[int(trial.number)] + size / 100

        return score_on_prefixes(trial, sizes, score)

    study = optuna.create_study(direction="maximize", study_name="settings", pruner=pruner)
    study.optimize(objective, n_trials=len(qualities))
    return study, scored


def test_rungs_end_with_the_whole_set() -> None:
    assert rungs(10) == [1, 2, 5, 10]
    assert rungs(50) == [1, 3, 6, 12, 25, 50]
    assert rungs(10, reduction_factor=3) == [1, 3, 10]
    assert rungs(8, reduction_factor=3) == [2, 8]
    assert rungs(1) == [1]


@given(st.integers(1, 300), st.integers(2, 5))
def test_pruner_has_one_rung_for_each_size(ipc: int, factor: int) -> None:
    """Size k is where rung k of Optuna, at min_resource · factor^k, is reached, and before the next one."""
    sizes = rungs(ipc, factor)
    for k, size in enumerate(sizes):
        assert sizes[0] * factor**k <= size < sizes[0] * factor ** (k + 1)


def test_successive_halving_gives_bad_settings_up_on_small_sizes() -> None:
    study, scored = searched(optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2), rungs(10))
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "PRUNED", "COMPLETE", "PRUNED", "PRUNED", "COMPLETE"]
    assert [size for number, size in scored if number == 0] == [1, 2, 5, 10]
    assert [size for number, size in scored if number == 4] == [1]
    assert study.best_trial.number == 5
    assert study.best_value == pytest.approx(5.1)


def test_hyperband_gives_settings_up_and_finds_the_best() -> None:
    pruner = optuna.pruners.HyperbandPruner(min_resource=1, max_resource=10, reduction_factor=2)
    qualities = [7.0 * i % 24 for i in range(24)]
    study, scored = searched(pruner, rungs(10), qualities)
    assert 24 < len(scored) < 24 * 4
    assert study.best_value == pytest.approx(23.1)


def test_last_size_is_complete_even_if_others_were_better_there() -> None:
    """The work is done: a trial that reaches the whole set is a result, and its score is reported."""

    def objective(trial: optuna.Trial) -> float:
        return score_on_prefixes(trial, [1, 2], lambda size: float(trial.number if size == 1 else -trial.number))

    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    )
    study.optimize(objective, n_trials=3)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    assert study.trials[2].intermediate_values == {1: 2.0, 2: -2.0}


@pytest.mark.parametrize("sizes", [[], [2, 1], [1, 1], [0, 1]])
def test_sizes_that_do_not_grow_are_refused(sizes: list[int]) -> None:
    trial = optuna.create_study().ask()
    with pytest.raises(SettingError, match=r"`sizes` is \[.*\]: sizes must grow"):
        score_on_prefixes(trial, sizes, float)


@pytest.mark.parametrize(("ipc", "factor", "name"), [(0, 2, "ipc"), (10, 1, "reduction_factor")])
def test_rungs_that_do_not_exist_are_refused(ipc: int, factor: int, name: str) -> None:
    with pytest.raises(SettingError, match=f"`{name}` is .*: it must be at least"):
        rungs(ipc, factor)


def test_missing_optuna_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = optuna.create_study().ask()
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"needs optuna, which is not installed: run pip install .*\[optuna\]"):
        score_on_prefixes(trial, [1], float)
