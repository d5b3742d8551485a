"""Policies and freeze rules against the equations of the paper."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.metrics import feature_distances
from mipset.condensing.policies import (
    BaselineC,
    EveryPrefix,
    FreezeRule,
    MostLearnableSubset,
    NeverFreeze,
    PerClass,
    Policy,
    Predecessor,
    Ratchet,
    balanced_steps,
    most_learnable,
    reduction_rate,
)
from mipset.errors import SettingError

sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_feature_distances_equal_one_mean_per_prefix(N: int, per_image: int, seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    f_S, f_B = torch.randn(N * per_image, 5, generator=g), torch.randn(7, 5, generator=g)
    expected = [(f_S[: n * per_image].mean(0) - f_B.mean(0)).square().sum() for n in range(1, N + 1)]
    distances = feature_distances(f_S, f_B, N, lambda rows, row: (rows - row).square().sum(dim=(1, 2)))
    torch.testing.assert_close(distances, torch.stack(expected))


def test_reduction_rate_is_the_absolute_change_per_iteration() -> None:
    assert reduction_rate([3.0, 5.0], [5.0, 1.0], 4) == [0.5, 1.0]


def test_first_choice_in_the_papers_example_is_size_1() -> None:
    """Table "Feature distance of subsets": the smallest subset changes most."""
    first = [3012, 1678, 1249, 1013, 896, 807, 738, 701, 675]
    later = [2596, 1294, 891, 661, 514, 429, 373, 332, 298]
    rate = reduction_rate(later, first, 50)
    assert rate == pytest.approx([8.32, 7.68, 7.16, 7.04, 7.64, 7.56, 7.30, 7.38, 7.54])
    assert most_learnable(rate) == 1


def test_the_smallest_of_equals_is_chosen() -> None:
    assert most_learnable([1.0, 4.0, 4.0, 2.0]) == 2


@pytest.mark.parametrize(
    ("rule", "chosen", "frozen"),
    [
        (Predecessor(), [1], [0]),
        (Predecessor(), [1, 3], [0, 1]),  # larger: the one before is frozen
        (Predecessor(), [1, 3, 2], [0, 1, 0]),  # smaller: everything moves
        (Predecessor(), [1, 3, 2, 5], [0, 1, 0, 2]),
        (Predecessor(), [1, 3, 3], [0, 1, 1]),  # the same: as it was
        (Predecessor(), [1, 1], [0, 0]),
        (Ratchet(), [1], [0]),
        (Ratchet(), [1, 3], [0, 1]),
        (Ratchet(), [1, 3, 2], [0, 1, 1]),  # smaller, but 1 was chosen once
        (Ratchet(), [1, 3, 2, 5], [0, 1, 1, 3]),
        (Ratchet(), [1, 3, 1], [0, 1, 0]),
        (Ratchet(), [1, 3, 3], [0, 1, 1]),
        (NeverFreeze(), [1, 3, 5], [0, 0, 0]),
    ],
    ids=repr,
)
def test_freeze_rule_gives_the_frozen_length(rule: FreezeRule, chosen: list[int], frozen: list[int]) -> None:
    lengths, before = [], 0
    for k in range(1, len(chosen) + 1):
        before = rule.frozen(chosen[:k], before)
        lengths.append(before)
    assert lengths == frozen


@given(sizes, st.sampled_from([Predecessor(), Ratchet(), NeverFreeze()]))
def test_frozen_prefix_is_smaller_than_the_active_subset(chosen: list[int], rule: FreezeRule) -> None:
    before = 0
    for k in range(1, len(chosen) + 1):
        before = rule.frozen(chosen[:k], before)
        assert 0 <= before < chosen[k - 1]


def choose(policy: Policy, t: int, changes: list[float], level: float = 100.0) -> None:
    """Measure iteration `t` with the given change of every size since the last."""
    policy.select(t, torch.tensor([[level - change for change in changes]]))


def test_mdc_chooses_size_1_first_and_then_the_most_learnable() -> None:
    policy = MostLearnableSubset(4, period=5, freeze=Predecessor(), subset_weight=0.5)
    assert list(policy.weights(0)) == [0, 0, 0, 1]
    assert [t for t in range(1, 16) if policy.measures(t)] == [1, 5, 10, 15]
    choose(policy, 1, [0, 0, 0, 0])
    assert list(policy.weights(0)) == [0.5, 0, 0, 1]
    assert policy.frozen(0) == 0
    choose(policy, 5, [1, 2, 9, 50])  # the whole set is no candidate
    assert list(policy.weights(0)) == [0, 0, 0.5, 1]
    assert policy.frozen(0) == 1


def test_mdc_of_one_image_per_class_is_baseline_c() -> None:
    policy = MostLearnableSubset(1)
    assert not any(policy.measures(t) for t in range(1, 300))
    assert list(policy.weights(0)) == list(BaselineC(1).weights(0)) == [1]


def test_rounded_distances_can_change_the_choice() -> None:
    fine, coarse = (MostLearnableSubset(3, decimals=decimals) for decimals in (None, 2))
    for policy in (fine, coarse):
        policy.select(1, torch.tensor([[1.0, 1.0, 0.0]]))
        policy.select(100, torch.tensor([[1.001, 1.004, 0.0]]))
    assert fine.n_star == 2
    assert coarse.n_star == 1


def test_mdc_averages_distances_over_classes() -> None:
    policy = MostLearnableSubset(3)
    policy.select(1, torch.tensor([[10.0, 10.0, 0], [10.0, 10.0, 0]]))
    policy.select(100, torch.tensor([[5.0, 10.0, 0], [10.0, 4.0, 0]]))
    assert policy.n_star == 2


@given(st.lists(st.lists(st.floats(0, 100), min_size=8, max_size=8), min_size=1, max_size=6))
def test_per_class_equals_one_policy_for_each_class(measured: list[list[float]]) -> None:
    together = PerClass((MostLearnableSubset(4, 1), MostLearnableSubset(4, 1)))
    alone = [MostLearnableSubset(4, 1), MostLearnableSubset(4, 1)]
    for t, row in enumerate(measured, start=1):
        F = torch.tensor(row).reshape(2, 4)
        together.select(t, F)
        for c, policy in enumerate(alone):
            policy.select(t, F[c : c + 1])
            assert list(together.weights(c)) == list(policy.weights(0))
            assert together.frozen(c) == policy.frozen(0)


@given(st.lists(st.lists(st.floats(0, 100), min_size=8, max_size=8), min_size=2, max_size=6), st.booleans())
def test_restored_policy_chooses_as_the_original(measured: list[list[float]], per_class: bool) -> None:
    def new() -> Policy:
        return (
            PerClass((MostLearnableSubset(4, 1),) * 1 + (MostLearnableSubset(4, 1),))
            if per_class
            else (MostLearnableSubset(4, 1))
        )

    policy, rows = new(), [torch.tensor(row).reshape(2, 4) for row in measured]
    for t, F in enumerate(rows[:-1], start=1):
        policy.select(t, F)
    other = new()
    other.restore(policy.state())
    for each in (policy, other):
        each.select(len(rows), rows[-1])
    assert policy.state() == other.state()
    assert [list(policy.weights(c)) for c in (0, 1)] == [list(other.weights(c)) for c in (0, 1)]


def test_note_tells_the_subset_and_the_frozen_length() -> None:
    policy = MostLearnableSubset(4, 1)
    choose(policy, 1, [0, 0, 0, 0])
    choose(policy, 2, [1, 2, 9, 0])
    assert policy.note() == "subset 3, frozen 1"
    assert PerClass((policy, policy)).note() == "subset 3, frozen 1"
    assert BaselineC(4).note() == ""


def test_every_prefix_refuses_bad_weights() -> None:
    assert list(EveryPrefix((0.5, 0, 2)).weights(7)) == [0.5, 0, 2]
    for bad in [(1.0, -1.0), (float("nan"), 1.0), (float("inf"), 1.0), (0.0, 0.0)]:
        with pytest.raises(SettingError, match="weights"):
            EveryPrefix(bad)


class TestBalancedSteps:
    @given(st.integers(1, 12), st.data())
    def test_every_image_moves_as_far_as_in_baseline_c(self, N: int, data: st.DataObject) -> None:
        """With one gradient g for the mean of any images, S_[n] pulls each of its images by g / n."""
        w = data.draw(st.lists(st.floats(0, 5), min_size=N, max_size=N).filter(lambda w: w[-1] > 0.01))
        pulls = [sum(w[n - 1] / n for n in range(i, N + 1)) for i in range(1, N + 1)]
        for pull, scale in zip(pulls, balanced_steps(w), strict=True):
            assert pull * scale == pytest.approx(1 / N)

    @given(st.integers(1, 60))
    def test_baseline_c_is_not_scaled(self, N: int) -> None:
        assert balanced_steps([0.0] * (N - 1) + [1.0]) == [1.0] * N

    def test_images_without_gradient_are_not_scaled(self) -> None:
        assert balanced_steps([1.0, 0.0]) == [0.5, 1.0]

    def test_only_balanced_policies_scale_steps(self) -> None:
        assert EveryPrefix((1.0, 1.0)).steps(0) is None
        assert EveryPrefix((1.0, 1.0), balanced=True).steps(0) == [1 / 3, 1.0]
        assert PerClass((EveryPrefix((1.0, 1.0), balanced=True),)).steps(0) == [1 / 3, 1.0]
        assert BaselineC(2).steps(0) is MostLearnableSubset(2).steps(0) is None
