"""Methods: how they are written, which recipes they become, and which condensations they share."""

from __future__ import annotations

import pytest
import torch

from mipset.condensing.assembly import first_pixels
from mipset.condensing.policies import MostLearnableSubset
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.evaluation.selection import SELECTIONS
from mipset.experiments.methods import GROUPS, METHODS, NEVER_AGAIN, Run, methods
from mipset.settings.catalogue import RECIPES, NamedRecipe, recipe
from mipset.settings.recipe import Recipe

SIZES = (1, 2, 3)


class TestNames:
    def test_names_groups_and_settings(self) -> None:
        found = methods("c, mdc:pixel-lr=0.03:freeze=never,c,every-prefix:ipc=3:prefix-weights=1,1,2,a")
        assert [method.name for method in found] == [
            "c",
            "mdc:pixel-lr=0.03:freeze=never",
            "every-prefix:ipc=3:prefix-weights=1,1,2",
            "a",
        ]
        chosen = found[1].recipe("demo", {})
        assert (chosen.policy, chosen.pixel_lr, chosen.freeze) == ("mdc", 0.03, "never")
        assert found[2].recipe("demo", {}).size_weights == (1.0, 1.0, 2.0)

    def test_shares_of_a_fleet_are_one_setting(self) -> None:
        fleet, c = methods("every-prefix:prefix-weights=1:60,5:40:outer=3,c")
        chosen = fleet.recipe("demo", {})
        assert (chosen.fleet, chosen.outer, c.name) == ({1: 0.6, 5: 0.4}, 3, "c")

    @pytest.mark.parametrize("group", GROUPS)
    def test_a_group_is_its_methods(self, group: str) -> None:
        assert [m.name for m in methods(f"{group}:pixel-lr=1")] == [f"{name}:pixel-lr=1" for name in GROUPS[group]]
        assert [method.name for method in methods(group)] == list(GROUPS[group])
        assert methods(f"c,{group}")[0].name == "c"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("dc", "there is no method 'dc': choose from a, b, c, .* or a group of them: baselines, "),
            ("", "there is no method ''"),
            ("c,,mdc", "there is no method ''"),
            ("c:pixel-lr", "'pixel-lr' is no setting"),
            ("c:speed=3", "'speed=3' is no setting"),
            ("c:ipc=many", "ipc must be int, not 'many'"),
            ("c:seed=3", "seed cannot be set for one method"),
            ("c:policy=mdc", "policy cannot be set for one method"),
            ("c:period=3", "c does not read --period"),
        ],
    )
    def test_what_cannot_be_is_a_sentence(self, text: str, sentence: str) -> None:
        with pytest.raises(SettingError, match=sentence):
            methods(text)

    def test_every_method_becomes_a_recipe(self) -> None:
        for method in METHODS.values():
            for name in RECIPES:
                assert isinstance(method.recipe(name, {"seed": 3}), Recipe)
            assert method.text

    def test_every_selection_is_a_method(self) -> None:
        assert set(SELECTIONS) < set(METHODS)


class TestSettings:
    def test_settings_for_all_reach_those_that_read_them(self) -> None:
        c, mdc = methods("c,mdc")
        shared = {"period": 7, "outer": 9}
        assert mdc.recipe("demo", shared).period == 7
        assert c.recipe("demo", shared) == RECIPES["demo"].recipe.replace(policy="baseline-c", outer=9)

    def test_what_was_tuned_for_a_method_is_used_unless_something_else_is_asked_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tuned = {"none": {"pixel_lr": 0.5}, "a": {"pixel_lr": 0.6}, "mdc": {"pixel_lr": 0.7, "outer": 3}}
        monkeypatch.setitem(RECIPES, "demo", NamedRecipe("fashion-mini", Recipe(), "", tuned))
        rates = {name: METHODS[name].recipe("demo", {}).pixel_lr for name in ("a", "b", "c", "mdc-no-freeze")}
        assert rates == {"a": 0.6, "b": 0.5, "c": 0.5, "mdc-no-freeze": 0.7}
        assert METHODS["mdc"].recipe("demo", {"pixel_lr": 0.1}).pixel_lr == 0.1
        assert recipe("demo", policy="baseline-c").pixel_lr == 0.5
        assert (recipe("demo").pixel_lr, recipe("demo", outer=4).outer) == (0.7, 4)
        assert recipe("demo", policy="every-prefix").pixel_lr == Recipe().pixel_lr

    def test_balanced_and_plain_steps_are_tuned_apart(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tuned = {"every-prefix-balanced": {"pixel_lr": 0.5}, "every-prefix-plain": {"pixel_lr": 0.1}}
        monkeypatch.setitem(RECIPES, "demo", NamedRecipe("fashion-mini", Recipe(), "", tuned))
        rates = {name: METHODS[name].recipe("demo", {}).pixel_lr for name in METHODS if name.startswith("every")}
        assert rates == {"every-prefix": 0.5, "every-prefix-size": 0.5, "every-prefix-plain": 0.1}
        assert recipe("demo", policy="every-prefix").pixel_lr == 0.5
        assert recipe("demo", policy="every-prefix", steps="plain").pixel_lr == 0.1

    def test_without_comparison_the_smallest_subset_always_counts(self) -> None:
        r = METHODS["mdc-smallest"].recipe("demo", {})
        policy = MostLearnableSubset(r.ipc, r.period)
        for t in range(1, 1000):
            if policy.measures(t):
                policy.select(t, torch.rand(1, r.ipc))
        assert policy.chosen == [1]
        assert r.period == NEVER_AGAIN


class TestWays:
    def test_the_condensations_of_each_baseline(self, recipe: Recipe) -> None:
        basic = recipe.replace(policy="baseline-c")

        def runs(name: str) -> list[Run]:
            return METHODS[name].way.runs(basic, SIZES)

        assert runs("c") == [Run(basic)]
        assert [(run.recipe.ipc, run.rank) for run in runs("a")] == [(1, 0), (2, 0), (3, 0)]
        assert [(run.recipe.ipc, run.rank) for run in runs("b")] == [(1, 0), (1, 1), (1, 2)]
        assert runs("a")[-1] == runs("c")[0] == runs("yoco")[0], "the same condensation is run once"
        assert runs("a")[0] == runs("b")[0]
        assert runs("herding") == []

    def test_sizes_that_are_not_asked_for_are_not_condensed(self, recipe: Recipe) -> None:
        assert [run.recipe.ipc for run in METHODS["a"].way.runs(recipe, (1, 3))] == [1, 3]
        assert len(METHODS["b"].way.runs(recipe, (1, 2))) == 2

    @pytest.mark.parametrize("init", ["mix", "noise"])
    def test_runs_of_baseline_b_start_from_different_images(self, toy: Dataset, recipe: Recipe, init: str) -> None:
        r = recipe.replace(policy="baseline-c", init=init)
        starts = [run.start(toy) for run in METHODS["b"].way.runs(r, SIZES)]
        assert torch.equal(torch.cat(starts), first_pixels(r, toy))
        assert not torch.equal(starts[0], starts[1])
