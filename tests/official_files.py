"""Small datasets in the official layouts of the published ones."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from mipset.data import Split
from mipset.data.class_names import EUROSAT
from tiny_data import Array, python2_batch


def md5_of(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_cifar100(folder: Path, train: Split, test: Split, form: str) -> None:
    """Python batches, or binary batches, in which a coarse label precedes each fine one."""
    for name, split in (("train", train), ("test", test)):
        pixels, fine = split.images.reshape(len(split), -1), split.labels
        if form == "python":
            (folder / name).write_bytes(python2_batch(pixels, fine.tolist(), key=b"fine_labels"))
        else:
            labels = np.stack([fine // 5, fine], axis=1).astype(np.uint8)
            (folder / f"{name}.bin").write_bytes(np.concatenate([labels, pixels], axis=1).tobytes())


def mat_element(kind: int, data: bytes) -> bytes:
    """An element of a file of MATLAB 5, padded to 8 bytes; a small one if it fits."""
    if len(data) <= 4 and kind != 14:
        return struct.pack("<HH", kind, len(data)) + data.ljust(4, b"\0")
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def mat_array(name: str, array: Array, kind: int = 2, array_class: int = 9) -> bytes:
    """An array whose axes are in the order of MATLAB."""
    return mat_element(
        14,
        mat_element(6, struct.pack("<II", array_class, 0))
        + mat_element(5, np.array(array.shape, dtype="<i4").tobytes())
        + mat_element(1, name.encode())
        + mat_element(kind, array.tobytes(order="F")),
    )


def mat_file(*arrays: bytes, compressed: bool = True) -> bytes:
    header = b"MATLAB 5.0 MAT-file".ljust(124, b" ") + b"\x00\x01IM"
    if compressed:
        arrays = tuple(struct.pack("<II", 15, len(packed := zlib.compress(array))) + packed for array in arrays)
    return header + b"".join(arrays)


def svhn_arrays(split: Split) -> tuple[bytes, bytes]:
    """X [32, 32, 3, n] and y [n, 1], in which 10 stands for the digit 0."""
    labels = np.where(split.labels == 0, 10, split.labels).astype(np.uint8)[:, np.newaxis]
    return mat_array("X", split.images.transpose(2, 3, 1, 0)), mat_array("y", labels)


def write_svhn(folder: Path, train: Split, test: Split, *, compressed: bool = True) -> None:
    for name, split in (("train_32x32.mat", train), ("test_32x32.mat", test)):
        (folder / name).write_bytes(mat_file(*svhn_arrays(split), compressed=compressed))


def write_stl10(folder: Path, train: Split, test: Split) -> None:
    for name, split in (("train", train), ("test", test)):
        (folder / f"{name}_X.bin").write_bytes(split.images.transpose(0, 1, 3, 2).tobytes())
        (folder / f"{name}_y.bin").write_bytes((split.labels + 1).astype(np.uint8).tobytes())


def save(image: Array, path: Path) -> Array:
    """Write an image [3, h, w] as JPEG, and return what a decoder makes of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))).save(path, format="JPEG")
    return np.asarray(Image.open(path)).transpose(2, 0, 1)


def pattern(number: int, height: int, width: int) -> Array:
    """A smooth image, different for each number."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([(x * 3 + number * 40) % 256, (y * 5 + number * 20) % 256, (x + y) % 256]).astype(np.uint8)


def write_imagenet(folder: Path, classes: tuple[str, ...], train: int, val: int, height: int = 40) -> None:
    """Photographs of different sizes in train/nXXXXXXXX and val/nXXXXXXXX; their number is in their pattern."""
    number = 0
    for split, count in (("train", train), ("val", val)):
        for wnid in classes:
            for row in range(count):
                save(pattern(number, height, height + 3 * row), folder / split / wnid / f"{wnid}_{row}.JPEG")
                number += 1


def write_tiny_imagenet(folder: Path, classes: tuple[str, ...], train: int, val: int) -> list[str]:
    """The pictures of val are in one folder, and a list names their classes, which are returned."""
    for label, wnid in enumerate(classes):
        for row in range(train):
            save(pattern(label + row, 64, 64), folder / "train" / wnid / "images" / f"{wnid}_{row}.JPEG")
        (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
    order = [classes[-1 - number % len(classes)] for number in range(val * len(classes))]
    for number, wnid in enumerate(order):
        save(pattern(classes.index(wnid), 64, 64), folder / "val" / "images" / f"val_{number}.JPEG")
    lines = [f"val_{number}.JPEG\t{wnid}\t0\t0\t62\t57" for number, wnid in enumerate(order)]
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    return order


def write_eurosat(folder: Path, count: int) -> None:
    for label, name in enumerate(EUROSAT):
        for row in range(count):
            save(pattern(10 * label + row, 64, 64), folder / name / f"{name}_{row + 1}.jpg")
