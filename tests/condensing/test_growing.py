"""Growing: published images keep their bytes, and new ones are condensed beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense, update
from mipset.condensing.growing import grown, in_order_of, recipe_of
from mipset.condensing.packing import pack
from mipset.condensing.policies import EveryPrefix, FrozenPrefix, MostLearnableSubset
from mipset.data import Dataset, Split
from mipset.errors import DataError, SettingError
from mipset.file.artifact import Artifact
from mipset.nn.pixels import to_uint8
from mipset.settings.choices import POLICIES
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def condensed(recipe: Recipe, data: Dataset) -> Artifact:
    *_, step = condense(assemble(recipe, data))
    return pack(step, recipe, data)


def larger(artifact: Artifact, data: Dataset, recipe: Recipe) -> Artifact:
    parts = grown(artifact, data, recipe, CPU)
    *_, step = condense(parts)
    return pack(step, recipe, data)


def without_class(data: Dataset, name: str) -> Dataset:
    """The dataset before the class was added, its labels closed up."""
    gone = data.class_names.index(name)
    kept = tuple(other for other in data.class_names if other != name)

    def part(split: Split) -> Split:
        rest = split.at(split.labels != gone)
        return Split.of(rest.images, rest.labels - (rest.labels > gone))

    return replace(data, train=part(data.train), test=part(data.test), class_names=kept)


@pytest.mark.parametrize("policy", POLICIES)
def test_growing_by_images_keeps_the_first_ranks(toy: Dataset, recipe: Recipe, policy: str) -> None:
    first = condensed(recipe.replace(ipc=2, policy=policy, outer=1), toy)
    more = recipe.replace(ipc=4, policy=policy)
    grown_set = larger(first, toy, more)
    assert grown_set.ipc == 4
    assert np.array_equal(grown_set.images[:2], first.images)
    assert not np.array_equal(grown_set.images[2:], to_uint8(assemble(more, toy).S.pixels)[2:].numpy()), (
        "the new ranks are condensed"
    )
    for rank in range(2):
        assert grown_set.rank_sha256[rank] == first.rank_sha256[rank]


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_new_class_comes_after_the_others(toy: Dataset, recipe: Recipe, name: str) -> None:
    before = without_class(toy, name)
    first = condensed(recipe, before)
    data = in_order_of(first, toy)
    assert data.class_names == (*before.class_names, name)
    grown_set = larger(first, data, recipe)
    assert grown_set.class_names == data.class_names
    assert np.array_equal(grown_set.images[:, :2], first.images)
    assert not np.array_equal(grown_set.images[:, 2], to_uint8(assemble(recipe, data).S.pixels)[:, 2].numpy())


def test_growing_by_images_and_classes_together(toy: Dataset, recipe: Recipe) -> None:
    first = condensed(recipe.replace(ipc=1), without_class(toy, "c"))
    grown_set = larger(first, toy, recipe)
    assert grown_set.images.shape[:2] == (3, 3)
    assert np.array_equal(grown_set.images[:1, :2], first.images)


def test_order_of_classes_changes_labels_only(toy: Dataset) -> None:
    other = toy.with_class_order(("c", "a", "b"))
    assert np.array_equal(other.train.images, toy.train.images)
    for split, was in ((other.train, toy.train), (other.test, toy.test)):
        assert [other.class_names[i] for i in split.labels] == [toy.class_names[i] for i in was.labels]
    assert other.with_class_order(toy.class_names).sha256 == toy.sha256
    with pytest.raises(DataError, match="has the class 'd', but toy does not"):
        toy.with_class_order(("a", "b", "d"))


def test_only_sizes_that_can_change_are_chosen(toy: Dataset, recipe: Recipe) -> None:
    first = condensed(recipe.replace(ipc=2, outer=1), toy)
    for policy in ("mdc", "mdc-per-class"):
        parts = grown(first, toy, recipe.replace(ipc=5, outer=3, policy=policy), CPU)
        for _ in condense(parts):
            pass
        state = parts.policy.state()
        for chooser in state.get("classes", [state]):
            assert len(chooser["chosen"]) == 3
            assert chooser["chosen"][0] == 3
            assert set(chooser["chosen"]) <= {3, 4}
    parts = grown(first, toy, recipe.replace(ipc=3), CPU)
    assert not parts.policy.measures(1), "nothing is left to be chosen"


def test_small_sizes_of_a_new_class_are_condensed(toy: Dataset, recipe: Recipe) -> None:
    first = condensed(recipe.replace(ipc=2, outer=1), without_class(toy, "c"))
    parts = grown(first, toy, recipe.replace(ipc=5, outer=1, policy="mdc-per-class"), CPU)
    *_, _ = condense(parts)
    assert [chooser["chosen"] for chooser in parts.policy.state()["classes"]] == [[3], [3], [1]]
    assert [parts.policy.weights(c) for c in (0, 2)] == [[0, 0, 1, 0, 1], [1, 0, 0, 0, 1]]
    parts = grown(first, toy, recipe.replace(ipc=5, outer=1), CPU)
    *_, _ = condense(parts)
    assert parts.policy.state()["chosen"] == [1]
    assert [parts.policy.weights(c) for c in (0, 2)] == [[0, 0, 0, 0, 1], [1, 0, 0, 0, 1]]


def test_loss_and_distances_are_means_over_classes_that_change(toy: Dataset, recipe: Recipe) -> None:
    """A frozen class has no loss, and its distances are not compared."""
    first = condensed(recipe, without_class(toy, "c"))
    loss = next(iter(condense(grown(first, toy, recipe, CPU)))).loss
    parts = grown(first, toy, recipe, CPU)
    assert parts.classes == [2]
    assert loss == pytest.approx(float(update(parts, parts.learner.start(1), 1, 1, [2])[0]))
    for t, changes in enumerate(([0, 0, 0], [9, 0, 0]), start=1):
        parts.policy.select(t, torch.tensor([changes, changes, [0, t, 0]], dtype=torch.float))
    assert parts.policy.state()["chosen"] == [1, 2]


class TestFrozenPrefix:
    @given(st.integers(2, 8), st.data())
    def test_sizes_that_cannot_change_have_no_weight(self, N: int, data: st.DataObject) -> None:
        length = data.draw(st.integers(0, N - 1))
        policy = FrozenPrefix(EveryPrefix((1.0,) * N), (length,), N)
        assert policy.weights(0) == [0.0] * length + [1.0] * (N - length)
        assert policy.frozen(0) == length

    def test_inner_policy_can_freeze_more(self) -> None:
        chooser = MostLearnableSubset(5, period=1)
        policy = FrozenPrefix(chooser, (1,), 5)
        for t, F in enumerate(([0, 0, 0, 0, 0], [0, 0, 9, 0, 0], [0, 0, 9, 9, 0]), start=1):
            assert policy.measures(t)
            policy.select(t, torch.tensor([F], dtype=torch.float))
        assert chooser.chosen == [1, 3, 4]
        assert policy.frozen(0) == 3
        other = FrozenPrefix(MostLearnableSubset(5, period=1), (1,), 5)
        other.restore(policy.state())
        assert other.frozen(0) == 3
        assert other.note() == policy.note()


class TestRefusals:
    def test_settings_that_do_not_grow_the_file_are_refused(self, toy: Dataset, recipe: Recipe) -> None:
        first = condensed(recipe, toy)
        fleet = recipe.replace(policy="every-prefix", prefix_weights="1:60,2:40")
        for changed, message in (
            (recipe.replace(ipc=2), r"`ipc` is 2, less than the 3 images per class of the file\. Use `mipset slice`"),
            (recipe, r"already has 3 images of all 3 classes\. Choose a larger `ipc`"),
            (recipe.replace(ipc=5, factor=1), "The file has `factor` 2, not 1"),
            (fleet.replace(ipc=4), "`prefix_weights` 1:60,2:40 gives size 4 the weight 0, so its last image would not"),
        ):
            with pytest.raises(SettingError, match=message):
                grown(first, toy, changed, CPU)
        with pytest.raises(DataError, match=r"images of 3x12x8, but the images of toy are 3x12x12\. Name the"):
            grown(replace(first, images=first.images[..., :8]), toy, recipe.replace(ipc=5), CPU)

    def test_normalisation_of_the_file_is_kept(self, toy: Dataset, recipe: Recipe) -> None:
        first = replace(condensed(recipe, toy), mean=(0.1, 0.1, 0.1))
        assert in_order_of(first, toy).mean == (0.1, 0.1, 0.1)

    def test_data_without_a_class_of_the_file_are_refused(self, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(DataError, match=r"The file has the class 'b', but toy does not\. Name the dataset"):
            in_order_of(condensed(recipe, toy), without_class(toy, "b"))

    def test_file_without_a_recipe_needs_one(self, toy: Dataset, recipe: Recipe) -> None:
        first = condensed(recipe, toy)
        assert recipe_of(first) == recipe
        with pytest.raises(SettingError, match=r"how it was condensed\. Choose its settings with `recipe`: "):
            recipe_of(replace(first, recipe={}))
