"""From a recipe and data to the parts of Algorithm 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mipset.condensing.assembly import as_named, assemble, settings_of_experts, training_rule
from mipset.condensing.objectives import L1, GradientMatching, TrajectoryMatching
from mipset.condensing.policies import EveryPrefix, MostLearnableSubset, PerClass, Predecessor, Ratchet
from mipset.condensing.synthetic import MultiFormation
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def test_recipe_becomes_the_parts_that_it_names(toy: Dataset) -> None:
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


@pytest.mark.parametrize("objective", ["feature", "characteristic", "layered", "feature+2*confidence/2"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision_of_matching_reaches_every_objective(toy: Dataset, objective: str, precision: str) -> None:
    r = Recipe(ipc=3, real_batch=6, train_batch=8, width=4, depth=2, learner="experts", expert_steps=1)
    described = repr(assemble(r.replace(objective=objective, match_precision=precision), toy, CPU).objective)
    terms = 2 if "confidence" in objective else 1
    assert described.count(f"half={precision == 'bfloat16'}") == described.count("half=") == terms


@pytest.mark.parametrize("resampling", ["edges", "centres"])
def test_resampling_reaches_matching_training_and_students(toy: Dataset, resampling: str) -> None:
    r = Recipe(ipc=3, real_batch=6, train_batch=8, width=4, depth=2, resampling=resampling)
    assert assemble(r, toy, CPU).augmentation.align_corners == (resampling == "centres")
    assert training_rule(r).augmentation.align_corners == (resampling == "centres")
    matching = r.replace(objective="trajectory", learner="trajectories")
    compared = as_named(matching, assemble(r, toy, CPU)).objective
    assert isinstance(compared, TrajectoryMatching)
    assert compared.student.augmentation.align_corners == (resampling == "centres")
    assert settings_of_experts(matching).get("resampling", "edges") == resampling


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"real_batch": 21}, r"Class 'a' has 20 training images, fewer than `real_batch` 21\. Choose 20 or less"),
        (
            {"ipc": 6},
            r"Class 'a' has 20 training images, but `ipc` 6 with `factor` 2 starts from 24\. Choose a smaller `ipc`",
        ),
        (
            {"real_batch": 21, "ipc": 6, "train_batch": 61},
            r"`real_batch` 21\. .* `ipc` 6 with `factor` 2 starts from 24\. .* `train_batch` 61\. Choose 60 or less",
        ),
        ({"train_batch": 61}, r"60 training images, fewer than `train_batch` 61\. Choose 60 or less"),
        ({"factor": 13, "init": "noise"}, r"`factor` 13 is too large for images of 12 x 12 pixels"),
        ({"factor": 8, "init": "noise"}, r"`factor` 8 is too large"),  # 7 tiles of 2 pixels leave none for the eighth
        ({"depth": 4}, r"12 x 12 pixels are too few\. Choose a smaller `depth`"),
        ({"network": "resnet-ap", "depth": 10}, r"ResNetAP needs images of at least 16 x 16 pixels, not 12 x 12"),
    ],
)
def test_recipe_that_does_not_fit_the_data_is_refused(toy: Dataset, changes: dict[str, Any], message: str) -> None:
    fitting = Recipe(ipc=3, real_batch=6, train_batch=8, width=4, depth=2)
    with pytest.raises(SettingError, match=message):
        assemble(fitting.replace(**changes), toy, CPU).learner.start(1)


def test_error_names_the_class_with_the_fewest_images(toy: Dataset) -> None:
    keep = np.ones(60, dtype=bool)
    keep[np.nonzero(toy.train.labels == 1)[0][:15]] = False
    fewer = Dataset(toy.name, toy.train.at(keep), toy.test, toy.class_names, toy.mean, toy.std)
    with pytest.raises(SettingError, match=r"Class 'b' has 5"):
        assemble(Recipe(real_batch=6), fewer, CPU)
