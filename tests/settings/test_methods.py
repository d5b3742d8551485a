"""Methods: how users write them, and which recipes they become."""

from __future__ import annotations

import pytest
import torch

from mipset.condensing.policies import MostLearnableSubset
from mipset.errors import SettingError
from mipset.evaluation.selection import SELECTIONS
from mipset.experiments.builders import BUILDERS
from mipset.settings.catalogue import RECIPES, NamedRecipe, recipe
from mipset.settings.methods import (
    FIELD,
    FIELD_POLICIES,
    GROUPS,
    METHODS,
    PERIOD_WITHOUT_END,
    REFERENCE,
    parse_methods,
)
from mipset.settings.recipe import Recipe


class TestParsing:
    def test_names_groups_and_settings(self) -> None:
        methods = parse_methods(
            "baseline-c, mdc:pixel-lr=0.03:freeze=never,baseline-c,every-prefix:ipc=3:prefix-weights=1,1,2,baseline-a"
        )
        assert [method.name for method in methods] == [
            "baseline-c",
            "mdc:pixel-lr=0.03:freeze=never",
            "every-prefix:ipc=3:prefix-weights=1,1,2",
            "baseline-a",
        ]
        mdc = methods[1].recipe("demo", {})
        assert (mdc.policy, mdc.pixel_lr, mdc.freeze) == ("mdc", 0.03, "never")
        assert methods[2].recipe("demo", {}).size_weights == (1.0, 1.0, 2.0)

    def test_setting_with_colons_is_one_setting(self) -> None:
        every_prefix, baseline = parse_methods("every-prefix:prefix-weights=1:60,5:40:outer=3,baseline-c")
        recipe = every_prefix.recipe("demo", {})
        assert (recipe.fleet, recipe.outer, baseline.name) == ({1: 0.6, 5: 0.4}, 3, "baseline-c")

    @pytest.mark.parametrize("group", GROUPS)
    def test_group_stands_for_its_methods(self, group: str) -> None:
        names = [method.name for method in parse_methods(f"{group}:pixel-lr=1")]
        assert names == [f"{name}:pixel-lr=1" for name in GROUPS[group]]
        assert [method.name for method in parse_methods(group)] == list(GROUPS[group])
        assert parse_methods(f"baseline-c,{group}")[0].name == "baseline-c"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("bd", "^`methods`: there is no method 'bd'. Choose baseline-a, .* or a group: baselines, "),
            ("mcd", "^`methods`: there is no method 'mcd'. Did you mean mdc\\? Choose baseline-a, .* or a group: bas"),
            ("", "there is no method ''"),
            ("baseline-c,,mdc", "there is no method ''"),
            ("mdc:pixel-lr", "'pixel-lr' in 'mdc:pixel-lr' is not a setting of a recipe. Write a name and a value"),
            ("mdc:speed=3", "'speed=3' in 'mdc:speed=3' is not a setting"),
            ("mdc:ipc=many", "'ipc=many' in 'mdc:ipc=many' is not possible: `ipc` is int. Write a number"),
            ("mdc:seed=3", "sets `seed`, which all methods share. Leave it out"),
            ("mdc:policy=mdc", "sets `policy`, which the name of the method decides. Choose another method."),
            ("baseline-c:period=3", "'baseline-c:period=3' sets `period`, which baseline-c does not use. Leave it out"),
        ],
    )
    def test_wrong_method_is_refused_with_advice(self, text: str, message: str) -> None:
        with pytest.raises(SettingError, match=message):
            parse_methods(text)


