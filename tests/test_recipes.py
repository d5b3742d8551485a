from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from mipset.condensing.assembly import assemble
from mipset.condensing.objectives import L1, GradientMatching
from mipset.condensing.packing import public_name
from mipset.condensing.policies import EveryPrefix, MostLearnableSubset, PerClass, Predecessor, Ratchet
from mipset.condensing.synthetic import MultiFormation
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.file.artifact import MOST_FACTOR
from mipset.nn.augment import Operation, augmentation
from mipset.nn.networks import network_builder
from mipset.settings.catalogue import PAPER_CIFAR10, RECIPES, recipe
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def test_the_papers_settings_for_cifar_10() -> None:
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


@pytest.mark.parametrize(("ipc", "size", "rate"), [(1, 32, 5e-4), (10, 32, 5e-3), (50, 32, 2.5e-2), (10, 64, 2e-2)])
def test_the_pixel_rate_scales_as_in_the_release(ipc: int, size: int, rate: float) -> None:
    assert PAPER_CIFAR10.replace(ipc=ipc).scaled_pixel_lr((size, size)) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"policy": "mcd"}, r"--policy cannot be 'mcd': choose none, mdc, mdc-per-class or every-prefix"),
        (
            {"network": "resnet"},
            r"--network cannot be 'resnet' to condense with, since its batch norm mixes the images of a batch: "
            r"choose convnet or resnet-ap\.",
        ),
        ({"network": "vgg"}, r"--network cannot be 'vgg': choose convnet or resnet-ap"),
        ({"policy": "densenet"}, r"--policy cannot be 'densenet': choose"),
        ({"ipc": 0}, r"--ipc cannot be 0: it must be at least 1"),
        ({"ipc": 1.5}, r"--ipc must be int, not 1.5"),
        ({"ipc": True}, r"--ipc must be int, not True"),
        ({"pixel_lr": float("nan")}, r"--pixel-lr cannot be nan"),
        ({"pixel_lr": float("inf")}, r"--pixel-lr cannot be inf"),
        ({"pixel_momentum": 1.0}, r"--pixel-momentum cannot be 1.0: it must be below 1"),
        ({"cutmix": 1.5}, r"--cutmix cannot be 1.5: it is a probability"),
        ({"prefix_weights": "size"}, r"--prefix-weights size needs --policy every-prefix, not mdc"),
        ({"policy": "every-prefix", "prefix_weights": "1,2"}, r"or 10 numbers"),
        ({"policy": "every-prefix", "prefix_weights": "two"}, r"cannot be 'two'"),
        ({"widht": 3}, r"no setting 'widht': choose .*width"),
    ],
)
def test_a_setting_that_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        PAPER_CIFAR10.replace(**changes)


BAD_SHARES = [
    *("1:nan", "1:inf", "1:1e400,4:1", "1:-60,4:160", "1:0", "1:0,4:0", "1:1e308,2:1e308"),
    *("nan,1,1,1", "0,0,0,0", "-1,1,1,1", "inf,1,1,1"),
]


def test_the_factor_is_one_that_a_file_may_have() -> None:
    assert Recipe(factor=MOST_FACTOR).factor == 16
    with pytest.raises(SettingError, match="--factor cannot be 17: it must be at least 1 and at most 16"):
        Recipe(factor=MOST_FACTOR + 1)


def test_prefix_weights() -> None:
    every = Recipe(ipc=4, policy="every-prefix")
    assert list(every.size_weights) == [1, 1, 1, 1]
    assert every.replace(prefix_weights="size").size_weights == pytest.approx((0.25, 0.5, 0.75, 1))
    assert every.replace(prefix_weights="4,3,2,1").size_weights == pytest.approx((4, 3, 2, 1))
    assert every.replace(prefix_weights="4:25,1:75").size_weights == pytest.approx((3, 0, 0, 1))
    assert every.fleet == every.replace(prefix_weights="size").fleet == {}
    assert every.replace(prefix_weights="4:25,1:75").fleet == pytest.approx({1: 0.75, 4: 0.25})
    assert every.replace(prefix_weights="1,0,0,3").fleet == pytest.approx({1: 0.25, 4: 0.75})
    for text in ("5:1", "0:1", "1:1,1:2", "1:x", "1:2:3", ":", "1.5:1", "", *BAD_SHARES):
        with pytest.raises(SettingError, match="--prefix-weights cannot be"):
            every.replace(prefix_weights=text)
    assert every.replace(subset_weight=0.5).size_weights == pytest.approx((0.5, 0.5, 0.5, 1))


