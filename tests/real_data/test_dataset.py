"""Dataset: digest, held-out split, statistics and validation."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mipset.data import Dataset, Split
from mipset.data.dataset import statistics
from mipset.errors import DataError, SettingError
from tiny_data import (
    make_dataset,
    make_split,
)


def test_dataset_has_its_shape_and_number_of_classes() -> None:
    dataset = make_dataset()
    assert (dataset.classes, dataset.shape, len(dataset.train), len(dataset.test)) == (5, (3, 4, 4), 20, 10)


def test_dataset_digest_is_computed_as_documented() -> None:
    dataset = make_dataset()
    parts = [
        b"train.images uint8 20,3,4,4\n" + dataset.train.images.tobytes(),
        b"train.labels int64 20\n" + dataset.train.labels.astype("<i8").tobytes(),
        b"test.images uint8 10,3,4,4\n" + dataset.test.images.tobytes(),
        b"test.labels int64 10\n" + dataset.test.labels.astype("<i8").tobytes(),
    ]
    assert dataset.sha256 == hashlib.sha256(b"".join(parts)).hexdigest()


def test_dataset_digest_changes_with_a_single_label() -> None:
    dataset = make_dataset()
    labels = dataset.test.labels.copy()
    labels[3] = 0
    assert replace(dataset, test=Split.of(dataset.test.images, labels)).sha256 != dataset.sha256


@given(
    counts=st.lists(st.integers(3, 12), min_size=2, max_size=5),
    fraction=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**64),
)
@settings(max_examples=60, deadline=None)
def test_held_out_split_is_disjoint_stratified_and_complete(counts: list[int], fraction: float, seed: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    images = np.zeros((len(labels), 1, 1, 2), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(len(labels))  # the row number tells the images apart
    names = tuple(str(number) for number in range(len(counts)))
    dataset = Dataset("tiny", Split.of(images, labels), Split.of(images + 128, labels), names, (0.5,), (0.5,))

    part = dataset.held_out(fraction, seed)
    kept, held = (split.images[:, 0, 0, 0].tolist() for split in (part.train, part.test))
    assert sorted(kept + held) == list(range(len(labels)))
    assert kept == sorted(kept)
    assert held == sorted(held)
    for split, rows in ((part.train, kept), (part.test, held)):
        assert split.labels.tolist() == labels[rows].tolist()
    for label, count in enumerate(counts):
        expected = min(max(round(fraction * count), 1), count - 2)
        assert int((part.test.labels == label).sum()) == expected
    assert part.sha256 == dataset.held_out(fraction, seed).sha256


def test_held_out_split_depends_on_the_seed_and_is_stable_over_versions() -> None:
    dataset = make_dataset(train=100)
    parts = [dataset.held_out(0.2, seed).test.images for seed in (0, 1)]
    assert not np.array_equal(parts[0], parts[1])
    rows = [int(np.flatnonzero((dataset.train.images == image).all((1, 2, 3)))[0]) for image in parts[0]]
    assert rows == [4, 6, 11, 17, 20, 29, 33, 34, 35, 42, 43, 48, 50, 72, 83, 86, 90, 91, 97, 99]


def test_held_out_split_shares_no_memory_with_the_dataset() -> None:
    dataset = make_dataset()
    part = dataset.held_out(0.3, 0)
    before = dataset.sha256
    part.train.images[:] = 0
    assert replace(dataset).sha256 == before


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_held_out_fraction_outside_0_to_1_is_refused(fraction: float) -> None:
    with pytest.raises(SettingError, match=rf"^`held_out` is {fraction}: it must be between 0 and 1"):
        make_dataset().held_out(fraction, 0)


def test_negative_seed_of_a_held_out_split_is_refused() -> None:
    with pytest.raises(SettingError, match="seed of the split is -1: it must be at least 0"):
        make_dataset().held_out(0.5, -1)


def test_held_out_split_of_a_too_small_class_is_refused() -> None:
    listed = r"5 classes have too few images \('class 0' has 2, 'class 1' has 2, 'class 2' has 2 and 2 more\)"
    with pytest.raises(
        DataError, match=rf"^{listed}, but a .*at least 3 per class. Add images or remove these classes."
    ):
        make_dataset(train=10).held_out(0.5, 0)
    with pytest.raises(DataError, match=r"^Class 'class 4' has 2 images, but .*at least 3.* or remove the class\."):
        make_dataset(train=14).held_out(0.5, 0)


def test_statistics_equal_those_of_float_images() -> None:
    images = make_split(50, (3, 5, 7), 5).images
    images[:, 1] //= 3
    images[:, 2] = 51  # a constant channel
    mean, std = statistics(images)
    floats = images / 255
    assert mean == pytest.approx(floats.mean((0, 2, 3)), abs=5.1e-5)
    assert std[:2] == pytest.approx(floats.std((0, 2, 3))[:2], abs=5.1e-5)
    assert (mean[2], std[2]) == (0.2, 1e-3)
    assert all(round(value, 4) == value for value in mean + std)


def broken(case: str) -> Dataset:
    """A dataset with one thing wrong."""
    good = make_dataset()
    images, labels = good.train.images, good.train.labels
    match case:
        case "float images":
            return replace(good, train=Split(images.astype(np.float32), labels))
        case "three axes":
            return replace(good, train=Split(images[0], labels))
        case "too few labels":
            return replace(good, train=Split(images, labels[:-1]))
        case "short labels":
            return replace(good, train=Split(images, labels.astype(np.int16)))
        case "empty":
            return replace(good, test=Split(images[:0], labels[:0]))
        case "two channels":
            return replace(good, train=Split.of(images[:, :2], labels))
        case "channels last":
            return replace(good, train=Split.of(images.transpose(0, 2, 3, 1), labels))
        case "tensor":
            return replace(good, train=Split(torch.from_numpy(images), labels))  # type: ignore[arg-type]
        case "only 0 and 1":
            return replace(good, train=Split.of(images // 128, labels))
        case "mean of bytes":
            return replace(good, mean=(125.3, 123.0, 113.9))
        case "strided":
            return replace(good, train=Split(images[:, :, :, ::-1], labels))
        case "other shape":
            return replace(good, test=Split.of(good.test.images[..., :3], good.test.labels))
        case "high label":
            return replace(good, train=Split.of(images, labels + 1))
        case "negative label":
            return replace(good, train=Split.of(images, labels - 1))
        case "one training image":
            return replace(good, train=good.train.at(np.flatnonzero((labels != 2) | (np.arange(20) == 2))))
        case "no test image":
            return replace(good, test=good.test.at(good.test.labels != 3))
        case "one class":
            zero = labels == 0
            return replace(
                good, train=good.train.at(zero), test=good.test.at(good.test.labels == 0), class_names=("a",)
            )
        case "same name":
            return replace(good, class_names=("a", "b", "c", "b", "e"))
        case "short mean":
            return replace(good, mean=(0.5,))
        case "infinite mean":
            return replace(good, mean=(0.5, float("inf"), 0.5))
        case "zero std":
            return replace(good, std=(0.5, 0.0, 0.5))
    raise AssertionError(case)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("float images", "training images are float32 .* must be uint8"),
        ("three axes", "shape 3x4x4, but must be uint8 with four axes"),
        ("too few labels", "labels are int64 with shape 19 for 20 images"),
        ("short labels", "labels are int16"),
        ("empty", "test split is empty"),
        ("two channels", "with 2 channels, but must have 1 .* or 3 .*mipset.from_arrays"),
        ("channels last", "shape 20x4x4x3, .* channels seem to be last. Use mipset.from_arrays"),
        ("tensor", "training split holds a Tensor, but must hold two numpy arrays"),
        ("only 0 and 1", "training images are bytes, but none is above 1, .* Multiply them by 255"),
        ("mean of bytes", "mean is .125.3, .* for images scaled to"),
        ("strided", "not C-contiguous"),
        ("other shape", "training images are 3x4x4 and test images 3x4x3"),
        ("high label", "training labels go from 1 to 5, .* 5 classes .* 0 to 4"),
        ("negative label", "training labels go from -1 to 3"),
        ("one training image", "class 'class 2' has 1 image in the training split, but each class needs at least 2"),
        ("no test image", "class 'class 3' has no images in the test split, but each class needs at least 1"),
        ("one class", "there is 1 class, but at least two"),
        ("same name", "'b' occurs more than once"),
        ("short mean", "mean is .* for each of the 3 channels"),
        ("infinite mean", "mean is .* from 0 to 1"),
        ("zero std", "std is .* from 0.001 to 10"),
    ],
)
def test_invalid_dataset_is_refused_with_its_problem(case: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^tiny: .*{message}"):
        broken(case)
