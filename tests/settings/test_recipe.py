"""Recipes: defaults, limits of every setting, and weights of sizes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mipset.errors import SettingError
from mipset.file.description import MOST_FACTOR
from mipset.settings.architecture import Architecture
from mipset.settings.paper_recipes import PAPER_CIFAR10
from mipset.settings.recipe import Recipe


def test_defaults_are_the_papers_settings_for_cifar_10() -> None:
    r = PAPER_CIFAR10
    assert (r.ipc, r.factor, r.width, r.depth, r.outer, r.inner) == (10, 2, 128, 3, 2000, 100)
    assert (r.real_batch, r.train_images, r.train_batch, r.period, r.subset_weight) == (64, 2000, 64, 100, 1.0)
    assert (r.pixel_lr, r.pixel_momentum, r.network_lr, r.network_momentum, r.network_decay) == (
        0.005,
        0.5,
        0.01,
        0.9,
        5e-4,
    )
    assert (r.match_augment, r.train_augment, r.cutmix) == ("color_crop_cutout", "color_crop", 0.5)


@pytest.mark.parametrize(("ipc", "side", "rate"), [(1, 32, 5e-4), (10, 32, 5e-3), (50, 32, 2.5e-2), (10, 64, 2e-2)])
def test_pixel_learning_rate_is_scaled_as_in_the_release(ipc: int, side: int, rate: float) -> None:
    assert PAPER_CIFAR10.replace(ipc=ipc).scaled_pixel_lr((side, side)) == pytest.approx(rate)


def test_architecture_of_a_recipe_has_its_name_width_and_depth() -> None:
    assert Recipe(network="resnet-ap", width=8, depth=18).architecture == Architecture("resnet-ap", 8, 18)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"policy": "mcd"},
            r"`policy` is 'mcd'\. Did you mean mdc\? Choose baseline-c, .*, or a class of your own as module:Class\.$",
        ),
        (
            {"network": "resnet"},
            r"`network` is 'resnet', whose batch norm mixes the images of a batch\. .*Choose convnet or resnet-ap, or ",
        ),
        ({"network": "vgg"}, r"`network` is 'vgg'\. Choose convnet or resnet-ap, or a class of your own"),
        ({"policy": "densenet"}, r"`policy` is 'densenet'\. Choose"),
        ({"ipc": 0}, r"`ipc` is 0: it must be at least 1 and at most 1e\+06\.$"),
        ({"ipc": 1.5}, r"`ipc` is 1.5: it must be of type int\.$"),
        ({"network": Architecture}, r"`network` is <class .*Architecture.* of type str\. Name a .* as module:name\.$"),
        ({"ipc": True}, r"`ipc` is True: it must be of type int\.$"),
        ({"pixel_lr": -1}, r"`pixel_lr` is -1: it must be at least 0 and at most 1000\.$"),
        ({"pixel_lr": 1e30}, r"`pixel_lr` is 1e\+30: it must be at least 0 and at most 1000\.$"),
        ({"network_lr": 1e6}, r"`network_lr` is 1000000.0: it must be at least 0 and at most 1000\.$"),
        ({"ipc": 10**9}, r"`ipc` is 1000000000: it must be at least 1 and at most 1e\+06\.$"),
        ({"train_images": 10**12}, r"`train_images` is 1000000000000: it must be at least 0 and at most 1e\+09\.$"),
        ({"depth": 2**63}, r"`depth` is 9223372036854775808: it must be at least 1 and at most 1000\.$"),
        ({"width": 10**9}, r"`width` is 1000000000: it must be at least 1 and at most 1e\+06\.$"),
        ({"pixel_lr": float("nan")}, r"`pixel_lr` is nan: it must be at least 0"),
        ({"pixel_lr": float("inf")}, r"`pixel_lr` is inf: it must be at least 0 and at most"),
        ({"pixel_momentum": 1.0}, r"`pixel_momentum` is 1.0: it must be below 1\.$"),
        ({"cutmix": 1.5}, r"`cutmix` is 1.5: it must be at least 0 and at most 1\.$"),
        ({"pool": 2}, r"`pool` is 2, but `life` is 1: .*Choose a larger `life`\.$"),
        ({"match_augment": "color_blur"}, r"There is no augmentation 'blur'\. Choose from color, crop"),
        ({"train_augment": ""}, r"There is no augmentation ''"),
        ({"policy": "every-prefix", "prefix_weights": "1,2"}, r"`prefix_weights` is '1,2': .* 10 numbers"),
        ({"policy": "every-prefix", "prefix_weights": "two"}, r"`prefix_weights` is 'two'"),
        ({"widht": 3}, r"no setting 'widht'\. Did you mean width\? Choose .*width"),
    ],
    ids=str,
)
def test_value_outside_of_its_limits_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        PAPER_CIFAR10.replace(**changes)


@pytest.mark.parametrize(("setting", "value"), [("resampling", "centres"), ("match_precision", "bfloat16")])
def test_setting_that_was_added_is_no_part_of_older_results(setting: str, value: str) -> None:
    """Else every folder of results would begin again."""
    older = {f.name for f in fields(Recipe)} - {"resampling", "match_precision"}
    assert set(Recipe(network_lr=0.3).identity) == older
    changed = Recipe(objective="feature", learner="untrained").replace(**{setting: value})
    assert changed.identity[setting] == value
    assert changed.identity.keys() - older == {setting}


def test_largest_factor_is_that_of_the_file_format() -> None:
    assert Recipe(factor=MOST_FACTOR).factor == 16
    with pytest.raises(SettingError, match="`factor` is 17: it must be at least 1 and at most 16"):
        Recipe(factor=MOST_FACTOR + 1)


BAD_WEIGHTS = [
    *("5:1", "0:1", "1:1,1:2", "1:x", "1:2:3", ":", "1.5:1", ""),
    *("1:nan", "1:inf", "1:1e400,4:1", "1:-60,4:160", "1:0", "1:0,4:0", "1:1e308,2:1e308"),
    *("nan,1,1,1", "0,0,0,0", "-1,1,1,1", "inf,1,1,1"),
]


def test_prefix_weights_become_one_weight_per_size() -> None:
    every = Recipe(ipc=4, policy="every-prefix")
    assert list(every.size_weights) == [1, 1, 1, 1]
    assert every.replace(prefix_weights="size").size_weights == pytest.approx((0.25, 0.5, 0.75, 1))
    assert every.replace(prefix_weights="inverse").size_weights == pytest.approx((4, 2, 4 / 3, 1))
    assert every.replace(prefix_weights="4,3,2,1").size_weights == pytest.approx((4, 3, 2, 1))
    assert every.replace(prefix_weights="4:25,1:75").size_weights == pytest.approx((3, 0, 0, 1))
    assert every.replace(subset_weight=0.5).size_weights == pytest.approx((0.5, 0.5, 0.5, 1))


def test_fleet_is_the_share_of_devices_of_each_size() -> None:
    every = Recipe(ipc=4, policy="every-prefix")
    assert (
        every.fleet == every.replace(prefix_weights="size").fleet == every.replace(prefix_weights="inverse").fleet == {}
    )
    assert every.replace(prefix_weights="4:25,1:75").fleet == pytest.approx({1: 0.75, 4: 0.25})
    assert every.replace(prefix_weights="1,0,0,3").fleet == pytest.approx({1: 0.25, 4: 0.75})


@pytest.mark.parametrize("text", BAD_WEIGHTS)
def test_bad_prefix_weights_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="`prefix_weights` is"):
        Recipe(ipc=4, policy="every-prefix", prefix_weights=text)


def test_every_setting_has_a_help_text() -> None:
    assert all(f.metadata["help"] for f in fields(Recipe))


def test_every_choice_has_a_help_text() -> None:
    for f in fields(Recipe):
        assert all(f.metadata["choices"].values()), f.name
