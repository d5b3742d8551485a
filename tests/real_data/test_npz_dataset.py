"""Datasets of the form npz:PATH."""

from __future__ import annotations

import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mipset.data import Split, load
from mipset.data.dataset import statistics
from mipset.errors import DataError
from tiny_data import (
    Array,
    Hostile,
    equal_splits,
    load_npz,
    make_split,
    npz_arrays,
)


def test_npz_with_both_splits_is_read(tmp_path: Path) -> None:
    content = npz_arrays()
    dataset = load_npz(tmp_path, content)
    assert dataset.name == f"npz:{(tmp_path / 'own.npz').resolve()}"
    assert equal_splits(dataset.train, Split.of(content["train_images"], content["train_labels"]))
    assert equal_splits(dataset.test, Split.of(content["test_images"], content["test_labels"]))
    assert dataset.class_names == ("0", "1", "2")
    assert (dataset.mean, dataset.std) == statistics(content["train_images"])


def test_npz_with_class_names_mean_and_std_is_read(tmp_path: Path) -> None:
    more = {"class_names": np.array(["x", "y", "z"]), "mean": np.array([0.25]), "std": np.array([0.5])}
    dataset = load_npz(tmp_path, npz_arrays() | more)
    assert (dataset.class_names, dataset.mean, dataset.std) == (("x", "y", "z"), (0.25,), (0.5,))


def test_npz_with_the_names_of_keras_is_read(tmp_path: Path) -> None:
    content = npz_arrays()
    keras = {
        "x_train": content["train_images"],
        "y_train": content["train_labels"][:, None],
        "x_test": content["test_images"],
        "y_test": content["test_labels"],
    }
    ours, theirs = load_npz(tmp_path, content), load_npz(tmp_path, keras)
    assert equal_splits(theirs.train, ours.train)
    assert equal_splits(theirs.test, ours.test)


def test_npz_without_a_test_split_holds_out_a_fifth(tmp_path: Path) -> None:
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
def test_npz_images_in_every_unambiguous_layout_are_read(tmp_path: Path, images: Array) -> None:
    dataset = load_npz(tmp_path, npz_arrays(images))
    assert np.array_equal(dataset.train.images, BYTES)
    assert dataset.train.images.flags.c_contiguous


def test_npz_colour_images_with_channels_last_are_read(tmp_path: Path) -> None:
    content = npz_arrays(COLOUR.transpose(0, 2, 3, 1)) | {"test_images": COLOUR[:6]}
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
        (BYTES.astype(np.int32), r"train_images is int32\. Use uint8"),
        (np.zeros((12, 3, 4, 3), np.uint8), "12x3x4x3, which does not tell where the channels are"),
        (np.zeros((12, 2, 4, 5), np.uint8), "12x2x4x5, which does not tell where the channels are"),
        (np.zeros((12, 20), np.uint8), "12x20, which does not tell"),
        (BYTES[:11], "11x1x4x5 for 12 labels"),
        (np.array(3.0), "of a single value for 12 labels"),
        (np.zeros((12, 1, 0, 5), np.uint8), "train_images is empty"),
        (COLOUR, "training images are 3x4x5 and test images 1x4x5"),
    ],
)
def test_npz_with_invalid_images_is_refused(tmp_path: Path, images: Array, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, npz_arrays(images))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64])
def test_npz_labels_of_any_integer_type_are_read(tmp_path: Path, kind: type[np.integer[Any]]) -> None:
    dataset = load_npz(tmp_path, npz_arrays(labels=(np.arange(12) % 3).astype(kind)))
    assert dataset.train.labels.dtype == np.int64
    assert dataset.train.labels.tolist() == [0, 1, 2] * 4


