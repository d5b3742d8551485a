"""Own images in memory: from_arrays, from_torch and from_hf."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset

import mipset
from mipset import Dataset, from_arrays, from_hf, from_torch
from mipset.data.dataset import statistics
from mipset.errors import DataError
from tiny_data import Array, make_split

BYTES = make_split(30, (3, 4, 5), 3).images
LABELS = np.arange(30) % 3
GREY = BYTES[:, :1]


def images_of(data: Dataset) -> set[bytes]:
    """All images of both splits."""
    return {image.tobytes() for split in (data.train, data.test) for image in split.images}


@pytest.mark.parametrize(
    "images",
    [
        BYTES,
        BYTES.transpose(0, 2, 3, 1),
        BYTES / 255,
        (BYTES / 255).astype(np.float32).transpose(0, 2, 3, 1),
        torch.from_numpy(BYTES),
        torch.from_numpy(BYTES).float() / 255,
        torch.nn.Parameter(torch.from_numpy(BYTES).float() / 255),
        BYTES.tolist(),
    ],
    ids=["bytes", "channels last", "doubles", "floats last", "tensor", "float tensor", "parameter", "list"],
)
def test_arrays_in_every_form_become_the_same_dataset(images: Any) -> None:
    data = from_arrays(images, LABELS)
    assert np.bincount(data.train.labels).tolist() == [8, 8, 8]
    assert np.bincount(data.test.labels).tolist() == [2, 2, 2]
    assert images_of(data) == {image.tobytes() for image in BYTES}
    assert (data.mean, data.std) == statistics(data.train.images)
    assert (data.name, data.class_names) == ("arrays", ("0", "1", "2"))
    assert data.sha256 == from_arrays(BYTES, LABELS).sha256 != from_arrays(BYTES, LABELS, seed=1).sha256


def test_arrays_with_a_test_split_names_and_scale_are_kept() -> None:
    data = from_arrays(
        GREY[:20, 0],
        ["x", "z", "y"] * 6 + ["x", "z"],
        torch.from_numpy(GREY[20:]),
        np.array(["z", "y"] * 4 + ["x", "x"], dtype=object),
        class_names=["z", "y", "x"],
        mean=[0.25],
        std=torch.tensor([0.5]),
        name="mine",
    )
    assert np.array_equal(data.train.images, GREY[:20])
    assert np.array_equal(data.test.images, GREY[20:])
    assert data.train.labels.tolist() == [2, 0, 1] * 6 + [2, 0]
    assert data.test.labels.tolist() == [0, 1] * 4 + [2, 2]
    assert (data.name, data.mean, data.std) == ("mine", (0.25,), (0.5,))


def test_labels_may_be_a_column() -> None:
    assert from_arrays(BYTES, LABELS[:, None]).sha256 == from_arrays(BYTES, LABELS).sha256


def test_masks_become_black_and_white() -> None:
    data = from_arrays(GREY > 128, LABELS)
    assert set(np.unique(data.train.images)) == {0, 255}


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (BYTES * 1.0, LABELS, "images holds floats from 0 to 255. Scale them to 0 to 1"),
        (BYTES / 127.5 - 1, LABELS, "images holds floats from -1 to 1. Scale them to 0 to 1 .without normalising"),
        (np.where(BYTES == 7, np.nan, BYTES / 255), LABELS, "images holds NaN or infinite values.* from 0 to 1"),
        (np.where(BYTES == 7, np.inf, BYTES / 255), LABELS, "images holds NaN or infinite values.* from 0 to 1"),
        (BYTES // 128, LABELS, "images are bytes, but none is above 1, so all of them would be black"),
        (BYTES.astype(np.int64), LABELS, "images is int64. Use uint8, or floats from 0 to 1"),
        ((BYTES + np.int64(1)).tolist(), LABELS, "images holds whole numbers from 1 to 256. Use bytes from 0 to 255"),
        ([BYTES[0], BYTES[1, :, :2]], LABELS[:2], "images cannot be one array .* the same shape"),
        (BYTES, LABELS[:-1], "30x3x4x5 for 29 labels"),
        (BYTES, LABELS * 2, "the labels have a gap: the labels go from 0 to 4, but no image has the label 1. Number"),
        (BYTES, LABELS * 10**15, "the labels have a gap"),
        (BYTES, LABELS + 1, "the labels have a gap: .* no image has the label 0. Number the classes from 0 to 2"),
        (BYTES, LABELS - 1, "labels has the label -1"),
        (BYTES, LABELS / 2, "labels is float64"),
        (BYTES[:8], LABELS[:8], "'2' has 2 images, but a held-out split needs at least 3"),
    ],
)
def test_arrays_that_cannot_be_used_are_refused(images: Any, labels: Array, message: str) -> None:
    with pytest.raises(DataError, match=f"^(arrays: .*{message}|Class {message})"):
        from_arrays(images, labels)


def test_test_images_need_their_labels() -> None:
    with pytest.raises(DataError, match="test_images and test_labels belong together"):
        from_arrays(BYTES, LABELS, BYTES)


class Photos(torch.utils.data.Dataset[Any]):
    """As torchvision's datasets: pictures of Pillow, whole numbers, and the names of the classes."""

    classes = ("ant", "bee", "cow")

    def __len__(self) -> int:
        return len(BYTES)

    def __getitem__(self, row: int) -> tuple[Image.Image, int]:
        return Image.fromarray(BYTES[row].transpose(1, 2, 0)), int(LABELS[row])


