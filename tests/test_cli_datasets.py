"""`data` and `data fetch`."""

from __future__ import annotations

from pathlib import Path

from commands import Here, done, is_refused, names, run


class TestData:
    def test_data(self, tmp_path: Path) -> None:
        printed = done(run("data", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "cache")))
        assert "fashion-mini\n" in printed
        assert "cifar10\n" in printed
        assert "not here: " in printed
        said = is_refused(run("data", "fetch", "cifar11", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "cache")))
        assert "'cifar11' cannot be fetched" in said
        assert names(tmp_path) == set()

    def test_what_is_here_already_is_not_fetched(self, here: Here) -> None:
        assert here("data", "fetch", "fashion-mini").startswith("fashion-mini is in ")
