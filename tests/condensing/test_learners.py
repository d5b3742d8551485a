"""Samplers and learners: which real images are compared, and at whose weights."""

from __future__ import annotations

import pytest
import torch

from mipset.condensing.assembly import assemble
from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.samplers import ShuffledEpochs
from mipset.condensing.states import weights_of
from mipset.data import Dataset
from mipset.nn.augment import IDC, Operation
from mipset.nn.networks import ConvNet, Network
from mipset.nn.training import Images, TrainingRule, accuracy
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def real(toy: Dataset) -> Images:
    return Images.of(torch.from_numpy(toy.train.images), torch.from_numpy(toy.train.labels), toy.mean, toy.std, CPU)


def build() -> Network:
    return ConvNet(3, 3, (12, 12), 8, 2)


def test_sampler_gives_images_of_the_class(toy: Dataset) -> None:
    images = real(toy)
    members = [(images.labels == c).nonzero().squeeze(1) for c in range(3)]
    sampler = ShuffledEpochs(images, members, 6, seed=0)
    for c in range(3):
        own, _ = images.batch(members[c])
        for image in sampler.sample(c, build(), 5):
            assert any(torch.equal(image, other) for other in own)
        assert not torch.equal(sampler.sample(c, build(), 5), sampler.sample(c, build(), 6))


def test_every_outer_iteration_has_a_new_network(toy: Dataset, recipe: Recipe) -> None:
    learner = assemble(recipe, toy, CPU).learner
    first, second = (next(learner.start(t).parameters()) for t in (1, 2))
    assert not torch.equal(first, second)


def test_learner_depends_on_iteration_numbers_only(toy: Dataset) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC((Operation.COLOR, Operation.CROP)), mix=0.5)

    def weights(t: int, numbers: list[int]) -> torch.Tensor:
        learner = TrainedOnReal(build, real(toy), rule, batch=8, batches=2, seed=0)
        theta = learner.start(t)
        for number in numbers:
            learner.advance(theta, number)
        return torch.nn.utils.parameters_to_vector(theta.parameters()).detach()

    assert torch.equal(weights(2, [3, 4]), weights(2, [3, 4]))
    assert not torch.equal(weights(2, []), weights(3, []))
    assert not torch.equal(weights(2, [3]), weights(2, [4]))
    assert not torch.equal(weights(2, [3]), weights(2, []))


def test_networks_of_a_pool_are_replaced_one_at_a_time(toy: Dataset) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC(()), mix=0.0)
    learner = TrainedOnReal(build, real(toy), rule, batch=8, batches=1, seed=0, pool=2, life=4)
    seen: list[int] = []
    ages = []
    keep = []
    for t in range(1, 17):
        theta = learner.start(t)
        keep.append(theta)  # or a new object could get the id of an old one
        ages.append(seen.count(id(theta)))
        seen.append(id(theta))
        assert t < 3 or id(theta) == seen[-3] or ages[-1] == 0
    assert ages[::2] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert ages[1::2] == [0, 1, 0, 1, 2, 3, 0, 1]  # half a life ahead


@pytest.mark.parametrize(("pool", "life"), [(1, 1), (1, 3), (2, 3), (3, 2), (4, 7)])
@pytest.mark.parametrize("outer", [1, 2, 5, 12])
def test_number_of_networks_of_a_run(toy: Dataset, outer: int, pool: int, life: int) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC(()), mix=0.0)
    learner = TrainedOnReal(build, real(toy), rule, batch=8, batches=1, seed=0, pool=pool, life=life)
    seen = [learner.start(t) for t in range(1, outer + 1)]
    if pool == 1 or life > 1:
        assert Recipe(outer=outer, pool=pool, life=life).networks == len(set(map(id, seen)))


def test_new_network_learns_early_and_only_once(toy: Dataset) -> None:
    """Steps before the first match: as many as were asked for, and with other images in another outer iteration."""
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC((Operation.COLOR,)), mix=0.5)

    def learner(early: int) -> TrainedOnReal:
        return TrainedOnReal(build, real(toy), rule, batch=8, batches=1, seed=0, life=2, early=early)

    plain, trained = learner(0), learner(4)
    assert list(plain.early(plain.start(1), 1)) == []
    theta = trained.start(1)
    assert torch.equal(weights_of(theta), weights_of(plain.start(1)))
    assert len(list(trained.early(theta, 1))) == 4
    once = weights_of(theta)
    assert not torch.equal(once, weights_of(plain.start(1)))
    again = trained.start(2)  # the same network, which lives for two outer iterations
    assert again is theta
    assert list(trained.early(again, 2)) == []
    assert torch.equal(weights_of(theta), once)
    assert len(list(trained.early(trained.start(3), 3))) == 4


def test_early_training_goes_on_where_it_was_saved(toy: Dataset) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC((Operation.COLOR,)), mix=0.5)
    whole, first, second = (
        TrainedOnReal(build, real(toy), rule, batch=8, batches=1, seed=0, early=5) for _ in range(3)
    )
    theta = whole.start(1)
    for _ in whole.early(theta, 1):
        pass
    steps = first.early(first.start(1), 1)
    next(steps), next(steps)
    second.restore(first.state())
    resumed = second.inside(1, 0)
    assert len(list(second.early(resumed, 1))) == 3
    assert torch.equal(weights_of(resumed), weights_of(theta))


def test_restored_pool_equals_the_original(toy: Dataset) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC((Operation.COLOR,)), mix=0.5)

    def learner() -> TrainedOnReal:
        return TrainedOnReal(build, real(toy), rule, batch=8, batches=2, seed=0, pool=2, life=3)

    def turn(pool: TrainedOnReal, t: int) -> torch.Tensor:
        theta = pool.start(t)
        pool.advance(theta, t)
        return torch.nn.utils.parameters_to_vector(theta.parameters()).detach()

    whole, first, second = learner(), learner(), learner()
    expected = [turn(whole, t) for t in range(1, 8)]
    for t in range(1, 4):
        turn(first, t)
    second.restore(first.state())
    assert all(torch.equal(turn(second, t), expected[t - 1]) for t in range(4, 8))


def test_bfloat16_learns_the_toy_set(toy: Dataset) -> None:
    images = real(toy)
    results = {}
    for half in (False, True):
        rule = TrainingRule(0.05, 0.9, 5e-4, IDC(()), mix=0.0, half=half)
        learner = TrainedOnReal(build, images, rule, batch=20, batches=60, seed=0)
        theta = learner.start(1)
        learner.advance(theta, 0)
        assert all(parameter.dtype == torch.float32 for parameter in theta.parameters())
        results[half] = accuracy(theta, images), torch.nn.utils.parameters_to_vector(theta.parameters()).detach()
    assert results[True][0] > 80
    assert not torch.equal(results[True][1], results[False][1])