class Stream(IterableDataset[Any]):
    """Samples in an unknown number."""

    def __iter__(self) -> Iterator[Any]:
        yield from zip(torch.from_numpy(BYTES).float() / 255, torch.from_numpy(LABELS), strict=True)


@pytest.mark.parametrize(
    "dataset",
    [Photos(), TensorDataset(torch.from_numpy(BYTES), torch.from_numpy(LABELS)), Stream(), Subset(Photos(), range(30))],
    ids=["pictures", "tensors", "stream", "subset"],
)
def test_torch_dataset_becomes_the_same_as_its_arrays(dataset: Any) -> None:
    names = Photos.classes if isinstance(dataset, Photos | Subset) else ("0", "1", "2")
    data = from_torch(dataset)
    assert (data.sha256, data.class_names) == (from_arrays(BYTES, LABELS).sha256, names)
    both = from_torch(dataset, dataset)
    assert np.array_equal(both.test.images, BYTES)
    assert from_torch(dataset, resolution=2).shape == (3, 2, 2)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (torch.from_numpy(BYTES), "this is an array, not a dataset of pairs. Use `from_arrays`"),
        ([BYTES[0], BYTES[1]], "a sample is ndarray, but must be a pair"),
        (3, "int is no torch dataset"),
        (None, "NoneType is no torch dataset"),
        ({(0, 1)}, "set is no torch dataset"),
        (DataLoader(Photos()), "this is a DataLoader, which makes batches. Give its dataset: loader.dataset"),
        ([], "a split is empty"),
        (
            [(BYTES[i], 0) if i < 2 else (BYTES[i] / 64, 0) for i in range(6)],
            r"4 of 6 pictures could not be read: image 2 \(.*floats from .* 1 more",
        ),
        ([(BYTES[0], 0), (BYTES[1, :, :2], 1)], "image 0 is 4x5, image 1 is 2x5, .* Give `resolution`"),
        (
            [(BYTES[i], None if i == 2 else 0) for i in range(4)],
            "image 2 has no label. Give every image one, or",
        ),
        (
            [(BYTES[i] if i else None, 0 if i == 1 else None) for i in range(7)],
            r"image 2, image 3, image 4 and 2 more have no label.* 1 of 7 pictures .* image 0 \(there is no picture\)",
        ),
        ([(BYTES[i], [i, i]) for i in range(4)], "labels has the shape 4x2. Use one label per image"),
    ],
)
def test_torch_dataset_that_cannot_be_used_is_refused(dataset: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^torch: .*{message}"):
        from_torch(dataset)


def test_normalised_images_are_refused_at_the_first_one() -> None:
    read: list[int] = []

    class Normalised(Photos):
        def __getitem__(self, row: int) -> tuple[Any, int]:
            read.append(row)
            return torch.from_numpy(BYTES[row]).float() / 64 - 2, int(LABELS[row])

    advice = r"Scale them to 0 to 1 \(without normalising them\), or use uint8"
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=rf"^torch: image 0 holds floats from -\S+ to \S+\. {advice}\.$"):
            from_torch(Normalised(), skip_bad=skip_bad)
    assert read == [0, 0]