def test_npz_string_labels_are_sorted(tmp_path: Path) -> None:
    content = npz_arrays(labels=np.array(["b", "c", "a"] * 4)) | {"test_labels": np.array(["c", "b", "a"] * 2)}
    dataset = load_npz(tmp_path, content)
    assert dataset.class_names == ("a", "b", "c")
    assert dataset.train.labels.tolist() == [1, 2, 0] * 4
    assert dataset.test.labels.tolist() == [2, 1, 0] * 2
    named = load_npz(tmp_path, content | {"class_names": np.array(["c", "b", "a"])})
    assert named.train.labels.tolist() == [1, 0, 2] * 4


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.arange(12) % 3 + 1, "train_labels has a gap: the labels go from 1 to 3, but no image has the label 0"),
        (
            np.array([0, 1, 3] * 4),
            "train_labels has a gap: .* no image has the label 2. Number the classes from 0 to 2",
        ),
        (np.array([0, 1, -1] * 4), "has the label -1"),
        (np.arange(12) % 3 * 1.0, "train_labels is float64"),
        (np.arange(24).reshape(12, 2) % 3, r"shape 12x2\. Use one label per image"),
        (np.array(["a", "b", "c"] * 4), "test_labels"),
    ],
)
def test_npz_with_invalid_labels_is_refused(tmp_path: Path, labels: Array, message: str) -> None:
    content = npz_arrays(labels=labels)
    if labels.dtype.kind == "U":
        content["test_labels"] = np.array(["a", "b", "d"] * 2)
        message = "test_labels has the label 'd', which is not among the classes"
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, content)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"class_names": np.array(["x", "y"])}, "train_labels has the label 2. Use .* from 0 to 1"),
        ({"class_names": np.array(["w", "x", "y", "z"])}, "gap: no image has the label 3 .class 'z'."),
        ({"class_names": np.array([1, 2, 3])}, "must be a list of strings"),
        ({"mean": np.array([0.5])}, "mean and std belong together"),
        ({"mean": np.array([0.5]), "std": np.array([0.0])}, "std is .* from 0.001 to 10"),
        ({"mean": np.array([0.5]), "std": np.array([1e-30])}, "std is .1e-30,., but must be one number from 0.001"),
        ({"mean": np.array([1e30]), "std": np.array([0.1])}, "mean is .* from 0 to 1"),
        ({"mean": np.array([0.5, 0.5]), "std": np.array([0.1, 0.1])}, "each of the 1 channels"),
        ({"mean": np.array("a"), "std": np.array([0.1])}, "one number per channel"),
        ({"images": BYTES}, "do not make a dataset"),
    ],
)
def test_npz_with_invalid_class_names_or_scale_is_refused(tmp_path: Path, more: dict[str, Array], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_npz(tmp_path, npz_arrays() | more)


@pytest.mark.parametrize("absent", ["train_images", "train_labels", "test_images", "test_labels"])
def test_npz_with_a_missing_array_is_refused(tmp_path: Path, absent: str) -> None:
    content = npz_arrays()
    del content[absent]
    with pytest.raises(DataError, match=f"the array {absent} is missing"):
        load_npz(tmp_path, content)


def test_npz_with_unknown_arrays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"do not make a dataset \(found x\)\. Save train_images"):
        load_npz(tmp_path, {"x": BYTES})


def test_npz_path_without_an_npz_file_is_refused(tmp_path: Path) -> None:
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
    np.savez(path, **npz_arrays())  # type: ignore[arg-type]
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DataError, match=r"could not be read as an .npz file"):
        load(f"npz:{path}")


def test_npz_with_pickled_objects_is_refused_and_runs_nothing(tmp_path: Path) -> None:
    path, trap = tmp_path / "own.npz", tmp_path / "trap"
    np.savez(path, images=np.array([Hostile(trap)], dtype=object), labels=np.zeros(1, np.int64))
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        load(f"npz:{path}")
    assert not trap.exists()


def test_npz_array_that_is_not_needed_is_not_read(tmp_path: Path) -> None:
    """An array of 6 GB, of which the archive holds some megabytes, costs nothing."""
    path = tmp_path / "own.npz"
    np.savez(path, **npz_arrays())  # type: ignore[arg-type]
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (6 << 30,)})
        file.write(bytes(1 << 20))  # the rest is missing, so that reading it would fail
    tracemalloc.start()
    load(f"npz:{path}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    "header",
    [
        {"descr": "|u1", "fortran_order": False, "shape": (1 << 50, 1, 4, 5)},
        {"descr": "|u1", "fortran_order": False, "shape": (0, 10**30)},
        {"descr": "|u1", "fortran_order": False, "shape": (-12, -1, 4, 5)},
        {"descr": "|O", "fortran_order": False, "shape": (12, 1, 4, 5)},
        "{'descr': '|u1', 'shape': (((((((",
        "\0",
    ],
)
def test_npz_with_a_lying_header_is_refused(tmp_path: Path, header: Any) -> None:
    content = npz_arrays()
    images = content.pop("train_images")
    path = tmp_path / "own.npz"
    np.savez(path, **content)  # type: ignore[arg-type]
    with zipfile.ZipFile(path, "a") as archive, archive.open("train_images.npy", "w") as file:
        if isinstance(header, dict):
            np.lib.format.write_array_header_1_0(file, header)
        else:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        file.write(images.tobytes() if "10" not in str(header) else b"")
    with pytest.raises(DataError, match=r"own.npz could not be read as an .npz file \(.*\)\. Write or fetch it again"):
        load(f"npz:{path}")


def test_npz_with_any_byte_changed_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.npz"
    np.savez_compressed(path, **npz_arrays())  # type: ignore[arg-type]
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with suppress(DataError):
            load(f"npz:{path}")


@pytest.mark.parametrize("kind", ["npz", "folder", "cifar10"])
@pytest.mark.parametrize("path", ["a\0b", "x" * 5000, "y/" * 4000])
def test_path_that_no_file_can_have_is_refused(kind: str, path: str) -> None:
    with pytest.raises(DataError, match=r"is no path of a file or folder \(.*\)\. Correct it"):
        load(f"{kind}:{path}")
    with pytest.raises(DataError, match="There is no dataset"):
        load(path)


def test_npz_of_stored_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="stored images with factor 2: each is a mosaic"):
        load_npz(tmp_path, npz_arrays() | {"factor": np.array(2)})
