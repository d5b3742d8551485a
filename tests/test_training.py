from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.samplers import ShuffledEpochs
from mipset.data import Dataset
from mipset.nn.augment import IDC, Operation
from mipset.nn.networks import ConvNet, Network, fresh
from mipset.nn.randomness import Purpose, generator, key, shuffled_batch
from mipset.nn.training import Images, Schedule, TrainingRule, accuracy

CPU = torch.device("cpu")


def real(toy: Dataset) -> Images:
    return Images.of(torch.from_numpy(toy.train.images), torch.from_numpy(toy.train.labels), toy.mean, toy.std, CPU)


def build() -> Network:
    return ConvNet(3, 3, (12, 12), 8, 2)


def test_keys_differ_by_seed_purpose_and_address_and_never_change() -> None:
    keys = {
        key(seed, purpose, *address)
        for seed in range(3)
        for purpose in Purpose
        for address in [(), (0,), (1,), (0, 1), (1, 0), (11,), (1, 1)]
    }
    assert len(keys) == 3 * len(Purpose) * 7
    assert key(0, Purpose.NETWORK, 1) == 3942481396370221052  # a file can be made again years later
    a, b = (torch.rand(3, generator=generator(4, Purpose.NETWORK, 2)) for _ in range(2))
    assert torch.equal(a, b)


def test_shuffled_epochs_show_every_image_once_per_epoch() -> None:
    first = torch.cat([shuffled_batch(10, 5, step, 0, Purpose.REAL_BATCH, 7) for step in (0, 1)])
    second = torch.cat([shuffled_batch(10, 5, step, 0, Purpose.REAL_BATCH, 7) for step in (2, 3)])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert first.tolist() != second.tolist()
    assert len({tuple(shuffled_batch(11, 5, step, 0, Purpose.REAL_BATCH).tolist()) for step in range(4)}) == 4


def test_batches_are_normalised_from_bytes_or_floats(toy: Dataset) -> None:
    images = real(toy)
    expected = (torch.from_numpy(toy.train.images[3:5]).float() / 255 - 0.4) / 0.3
    torch.testing.assert_close(images.batch(torch.tensor([3, 4]))[0], expected)
    assert images.batch(torch.tensor([3, 4]))[1].tolist() == toy.train.labels[3:5].tolist()
    floats = Images(images.pixels.float() / 255, images.labels, images.mean, images.std)
    torch.testing.assert_close(floats.batch(slice(3, 5))[0], expected)
    assert images.resolution == (12, 12)


def test_a_sampler_gives_images_of_its_class(toy: Dataset) -> None:
    images = real(toy)
    sampler = ShuffledEpochs(images, 3, 6, seed=0)
    for c in range(3):
        own, _ = images.batch((images.labels == c).nonzero().squeeze(1))
        for image in sampler.sample(c, build(), 5):
            assert any(torch.equal(image, other) for other in own)
        assert not torch.equal(sampler.sample(c, build(), 5), sampler.sample(c, build(), 6))


def test_networks_learn_the_toy_and_accuracy_counts(toy: Dataset) -> None:
    images = real(toy)
    rule = TrainingRule(0.05, 0.9, 0.0, IDC((Operation.COLOR,)), mix=0.5)
    theta = fresh(build, 1, CPU)
    optimiser = rule.optimiser(theta)
    before = accuracy(theta, images, batch=7)
    for step in range(60):
        order = shuffled_batch(60, 20, step, 0, Purpose.TRAIN_BATCH)
        rule.step(theta, optimiser, *images.batch(order), generator(0, Purpose.NETWORK, step))
    after = accuracy(theta, images, batch=7)
    predicted = theta(images.batch(slice(0, 60))[0]).argmax(1)
    assert after == pytest.approx(100 * float((predicted == images.labels).float().mean()))
    assert after > max(before, 80)


def test_a_learner_starts_anew_and_advances_by_address_alone(toy: Dataset) -> None:
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


def test_networks_of_a_pool_take_turns_and_are_replaced_one_at_a_time(toy: Dataset) -> None:
    rule = TrainingRule(0.05, 0.9, 5e-4, IDC(()), mix=0.0)
    learner = TrainedOnReal(build, real(toy), rule, batch=8, batches=1, seed=0, pool=2, life=4)
    seen: list[int] = []
    ages = []
    keep = []
    for t in range(1, 17):
        theta = learner.start(t)
        keep.append(theta)  # an object that is gone could lend its number to another
        ages.append(seen.count(id(theta)))
        seen.append(id(theta))
        assert t < 3 or id(theta) == seen[-3] or ages[-1] == 0
    assert ages[::2] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert ages[1::2] == [0, 1, 0, 1, 2, 3, 0, 1]  # half a life ahead


def test_a_pool_that_was_saved_goes_on_as_if_it_had_not_been(toy: Dataset) -> None:
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
    assert TrainedOnReal(build, real(toy), rule, batch=8, batches=2, seed=0).state() == {}


def test_half_precision_learns_as_well(toy: Dataset) -> None:
    images = real(toy)
    found = {}
    for half in (False, True):
        rule = TrainingRule(0.05, 0.9, 5e-4, IDC(()), mix=0.0, half=half)
        learner = TrainedOnReal(build, images, rule, batch=20, batches=60, seed=0)
        theta = learner.start(1)
        learner.advance(theta, 0)
        assert all(parameter.dtype == torch.float32 for parameter in theta.parameters())
        found[half] = accuracy(theta, images), torch.nn.utils.parameters_to_vector(theta.parameters()).detach()
    assert found[True][0] > 80
    assert not torch.equal(found[True][1], found[False][1])


@given(images=st.integers(1, 300), batch=st.integers(1, 70))
def test_even_batches_hold_every_image_once_and_differ_by_one_image_at_most(images: int, batch: int) -> None:
    order = torch.randperm(images, generator=torch.Generator().manual_seed(0))
    batches = Schedule(1, batch, even=True).split(order)
    assert torch.equal(torch.cat(list(batches)), order)
    lengths = [len(part) for part in batches]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= batch
    assert len(batches) == len(Schedule(1, batch).split(order)), "as many steps as with a rest"