def without(label: int) -> list[int]:
    """The rows of the images of all other classes."""
    return [row for row, other in enumerate(LABELS) if other != label]


def test_classes_of_the_dataset_without_an_image_are_left_out() -> None:
    part = Subset(Photos(), without(1))
    data = from_torch(part)
    expected = from_arrays(BYTES[LABELS != 1], LABELS[LABELS != 1] // 2)
    assert (data.sha256, data.class_names) == (expected.sha256, ("ant", "cow"))
    assert data.notes == ("Class 'bee' has no images and was left out.",)
    both = from_torch(part, part)
    assert (both.class_names, both.test.labels.max()) == (("ant", "cow"), 1)
    assert from_torch(Photos()).notes == ()


def test_class_that_only_one_split_has_is_refused() -> None:
    part = Subset(Photos(), without(1))
    with pytest.raises(DataError, match=r"^torch: class 'bee' has images in the test split, but none in the training"):
        from_torch(part, Photos())
    with pytest.raises(DataError, match=r"^torch: class 'bee' has images in the training split, but none in the test"):
        from_torch(Photos(), part)


def test_names_that_the_user_gives_need_images_or_labels_that_are_strings() -> None:
    names, part = list(Photos.classes), Subset(Photos(), without(1))
    with pytest.raises(DataError, match=r"\(class 'bee'\). .* give the labels as strings or with new numbers\.$"):
        from_torch(part, class_names=names)
    strings = [names[label] for label in LABELS[LABELS != 1]]
    assert from_arrays(BYTES[LABELS != 1], strings, class_names=["ant", "cow"]).classes == 2


def hf_rows() -> dict[str, list[Any]]:
    pictures = []
    for image in BYTES:
        stream = io.BytesIO()
        Image.fromarray(image.transpose(1, 2, 0)).save(stream, format="PNG")
        pictures.append({"bytes": stream.getvalue(), "path": None})
    return {"img": pictures, "fine": LABELS.tolist(), "coarse": (LABELS // 2).tolist()}


def test_hugging_face_dataset_becomes_the_same_as_its_arrays() -> None:
    datasets = pytest.importorskip("datasets")
    names = ["ant", "bee", "cow"]
    features = {"img": datasets.Image(), "fine": datasets.ClassLabel(names=names), "coarse": datasets.Value("int64")}
    whole = datasets.Dataset.from_dict(hf_rows(), datasets.Features(features))
    expected = from_arrays(BYTES, LABELS).sha256
    for dataset in (whole, whole.with_format("torch"), whole.to_iterable_dataset()):
        data = from_hf(dataset)
        assert (data.sha256, data.class_names) == (expected, tuple(names))
    split = from_hf(datasets.DatasetDict({"validation": whole, "train": whole, "test": whole.select(range(3))}))
    assert (len(split.train), len(split.test)) == (30, 3)
    assert from_hf(whole, label="coarse").classes == 2
    arrays = datasets.Dataset.from_dict({"image": (BYTES / 255).tolist(), "label": [f"{i % 3}" for i in range(30)]})
    assert from_hf(arrays).sha256 == expected
    several = whole.cast_column("coarse", datasets.ClassLabel(names=["x", "y"]))
    with pytest.raises(DataError, match=r"columns are img, fine, coarse. Choose .* with `label`: fine or coarse"):
        from_hf(several)
    with pytest.raises(DataError, match="There is no column 'x', only img, fine, coarse"):
        from_hf(whole, label="x")
    with pytest.raises(DataError, match=r"ndarray is no dataset of Hugging Face. Use `from_arrays`"):
        from_hf(BYTES)
    with pytest.raises(DataError, match=r"there are the splits test. Give the training split"):
        from_hf(datasets.DatasetDict({"test": whole}))


@pytest.mark.parametrize("typed", [True, False], ids=["feature", "lists"])
def test_hugging_face_columns_of_arrays_are_bytes(typed: bool) -> None:
    """The library gives them as lists, which have no type."""
    datasets = pytest.importorskip("datasets")
    rows = {"image": BYTES.transpose(0, 2, 3, 1).tolist(), "label": LABELS.tolist()}
    features = {"image": datasets.Array3D((4, 5, 3), "uint8"), "label": datasets.Value("int64")}
    whole = datasets.Dataset.from_dict(rows, datasets.Features(features) if typed else None)
    for dataset in (whole, whole.to_iterable_dataset()):
        assert from_hf(dataset).sha256 == from_arrays(BYTES, LABELS).sha256


def test_hugging_face_classes_without_an_image_are_left_out() -> None:
    datasets = pytest.importorskip("datasets")
    names = ["ant", "bee", "cow", "dog", "eel"]
    features = {"image": datasets.Array3D((3, 4, 5), "uint8"), "label": datasets.ClassLabel(names=names)}
    whole = datasets.Dataset.from_dict({"image": BYTES.tolist(), "label": LABELS.tolist()}, datasets.Features(features))
    data = from_hf(whole.select(without(1)))
    assert data.class_names == ("ant", "cow")
    assert data.notes == ("3 classes ('bee', 'dog', 'eel') have no images and were left out.",)


def test_another_split_in_place_of_test_is_noted() -> None:
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"image": BYTES.tolist(), "label": LABELS.tolist()})
    data = from_hf(datasets.DatasetDict({"train": whole, "validation": whole.select(range(3))}))
    assert len(data.test) == 3
    assert data.notes == ("There is no split 'test', so the images of 'validation' are the test images.",)
    assert from_hf(datasets.DatasetDict({"train": whole, "validation": whole, "test": whole})).notes == ()
    with pytest.raises(DataError, match="NoneType is no dataset of Hugging Face"):
        from_hf(None)


def test_row_without_a_picture_or_a_label_is_named() -> None:
    datasets = pytest.importorskip("datasets")
    rows = {**hf_rows(), "coarse": [None, *(LABELS[1:] // 2).tolist()]}
    rows["img"][4:6] = [None, {"bytes": None, "path": None}]
    picture = {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    features = {"img": picture, "fine": datasets.Value("int64"), "coarse": datasets.Value("int64")}
    dataset = datasets.Dataset.from_dict(rows, datasets.Features(features))
    with pytest.raises(DataError, match=r"^hf: 2 of 30 pictures could not be read: image 4 \(there is no picture\)"):
        from_hf(dataset, label="fine")
    with pytest.raises(DataError, match=r"^hf: image 0 has no label. Give every image one, or remove"):
        from_hf(dataset, label="coarse", skip_bad=True)


def test_bad_picture_of_a_hugging_face_dataset_is_named_or_left_out() -> None:
    datasets = pytest.importorskip("datasets")
    rows = hf_rows()
    rows["img"][4]["bytes"] = b"%!PS-Adobe-3.0 EPSF-3.0\n"
    features = {
        "img": datasets.Image(),
        "fine": datasets.Value("int64"),
        "coarse": datasets.ClassLabel(names=["a", "b"]),
    }
    dataset = datasets.Dataset.from_dict(rows, datasets.Features(features))
    with pytest.raises(DataError, match=r"^hf: 1 of 30 pictures could not be read: image 4 \(not a PNG"):
        from_hf(dataset)
    data = from_hf(dataset, label="fine", skip_bad=True)
    assert len(data.train) + len(data.test) == 29
    assert "1 of 30 pictures could not be read and was left out: image 4" in data.notes[0]


def test_own_arrays_are_condensed_in_a_few_lines() -> None:
    data = from_arrays(np.repeat(np.repeat(BYTES, 2, 2), 2, 3).transpose(0, 2, 3, 1) / 255, LABELS)
    recipe = mipset.Recipe(ipc=1, width=4, depth=1, outer=1, inner=1, real_batch=4, train_images=8, train_batch=8)
    *_, step = mipset.condense(mipset.assemble(recipe, data))
    condensed = mipset.pack(step, recipe, data)
    assert condensed.images.shape == (1, 3, 3, 8, 10)
    assert condensed.images.max() > 100
    assert condensed.provenance["dataset"] == "arrays"