class TestRegistry:
    def test_every_method_becomes_a_recipe(self) -> None:
        for method in METHODS.values():
            for name, named in RECIPES.items():
                if method.base and self._lacks(method.base, name, named):
                    with pytest.raises(SettingError, match=f"{method.name} has no recipe for {named.dataset}"):
                        method.recipe(name, {})
                elif method.settings.get("metric") == "gradient" and named.recipe.objective != "gradient":
                    with pytest.raises(SettingError, match="`metric` gradient needs gradients"):
                        method.recipe(name, {})
                elif method.settings["policy"] == "mdc-per-class" and named.recipe.objective == "trajectory":
                    with pytest.raises(SettingError, match="trains on all classes together"):
                        method.recipe(name, {})
                else:
                    assert isinstance(method.recipe(name, {"seed": 3}), Recipe)
            assert method.text

    @staticmethod
    def _lacks(base: str, name: str, named: NamedRecipe) -> bool:
        """Whether the method of another author has no recipe for the dataset and the scale of this one."""
        if "-ipc" not in name:
            return f"{named.dataset}-{base}-cpu" not in RECIPES
        if base in ("gradient", "dream"):
            return f"paper-{named.dataset}-ipc{named.recipe.ipc}" not in RECIPES
        return f"{base}-{named.dataset}-ipc{named.recipe.ipc}" not in RECIPES

    def test_groups_and_reference_are_methods(self) -> None:
        assert {name for group in GROUPS.values() for name in group} | {REFERENCE} <= set(METHODS)

    @pytest.mark.parametrize("policy", FIELD_POLICIES)
    @pytest.mark.parametrize("name", FIELD)
    def test_methods_of_the_field_have_recipes_of_their_own(self, name: str, policy: str) -> None:
        method = METHODS[name if policy == "baseline-c" else f"{name}-{policy}"]
        assert method.name in GROUPS["field"]
        expected = recipe(f"cifar10-{FIELD[name]}-cpu", policy=policy, seed=3, outer=2)
        assert method.recipe("cifar10-cpu", {"seed": 3, "outer": 2}) == expected
        assert method.recipe("cifar10-gradient-cpu", {"seed": 3, "outer": 2}) == expected

    @pytest.mark.parametrize("compared", ["paper-cifar10-ipc50", "paper-cifar10-ipc50-dream", "dc-cifar10-ipc50"])
    @pytest.mark.parametrize(
        ("name", "own"),
        [
            *((name, f"{name}-cifar10-ipc50") for name in ("dc", "dsa", "dm", "mtt")),
            ("idc", "paper-cifar10-ipc50"),
            ("dream", "paper-cifar10-ipc50-dream"),
        ],
    )
    def test_field_beside_a_recipe_of_the_paper_has_the_settings_of_the_authors(
        self, name: str, own: str, compared: str
    ) -> None:
        changes = {"seed": 3, "outer": 2}
        assert METHODS[f"{name}-mdc"].recipe(compared, changes) == recipe(own, policy="mdc", **changes)

    def test_field_has_no_minute_sized_stand_in_beside_a_recipe_of_the_paper(self) -> None:
        with pytest.raises(
            SettingError,
            match=r"^`methods`: dsa has no recipe for cifar100 at `ipc` 20\. Leave it out, or compare with the "
            r"recipe dsa-cifar10-ipc1, dsa-cifar10-ipc10 or dsa-cifar10-ipc50 and `data` cifar100, at rates that were "
            r"not chosen for these images\.$",
        ):
            METHODS["dsa"].recipe("paper-cifar100-ipc20", {})

    def test_field_has_the_default_method_too(self) -> None:
        assert list(FIELD) == ["dc", "dsa", "dm", "mtt", "idc", "dream"]
        assert len(GROUPS["field"]) == 3 * len(FIELD) + 3
        assert [METHODS[name].base for name in GROUPS["field"][-3:]] == ["", "", ""]

    def test_method_without_a_recipe_for_the_data_says_what_to_do(self) -> None:
        with pytest.raises(
            SettingError,
            match=r"^`methods`: dsa-mdc has no recipe for fashion-mini\. Leave it out, or compare with the recipe "
            r"cifar10-cpu and `data` fashion-mini, at rates that were not chosen for these images\.$",
        ):
            METHODS["dsa-mdc"].recipe("demo", {})
        assert METHODS["dsa-mdc"].recipe("cifar10-cpu", {}) == recipe("cifar10-dsa-cpu", policy="mdc")

    def test_builder_keys_equal_the_builders(self) -> None:
        assert {method.builder for method in METHODS.values()} == set(BUILDERS)

    def test_every_selection_is_a_method(self) -> None:
        assert set(SELECTIONS) < set(METHODS)


class TestSettings:
    def test_changes_for_all_methods_reach_methods_that_read_them(self) -> None:
        baseline, mdc = parse_methods("baseline-c,mdc")
        changes = {"period": 7, "outer": 9}
        assert mdc.recipe("demo", changes).period == 7
        assert baseline.recipe("demo", changes) == RECIPES["demo"].recipe.replace(policy="baseline-c", outer=9)

    def test_tuned_settings_apply_unless_the_user_sets_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tuned = {"baseline-c": {"pixel_lr": 0.5}, "baseline-a": {"pixel_lr": 0.6}, "mdc": {"pixel_lr": 0.7, "outer": 3}}
        monkeypatch.setitem(RECIPES, "demo", NamedRecipe("fashion-mini", Recipe(), "", tuned))
        names = ("baseline-a", "baseline-b", "baseline-c", "mdc-no-freeze")
        assert [METHODS[name].recipe("demo", {}).pixel_lr for name in names] == [0.6, 0.5, 0.5, 0.7]
        assert METHODS["mdc"].recipe("demo", {"pixel_lr": 0.1}).pixel_lr == 0.1
        assert recipe("demo", policy="baseline-c").pixel_lr == 0.5
        assert (recipe("demo").pixel_lr, recipe("demo", outer=4).outer) == (0.7, 4)
        assert recipe("demo", policy="every-prefix").pixel_lr == Recipe().pixel_lr

    def test_balanced_and_plain_steps_are_tuned_separately(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tuned = {"every-prefix-balanced": {"pixel_lr": 0.5}, "every-prefix-plain": {"pixel_lr": 0.1}}
        monkeypatch.setitem(RECIPES, "demo", NamedRecipe("fashion-mini", Recipe(), "", tuned))
        rates = {name: METHODS[name].recipe("demo", {}).pixel_lr for name in METHODS if name.startswith("every")}
        assert rates.pop("every-prefix-plain") == 0.1
        names = ("every-prefix", "every-prefix-one", "every-prefix-size", "every-prefix-inverse")
        assert rates == dict.fromkeys(names, 0.5)
        assert recipe("demo", policy="every-prefix").pixel_lr == 0.5
        assert recipe("demo", policy="every-prefix", steps="plain").pixel_lr == 0.1

    def test_mdc_smallest_always_selects_size_1(self) -> None:
        settings = METHODS["mdc-smallest"].recipe("demo", {})
        assert settings.period == PERIOD_WITHOUT_END
        policy = MostLearnableSubset(settings.ipc, settings.period)
        for t in range(1, 1000):
            if policy.measures(t):
                policy.select(t, torch.rand(1, settings.ipc))
        assert policy.chosen == [1]
