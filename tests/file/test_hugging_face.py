"""`hf()` of a set and of a subset: a dataset of Hugging Face with pictures and class names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mipset
from export_sets import pixels_of, small_set
from mipset import device
from mipset.exchange.exports import export
from mipset.file.decoding import decoded

datasets: Any = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_rows_are_the_training_images_of_the_prefix(channels: int, mode: str) -> None:
    condensed = small_set(channels)[:2]  # factor 2
    rows = condensed.hf()
    assert rows.features == datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dög"])}
    )
    expected = decoded(condensed)  # [2 * 4 ranks, 2 classes, ...]: tiles are ranks of their own
    of_class = [[row["image"] for row in rows if row["label"] == c] for c in range(2)]
    for c, pictures in enumerate(of_class):
        assert {picture.mode for picture in pictures} == {mode}
        np.testing.assert_array_equal([pixels_of(picture) for picture in pictures], expected.images[:, c])


def test_dataset_equals_that_of_a_parquet_export(tmp_path: Path) -> None:
    """Without tiles, also in the order."""
    condensed = small_set(factor=1)
    export(condensed, "parquet", tmp_path / "set.parquet")
    loaded = datasets.load_dataset(
        "parquet", data_files=str(tmp_path / "set.parquet"), split="train", cache_dir=str(tmp_path / "cache")
    )
    rows = condensed.hf()
    assert rows.features == loaded.features
    assert rows["label"][:] == loaded["label"][:]
    for row, other in zip(rows, loaded, strict=True):
        np.testing.assert_array_equal(pixels_of(row["image"]), pixels_of(other["image"]))


def test_subset_of_a_device_gives_the_sizes_of_its_classes(tmp_path: Path) -> None:
    small_set(1).write(tmp_path / "set")
    rows = device.open(tmp_path / "set").prefix([3, 1]).hf()
    assert rows["label"][:] == [0] * 4 + [1] * 4 + [0] * 8


def test_dataset_can_be_read_again_by_from_hf() -> None:
    condensed = small_set(factor=1, class_names=("cat", "cat"))  # datasets refuses names that are equal
    data = mipset.from_hf(condensed.hf(), condensed.hf())
    assert data.class_names == ("cat", "cat (2)")
    np.testing.assert_array_equal(data.train.images, condensed.images.reshape(-1, 3, 6, 8))


def test_two_channels_are_refused_and_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(mipset.ArtifactError, match=r"^Images of 2 channels cannot be pictures, .* Export to npz\.$"):
        small_set(2).hf()
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(mipset.MissingExtraError, match=r"^A dataset of Hugging Face needs datasets, .*\[hf\]"):
        small_set().hf()
