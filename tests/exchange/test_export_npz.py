"""Export to npz, read back with numpy and mipset."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import mipset
from export_sets import any_names, image_list_of, small_set
from mipset.errors import ArtifactError
from mipset.exchange.exports import export, npz
from mipset.file.decoding import decoded


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_numpy_opens_an_npz_export(tmp_path: Path, channels: int) -> None:
    artifact = small_set(channels)
    export(artifact, "npz", tmp_path / "set.npz", stored=True)
    with np.load(tmp_path / "set.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {"images", "labels", "class_names", "mean", "std", "factor"}
        assert arrays["images"].dtype == np.uint8
        np.testing.assert_array_equal(arrays["images"], image_list_of(artifact))
        assert arrays["labels"].tolist() == [0, 1, 0, 1, 0, 1]
        assert arrays["class_names"].tolist() == ["cat", "dög"]
        assert tuple(arrays["mean"]) == artifact.mean
        assert tuple(arrays["std"]) == artifact.std
        assert arrays["factor"] == 2


@given(any_names)
def test_npz_export_keeps_class_names(class_names: list[str]) -> None:
    with np.load(io.BytesIO(npz.file_content(small_set(1, tuple(class_names)))), allow_pickle=False) as arrays:
        assert arrays["class_names"].tolist() == [name.replace("\0", "\ufffd") for name in class_names]


def test_npz_export_refuses_one_extremely_long_class_name() -> None:
    """Of numpy's strings each has room for the longest: here that would be 400 MB."""
    long = small_set(1, ("x" * 100_000, *map(str, range(999))), 1, (2, 2))
    with pytest.raises(ArtifactError, match=r"^A class name of 100,000 letters is too long for npz"):
        npz.file_content(long)


def test_mipset_loads_an_npz_export_as_a_dataset(tmp_path: Path) -> None:
    artifact = decoded(small_set())
    export(small_set(), "npz", tmp_path / "set.npz")
    data = mipset.load(f"npz:{tmp_path / 'set.npz'}")
    assert data.class_names == artifact.class_names
    assert data.mean == artifact.mean
    assert len(data.train) + len(data.test) == artifact.ipc * 2
