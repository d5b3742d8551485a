"""Budgets: the rule that chooses experts and iterations, and the time that a run then takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import mipset
from mipset.condensing import budget, checks
from mipset.condensing.budget import Times, depth_for, fitted_to_data, in_half, parse_budget, within
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.nn.engines import Engine, Native
from mipset.nn.native import Kernels
from mipset.settings.catalogue import recipe
from mipset.settings.choices import MOST_AMOUNT, unmirrored
from mipset.settings.recipe import Recipe

EXPERTS = Recipe(learner="experts", objective="feature+10*confidence", inner=10)
times = st.builds(Times, st.floats(1e-3, 1), st.floats(1e-3, 1), st.floats(0, 5))


def seconds_of(r: Recipe, t: Times, classes: int) -> float:
    """What a run takes."""
    return r.outer * r.inner * classes * t.match + r.training_steps(classes) * t.step + t.start


@given(times, st.integers(2, 200), st.floats(1, 1000))
def test_run_takes_its_budget_and_not_more(t: Times, classes: int, factor: float) -> None:
    least = (30 * classes * t.match + t.start) / (1 - budget.EXPERT_SHARE)
    seconds = least * factor
    chosen = within(EXPERTS, seconds, t, classes)
    taken = seconds_of(chosen, t, classes)
    rounding = EXPERTS.inner * classes * t.match + chosen.experts * t.step
    assert seconds - rounding <= taken <= 1.0001 * seconds
    assert chosen.training_steps(classes) * t.step <= budget.EXPERT_SHARE * seconds or chosen.expert_steps == 1


@given(times, st.integers(2, 200), st.floats(1, 100), st.floats(1, 100))
def test_more_time_never_means_less_of_anything(t: Times, classes: int, first: float, more: float) -> None:
    least = (30 * classes * t.match + t.start) / (1 - budget.EXPERT_SHARE)
    small, large = (within(EXPERTS, least * factor, t, classes) for factor in (first, first * more))
    assert small.experts <= large.experts
    assert small.outer <= large.outer
    assert small.training_steps(classes) <= large.training_steps(classes) + large.experts


def test_recipe_without_experts_gets_outer_iterations() -> None:
    plain = Recipe(inner=10, train_images=640)
    t = Times(match=0.1, step=0.01, start=0.0)
    chosen = within(plain, 600, t, 10)
    assert chosen == plain.replace(outer=55)  # 10 x 10 x 0.1 + 9 x 10 x 0.01 seconds each
    with pytest.raises(SettingError, match=r"`budget` is 15 s of processor time, which is too little"):
        within(plain, 15, t, 10)
    with pytest.raises(SettingError, match=r"`budget` is 0\.001s of processor time, which is too little"):
        within(plain, 0.001, t, 10, "0.001s")


@pytest.mark.parametrize("unit", [False, True])
def test_first_order_runs_are_of_bfloat16_on_processors_with_a_matrix_unit(
    kernels: Kernels, unit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "matrix_unit", lambda: unit)
    engine, half = Native(kernels), {"train_precision": "bfloat16", "match_precision": "bfloat16"} if unit else {}
    assert in_half(EXPERTS, {}, engine) == EXPERTS.replace(**half)
    assert in_half(EXPERTS, {}, Engine()) == EXPERTS  # plain torch gains less
    assert in_half(Recipe(), {}, engine) == Recipe()  # gradients of gradients would be wrong
    own = EXPERTS.replace(objective="my:Objective")
    assert in_half(own, {}, engine) == own
    deep = EXPERTS.replace(network="resnet-ap", depth=10)  # its gradients would be off by a quarter
    assert in_half(deep, {}, engine) == deep
    given = {"match_precision": "float32"}
    assert in_half(EXPERTS, given, engine) == EXPERTS.replace(**{**half, **given})
    untrained = Recipe(objective="feature", learner="untrained")  # which never learns
    assert in_half(untrained, {}, engine).train_precision == "float32"


@pytest.mark.parametrize("pool", [{}, {"pool": 3, "life": 5}], ids=["new", "pool"])
def test_early_training_is_a_part_of_the_budget(pool: dict[str, int]) -> None:
    plain = Recipe(inner=10, train_images=640, early_epochs=2).replace(**pool)
    t = Times(match=0.1, step=0.01, start=0.0, early=7.0)
    chosen = within(plain, 600, t, 10)
    taken = seconds_of(chosen, t, 10) + chosen.networks * t.early
    assert 600 - 11 - t.early * (4 if pool else 1) <= taken <= 600
    with pytest.raises(SettingError, match="too little"):
        within(plain, 25, t, 10)


def test_trajectories_get_as_many_experts_as_their_share_of_the_time_allows() -> None:
    r = Recipe(objective="trajectory", learner="trajectories", inner=10, snapshot_steps=50, expert_starts=5)
    t = Times(match=0.1, step=0.01, start=0.0)  # 3 seconds for an expert of 300 steps, 1 for an inner iteration
    chosen = within(r, 100, t, 10)
    assert chosen == r.replace(experts=10, outer=7)
    assert within(r, 30, t, 10).experts == budget.FEWEST_EXPERTS + 1
    with pytest.raises(SettingError, match="too little"):
        within(r, 25, t, 10)


@pytest.mark.parametrize(("scale", "unit"), [(1, "s"), (20, "min"), (1000, "h")])
def test_budget_that_is_too_small_names_one_that_suffices_as_it_is_typed(scale: int, unit: str) -> None:
    t = Times(match=0.1 * scale, step=0.01 * scale, start=1.0)
    with pytest.raises(
        SettingError, match=rf"`budget` is 2 s .*Choose \d+{unit} or more, fewer images per class"
    ) as error:
        within(EXPERTS, 2, t, 10)
    enough = parse_budget(str(error.value).split("Choose ")[1].split(" ")[0])
    assert within(EXPERTS, enough, t, 10).outer >= 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("3min", 180), ("3.5min", 210), ("2h", 7200), ("0.5h", 1800)]
)
def test_budget_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert parse_budget(text) == seconds


@pytest.mark.parametrize("text", ["", "3", "min", "0s", "-1h", "nans", "inf min", "3 days", "1hmin", "infh"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=r"Write a time such as 90s, 3min or 2h\."):
        parse_budget(text)


@pytest.mark.parametrize("number", [5, -3, 0.5, True])
def test_budget_that_is_no_text_is_refused(number: Any) -> None:
    with pytest.raises(SettingError, match=rf"^`budget` is {number}\. Write a time such as 90s, 3min or 2h\.$"):
        parse_budget(number)


@pytest.mark.parametrize("text", ["100000000000h", "1e300h", "1000001h"])
def test_budget_of_more_time_than_anybody_has_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match=rf"^`budget` is {text}: it must be at most 1000000h\. Choose less time\.$"):
        parse_budget(text)


def test_longest_budget_gives_no_setting_that_is_refused() -> None:
    t = Times(match=1e-9, step=1e-9, start=0.0)
    chosen = within(EXPERTS, parse_budget("1000000h"), t, 10)
    assert (chosen.outer, chosen.experts) == (MOST_AMOUNT, budget.MOST_EXPERTS)
    assert MOST_AMOUNT / 1.25 < chosen.expert_steps <= MOST_AMOUNT


@pytest.mark.parametrize(
    ("side", "depth"), [(4, 1), (8, 1), (12, 1), (16, 2), (28, 3), (32, 3), (64, 4), (96, 4), (128, 5), (224, 5)]
)
def test_depth_leaves_four_to_seven_pixels(side: int, depth: int) -> None:
    assert depth_for((3, side, side)) == depth_for((1, side, 2 * side)) == depth


def test_batches_are_not_larger_than_the_data(toy: Dataset) -> None:
    fitted = fitted_to_data(EXPERTS, toy, {})
    assert (fitted.real_batch, fitted.train_batch, fitted.depth, fitted.init) == (20, 60, 1, "noise")
    assert fitted_to_data(EXPERTS.replace(ipc=5), toy, {}).init == EXPERTS.init  # 5 times 4 tiles from 20 images
    given = {"depth": 3, "real_batch": 64, "train_batch": 64, "init": EXPERTS.init}
    assert fitted_to_data(EXPERTS, toy, given) == EXPERTS


def test_digits_are_not_mirrored_while_condensing(toy: Dataset) -> None:
    digits, r = replace(toy, flips=False), recipe("dsa-cifar10-ipc10")
    without = "color_crop_cutout_scale_rotate"
    fitted = checks.fitted_to_data(r, digits)
    assert (fitted.match_augment, fitted.train_augment) == (without, without)
    assert checks.fitted_to_data(r, digits, ("match_augment",)).match_augment == r.match_augment
    assert checks.fitted_to_data(r.replace(train_augment="flip"), digits).train_augment == "none"
    assert checks.fitted_to_data(r, toy).match_augment == r.match_augment


def test_recipes_for_digits_have_no_flip() -> None:
    for name in ("mnist-cpu", "svhn-cpu", "paper-svhn-ipc10", "paper-svhn-ipc50"):
        r = recipe(name)
        assert {unmirrored(r.match_augment), unmirrored(r.train_augment)} == {r.match_augment, r.train_augment}


def test_measured_times_are_processor_seconds(toy: Dataset, recipe: Recipe) -> None:
    r = recipe.replace(learner="experts", objective="feature", init="herding")
    measured = Times.measured(r, toy, torch.device("cpu"), Engine())
    assert 0 < measured.match < 5
    assert 0 < measured.step < 5
    assert 0 < measured.start < 5


class TestRecipeFor:
    def test_it_is_the_best_recipe_of_a_dataset_by_its_name(self) -> None:
        data = mipset.load("fashion-mini")
        assert mipset.recipe_for(data) == mipset.recipe("fashion-mini-cpu")
        assert mipset.recipe_for(data, ipc=3, policy="mdc") == mipset.recipe("fashion-mini-cpu", ipc=3, policy="mdc")

    def test_small_data_of_ones_own_are_condensed_as_they_are(self, toy: Dataset) -> None:
        small = mipset.from_arrays(toy.train.images, toy.train.labels)
        r = mipset.recipe_for(small, ipc=1, width=4, experts=1, expert_steps=1, outer=1, inner=1)
        assert r.real_batch == small.smallest_class[1]
        step = list(mipset.condense(mipset.assemble(r, small)))[-1]
        assert mipset.pack(step, r, small).ipc == 1

    def test_budget_chooses_and_settings_stay(self, toy: Dataset) -> None:
        r = mipset.recipe_for(toy, "1s", ipc=1, width=4, real_batch=5)
        assert (r.ipc, r.width, r.real_batch, r.depth) == (1, 4, 5, depth_for(toy.shape))
        with pytest.raises(SettingError, match="`budget` chooses `outer`"):
            mipset.recipe_for(toy, "1s", outer=3)
