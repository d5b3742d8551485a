"""`torch()` of a set and of a subset: a map-style dataset that decodes on the fly, in workers too."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import mipset
from mipset import device
from mipset.file.decoding import decode
from noise_sets import noise_set


def test_items_are_the_training_images_of_the_prefix() -> None:
    condensed = noise_set()  # factor 2
    dataset: Any = condensed[:3].torch()
    assert issubclass(type(dataset), Dataset)
    assert len(dataset) == len(list(dataset)) == 3 * 4 * 4
    values = decode(condensed.images[:3].reshape(-1, 3, 8, 7), 2)
    mean, std = (np.array(each, np.float32).reshape(3, 1, 1) for each in (condensed.mean, condensed.std))
    for number, (image, label) in enumerate(dataset):
        assert image.dtype == torch.float32
        assert type(label) is int
        assert label == number // 4 % 4
        np.testing.assert_allclose(image.numpy(), (values[number] - mean) / std, atol=1e-6)
    np.testing.assert_array_equal(condensed[:3].torch(normalised=False)[5][0].numpy(), values[5])
    assert dataset.targets == [label for _, label in dataset]
    assert dataset.classes == ["a", "b", "c", "d"]
    for wrong in (-1, len(dataset)):
        with pytest.raises(IndexError, match="numbered from 0 to 47"):
            dataset[wrong]


def test_subset_of_a_device_has_the_same_items(tmp_path: Path) -> None:
    noise_set().write(tmp_path / "set")
    subset = device.open(tmp_path / "set").prefix([2, 0, 1, 3])
    images, labels = subset.arrays()
    pairs: Any = subset.torch()
    np.testing.assert_array_equal(torch.stack([image for image, _ in pairs]).numpy(), images)
    assert [label for _, label in pairs] == labels.tolist()


def test_transform_is_called_with_each_image() -> None:
    condensed = noise_set((1, 2, 1, 4, 4), 1, accuracy=())
    plain: Any = condensed.torch()
    halved: Any = condensed.torch(lambda image: image / 2)
    for (image, label), (half, same_label) in zip(plain, halved, strict=True):
        torch.testing.assert_close(half, image / 2)
        assert label == same_label


def test_dataset_holds_the_stored_images_and_no_decoded_ones() -> None:
    condensed = noise_set((5, 10, 3, 32, 32), class_names=tuple("abcdefghij"), accuracy=())
    dataset: Any = condensed[:2].torch()
    for _ in dataset:  # whatever it keeps of what it decodes
        pass
    assert len(pickle.dumps(dataset)) < condensed[:2].images.nbytes + 5000  # decoded, they are 16 times as many bytes


def test_workers_that_are_spawned_load_the_same_batches() -> None:
    """With the augmentation of evaluations as a transform, which has to be pickled too."""
    dataset = noise_set().torch()
    loader = DataLoader(dataset, batch_size=40, num_workers=2, multiprocessing_context="spawn")
    for (images, labels), (expected, expected_labels) in zip(loader, DataLoader(dataset, batch_size=40), strict=True):
        torch.testing.assert_close(images, expected, rtol=0, atol=0)
        assert labels.dtype == torch.int64
        assert labels.tolist() == expected_labels.tolist()
    augmented = pickle.loads(pickle.dumps(noise_set().torch(mipset.augmentation())))
    assert augmented[0][0].shape == (3, 8, 7)


@pytest.mark.parametrize("of", ["artifact", "subset"])
def test_missing_torch_is_named_with_the_command_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    noise_set().write(tmp_path / "set")
    condensed = mipset.read(tmp_path / "set") if of == "artifact" else device.open(tmp_path / "set").prefix(1)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(mipset.MissingExtraError, match=r"^A dataset of torch needs torch, .* pip install"):
        condensed.torch()


def test_mean_and_std_that_cannot_normalise_are_refused() -> None:
    condensed = noise_set((1, 2, 1, 4, 4), mean=(0.5,), std=(1e-50,), accuracy=())
    with pytest.raises(mipset.ArtifactError, match=r"^The set has the mean .* cannot be normalised with them"):
        condensed.torch()
