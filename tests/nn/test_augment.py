"""Augmentation: every operation, and how they are composed."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mipset import protocol
from mipset.nn.augment import (
    COLOUR_VALUES,
    COLOUR_VECTORS,
    COMPOSITIONS,
    DSA,
    IDC,
    IMAGENET_MEAN,
    IMAGENET_STD,
    Affine,
    Augmentation,
    Color,
    Crop,
    Cutout,
    Draw,
    Flip,
    Jitter,
    Lighting,
    Operation,
    Zoom,
    augmentation,
    cutmix,
)

RESOLUTION = (16, 16)
OPERATIONS = tuple(Operation)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 5, seed: int = 1, resolution: tuple[int, int] = RESOLUTION) -> Tensor:
    return torch.randn(count, 3, *resolution, generator=rng(seed), dtype=torch.float64)


def whole(*values: float) -> Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize("kind", [IDC, DSA])
@given(st.integers(0, 500), st.lists(st.sampled_from(OPERATIONS), min_size=1, unique=True))
def test_shared_draw_is_the_same_for_any_batch(kind: type[Augmentation], seed: int, names: list[Operation]) -> None:
    draw = kind(tuple(names)).draw(rng(seed), RESOLUTION)
    x = images()
    torch.testing.assert_close(draw(x)[:2], draw(x[:2]))
    torch.testing.assert_close(draw(x), draw(x))
    assert draw(x).shape == x.shape


@given(st.integers(0, 500))
def test_draw_per_image_equals_shared_draws_with_its_parameters(seed: int) -> None:
    """Both ways of applying every operation agree."""
    x = images(4)
    g = rng(seed)
    color, crop, cutout = Color.draw(g, 4), Crop.draw(g, 4, RESOLUTION), Cutout.draw(g, 4, RESOLUTION)
    flip, scale, rotate = Flip.draw(g, 4), Affine.draw_scale(g, 4, False), Affine.draw_rotate(g, 4, True)
    for i in range(4):
        row = slice(i, i + 1)
        alone = [
            Color(color.brightness[row], color.saturation[row], color.contrast[row]),
            Crop(crop.down[row], crop.right[row]),
            Cutout(cutout.row[row], cutout.column[row]),
            Flip(flip.mirrored[row]),
            Affine(scale.matrix[row], False),
            Affine(rotate.matrix[row], True),
        ]
        for each, shared in zip((color, crop, cutout, flip, scale, rotate), alone, strict=True):
            torch.testing.assert_close(each(x)[row], shared(x[row]))


@pytest.mark.parametrize("composition", ["idc", "dsa"])
def test_corners_are_aligned_if_asked(composition: str) -> None:
    aligned = augmentation("scale", composition, align_corners=True)
    assert aligned == COMPOSITIONS[composition]((Operation.SCALE,), align_corners=True)
    x = images(1).float()
    draw, plain = (each.draw(rng(1), RESOLUTION) for each in (aligned, augmentation("scale", composition)))
    (scale,) = draw.transforms
    assert isinstance(scale, Affine)
    grid = F.affine_grid(scale.matrix, list(x.shape), align_corners=True)
    assert torch.equal(draw(x), F.grid_sample(x, grid, padding_mode="zeros", align_corners=True))
    assert not torch.allclose(draw(x), plain(x))


def test_color_equals_its_formulas() -> None:
    x = images(2)
    brighter = x + 0.3
    grey = brighter.mean(1, keepdim=True)
    saturated = grey + (brighter - grey) * 0.8
    level = saturated.mean((1, 2, 3), keepdim=True)
    expected = level + (saturated - level) * 1.2
    torch.testing.assert_close(Color(whole(0.8), whole(0.4), whole(0.7))(x), expected, rtol=1e-6, atol=1e-6)


def test_neutral_color_changes_nothing() -> None:
    x = images(2)
    torch.testing.assert_close(Color(whole(0.5), whole(0.5), whole(0.5))(x), x)


def test_crop_shifts_by_whole_pixels_and_fills_with_zero() -> None:
    x = images(1)
    moved = Crop(torch.tensor([2]), torch.tensor([-3]))(x)
    assert torch.equal(moved[:, :, :-2, 3:], x[:, :, 2:, :-3])
    assert not moved[:, :, -2:].any()
    assert not moved[:, :, :, :3].any()


@given(st.integers(0, 200))
def test_crop_and_cutout_draw_within_their_bounds(seed: int) -> None:
    resolution = (16, 24)
    crop, cutout = Crop.draw(rng(seed), 50, resolution), Cutout.draw(rng(seed), 50, resolution)
    assert int(crop.down.abs().max()) <= 2
    assert int(crop.right.abs().max()) <= 3
    holes = (cutout(torch.ones(50, 1, *resolution)) == 0).sum(dim=(1, 2, 3))
    assert int(holes.max()) <= 8 * 12
    assert int(holes.min()) >= 4 * 6  # a quarter is left when the centre is in a corner


def test_cutout_is_a_square_of_half_the_side() -> None:
    hole = Cutout(torch.tensor([8]), torch.tensor([8]))(torch.ones(1, 1, *RESOLUTION)) == 0
    assert hole[0, 0].nonzero().min(0).values.tolist() == [4, 4]
    assert hole[0, 0].nonzero().max(0).values.tolist() == [11, 11]
    assert int(hole.sum()) == 64


def test_flip_mirrors_and_affine_draws_stay_within_limits() -> None:
    x = images(2)
    assert torch.equal(Flip(torch.tensor([True, False]))(x), torch.stack([x[0].flip(2), x[1]]))
    assert torch.equal(Flip(torch.tensor([True]))(x), x.flip(3))
    unit = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    for corners in (True, False):
        torch.testing.assert_close(Affine(unit, corners)(x), x)
    draws = Affine.draw_scale(rng(), 200, False).matrix
    assert float(draws[:, 0, 0].min()) >= 1 / 1.2
    assert float(draws[:, 1, 1].max()) <= 1.2
    assert not torch.equal(draws[:, 0, 0], draws[:, 1, 1])
    angles = torch.atan2(Affine.draw_rotate(rng(), 200, False).matrix[:, 1, 0], draws.new_tensor(1.0))
    assert 10 < float(angles.abs().max()) * 180 / math.pi <= 15


def test_affine_rotates_by_a_quarter_turn() -> None:
    x = images(1)
    turn = torch.tensor([[[0.0, -1, 0], [1, 0, 0]]])
    torch.testing.assert_close(Affine(turn, False)(x), x.rot90(1, (2, 3)))


def kinds(draw: Draw) -> list[type]:
    return [type(transform) for transform in draw.transforms]


def test_idc_composes_flip_color_one_geometric_and_cutout() -> None:
    everything = IDC(OPERATIONS[:6])  # without those of ImageNet
    middles = set()
    for seed in range(40):
        first, second, middle, last = everything.draw(rng(seed), RESOLUTION).transforms
        assert [type(first), type(second), type(last)] == [Flip, Color, Cutout]
        middles.add(type(middle))
    assert middles == {Crop, Affine}
    assert kinds(IDC((Operation.CUTOUT, Operation.CROP, Operation.COLOR)).draw(rng(), RESOLUTION)) == [
        Color,
        Crop,
        Cutout,
    ]
    assert kinds(IDC(()).draw(rng(), RESOLUTION)) == []


def test_dsa_draws_exactly_one_operation() -> None:
    chosen = [kinds(DSA(OPERATIONS[:6]).draw(rng(seed), RESOLUTION)) for seed in range(80)]
    assert all(len(kind) == 1 for kind in chosen)
    assert {kind[0] for kind in chosen} == {Color, Crop, Cutout, Flip, Affine}


def test_augmentation_is_differentiable() -> None:
    x = images(2, resolution=(8, 8)).requires_grad_()
    draw = IDC((Operation.COLOR, Operation.SCALE, Operation.CUTOUT, Operation.FLIP)).draw(rng(3), (8, 8))
    assert torch.autograd.gradcheck(draw, x, fast_mode=True)


def test_half_pixels_are_rounded_up() -> None:
    assert int(Crop.draw(rng(), 500, (20, 36)).down.max()) == 3  # 2.5 pixels
    assert int(Crop.draw(rng(), 500, (20, 36)).right.max()) == 5  # 4.5 pixels
    hole = Cutout(torch.tensor([4]), torch.tensor([4]))(torch.ones(1, 1, 9, 9)) == 0
    assert int(hole.sum()) == 25  # 4.5 pixels


def test_calling_an_augmentation_draws_for_each_image() -> None:
    augment, batch = augmentation("color_crop_flip_scale_rotate"), images(5)
    drawn = augment.draw(rng(1), (batch.shape[2], batch.shape[3]), images=5)(batch)
    torch.testing.assert_close(augment(batch, rng(1)), drawn, rtol=0, atol=0)
    torch.manual_seed(0)
    first, second, single = augment(batch), augment(batch), augment(batch[0])
    torch.manual_seed(0)
    torch.testing.assert_close(augment(batch), first, rtol=0, atol=0)  # torch's own generator
    assert not torch.equal(first, second)
    assert single.shape == batch[0].shape


def test_defaults_are_those_of_evaluations() -> None:
    assert augmentation() == augmentation(protocol("standard").augment)
    batch, labels = images(4), torch.arange(4)
    torch.manual_seed(0)
    shares = [cutmix(batch, labels).share for _ in range(100)]
    assert 30 < sum(share < 1 for share in shares) < 70  # the probability of CutMix in the protocol is 0.5


@given(st.integers(0, 300))
def test_cutmix_weights_labels_by_area(seed: int) -> None:
    x, labels = torch.arange(6.0)[:, None, None, None].expand(6, 1, 8, 8), torch.arange(6)
    mixed = cutmix(x, labels, rng(seed), probability=1.0)
    pasted = (mixed.images != x).float().mean(dim=(1, 2, 3))
    for i in range(6):
        expected = 0.0 if mixed.second[i] == mixed.first[i] else 1 - mixed.share
        assert float(pasted[i]) == pytest.approx(expected)
        values = set(mixed.images[i].flatten().tolist())
        assert values <= {float(mixed.first[i]), float(mixed.second[i])}
    scores = torch.randn(6, 6, generator=rng(seed))
    both = mixed.share * F.cross_entropy(scores, labels) + (1 - mixed.share) * F.cross_entropy(scores, mixed.second)
    torch.testing.assert_close(mixed.loss(scores), both)


def test_cutmix_has_the_given_probability() -> None:
    x, labels = images(4), torch.arange(4)
    assert all(cutmix(x, labels, rng(seed), 0.0).share == 1 for seed in range(50))
    mixed = sum(cutmix(x, labels, rng(seed), 0.5).share < 1 for seed in range(400))
    assert 150 < mixed < 250


class TestImageNet:
    def unit(self, x: Tensor) -> Tensor:
        mean, std = (torch.tensor(values, dtype=x.dtype).reshape(-1, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        return x * std + mean

    def test_operations_come_in_the_order_of_the_release(self) -> None:
        drawn = augmentation("zoom_flip_jitter_lighting").draw(rng(), (16, 16), images=2)
        assert [type(transform) for transform in drawn.transforms] == [Zoom, Flip, Jitter, Lighting]

    def test_zoom_shows_half_to_all_of_the_area_from_inside_the_image(self) -> None:
        x, y, half_width, half_height = Zoom.draw(rng(), 5000).part.unbind(dim=1)
        area, ratio = half_width * half_height, half_width / half_height
        assert 0.5 - 1e-6 <= float(area.min()) < 0.52
        assert 0.98 < float(area.max()) <= 1
        assert 3 / 4 - 1e-6 <= float(ratio.min()) < float(ratio.max()) <= 4 / 3 + 1e-6
        assert bool(((x.abs() + half_width <= 1 + 1e-6) & (y.abs() + half_height <= 1 + 1e-6)).all())

    def test_zoom_of_a_quadrant_enlarges_it(self) -> None:
        x = images(1, resolution=(8, 8))
        zoomed = Zoom(torch.tensor([[-0.5, 0.5, 0.5, 0.5]]))(x)  # the lower left quarter
        enlarged = torch.nn.functional.interpolate(x[:, :, 4:, :4], size=(8, 8), mode="bilinear")
        torch.testing.assert_close(zoomed[:, :, 1:-1, 1:-1], enlarged[:, :, 1:-1, 1:-1])
        torch.testing.assert_close(Zoom(torch.tensor([[0.0, 0.0, 1.0, 1.0]]))(x), x)

    def test_jitter_scales_pixels_from_0_to_1(self) -> None:
        x, one = images(2), torch.ones(1)
        torch.testing.assert_close(Jitter(one, one, one)(x), x)
        torch.testing.assert_close(self.unit(Jitter(1.3 * one, one, one)(x)), 1.3 * self.unit(x), rtol=1e-6, atol=1e-6)
        grey = (self.unit(x) * torch.tensor([0.299, 0.587, 0.114], dtype=x.dtype).reshape(-1, 1, 1)).sum(1, True)
        torch.testing.assert_close(self.unit(Jitter(one, one, 0 * one)(x)), grey.expand_as(x), rtol=1e-6, atol=1e-6)
        level = grey.mean(dim=(2, 3), keepdim=True).expand_as(x)
        torch.testing.assert_close(self.unit(Jitter(one, 0 * one, one)(x)), level, rtol=1e-6, atol=1e-6)
        drawn = Jitter.draw(rng(), 2000).brightness
        assert 0.6 <= float(drawn.min()) < 0.61 < 1.39 < float(drawn.max()) <= 1.4

    def test_lighting_adds_principal_colours(self) -> None:
        x = images(2)
        shift = self.unit(Lighting(torch.tensor([[1.0, 0.0, 0.0]]))(x)) - self.unit(x)
        first = torch.tensor([row[0] for row in COLOUR_VECTORS], dtype=x.dtype) * COLOUR_VALUES[0]
        torch.testing.assert_close(shift, first.reshape(-1, 1, 1).expand_as(x), rtol=1e-6, atol=1e-6)
        assert float(Lighting.draw(rng(), 3000).amounts.std()) == pytest.approx(0.1, rel=0.05)

    def test_grey_images_can_be_augmented_too(self) -> None:
        x = images(2)[:, :1]
        assert augmentation("zoom_flip_jitter_lighting").draw(rng(), (16, 16), images=2)(x).shape == x.shape
