"""The benchmark that measures accuracy (benchmarks/quantisation.py), with a tiny dataset."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mipset import Evaluation, assemble, condense, pack, protocol
from mipset.data import Dataset
from mipset.settings import catalogue
from mipset.settings.protocol import PROTOCOLS
from mipset.settings.recipe import Recipe

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


class TestQuantisation:
    def test_pixels_on_the_256_levels_give_equal_accuracies(self, toy: Dataset, recipe: Recipe) -> None:
        """Other pixels are used without rounding: networks, batches and decoding are the same for both."""
        from quantisation import accuracy_pairs

        *_, last = condense(assemble(recipe, toy))
        shipped = Evaluation(pack(last, recipe, toy), toy, protocol("quick", epochs=2, least_steps=20))
        levels = torch.from_numpy(shipped.artifact.images.copy()).float() / 255
        equal = accuracy_pairs(shipped, levels, [1, 3], networks=2)
        assert list(equal) == [1, 3]
        assert all(unrounded == rounded for pairs in equal.values() for unrounded, rounded in pairs)
        other = accuracy_pairs(shipped, 1 - levels, [3], networks=2)
        assert [rounded for _, rounded in other[3]] == [rounded for _, rounded in equal[3]]
        assert [unrounded for unrounded, _ in other[3]] != [unrounded for unrounded, _ in equal[3]]

    def test_table_shows_the_differences_of_each_network(self) -> None:
        from quantisation import table

        lines = table({1: [(50.0, 49.0), (60.0, 61.0)], 10: [(70.0, 69.5)] * 2}).splitlines()
        assert [re.split(r" {2,}", line) for line in lines] == [
            ["images per class", "1", "10"],
            ["float32", "55.00 ±7.07", "70.00 ±0.00"],
            ["uint8", "55.00 ±8.49", "69.50 ±0.00"],
            ["float32 - uint8", "+0.00 ±1.41", "+0.50 ±0.00"],
        ]

    @pytest.mark.usefixtures("kernels")
    @pytest.mark.slow
    def test_command_prints_one_column_for_each_size(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from quantisation import main

        small = catalogue.RECIPES["demo"].recipe.replace(
            ipc=2, outer=1, inner=1, width=4, real_batch=8, train_images=64
        )
        monkeypatch.setitem(catalogue.RECIPES, "demo", replace(catalogue.RECIPES["demo"], recipe=small))
        monkeypatch.setitem(PROTOCOLS, "quick", replace(PROTOCOLS["quick"], least_steps=1))
        main(["demo", "--networks", "2", "--epochs", "1"])
        first, titles, *rows = capsys.readouterr().out.splitlines()
        assert first == (
            "fashion-mini, recipe demo, policy every-prefix; protocol quick, 1 epochs, at least 1 steps; 2 networks"
        )
        assert titles.split() == ["images", "per", "class", "1", "2"]
        assert [row.partition("  ")[0] for row in rows] == ["float32", "uint8", "float32 - uint8"]
