"""`--config FILE`, and `recipes NAME --toml`, which prints such a file."""

from __future__ import annotations

import argparse
import tomllib
from dataclasses import asdict, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import Here
from mipset import Recipe, cli, recipe
from mipset.cli import _parse
from mipset.cli.condensing import recipe_of
from mipset.settings.catalogue import RECIPES
from mipset.settings.choices import POLICIES
from mipset.settings.toml import recipe_toml


def parsed(*words: object) -> argparse.Namespace:
    arguments = argparse.Namespace(parser=None, json=False, quiet=False)
    _parse(list(map(str, words)), arguments)
    return arguments


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


class TestToml:
    @pytest.mark.parametrize("name", RECIPES)
    def test_every_recipe_comes_back(self, name: str, here: Here, tmp_path: Path) -> None:
        """As settings in Python, and as the recipe of a run, whatever the dataset."""
        path = written(tmp_path / "recipe.toml", here("recipes", name, "--toml"))
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        assert table.pop("recipe") == name
        assert Recipe(**table) == recipe(name)
        assert recipe_of(parsed("condense", "mnist", "--config", path)) == recipe(name)

    @given(
        st.sampled_from(list(POLICIES)),
        st.integers(1, 10**6),
        st.floats(0, 1000),
        st.sampled_from(["one", "size", "1:60,3:40"]),
    )
    def test_any_settings_come_back(self, policy: str, outer: int, rate: float, weights: str) -> None:
        weights = weights if policy == "every-prefix" else "one"
        changed = Recipe(policy=policy, outer=outer, pixel_lr=rate, network_decay=rate, prefix_weights=weights)
        table = tomllib.loads(recipe_toml("x", changed))
        assert Recipe(**{name: value for name, value in table.items() if name != "recipe"}) == changed

    def test_every_setting_is_explained(self) -> None:
        text = recipe_toml("demo", recipe("demo"))
        for f in fields(Recipe):
            assert f"\n{f.name} = " in text
        assert text.count("\n# ") >= len(fields(Recipe))

    def test_toml_needs_a_name(self, refusal: Here) -> None:
        assert "--toml needs the NAME of a recipe" in refusal("recipes", "--toml")


class TestConfig:
    def test_what_is_typed_counts_more(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.toml", 'recipe = "demo"\nipc = 4\nouter = 7\npixel-lr = 0.5\nthreads = 1')
        arguments = parsed("condense", "fashion-mini", "--ipc", 3, "--config", path)
        assert recipe_of(arguments) == recipe("demo", ipc=3, outer=7, pixel_lr=0.5)
        assert arguments.threads == 1

    def test_a_whole_recipe_does_not_get_in_the_way(self, here: Here, tmp_path: Path) -> None:
        """Its settings that nobody changed are not refused for another policy, and a budget may choose them."""
        path = written(tmp_path / "demo.toml", here("recipes", "demo", "--toml").replace('"every-prefix"', '"mdc"', 1))
        arguments = parsed("condense", "fashion-mini", "--config", path)
        assert recipe_of(arguments) == recipe("demo", policy="mdc")
        assert arguments.unchanged == {*asdict(recipe("demo"))} - {"policy"}

    def test_a_file_replaces_what_was_tuned_for_a_policy(self, here: Here, tmp_path: Path) -> None:
        name = "cifar10-gradient-cpu"
        assert recipe(name, policy="every-prefix").outer == 12 != recipe(name).outer
        path = written(tmp_path / "x.toml", here("recipes", name, "--toml"))
        chosen = recipe_of(parsed("condense", "cifar10", "--config", path, "--policy", "every-prefix"))
        assert chosen == recipe(name).replace(policy="every-prefix")

    def test_setting_that_is_not_used_is_refused(self, refusal: Here, tmp_path: Path) -> None:
        path = written(tmp_path / "x.toml", 'recipe = "demo"\nperiod = 3')
        assert "--period needs --policy mdc" in refusal("condense", "fashion-mini", "--config", path, "--out", "x")

    def test_other_verbs_take_files_too(self, tmp_path: Path) -> None:
        path = written(tmp_path / "x.toml", 'networks = 7\nsave = true\nskip-bad = false\nprotocol = "paper"')
        arguments = parsed("evaluate", "a", "b", "--config", path)
        assert (arguments.networks, arguments.save, arguments.skip_bad) == (7, True, False)
        assert (arguments.protocol, arguments.files) == ("paper", [Path("a"), Path("b")])
        assert parsed("compare", "demo", f"--conf={written(path, 'seeds = 2')}").seeds == 2  # abbreviated

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ('polici = "mdc"', "x.toml sets 'polici', but `mipset condense` has no such flag. Did you mean policy? "),
            ("ipc = [1, 2]", "x.toml sets --ipc to [1, 2]: it must be a number or a text in quotes."),
            ("ipc = true", "x.toml sets --ipc to True: it must be a number or a text in quotes."),
            ("force = 1", "x.toml sets --force to 1: it must be true or false."),
            ('ipc = "two"', "Argument --ipc: invalid int value: 'two'."),
            ("[run]\nipc = 2", "x.toml sets 'run', but `mipset condense` has no such flag."),
            ("ipc = ", "x.toml is no TOML: "),
            ("ipc = 2\nipc = 3", "x.toml is no TOML: "),
            ('config = "y.toml"', "x.toml sets 'config', but"),
            ("dataset = 3", "x.toml sets 'dataset', but"),
        ],
    )
    def test_files_that_are_wrong_are_refused(self, refusal: Here, tmp_path: Path, text: str, reason: str) -> None:
        path = written(tmp_path / "x.toml", text)
        assert reason in refusal("condense", "fashion-mini", "--out", tmp_path / "y", "--config", path)

    def test_missing_file_and_two_files_are_refused(self, refusal: Here, tmp_path: Path) -> None:
        assert "--config nothing.toml cannot be read: No such file" in refusal(
            "condense", "fashion-mini", "--config", "nothing.toml"
        )
        assert "--config is given twice" in refusal("condense", "x", "--config", "a", "--config", "b")
        assert "expected one argument" in refusal("condense", "x", "--config")

    def test_a_run_with_a_file_is_a_run_with_its_flags(self, here: Here, tmp_path: Path, pets: Path) -> None:
        settings = {
            "ipc": 2,
            "width": 4,
            "depth": 2,
            "outer": 1,
            "inner": 1,
            "real_batch": 8,
            "train_images": 16,
            "objective": "gradient",
            "learner": "trained",
            "pixel_optimiser": "sgd",
            "train_batch": 8,
            "threads": 1,
        }
        text = "\n".join(f"{name} = {value!r}" for name, value in settings.items())
        path = written(tmp_path / "x.toml", f"{text}\ndata = {f'npz:{pets}'!r}\nout = {str(tmp_path / 'a')!r}")
        here("condense", "--config", path)
        flags = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", value)]
        here("condense", f"npz:{pets}", "--out", tmp_path / "b", *flags)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_verbs_with_many_flags_take_a_file() -> None:
    verbs = cli.parser().verbs()
    assert {name for name, verb in verbs.items() if "config" in verb.typed_names()} == {
        *("condense", "grow", "compare", "evaluate")
    }
