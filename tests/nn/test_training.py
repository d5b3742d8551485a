"""Training steps, batches and accuracy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mipset.data import Dataset
from mipset.nn import training
from mipset.nn.augment import IDC, Operation
from mipset.nn.networks import ConvNet, Network, ResNet, fresh
from mipset.nn.pixels import to_unit
from mipset.nn.randomness import Purpose, generator, shuffled_batch
from mipset.nn.training import Images, Schedule, TrainingRule, accuracy

CPU = torch.device("cpu")


def real(toy: Dataset) -> Images:
    return Images.of(torch.from_numpy(toy.train.images), torch.from_numpy(toy.train.labels), toy.mean, toy.std, CPU)


def build() -> Network:
    return ConvNet(3, 3, (12, 12), 8, 2)


def test_batches_of_bytes_and_of_floats_are_normalised(toy: Dataset) -> None:
    images = real(toy)
    expected = (to_unit(torch.from_numpy(toy.train.images[3:5])) - 0.4) / 0.3
    torch.testing.assert_close(images.batch(torch.tensor([3, 4]))[0], expected)
    assert images.batch(torch.tensor([3, 4]))[1].tolist() == toy.train.labels[3:5].tolist()
    floats = Images(to_unit(images.pixels), images.labels, images.mean, images.std)
    torch.testing.assert_close(floats.batch(slice(3, 5))[0], expected)
    assert images.resolution == (12, 12)


def test_network_learns_the_toy_set(toy: Dataset) -> None:
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


@given(images=st.integers(1, 300), batch=st.integers(1, 70))
def test_even_batches_hold_every_image_once(images: int, batch: int) -> None:
    order = torch.randperm(images, generator=torch.Generator().manual_seed(0))
    batches = Schedule(1, batch, even=True).split(order)
    assert torch.equal(torch.cat(list(batches)), order)
    lengths = [len(part) for part in batches]
    assert max(lengths) - min(lengths) <= 1
    assert max(lengths) <= batch
    assert len(batches) == len(Schedule(1, batch).split(order)), "as many steps as with a smaller last batch"


def test_large_batch_is_learned_in_parts_unless_images_are_mixed(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same step up to rounding, with passes of a few images only."""
    images, rule = real(toy), TrainingRule(0.05, 0.9, 5e-4, IDC((Operation.COLOR,)), mix=1.0)

    def step(make: Callable[[], Network]) -> tuple[Tensor, list[int]]:
        theta, sizes = fresh(make, 1, CPU), []
        theta.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
        rule.step(theta, rule.optimiser(theta), *images.batch(slice(0, 20)), generator(0, Purpose.NETWORK, 1))
        return torch.nn.utils.parameters_to_vector(theta.parameters()).detach(), sizes

    whole, sizes = step(build)
    assert sizes == [20]
    monkeypatch.setattr(training, "PIXELS_AT_ONCE", 8 * 12 * 12)
    parted, sizes = step(build)
    assert sizes == [8, 8, 4]
    torch.testing.assert_close(parted, whole, rtol=1e-4, atol=1e-6)
    assert step(lambda: ResNet(3, 3, (12, 12), 4))[1] == [20]
