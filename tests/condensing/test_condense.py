"""Algorithm 1 at toy size: every assembly, the laws of docs/architecture.md, and a transcription of the paper."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.learners import Learner
from mipset.condensing.optimisers import MomentumSGD
from mipset.condensing.parts import Parts, Step
from mipset.condensing.policies import MostLearnableSubset, PerClass
from mipset.data import Dataset
from mipset.errors import DivergedError, SettingError
from mipset.nn.engines import Engine, Native
from mipset.nn.native import Kernels
from mipset.nn.networks import ConvNet, Network, fresh
from mipset.nn.pixels import to_uint8, to_unit
from mipset.nn.randomness import Purpose, generator
from mipset.settings.choices import DISTANCES, FREEZE_RULES, INITIALISATIONS, LEARNERS, OPTIMISERS, POLICIES
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def last(recipe: Recipe, data: Dataset) -> Step:
    *_, step = condense(assemble(recipe, data))
    return step


def pixels(recipe: Recipe, data: Dataset) -> torch.Tensor:
    return last(recipe, data).parts.S.pixels


@pytest.mark.parametrize(
    ("distance", "factor", "policy"), list(itertools.product(DISTANCES, (1, 2, 3), POLICIES)), ids=str
)
def test_every_distance_factor_and_policy_runs(
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


FIRST_ORDER = {
    "objective": "feature+2*confidence",
    "learner": "experts",
    "experts": 2,
    "expert_steps": 3,
    "pixel_optimiser": "adam",
    "init": "herding",
}


@pytest.mark.parametrize(
    ("objective", "learner", "optimiser"),
    [
        parts
        for parts in itertools.product(["gradient", "characteristic", "feature+2*confidence"], LEARNERS, OPTIMISERS)
        if parts[:2] != ("feature+2*confidence", "untrained")  # whose networks have no confidence
    ],
)
def test_every_objective_learner_and_optimiser_runs(
    toy: Dataset, recipe: Recipe, objective: str, learner: str, optimiser: str
) -> None:
    for policy in POLICIES:
        parts = {"objective": objective, "learner": learner, "pixel_optimiser": optimiser, "policy": policy}
        chosen = recipe.replace(**parts, experts=2, expert_steps=2, ipc=2)
        chosen = chosen.replace(snapshot_steps=2, expert_starts=2, expert_ahead=1)
        start = assemble(chosen, toy, CPU).S.pixels.clone()
        S = last(chosen, toy).parts.S.pixels
        assert 0 <= float(S.min()) <= float(S.max()) <= 1
        assert not torch.equal(S, start)


@pytest.mark.parametrize("policy", ["baseline-c", "mdc-per-class", "every-prefix"])
def test_classes_that_share_a_pass_get_the_same_pixels_as_alone(toy: Dataset, recipe: Recipe, policy: str) -> None:
    """Which classes share a pass is a matter of speed and memory only, up to rounding."""
    chosen = recipe.replace(**FIRST_ORDER, policy=policy, outer=3)
    parts = assemble(chosen, toy, CPU)
    assert [list(group) for group in parts.groups] == [[0, 1, 2]]
    together = last(chosen, toy).parts.S.pixels
    for c in range(3):
        *_, step = condense(replace(assemble(chosen, toy, CPU), classes=[c]))
        torch.testing.assert_close(step.parts.S.pixels[:, c], together[:, c], rtol=0, atol=1e-4)


def test_first_order_step_equals_a_plain_transcription(toy: Dataset, recipe: Recipe) -> None:
    """Feature means at one network, cross-entropy at another, Adam; every size has its loss and its pass."""
    chosen = recipe.replace(**FIRST_ORDER, policy="every-prefix", prefix_weights="1,2,0.5", inner=1, outer=4)
    *_, step = condense(assemble(chosen, toy))
    parts = assemble(chosen, toy)
    k = parts.S.formation.images
    S = parts.S.pixels.clone().requires_grad_()
    adam = torch.optim.Adam([S], lr=chosen.pixel_lr, betas=(0.5, 0.99), eps=1e-12)
    for t in range(1, 5):
        θ = parts.learner.start(t)
        loss = torch.zeros(())
        for c in range(3):
            draw = parts.augmentation.draw(
                generator(chosen.seed, Purpose.MATCH_AUGMENTATION, t, 1, c), parts.S.resolution
            )
            B_c, S_c = draw(parts.sampler.sample(c, θ, t - 1)), draw(parts.S.decode(S[:, c]))
            for n, weight in ((1, 1.0), (2, 2.0), (3, 0.5)):
                apart = (θ.features(S_c[: n * k]).mean(0) - θ.features(B_c).mean(0)).square().sum()
                scores = parts.learner.trained(θ)(S_c[: n * k])
                loss = loss + weight * (apart + 2 * F.cross_entropy(scores, torch.full((n * k,), c)))
        adam.param_groups[0]["lr"] = chosen.pixel_lr * 0.5 * (1 + math.cos(math.pi * (t - 1) / 4))
        (S.grad,) = torch.autograd.grad(loss, S)
        adam.step()
        with torch.no_grad():
            S.clamp_(0, 1)
    torch.testing.assert_close(step.parts.S.pixels, S.detach(), rtol=0, atol=2e-4)


@pytest.mark.parametrize(("freeze", "init"), list(itertools.product(FREEZE_RULES, INITIALISATIONS)), ids=str)
def test_every_freeze_rule_and_initialisation_runs(toy: Dataset, recipe: Recipe, freeze: str, init: str) -> None:
    assert bool(pixels(recipe.replace(freeze=freeze, init=init), toy).isfinite().all())


def test_baseline_c_is_bit_identical_to_every_policy_without_subset_loss(toy: Dataset, recipe: Recipe) -> None:
    """A baseline is the same loop with another argument."""
    basic = pixels(recipe.replace(policy="baseline-c"), toy)
    off = recipe.replace(subset_weight=0.0, freeze="never")
    for policy in ("mdc", "mdc-per-class"):
        assert torch.equal(pixels(off.replace(policy=policy), toy), basic)
    given = recipe.replace(policy="every-prefix", prefix_weights="0,0,1")
    assert torch.equal(pixels(given, toy), basic)
    assert torch.equal(pixels(given.replace(steps="balanced"), toy), basic)
    assert not torch.equal(pixels(recipe.replace(policy="mdc"), toy), basic)


def test_first_outer_iteration_of_mdc_equals_baseline_c(toy: Dataset, recipe: Recipe) -> None:
    once = recipe.replace(outer=1)
    assert torch.equal(pixels(once.replace(policy="mdc"), toy), pixels(once.replace(policy="baseline-c"), toy))


def test_pixels_depend_on_the_seed_of_the_recipe_only(toy: Dataset, recipe: Recipe) -> None:
    torch.manual_seed(1)
    first = pixels(recipe, toy).clone()
    torch.manual_seed(2)
    assert torch.equal(pixels(recipe, toy), first)
    assert not torch.equal(pixels(recipe.replace(seed=1), toy), first)


def test_loss_decreases_at_a_fixed_network(toy: Dataset, recipe: Recipe) -> None:
    """The network and the real images are the same in every iteration."""

    class Same(Learner):
        def start(self, t: int) -> Network:
            return fresh(lambda: ConvNet(3, 3, (12, 12), 8, 2), 0, CPU)

        def advance(self, theta: Network, number: int) -> Network:
            return theta

    for policy in ("baseline-c", "every-prefix"):
        still = recipe.replace(outer=1, inner=40, policy=policy, real_batch=20, match_augment="none", pixel_lr=1.0)
        parts = replace(assemble(still, toy, CPU), learner=Same())
        losses = [step.loss for step in condense(parts)]
        assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("policy", "freeze"), [("mdc", "ratchet"), ("mdc", "predecessor"), ("mdc-per-class", "ratchet")]
)
def test_frozen_prefix_is_bit_identical_while_it_is_frozen(
    toy: Dataset, recipe: Recipe, policy: str, freeze: str
) -> None:
    """Not even momentum moves it."""
    longer = recipe.replace(outer=12, ipc=4, policy=policy, freeze=freeze, pixel_lr=0.5, seed=3)
    before, frozen, seen = None, [0, 0, 0], set()
    for step in condense(assemble(longer, toy)):
        if not step.outer_done:
            continue
        S = step.parts.S.pixels
        if before is not None:
            for c, length in enumerate(frozen):
                assert torch.equal(S[:length, c], before[:length, c])
                assert not torch.equal(S[length:, c], before[length:, c])
        before, frozen = S.clone(), [step.parts.policy.frozen(c) for c in range(3)]
        seen.add(tuple(frozen))
    assert max(max(lengths) for lengths in seen) > 0, "nothing was ever frozen: the test shows nothing"
    assert any(len(set(lengths)) > 1 for lengths in seen) == (policy == "mdc-per-class")


def by_the_book(parts: Parts, per_class: bool) -> tuple[torch.Tensor, list[list[int]]]:
    """Algorithm 1 as in the paper and the release, without momentum: one pass and one graph for every subset.

    The learner, the real batches and the draws are those of `parts`; everything else is written out. Gives S and the
    chosen sizes of each class.
    """
    assert isinstance(parts.optimiser, MomentumSGD)
    rate = parts.optimiser.rate
    assert isinstance(rate, float)
    S, (N, C, k) = parts.S.pixels.clone(), (parts.S.N, parts.S.C, parts.S.formation.images)
    chosen: list[list[int]] = [[] for _ in range(C)]
    before = None
    for t in range(1, parts.T + 1):
        θ = parts.learner.start(t)
        weights = [p for p in θ.parameters() if p.dim() == 4]
        measured = torch.zeros(parts.E, C, N - 1)
        for e in range(1, parts.E + 1):
            number = (t - 1) * parts.E + e - 1
            for c in range(C):

                def gradients(x: torch.Tensor, label: int = c) -> tuple[torch.Tensor, ...]:
                    loss = F.cross_entropy(θ(x), torch.full((len(x),), label))  # noqa: B023
                    return torch.autograd.grad(loss, weights, create_graph=True)  # noqa: B023

                n = chosen[c][-1] if chosen[c] else 0
                frozen = max((m for m in chosen[c] if m < n), default=0)
                S_c = S[:, c].clone().requires_grad_()
                key = generator(parts.seed, Purpose.MATCH_AUGMENTATION, t, e, c)
                draw = parts.augmentation.draw(key, parts.S.resolution)
                x = draw(parts.S.decode(torch.cat([S_c[:frozen].detach(), S_c[frozen:]])))
                B_c = draw(parts.sampler.sample(c, θ, number))
                target = [g.detach() for g in gradients(B_c)]
                loss = torch.zeros(())
                for size in [N, n] if n else [N]:
                    pairs = zip(gradients(x[: size * k]), target, strict=True)
                    loss = loss + torch.stack([(g - wanted).square().sum() for g, wanted in pairs]).sum()
                for m in range(1, N):
                    difference = θ.features(x[: m * k]).mean(0) - θ.features(B_c).mean(0)
                    measured[e - 1, c, m - 1] = difference.square().sum().detach()
                (gradient,) = torch.autograd.grad(loss, S_c)
                S[:, c] -= rate * gradient
            parts.learner.advance(θ, number)
        S.clamp_(0, 1)
        distances = measured.mean(0)
        now = distances if per_class else distances.mean(0, keepdim=True).expand(C, -1)
        for c in range(C):
            chosen[c].append(1 if before is None else int((now[c] - before[c]).abs().argmax()) + 1)
        before = now.clone()
    return S, chosen


@pytest.mark.parametrize("policy", ["mdc", "mdc-per-class"])
@pytest.mark.parametrize("seed", [0, 1])
def test_algorithm_1_equals_a_plain_transcription(toy: Dataset, recipe: Recipe, policy: str, seed: int) -> None:
    chosen = recipe.replace(ipc=4, outer=6, policy=policy, pixel_momentum=0.0, pixel_lr=0.1, seed=seed)
    *_, step = condense(assemble(chosen, toy))
    S, sizes = by_the_book(assemble(chosen, toy, CPU), per_class=policy == "mdc-per-class")
    final = step.parts.policy
    policies = final.policies if isinstance(final, PerClass) else (final,) * 3
    assert [p.chosen for p in policies if isinstance(p, MostLearnableSubset)] == sizes
    assert len({tuple(each) for each in sizes}) > 1 or policy == "mdc"
    assert max(max(each) for each in sizes) > 1, "no subset but the first was ever chosen: the test shows little"
    torch.testing.assert_close(step.parts.S.pixels, S, rtol=0, atol=2e-6)


@pytest.mark.parametrize("policy", ["baseline-c", "every-prefix"])
def test_pixels_of_a_class_do_not_depend_on_the_other_classes(toy: Dataset, recipe: Recipe, policy: str) -> None:
    """So several processes can share the classes."""
    chosen = recipe.replace(policy=policy)
    whole = pixels(chosen, toy)
    for classes in ([0, 2], [1]):
        *_, step = condense(replace(assemble(chosen, toy, CPU), classes=classes))
        assert torch.equal(step.parts.S.pixels[:, classes], whole[:, classes])


@pytest.mark.parametrize("objective", ["gradient", "feature"])
@pytest.mark.parametrize("rate", ["network", "pixel"])
def test_run_that_diverges_is_stopped_by_every_engine(
    toy: Dataset, recipe: Recipe, kernels: Kernels, objective: str, rate: str
) -> None:
    """Where a layer overflows, its deviation is infinite, and what is divided by it is zero: the loss stays finite."""
    wide = recipe.replace(width=16, policy="baseline-c", objective=objective, outer=1, inner=12)
    for engine in (Engine(), Native(kernels)):
        parts = assemble(wide.replace(network_lr=1e3 if rate == "network" else 0.01), toy, engine=engine)
        if rate == "pixel":
            parts = replace(parts, optimiser=MomentumSGD(parts.S.pixels, 1e24, 0.5))
        with pytest.raises(
            DivergedError, match=r"outer iteration 1, inner iteration \d+: .* Try a smaller `pixel_lr` or"
        ):
            list(condense(parts))


def test_run_starts_from_given_images(toy: Dataset, recipe: Recipe) -> None:
    first = last(recipe, toy).parts.S.pixels.clone()
    still = recipe.replace(pixel_lr=0.0)
    *_, step = condense(assemble(still, toy, start=first))
    assert torch.equal(step.parts.S.pixels, first)
    *_, step = condense(assemble(still, toy, start=to_uint8(first)))
    torch.testing.assert_close(step.parts.S.pixels, to_unit(to_uint8(first)))
    *_, step = condense(assemble(recipe, toy, start=first.double()))
    assert not torch.equal(step.parts.S.pixels, first)
    with pytest.raises(SettingError, match=r"the shape \[2, 3, 3, 12, 12\], but the condensed set has \[3, 3, 3, "):
        next(condense(assemble(recipe, toy, start=first[:2])))
    for bad in (first + 1, first - 1, first * float("nan"), first.long()):
        with pytest.raises(SettingError, match="they must be uint8, or floats from 0 to 1"):
            next(condense(assemble(recipe, toy, start=bad)))
