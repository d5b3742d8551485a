"""Pixel optimisers against those of torch, and the law that frozen pixels do not move."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.optimisers import Adam, Moment, MomentumSGD, PixelOptimiser

AT = Moment(0, 10)
MAKERS: dict[str, Callable[[torch.Tensor], PixelOptimiser]] = {
    "sgd": lambda pixels: MomentumSGD(pixels, 0.1, 0.5),
    "adam": lambda pixels: Adam(pixels, 0.1, 0.5),
}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 5), st.floats(0.1, 0.95), st.integers(1, 6))
def test_momentum_between_visits_equals_one_optimiser_of_all(classes: int, momentum: float, rounds: int) -> None:
    """The release steps one SGD over all classes after each of them."""
    start = random(2, classes, 1, 2, 2).double()
    pixels, plain = start.clone(), start.clone().requires_grad_()
    ours = MomentumSGD(pixels, 0.1, momentum)
    sgd = torch.optim.SGD([plain], lr=0.1, momentum=momentum)
    for k in range(rounds):
        for c in range(classes):
            gradient = random(2, 1, 2, 2, seed=100 * k + c).double()
            ours.step(c, gradient, 0, None, AT)
            plain.grad = torch.zeros_like(plain)
            plain.grad[:, c] = gradient
            sgd.step()
    # class c has coasted for all steps after its own visit but the c that belong to the next round
    velocity = sgd.state[plain]["momentum_buffer"].detach()
    left = [sum(momentum**j for j in range(1, c + 1)) for c in range(classes)]
    expected = plain.detach() - 0.1 * velocity * torch.tensor(left).double().reshape(1, -1, 1, 1, 1)
    torch.testing.assert_close(pixels, expected)


def test_adam_equals_that_of_torch_with_cosine_decay() -> None:
    start, total = random(2, 3, 1, 4, 4).double(), 7
    pixels, plain = start.clone(), start.clone().requires_grad_()
    ours = Adam(pixels, 0.02, 0.5)
    theirs = torch.optim.Adam([plain], lr=0.02, betas=(0.5, 0.99), eps=1e-12)
    for number in range(total):
        gradient = random(2, 3, 1, 4, 4, seed=number).double() - 0.5
        for c in range(3):
            ours.step(c, gradient[:, c], 0, None, Moment(number, total))
        for group in theirs.param_groups:
            group["lr"] = 0.02 * 0.5 * (1 + math.cos(math.pi * number / total))
        plain.grad = gradient
        theirs.step()
        with torch.no_grad():
            plain.clamp_(0, 1)
    torch.testing.assert_close(pixels, plain.detach(), rtol=0, atol=1e-9)


def test_adam_does_not_depend_on_the_scale_of_gradients() -> None:
    results = []
    for scale in (1e-4, 1.0, 1e4):
        pixels = random(2, 1, 1, 3, 3)
        ours = Adam(pixels, 0.05, 0.5)
        for number in range(4):
            ours.step(0, scale * (random(2, 1, 3, 3, seed=number) - 0.5), 0, [0.1, 9.0], Moment(number, 4))
        results.append(pixels)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-5)
    torch.testing.assert_close(results[1], results[2], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MAKERS)
@given(frozen=st.integers(0, 3), seed=st.integers(0, 50))
def test_frozen_ranks_stay_bit_identical_despite_momentum(name: str, frozen: int, seed: int) -> None:
    pixels = random(3, 2, 1, 2, 2)
    ours = MAKERS[name](pixels)
    ours.step(0, random(3, 1, 2, 2, seed=seed) - 0.5, 0, None, AT)
    before = pixels.clone()
    for k in range(3):
        ours.step(0, random(3, 1, 2, 2, seed=seed + k) - 0.5, frozen, None, Moment(k + 1, 10))
    assert torch.equal(pixels[:frozen, 0], before[:frozen, 0])
    assert frozen == 3 or not torch.equal(pixels[frozen:, 0], before[frozen:, 0])
    assert torch.equal(pixels[:, 1], before[:, 1])
    assert not any(tensor[:frozen].any() for tensor in ours.state.values())


def test_rank_that_was_frozen_begins_anew_with_a_usual_step() -> None:
    pixels = torch.full((2, 1, 1, 2, 2), 0.5)
    ours = Adam(pixels, 0.05, 0.5)
    for number in range(100):
        ours.step(0, 1 + random(2, 1, 2, 2, seed=number), int(number >= 3), None, Moment(number, 10**6))
    before = pixels[0].clone()
    ours.step(0, torch.ones(2, 1, 2, 2), 0, None, Moment(100, 10**6))
    assert (before - pixels[0]).flatten().tolist() == pytest.approx([0.05] * 4, rel=1e-3)


def test_scales_multiply_the_steps_of_gradient_descent() -> None:
    pixels = torch.zeros(2, 1, 1, 1, 1)
    MomentumSGD(pixels, 0.1, 0.0).step(0, torch.ones(2, 1, 1, 1), 0, [1.0, 3.0], AT)
    assert pixels.flatten().tolist() == pytest.approx([-0.1, -0.3])
