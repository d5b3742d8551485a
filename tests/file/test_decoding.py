"""Decoding: the rule in FORMAT.md, with torch and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.npyio import NpzFile

from mipset.condensing.synthetic import formation
from mipset.file.artifact import Artifact
from mipset.file.decoding import decode, decoded
from mipset.file.description import Accuracy

DATA = Path(__file__).parents[1] / "data"


def example(factor: int, height: int, width: int, channels: int = 1) -> Artifact:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 2, channels, height, width), dtype=np.uint8)
    point = Accuracy(1, 50.0, 0.0, 1, "convnet", "quick", 0, "00")
    return Artifact(pixels, factor, (0.5,) * channels, (0.25,) * channels, ("a", "b"), accuracy=(point,))


@given(factor=st.integers(1, 4), channels=st.integers(1, 3), height=st.integers(4, 11), width=st.integers(4, 11))
def test_decoding_equals_that_of_torch(factor: int, channels: int, height: int, width: int) -> None:
    if any((factor - 1) * -(-side // factor) >= side for side in (height, width)):
        return  # a tile without a pixel of its own
    stored = example(factor, height, width, channels).images[:, 0]
    expected = formation(factor).decode(torch.from_numpy(stored.copy()).float() / 255)
    decoded_images = decode(stored, factor)
    assert decoded_images.dtype == np.float32
    np.testing.assert_allclose(decoded_images, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize(("factor", "size"), [(2, 32), (3, 32), (3, 24), (2, 28)])
def test_decoding_equals_that_of_the_authors(factor: int, size: int) -> None:
    file: Any = np.load(DATA / "decode.npz", allow_pickle=False)
    assert isinstance(file, NpzFile)
    bytes_ = np.rint(file[f"pixels_f{factor}_s{size}"] * 255).astype(np.uint8)
    np.testing.assert_allclose(decode(bytes_, factor), file[f"decoded_f{factor}_s{size}"], atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("factor", [2, 3])
def test_decoded_set_has_the_training_images(factor: int) -> None:
    given = example(factor, 7, 9)
    plain = decoded(given)
    assert plain.factor == 1
    assert plain.ipc == 3 * factor**2
    assert plain.accuracy == ()
    assert plain.class_names == given.class_names
    for c in range(2):
        np.testing.assert_array_equal(plain.images[:, c], np.rint(decode(given.images[:, c], factor) * 255))


def test_prefix_of_the_decoded_set_is_the_decoded_prefix() -> None:
    given = example(2, 8, 8)
    np.testing.assert_array_equal(decoded(given.prefix(2)).images, decoded(given).prefix(8).images)


def test_set_of_factor_1_is_decoded_already() -> None:
    given = example(1, 5, 5)
    assert decoded(given) is given


def decode_by_the_book(stored: npt.NDArray[np.uint8], factor: int) -> npt.NDArray[np.float64]:
    """One stored image [ch, h, w] as FORMAT.md decodes it, to [f * f, ch, h, w]."""
    _, height, width = stored.shape
    tile_h, tile_w = -(-height // factor), -(-width // factor)
    bottom, right = factor * tile_h - height, factor * tile_w - width
    padded = np.pad(stored / 255, ((0, 0), (0, bottom), (0, right)), constant_values=0.5)

    def enlarged(tile: npt.NDArray[np.float64], axis: int, size: int) -> npt.NDArray[np.float64]:
        length = tile.shape[axis]
        s = np.maximum(0, (np.arange(size) + 0.5) * length / size - 0.5)
        i = np.floor(s).astype(int)
        j = np.minimum(i + 1, length - 1)
        a = (s - i).reshape([-1 if n == axis else 1 for n in range(3)])
        both: npt.NDArray[np.float64] = (1 - a) * tile.take(i, axis) + a * tile.take(j, axis)
        return both

    tiles = [
        padded[:, row * tile_h : (row + 1) * tile_h, column * tile_w : (column + 1) * tile_w]
        for row in range(factor)
        for column in range(factor)
    ]
    return np.stack([enlarged(enlarged(tile, 1, height), 2, width) for tile in tiles])


@pytest.mark.parametrize(("factor", "height", "width"), [(1, 4, 5), (2, 8, 8), (2, 7, 5), (3, 10, 8), (4, 5, 9)])
def test_decoding_with_torch_follows_the_specification(factor: int, height: int, width: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, height, width), dtype=np.uint8)
    decoded_images = formation(factor).decode(torch.from_numpy(pixels).float() / 255)
    expected = np.concatenate([decode_by_the_book(stored, factor) for stored in pixels])
    np.testing.assert_allclose(decoded_images.numpy(), expected, atol=1e-6)
