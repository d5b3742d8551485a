"""Named recipes."""

from __future__ import annotations

import re

import pytest

from mipset.errors import SettingError, choices
from mipset.settings.catalogue import PAPER_CIFAR10, RECIPES, recipe


def test_named_recipe_can_be_changed() -> None:
    assert recipe("paper-cifar10-ipc10") == PAPER_CIFAR10
    assert recipe("demo", seed=4).seed == 4
    assert recipe("demo", policy="every-prefix", subset_weight=0.5).size_weights[0] == 0.5


@pytest.mark.parametrize(
    ("setting", "value"), [("period", 3), ("freeze", "never"), ("round_distances", 2), ("subset_weight", 2.0)]
)
def test_setting_that_the_policy_does_not_use_is_refused(setting: str, value: object) -> None:
    with pytest.raises(SettingError, match=rf"`{setting}` needs `policy` mdc.*, not baseline-c\. Leave it out\."):
        recipe("demo", policy="baseline-c", **{setting: value})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": "plain"}, "`steps` needs `pixel_optimiser` sgd, not adam"),
        ({"train_images": 5}, "`train_images` needs `learner` trained, not experts"),
        (
            {"learner": "untrained", "objective": "feature", "experts": 5},
            "`experts` needs `learner` experts, not untrained",
        ),
    ],
)
def test_setting_that_the_run_does_not_use_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        recipe("demo", **settings)


def test_unknown_recipe_is_refused() -> None:
    message = f"There is no recipe 'dmeo'. Did you mean demo? Choose {choices(RECIPES)}."
    with pytest.raises(SettingError, match=re.escape(message)):
        recipe("dmeo")


def test_every_named_recipe_states_its_time_and_accuracy() -> None:
    assert all(named.promise for named in RECIPES.values())
