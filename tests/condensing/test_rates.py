"""The rate behind the times that `mipset recipes` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mipset.condensing import rates
from mipset.condensing.rates import Job, measured_rate, seconds_of
from mipset.settings.recipe import Recipe

JOB = Job(Recipe(ipc=1, width=4, depth=2, outer=2, inner=2), (3, 8, 8), 2, 100)


def test_rate_is_measured_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time of several threads grows while they wait for cores that are busy."""
    used = []

    def timed(*_: object) -> tuple[float, float]:
        used.append(torch.get_num_threads())
        return 1.0, 1.0

    monkeypatch.setattr(rates, "timed", timed)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert measured_rate() > 0
        assert (used, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(before)


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
