"""Subsets of real datasets, which are not in the repository: written in the official layouts, and read from there.

MIPSET_REAL_SUBSETS names a folder that has some of these:

    cifar100.npz, svhn.npz   x_train and x_test [n, 32, 32, 3] of bytes, y_train and y_test; labels from 0 on
    imagenette               train/nXXXXXXXX and val/nXXXXXXXX with photographs
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_official_arrays import FORMS

from mipset.data import Split, load
from mipset.data.class_names import IMAGENETTE
from mipset.data.official import OFFICIAL
from tiny_data import equal_splits

VARIABLE = "MIPSET_REAL_SUBSETS"


def subset(name: str) -> Path:
    """The place of a subset; the test is skipped if there is none."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"needs subsets of real datasets: set {VARIABLE} to their folder")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{VARIABLE} is {folder}, which has no {name}")
    return path


@pytest.mark.parametrize("form", [form for form in FORMS if not form.startswith("stl10")])
def test_real_images_are_read_from_official_layouts(form: str, tmp_path: Path) -> None:
    spec, inner, write, _ = FORMS[form]
    with np.load(subset(f"{spec.name}.npz")) as file:
        train, test = (
            Split.of(np.ascontiguousarray(file[f"x_{part}"].transpose(0, 3, 1, 2)), file[f"y_{part}"].astype(np.int64))
            for part in ("train", "test")
        )
    (tmp_path / inner).mkdir(exist_ok=True)
    write(tmp_path / inner, train, test)
    fewer = replace(spec, train_count=len(train), test_count=len(test), sha256="", md5={})
    data = replace(OFFICIAL[spec.name], spec=fewer).open(spec.name, tmp_path)
    assert equal_splits(data.train, train)
    assert equal_splits(data.test, test)
    assert data.classes == len(spec.class_names) == len(np.unique(data.train.labels))


def test_real_photographs_are_read_by_their_folders() -> None:
    data = load(f"imagenet:{subset('imagenette')}", resolution=64)
    assert data.shape == (3, 64, 64)
    assert data.class_names == tuple(IMAGENETTE)
    assert all(len(np.unique(split.labels)) == 10 for split in (data.train, data.test))
    assert all(0.2 < value < 0.7 for value in data.train.images.mean(axis=(0, 2, 3)) / 255)
