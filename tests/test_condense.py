"""Algorithm 1 at toy size: the laws, every assembly, and going on after an interruption."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from mipset import checkpoint
from mipset.condense import Parts, Step, condense
from mipset.data import Dataset
from mipset.errors import ArtifactError, DivergedError, SettingError
from mipset.learners import Learner
from mipset.networks import ConvNet, Network, fresh
from mipset.recipes import DISTANCES, FREEZE_RULES, INITIALISATIONS, POLICIES, Recipe, assemble, pack, run
from mipset.subsets import MostLearnableSubset, NeverFreeze
from mipset.synthetic import to_uint8

CPU = torch.device("cpu")


def last(recipe: Recipe, data: Dataset) -> Step:
    *_, step = run(recipe, data)
    return step


def pixels(recipe: Recipe, data: Dataset) -> torch.Tensor:
    return last(recipe, data).parts.S.pixels


@pytest.mark.parametrize(
    ("distance", "factor", "policy"), list(itertools.product(DISTANCES, (1, 2, 3), POLICIES)), ids=str
)
def test_every_objective_formation_and_policy(
    toy: Dataset, recipe: Recipe, distance: str, factor: int, policy: str
) -> None:
    chosen = recipe.replace(distance=distance, factor=factor, policy=policy, ipc=2)
    start = assemble(chosen, toy, CPU).S.pixels.clone()
    step = last(chosen, toy)
    S = step.parts.S.pixels
    assert S.shape == (2, 3, 3, 12, 12)
    assert bool(S.isfinite().all())
    assert 0 <= float(S.min()) <= float(S.max()) <= 1
    assert not torch.equal(S, start)
    assert (step.t, step.e, step.share, step.outer_done) == (2, 2, 1.0, True)


@pytest.mark.parametrize(("freeze", "init"), list(itertools.product(FREEZE_RULES, INITIALISATIONS)), ids=str)
def test_every_freeze_rule_and_initialisation(toy: Dataset, recipe: Recipe, freeze: str, init: str) -> None:
    assert bool(pixels(recipe.replace(freeze=freeze, init=init), toy).isfinite().all())


def test_basic_condensation_is_bit_identical_to_the_method_with_its_subset_loss_off(
    toy: Dataset, recipe: Recipe
) -> None:
    """Law 4."""
    basic = pixels(recipe.replace(policy="none"), toy)
    off = recipe.replace(subset_weight=0.0, freeze="never")
    for policy in ("mdc", "mdc-per-class"):
        assert torch.equal(pixels(off.replace(policy=policy), toy), basic)
    given = recipe.replace(policy="every-prefix", prefix_weights="0,0,1")
    assert torch.equal(pixels(given, toy), basic)
    assert not torch.equal(pixels(recipe.replace(policy="mdc"), toy), basic)


def test_nothing_but_the_base_loss_counts_in_the_first_outer_iteration(toy: Dataset, recipe: Recipe) -> None:
    once = recipe.replace(outer=1)
    assert torch.equal(pixels(once.replace(policy="mdc"), toy), pixels(once.replace(policy="none"), toy))


def test_the_same_seed_gives_the_same_pixels_and_another_seed_others(toy: Dataset, recipe: Recipe) -> None:
    torch.manual_seed(1)
    first = pixels(recipe, toy).clone()
    torch.manual_seed(2)
    assert torch.equal(pixels(recipe, toy), first)
    assert not torch.equal(pixels(recipe.replace(seed=1), toy), first)


def test_the_loss_falls(toy: Dataset, recipe: Recipe) -> None:
    """Of every policy, where the same network is asked about the same images again and again."""

    class Same(Learner):
        def start(self, t: int) -> Network:
            return fresh(lambda: ConvNet(3, 3, (12, 12), 8, 2), 0, CPU)

        def advance(self, theta: Network, t: int, e: int) -> None:
            pass

    for policy in ("none", "every-prefix"):
        still = recipe.replace(outer=1, inner=40, policy=policy, real_batch=20, match_augment="none", pixel_lr=1.0)
        parts = Parts(**{**vars(assemble(still, toy, CPU)), "learner": Same()})
        losses = [step.loss for step in condense(parts)]
        assert losses[-1] < 0.5 * losses[0]


def frozen_lengths(policy: MostLearnableSubset) -> list[int]:
    lengths, before = [], 0
    for k in range(1, len(policy.chosen) + 1):
        before = policy.freeze.frozen(policy.chosen[:k], before)
        lengths.append(before)
    return lengths


@pytest.mark.parametrize("freeze", ["ratchet", "predecessor"])
def test_a_frozen_prefix_is_bit_identical_from_one_outer_iteration_to_the_next(
    toy: Dataset, recipe: Recipe, freeze: str
) -> None:
    """Law 3, in a run in which both rules freeze something."""
    longer = recipe.replace(outer=12, ipc=4, freeze=freeze, pixel_lr=0.5, seed=3)
    before, frozen, seen = None, 0, 0
    for step in run(longer, toy):
        if not step.outer_done:
            continue
        S = step.parts.S.pixels
        if before is not None:
            assert torch.equal(S[:frozen], before[:frozen])
            assert not torch.equal(S[frozen:], before[frozen:])
        before, frozen = S.clone(), step.parts.policy.frozen(0)
        seen = max(seen, frozen)
    assert seen > 0, "nothing was ever frozen: the test shows nothing"
    policy = step.parts.policy
    assert isinstance(policy, MostLearnableSubset)
    assert frozen_lengths(policy)[-1] == frozen


def test_feature_distances_are_averaged_over_inner_iterations_before_the_policy_sees_them(
    toy: Dataset, recipe: Recipe
) -> None:
    parts = assemble(recipe.replace(policy="mdc", period=1, inner=3, outer=3), toy, CPU)
    seen = []

    class Watching(MostLearnableSubset):
        def select(self, t: int, F: torch.Tensor) -> None:
            seen.append((t, F.clone()))
            super().select(t, F)

    watched = Watching(3, 1, NeverFreeze())
    for _ in condense(Parts(**{**vars(parts), "policy": watched})):
        pass
    assert [t for t, _ in seen] == [1, 2, 3]
    assert all(F.shape == (3, 3) and bool((F > 0).all()) for _, F in seen)
    assert all(float(F[:, 0].mean()) > float(F[:, 2].mean()) for _, F in seen)  # small subsets are farther


def test_a_run_that_was_interrupted_equals_one_that_was_not(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    """Law 6, through a file."""
    for policy in ("mdc", "mdc-per-class", "every-prefix"):
        longer = recipe.replace(outer=5, policy=policy, ipc=4)
        whole = last(longer, toy)
        file = tmp_path / f"{policy}.checkpoint"
        for step in run(longer, toy):
            if step.t == 3 and step.outer_done:
                checkpoint.save(file, step, longer, toy.sha256)
                break
        parts = assemble(longer, toy, CPU)
        assert checkpoint.resume(file, parts, longer, toy.sha256) == 3
        *_, resumed = condense(parts, done=3)
        assert torch.equal(resumed.parts.S.pixels, whole.parts.S.pixels)
        assert torch.equal(resumed.parts.S.velocity, whole.parts.S.velocity)
        assert resumed.parts.policy.state() == whole.parts.policy.state()


def test_a_checkpoint_of_something_else_is_refused(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    parts = assemble(recipe, toy, CPU)
    with pytest.raises(ArtifactError, match="there is no checkpoint"):
        checkpoint.resume(file, parts, recipe, toy.sha256)
    checkpoint.save(file, last(recipe, toy), recipe, toy.sha256)
    with pytest.raises(SettingError, match="--seed 0, not 1"):
        checkpoint.resume(file, parts, recipe.replace(seed=1), toy.sha256)
    with pytest.raises(SettingError, match="other data"):
        checkpoint.resume(file, parts, recipe, "0" * 64)
    for content in (b"", b"nonsense", file.read_bytes()[:200]):
        file.write_bytes(content)
        with pytest.raises(ArtifactError, match="cannot be read"):
            checkpoint.resume(file, parts, recipe, toy.sha256)


def test_a_loss_that_is_not_finite_stops_the_run(toy: Dataset, recipe: Recipe) -> None:
    with pytest.raises(DivergedError, match=r"outer iteration 1, inner iteration .*--pixel-lr"):
        last(recipe.replace(network_lr=1e30, policy="none", inner=6), toy)


def test_a_run_can_start_from_given_images(toy: Dataset, recipe: Recipe) -> None:
    first = last(recipe, toy).parts.S.pixels.clone()
    still = recipe.replace(pixel_lr=0.0)
    *_, step = run(still, toy, start=first)
    assert torch.equal(step.parts.S.pixels, first)
    *_, step = run(still, toy, start=to_uint8(first))
    torch.testing.assert_close(step.parts.S.pixels, to_uint8(first).float() / 255)
    *_, step = run(recipe, toy, start=first)
    assert not torch.equal(step.parts.S.pixels, first)
    with pytest.raises(SettingError, match=r"are \[2, 3, 3, 12, 12\], but \[3, 3, 3, 12, 12\] are condensed"):
        next(run(recipe, toy, start=first[:2]))
    for bad in (first + 1, first - 1, first * float("nan")):
        with pytest.raises(SettingError, match="floats from 0 to 1"):
            next(run(recipe, toy, start=bad))


def test_what_is_packed_is_what_was_condensed(toy: Dataset, recipe: Recipe) -> None:
    step = last(recipe, toy)
    artifact = pack(step, recipe, toy, {"size": None, "split_seed": 4})
    assert artifact.images.dtype == "uint8"
    difference = torch.from_numpy(artifact.images).float() / 255 - step.parts.S.pixels
    assert float(difference.abs().max()) <= 0.5 / 255 + 1e-6
    assert artifact.class_names == toy.class_names
    assert artifact.recipe["policy"] == recipe.policy
    assert artifact.provenance["dataset"] == "toy"
    assert artifact.provenance["split_seed"] == 4
