"""Small datasets for tests, and functions that write them in every form that mipset reads."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from mipset.data import Dataset, Split, cifar, idx, load
from mipset.data.specs import DatasetSpec

Array = npt.NDArray[Any]


def make_split(count: int, shape: tuple[int, int, int], classes: int, seed: int = 0) -> Split:
    """Random images with the labels 0, 1, ..., 0, 1, ..."""
    pixels = np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)
    return Split.of(pixels, np.arange(count) % classes)


def make_dataset(train: int = 20, test: int = 10, classes: int = 5) -> Dataset:
    """A small valid dataset."""
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


def shrink(spec: DatasetSpec, train: int, test: int) -> tuple[DatasetSpec, Split, Split]:
    """The spec of a published dataset, changed to fit a few random images, and these images."""
    classes = len(spec.class_names)
    splits = make_split(train, spec.shape, classes), make_split(test, spec.shape, classes, 1)
    digest = Dataset("", *splits, spec.class_names, spec.mean, spec.std).sha256
    return replace(spec, train_count=train, test_count=test, sha256=digest, md5={}, lengths={}), *splits


def equal_splits(left: Split, right: Split) -> bool:
    return np.array_equal(left.images, right.images) and np.array_equal(left.labels, right.labels)


def python2_batch(
    images: Array, labels: list[int], code: bytes = b"u1", rows: int | None = None, key: bytes = b"labels"
) -> bytes:
    """The bytes that Python 2 and its numpy wrote: protocol 2, and byte strings for everything."""
    raw = images.tobytes()
    shape = struct.pack("<BHBH", ord("M"), len(images) if rows is None else rows, ord("M"), 3072)
    return (
        b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x15training batch 1 of 5q\x03U"
        + bytes([len(key)])
        + key
        + b"q\x04]q\x05("
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


def write_python_batches(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        (folder / name).write_bytes(python2_batch(split.images, split.labels.tolist()))


def write_python3_batches(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        content = {"data": split.images.reshape(len(split), -1), "labels": split.labels.tolist()}
        (folder / name).write_bytes(pickle.dumps(content, protocol=4))


def write_binary_batches(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        records = np.concatenate([split.labels[:, np.newaxis].astype(np.uint8), split.images.reshape(-1, 3072)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_sheets(folder: Path, train: Split, test: Split) -> None:
    for name, split in batches(train, test):
        rows = split.images.transpose(0, 2, 3, 1).reshape(len(split), 1024, 3)
        Image.fromarray(rows).save(folder / f"{name}.png")
    for name, split in zip(cifar.SHEET_LABELS, (train, test), strict=True):
        (folder / name).write_text(json.dumps(split.labels.tolist()), encoding="utf-8")


class Hostile:
    """Unpickles to a call of os.mkdir."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


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


def picture(value: int, mode: str = "RGB", width: int = 6, height: int = 6) -> Image.Image:
    """A picture in one colour, or one grey."""
    return Image.new(mode, (width, height), (value, 0, 255 - value) if mode == "RGB" else value)


def write_pictures(folder: Path, count: int, mode: str = "RGB", classes: tuple[str, ...] = ("cat", "dog")) -> None:
    """Pictures whose red, or grey, is 100 times the class plus the number."""
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            picture(100 * label + number, mode).save(folder / name / f"{number:02d}.png")


def npz_arrays(images: Array | None = None, labels: Array | None = None) -> dict[str, Array]:
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
