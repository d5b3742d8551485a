"""The synthetic set: tiles and first pixels."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mipset.condensing.synthetic import (
    MultiFormation,
    Plain,
    Synthetic,
    cut,
    formation,
    from_noise,
    from_real,
    join,
)
from mipset.errors import SettingError
from mipset.nn.pixels import to_unit


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(4, 15), st.integers(4, 15), st.integers(0, 99))
def test_decoded_images_of_a_prefix_are_a_prefix(n: int, factor: int, h: int, w: int, seed: int) -> None:
    form, stored = formation(factor), random(4, 3, h, w, seed=seed)
    whole, part = form.decode(stored), form.decode(stored[:n])
    assert whole.shape == (4 * form.images, 3, h, w)
    assert torch.equal(whole[: n * form.images], part)


@pytest.mark.parametrize(("factor", "size"), [(1, 5), (2, 12), (3, 11), (4, 10)])
def test_shown_equals_encoding_and_decoding(factor: int, size: int) -> None:
    images = random(2, 1, size, size + 1)
    form = formation(factor)
    decoded = form.decode(form.encode(images.repeat_interleave(form.images, dim=0)))
    for tile in range(form.images):
        assert torch.equal(form.shown(images, tile), decoded[tile :: form.images])


@pytest.mark.parametrize(("factor", "size"), [(2, 12), (3, 12), (3, 11), (4, 10)])
def test_decoding_encoded_images_keeps_their_order(factor: int, size: int) -> None:
    levels = torch.arange(2 * factor**2).float() / 20  # flat images survive shrinking
    images = levels[:, None, None, None].expand(-1, 3, size, size)
    form = MultiFormation(factor)
    decoded = form.decode(form.encode(images))
    tile = -(-size // factor)
    if factor * tile == size:
        torch.testing.assert_close(decoded, images)
    else:  # the tiles at the right and bottom are padded
        torch.testing.assert_close(decoded[0], images[0])
        torch.testing.assert_close(decoded[form.images], images[form.images])


def test_tiles_are_shrunk_by_nearest_neighbour() -> None:
    images = random(4, 3, 8, 8)
    stored = MultiFormation(2).encode(images)
    assert torch.equal(stored[0, :, :4, 4:], images[1, :, ::2, ::2])
    assert torch.equal(stored[0, :, 4:, :4], images[2, :, ::2, ::2])


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3))
def test_join_is_the_inverse_of_cut(n: int, factor: int, h: int, w: int) -> None:
    images = random(n, 2, factor * h, factor * w)
    tiles = cut(images, factor)
    assert tiles.shape == (n * factor**2, 2, h, w)
    assert torch.equal(tiles[factor - 1], images[0, :, :h, (factor - 1) * w :])  # the last of the first row
    assert torch.equal(join(tiles, factor), images)


def test_plain_formation_changes_nothing() -> None:
    stored = random(3, 3, 5, 5)
    assert Plain().decode(stored) is stored
    assert formation(1) == Plain()
    assert formation(3) == MultiFormation(3)
    with pytest.raises(SettingError, match="`factor` is 1: multi-formation needs 2 or more"):
        MultiFormation(1)


def test_mix_takes_the_first_real_images_of_each_class() -> None:
    real = [(random(20, 3, 8, 8, seed=c) * 255).to(torch.uint8) for c in range(2)]
    form = MultiFormation(2)
    whole = from_real(real, 4, form)
    assert whole.shape == (4, 2, 3, 8, 8)
    assert torch.equal(whole[:2], from_real(real, 2, form))
    torch.testing.assert_close(whole[:, 1], form.encode(to_unit(real[1][:16])))


def test_noise_depends_on_seed_rank_and_class_only() -> None:
    whole = from_noise((4, 3, 1, 6, 6), seed=5)
    assert torch.equal(whole[:2, :2], from_noise((2, 2, 1, 6, 6), seed=5))
    assert not torch.equal(whole, from_noise((4, 3, 1, 6, 6), seed=6))
    assert 0 <= float(whole.min()) < 0.05
    assert 0.95 < float(whole.max()) <= 1


def test_training_images_are_normalised() -> None:
    S = Synthetic(random(2, 3, 1, 4, 4), Plain(), (0.5,), (0.25,))
    torch.testing.assert_close(S.decode(S.of_class(1)), (S.pixels[:, 1] - 0.5) / 0.25)
    assert S.of_class(1).requires_grad
    assert (S.N, S.C, S.resolution) == (2, 3, (4, 4))