def test_named_recipes() -> None:
    assert recipe("paper-cifar10-ipc10") == PAPER_CIFAR10
    assert recipe("demo", seed=4).seed == 4
    for setting, value in [("period", 3), ("freeze", "never"), ("round_distances", 2), ("subset_weight", 2.0)]:
        with pytest.raises(SettingError, match=r"needs --policy mdc.*, not none"):
            recipe("demo", policy="baseline-c", **{setting: value})
    assert recipe("demo", policy="every-prefix", subset_weight=0.5).size_weights[0] == 0.5
    with pytest.raises(SettingError, match="no recipe 'dmeo': choose demo, cifar10-cpu, fashion-mnist-cpu or paper"):
        recipe("dmeo")
    assert all(named.promise for named in RECIPES.values())


def test_every_setting_is_documented() -> None:
    assert all(f.metadata["help"] for f in fields(Recipe))


def test_a_recipe_becomes_the_parts_it_names(toy: Dataset) -> None:
    toy_recipe = Recipe(ipc=3, real_batch=6, train_batch=8, width=4, depth=2, period=7)
    parts = assemble(toy_recipe.replace(distance="l1", freeze="predecessor", round_distances=2), toy, CPU)
    assert parts.objective == GradientMatching(L1())
    assert isinstance(parts.policy, MostLearnableSubset)
    assert (parts.policy.period, parts.policy.freeze, parts.policy.decimals) == (7, Predecessor(), 2)
    assert parts.S.formation == MultiFormation(2)
    per_class = assemble(toy_recipe.replace(policy="mdc-per-class"), toy, CPU).policy
    assert isinstance(per_class, PerClass)
    assert len(per_class.policies) == 3
    assert len({id(policy) for policy in per_class.policies}) == 3
    assert all(isinstance(p, MostLearnableSubset) and p.freeze == Ratchet() for p in per_class.policies)
    every = toy_recipe.replace(policy="every-prefix")
    assert assemble(every, toy, CPU).policy == EveryPrefix((1, 1, 1), balanced=True)
    assert assemble(every.replace(steps="plain"), toy, CPU).policy == EveryPrefix((1, 1, 1))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"real_batch": 21}, r"class 'a' has 20 training images, fewer than --real-batch 21"),
        ({"ipc": 6}, r"class 'a' has 20 training images, but --ipc 6 with --factor 2 starts from 24"),
        ({"train_batch": 61}, r"60 training images, fewer than --train-batch 61"),
        ({"factor": 13, "init": "noise"}, r"--factor 13 does not cut images of 12 x 12"),
        ({"factor": 8, "init": "noise"}, r"--factor 8 does not cut"),  # 7 tiles of 2 pixels leave none for the eighth
        ({"depth": 4}, r"smaller --depth"),
        ({"network": "resnet-ap", "depth": 10}, r"ResNetAP needs images of at least 16 x 16 pixels, not 12 x 12"),
    ],
)
def test_settings_that_do_not_fit_the_data(toy: Dataset, changes: dict[str, Any], sentence: str) -> None:
    fitting = Recipe(ipc=3, real_batch=6, train_batch=8, width=4, depth=2)
    with pytest.raises(SettingError, match=sentence):
        assemble(fitting.replace(**changes), toy, CPU).learner.start(1)


def test_the_class_with_the_fewest_images_is_named(toy: Dataset) -> None:
    keep = np.ones(60, dtype=bool)
    keep[np.nonzero(toy.train.labels == 1)[0][:15]] = False
    fewer = Dataset(toy.name, toy.train.at(keep), toy.test, toy.class_names, toy.mean, toy.std)
    with pytest.raises(SettingError, match=r"class 'b' has 5"):
        assemble(Recipe(real_batch=6), fewer, CPU)


def test_names_below() -> None:
    assert augmentation("none").operations == ()
    assert augmentation("color_crop").operations == (Operation.COLOR, Operation.CROP)
    with pytest.raises(SettingError, match="no augmentation 'blur': choose from color, crop"):
        augmentation("color_blur")
    with pytest.raises(SettingError, match="no network 'vgg': choose convnet, resnet, resnet-ap or densenet"):
        network_builder("vgg", (3, 8, 8), 2, 4, 2)
    assert public_name("folder:/home/somebody/pets") == "folder:pets"
    assert public_name("cifar10") == "cifar10"
