"""The rate behind the times that `mipset recipes` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from mipset.condensing import rates
from mipset.condensing.rates import Job, seconds_of
from mipset.settings.recipe import Recipe

JOB = Job(Recipe(ipc=1, width=4, depth=2, outer=2, inner=2), (3, 8, 8), 2, 100)


def test_times_are_counts_over_the_rate_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    monkeypatch.setattr(rates, "measured_rate", lambda: 1e6)
    told: list[tuple[float, float]] = []
    first = seconds_of({"a": JOB}, lambda _, done, total: told.append((done, total)))
    seconds, rate = first
    assert (list(seconds), rate) == (["a"], 1e6)
    assert seconds["a"] == pytest.approx(JOB.flops / 1e6)
    assert told == [(0, 1), (1, 1)]
    monkeypatch.setattr(rates, "measured_rate", lambda: 1e9)
    assert seconds_of({"a": JOB}) == first, "the next call measures nothing"
