"""A stranger opens each export with the loader of its format, and trains a network of their own on what is there."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from mipset import Artifact, Dataset, Recipe, assemble, condense, from_arrays, pack
from mipset.exchange.exports import export
from mipset.file.decoding import decoded

Samples = tuple[Tensor, Tensor]  # images [n, ch, h, w] with values in [0, 1], and labels [n]


def of_pictures(pairs: list[tuple[Any, int]]) -> Samples:
    images = torch.stack([torch.from_numpy(np.array(picture.convert("RGB"))) for picture, _ in pairs])
    return images.permute(0, 3, 1, 2) / 255, torch.tensor([label for _, label in pairs])


def from_npz(path: Path) -> Samples:
    with np.load(path) as arrays:
        return torch.from_numpy(arrays["images"]) / 255, torch.from_numpy(arrays["labels"])


def from_pt(path: Path) -> Samples:
    content = torch.load(path, weights_only=True)
    return content["images"] / 255, content["labels"]


def from_pyarrow(path: Path) -> Samples:
    rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return of_pictures([(Image.open(io.BytesIO(row["image"]["bytes"])), row["label"]) for row in rows])


def from_hugging_face(path: Path) -> Samples:
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset("parquet", data_files=str(path), split="train", cache_dir=f"{path}-cache")
    return of_pictures([(row["image"], row["label"]) for row in rows])


def from_webdataset(path: Path) -> Samples:
    library = pytest.importorskip("webdataset")
    samples = library.WebDataset(str(path), shardshuffle=False).decode("pil").to_tuple("png", "cls")
    return of_pictures(list(samples))


def from_folder(path: Path) -> Samples:
    """As torchvision's ImageFolder: the sorted folders are the classes."""
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir())
    files = [(file, label) for label, folder in enumerate(folders) for file in sorted(folder.iterdir())]
    return of_pictures([(Image.open(file), label) for file, label in files])


def accuracy(samples: Samples, data: Dataset) -> float:
    """The test accuracy in % of a plain network that was trained on these samples."""
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 16, 5, padding=2), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2)),
    )
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    images, labels = samples
    for _ in range(60):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(images), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        right = network(torch.from_numpy(data.test.images) / 255).argmax(1) == torch.from_numpy(data.test.labels)
    return 100 * float(right.float().mean())


@pytest.fixture(scope="module")
def stripes() -> Dataset:
    """Noise with narrow or wide stripes. In a mosaic, the wide ones look like the narrow ones."""
    rng = np.random.default_rng(0)
    labels, rows = np.arange(120) % 2, np.arange(16)
    images = rng.integers(0, 50, (120, 3, 16, 16))
    for image, label in zip(images, labels, strict=True):
        image[:, (rows + rng.integers(8)) // (2 + 2 * label) % 2 == 0] += 150
    return from_arrays(images.astype(np.uint8), labels)


@pytest.fixture(scope="module")
def condensed(stripes: Dataset) -> Artifact:
    """Four stored images for each class, each of which holds four training images."""
    recipe = Recipe(ipc=4, width=4, depth=2, outer=1, inner=2, real_batch=6, train_images=8, train_batch=8)
    *_, step = condense(assemble(recipe, stripes))
    return pack(step, recipe, stripes)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("to", "loaded"),
    [
        ("npz", from_npz),
        ("pt", from_pt),
        ("parquet", from_pyarrow),
        ("parquet", from_hugging_face),
        ("webdataset", from_webdataset),
        ("png", from_folder),
    ],
)
def test_stranger_reaches_the_accuracy_of_the_training_images(
    tmp_path: Path, stripes: Dataset, condensed: Artifact, to: str, loaded: Callable[[Path], Samples]
) -> None:
    training = decoded(condensed)
    expected = accuracy(
        (torch.from_numpy(training.images).flatten(0, 1) / 255, torch.arange(2).repeat(training.ipc)), stripes
    )
    assert expected > 80
    export(condensed, to, tmp_path / "default")
    assert accuracy(loaded(tmp_path / "default"), stripes) == pytest.approx(expected, abs=5)
    export(condensed, to, tmp_path / "stored", stored=True)
    assert accuracy(loaded(tmp_path / "stored"), stripes) < expected - 20  # so the test would notice them
