"""What is known about each named dataset before its files are read."""

from __future__ import annotations

from dataclasses import dataclass

from mipset.data.dataset import Dataset, Split
from mipset.errors import DataError


@dataclass(frozen=True)
class DatasetSpec:
    """The facts about a published dataset. `sha256` is what `Dataset.sha256` must be."""

    name: str
    description: str
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    train_count: int  # images
    test_count: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str
    flips: bool = True  # whether a mirrored image keeps its class

    def verify(self, name: str, train: Split, test: Split) -> Dataset:
        """Return the two splits as the dataset `name` if they are the published ones, else raise a DataError."""
        dataset = Dataset(name, train, test, self.class_names, self.mean, self.std, self.flips)
        if dataset.sha256 != self.sha256:
            raise DataError(
                f"{name}: the images or labels are not those of {self.name} (sha256 {dataset.sha256} instead "
                f"of {self.sha256}). Get the files again."
            )
        return dataset


_CLOTHES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

FASHION_MINI = DatasetSpec(
    name="fashion-mini",
    description="the first 500 training and 200 test images of each class of Fashion-MNIST, 28x28 grey",
    class_names=_CLOTHES,
    shape=(1, 28, 28),
    train_count=5_000,
    test_count=2_000,
    mean=(0.2861,),
    std=(0.3530,),
    sha256="9c0e3e70f8677877eca83e9f3dee5e5f84c8f706556a6a3a36650241e6c12bcd",
)

CIFAR10 = DatasetSpec(
    name="cifar10",
    description="60000 photographs of vehicles and animals in 10 classes, 32x32 RGB",
    class_names=(
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ),
    shape=(3, 32, 32),
    train_count=50_000,
    test_count=10_000,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2023, 0.1994, 0.2010),
    sha256="b7dc9c827704cef6fbdc7e3b33bd5fc916027c1d025fa402ef1c0e1dd780336e",
)

FASHION_MNIST = DatasetSpec(
    name="fashion-mnist",
    description="70000 pictures of clothes in 10 classes, 28x28 grey",
    class_names=_CLOTHES,
    shape=(1, 28, 28),
    train_count=60_000,
    test_count=10_000,
    mean=(0.2861,),
    std=(0.3530,),
    sha256="77eee00c73cfd4c98de51f79414c5f7b64b23fe45ae7d40e5d2e68644be4c737",
)

MNIST = DatasetSpec(
    name="mnist",
    description="70000 handwritten digits, 28x28 grey",
    class_names=tuple("0123456789"),
    shape=(1, 28, 28),
    train_count=60_000,
    test_count=10_000,
    mean=(0.1307,),
    std=(0.3081,),
    sha256="9f18b92d455cc76826b2665fcd12911463ed62c4e106f4156d772eddc1c6a7f4",
    flips=False,
)
