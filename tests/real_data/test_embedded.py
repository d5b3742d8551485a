"""The embedded dataset fashion-mini."""

from __future__ import annotations

import numpy as np
import pytest

from mipset.data import fetch, load
from mipset.data.specs import FASHION_MINI
from mipset.errors import DataError


def test_embedded_dataset_is_complete() -> None:
    dataset = load("fashion-mini")
    assert dataset.name == "fashion-mini"
    assert dataset.shape == (1, 28, 28)
    assert np.bincount(dataset.train.labels).tolist() == [500] * 10
    assert np.bincount(dataset.test.labels).tolist() == [200] * 10
    assert dataset.sha256 == "9c0e3e70f8677877eca83e9f3dee5e5f84c8f706556a6a3a36650241e6c12bcd"
    assert dataset.train.labels[:5].tolist() == [9, 0, 0, 3, 0]  # as Fashion-MNIST begins
    assert (dataset.mean, dataset.std) == ((0.2861,), (0.3530,))
    assert dataset.train.images.flags.writeable


def test_embedded_file_is_small_and_has_its_licence() -> None:
    file = fetch("fashion-mini")
    assert file.stat().st_size < 3_200_000
    assert "Copyright © 2017 Zalando SE" in (file.parent / "LICENSE.fashion-mnist").read_text(encoding="utf-8")


def test_changed_pixel_of_the_embedded_dataset_is_noticed() -> None:
    dataset = load("fashion-mini")
    dataset.train.images[17, 0, 3, 3] ^= 1
    with pytest.raises(DataError, match=r"not those of fashion-mini .*Install mipset again"):
        FASHION_MINI.verify("fashion-mini", dataset.train, dataset.test)
