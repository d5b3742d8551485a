"""The commands `data` and `data fetch`."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Here, done, names, run


def test_data_lists_present_and_missing_datasets(tmp_path: Path) -> None:
    printed = done(run("data", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "cache")))
    assert "fashion-mini\n" in printed
    assert "cifar10\n" in printed
    assert "not here: run `mipset data fetch cifar10`" in printed
    assert "\n    to use it: write folder: and the path of the folder, such as folder:pets\n" in printed
    assert names(tmp_path) == set()


def test_data_fetch_of_an_unknown_dataset_is_refused(
    tmp_path: Path, refusal: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "cache"))
    assert "'cifar11' cannot be fetched. Did you mean cifar10? Choose cifar10, " in refusal("data", "fetch", "cifar11")
    assert names(tmp_path) == set()


def test_data_fetch_of_a_present_dataset_prints_its_path(here: Here) -> None:
    assert here("data", "fetch", "fashion-mini").startswith("fashion-mini is in ")
