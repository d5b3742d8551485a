"""Grids: which results belong to a table, and which grids are refused before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.experiments.comparison import Comparison
from mipset.experiments.results import Result
from mipset.settings.catalogue import RECIPES
from mipset.settings.recipe import Recipe
from toy_comparisons import toy_comparison
from toy_results import result


def store_results(comparison: Comparison) -> list[Result]:
    """Store a result for each target, as a run would."""
    grid, results = comparison.grid, []
    for cell in grid.cells:
        for target in cell.targets:
            key = grid.result_key(cell, target)
            recipe = cell.recipe.identity
            results.append(
                result(
                    cell.method.name,
                    cell.recipe.seed,
                    cell=key,
                    table=grid.table_key,
                    recipe=recipe,
                    outer=target.outer,
                )
            )
    comparison.store.folder.mkdir(parents=True, exist_ok=True)
    for stored in results:
        comparison.store.add_result(stored)
    return results


class TestTable:
    def test_stored_results_are_not_missing(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        comparison = toy_comparison(tmp_path, toy, recipe)
        assert [len(comparison.missing(cell)) for cell in comparison.grid.cells] == [1, 1]
        stored = store_results(comparison)
        assert comparison.results() == stored
        assert not any(comparison.missing(cell) for cell in comparison.grid.cells)
        assert comparison.missing_runs(comparison.grid.cells) == []

    def test_methods_of_the_grid_come_first(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        store_results(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        store_results(toy_comparison(tmp_path, toy, recipe, "mdc", seeds=[0, 1]))
        results = toy_comparison(tmp_path, toy, recipe, "mdc").results()
        assert [(r.method, r.seed) for r in results] == [("mdc", 0), ("mdc", 1), ("baseline-c", 0)]

    @pytest.mark.parametrize("tuned", [{}, {"baseline-c": {"period": 9}}])
    def test_changed_named_recipe_is_another_table(
        self,
        tmp_path: Path,
        toy: Dataset,
        recipe: Recipe,
        monkeypatch: pytest.MonkeyPatch,
        tuned: dict[str, dict[str, int]],
    ) -> None:
        store_results(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        changed = replace(RECIPES["demo"], recipe=RECIPES["demo"].recipe.replace(period=7), tuned=tuned)
        monkeypatch.setitem(RECIPES, "demo", changed)
        assert toy_comparison(tmp_path, toy, recipe, "baseline-c").results() == []

    def test_each_row_has_one_recipe(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        store_results(toy_comparison(tmp_path, toy, recipe, "mdc"))
        store_results(toy_comparison(tmp_path, toy, recipe.replace(period=2), "mdc", seeds=[1]))
        others = toy_comparison(tmp_path, toy, recipe, "baseline-c").results()
        assert [(r.method, r.seed, r.recipe["period"]) for r in others] == [("mdc", 1, 2)]
        own = toy_comparison(tmp_path, toy, recipe, "mdc").results()
        assert [(r.seed, r.recipe["period"]) for r in own] == [(0, 1)]

    def test_other_normalisation_is_another_table(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        store_results(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        normalised = replace(toy, mean=(0.1, 0.2, 0.3))
        assert normalised.sha256 == toy.sha256
        comparison = toy_comparison(tmp_path, normalised, recipe, "baseline-c")
        assert comparison.results() == []
        assert len(comparison.missing_runs(comparison.grid.cells)) == 1

    def test_other_settings_are_another_table(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (first,) = store_results(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        (second,) = store_results(toy_comparison(tmp_path, toy, recipe.replace(pixel_lr=0.5), "baseline-c"))
        assert second.cell != first.cell
        assert toy_comparison(tmp_path, toy, recipe, "baseline-c").results() == [first]

    def test_result_gets_the_name_that_is_used_now(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        store_results(toy_comparison(tmp_path, toy, recipe, f"baseline-c:pixel-lr={recipe.pixel_lr},mdc"))
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c,mdc")
        assert [r.method for r in comparison.results()] == ["baseline-c", "mdc"]
        assert not any(comparison.missing(cell) for cell in comparison.grid.cells)


class TestRefusals:
    def test_outer_iteration_after_the_end_is_refused(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match=r"^`at` contains 3: choose outer iterations from 1 to 2"):
            toy_comparison(tmp_path, toy, recipe, at=[3])

    def test_too_few_images_are_refused(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        too_many = recipe.replace(factor=3)
        with pytest.raises(SettingError, match=r"20 training images"):
            toy_comparison(tmp_path, toy, too_many, "random")
        with pytest.raises(SettingError, match=r"20 training images"):
            toy_comparison(tmp_path, toy, too_many.replace(init="noise"), "baseline-c,random")
        assert list(tmp_path.iterdir()) == []

    def test_size_above_ipc_is_refused(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match=r"^`sizes` contains 4: baseline-c has sizes 1 to 3"):
            toy_comparison(tmp_path, toy, recipe, "baseline-c", sizes=[4])

    @pytest.mark.parametrize(
        ("names", "changes"),
        [("baseline-c", {"period": 3}), ("baseline-c,mdc-predecessor", {"freeze": "never"})],
    )
    def test_setting_that_no_method_reads_is_refused(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, names: str, changes: dict[str, object]
    ) -> None:
        with pytest.raises(SettingError, match=f"^`{next(iter(changes))}` has no effect: none of the methods reads it"):
            toy_comparison(tmp_path, toy, recipe, names, changes=changes)

    def test_equal_methods_are_refused(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match=r"^`methods`: mdc and mdc:period=1 are the same method. Leave one"):
            toy_comparison(tmp_path, toy, recipe, "mdc,mdc:period=1")
