"""Decoding without torch gives what decoding with torch gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.npyio import NpzFile

from mipset.condensing.synthetic import formation
from mipset.file.artifact import Accuracy, Artifact
from mipset.file.decoding import decode, decoded

DATA = Path(__file__).parent / "data"


def example(factor: int, height: int, width: int, channels: int = 1) -> Artifact:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 2, channels, height, width), dtype=np.uint8)
    point = Accuracy(1, 50.0, 0.0, 1, "convnet", "quick", 0, "00")
    return Artifact(pixels, factor, (0.5,) * channels, (0.25,) * channels, ("a", "b"), accuracy=(point,))


@given(factor=st.integers(1, 4), channels=st.integers(1, 3), height=st.integers(4, 11), width=st.integers(4, 11))
def test_it_is_the_formation(factor: int, channels: int, height: int, width: int) -> None:
    if any((factor - 1) * -(-side // factor) >= side for side in (height, width)):
        return  # a tile without a pixel of its own
    stored = example(factor, height, width, channels).images[:, 0]
    expected = formation(factor).decode(torch.from_numpy(stored.copy()).float() / 255)
    found = decode(stored, factor)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


@pytest.mark.parametrize(("factor", "size"), [(2, 32), (3, 32), (3, 24), (2, 28)])
def test_it_is_the_authors_decoder(factor: int, size: int) -> None:
    file: Any = np.load(DATA / "decode.npz", allow_pickle=False)
    assert isinstance(file, NpzFile)
    bytes_ = np.rint(file[f"pixels_f{factor}_s{size}"] * 255).astype(np.uint8)
    np.testing.assert_allclose(decode(bytes_, factor), file[f"decoded_f{factor}_s{size}"], atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("factor", [2, 3])
def test_a_decoded_set_is_a_set_of_training_images(factor: int) -> None:
    given = example(factor, 7, 9)
    found = decoded(given)
    assert found.factor == 1
    assert found.ipc == 3 * factor**2
    assert found.accuracy == ()
    assert found.class_names == given.class_names
    for c in range(2):
        np.testing.assert_array_equal(found.images[:, c], np.rint(decode(given.images[:, c], factor) * 255))


def test_a_prefix_of_it_is_the_decoded_prefix() -> None:
    """Law 2."""
    given = example(2, 8, 8)
    np.testing.assert_array_equal(decoded(given.prefix(2)).images, decoded(given).prefix(8).images)


def test_a_plain_set_is_decoded_already() -> None:
    given = example(1, 5, 5)
    assert decoded(given) is given
