"""What is known about each named dataset before its files are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mipset.data import class_names, contents
from mipset.data.checksums import wrong_length
from mipset.data.contents import Content, wrong_files
from mipset.data.dataset import Dataset, Split, shape_text
from mipset.errors import DataError, together

NO_LICENCE = "unknown"
CIFAR_TERMS = (
    "No licence is stated. The authors ask to cite Alex Krizhevsky, Learning Multiple Layers of Features from Tiny "
    "Images, 2009."
)
FASHION_TERMS = "MIT, © 2017 Zalando SE."
IMAGENET_TERMS = (
    "The images are those of ImageNet: for non-commercial research and education only, under the terms of access of "
    "image-net.org. They belong to their photographers."
)
CIFAR_MEAN, CIFAR_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class DatasetSpec:
    """The facts about a published dataset, and the advice that messages give about its official files."""

    name: str
    description: str
    class_names: tuple[str, ...]
    shape: tuple[int, int, int]
    train_count: int  # images; 0 is unknown
    test_count: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str = ""  # what `Dataset.sha256` must be, if that is known
    flips: bool = True  # whether a mirrored image keeps its class
    files: str = ""  # the official files that are needed, for messages
    page: str = ""  # where they are published
    unpacked_as: str = ""  # how its files must be unpacked, if mipset cannot do it
    md5: Mapping[str, str] = field(default_factory=dict)  # published digests of official files, by name
    lengths: Mapping[str, int] = field(default_factory=dict)  # the bytes of official files, by name, where known
    contents: tuple[Content, ...] = ()  # what each official file holds, if only the digest of all together is checked
    licence: str = NO_LICENCE  # a short name, as Hugging Face writes it
    licence_note: str = ""  # the same in a sentence

    @property
    def put_there(self) -> str:
        """The advice after a folder that does not hold the official archive or what was in it."""
        how = f"unpacked as {self.unpacked_as}" if self.unpacked_as else "packed or unpacked"
        return f"Put {self.files} from {self.page} there, {how}."

    @property
    def get_again(self) -> str:
        """The advice after files that are not the official ones, or of which some are missing."""
        return f"Get {self.files} again from {self.page}." if self.page else "Install mipset again."

    def get_file_again(self, path: Path) -> str:
        """The advice after one file that is not the official one; says if its length tells that."""
        return f"{wrong_length(path, self.lengths.get(path.name, 0))}Get it again from {self.page}."

    def verify(self, name: str, train: Split, test: Split, again: str = "") -> Dataset:
        """Return the two splits as the dataset `name` if they are the published ones, else raise a DataError.

        `again` is what to do then, if they are not from official files.
        """
        dataset = Dataset(name, train, test, self.class_names, self.mean, self.std, self.flips)
        if dataset.shape != self.shape:
            raise DataError(
                f"{name}: the images are {shape_text(dataset.shape)} (channels, height, width), but those of "
                f"{self.name} are {shape_text(self.shape)}. {again or self.get_again}"
            )
        self.check_counts(name, len(train), len(test), again=again)
        if self.sha256 and dataset.sha256 != self.sha256:
            wrong = wrong_files(self.contents, train, test)
            which = f"the content of {together(wrong)}" if wrong else "their digest"
            raise DataError(
                f"{name}: the images or labels are not those of {self.name} ({which} differs: sha256 {dataset.sha256} "
                f"instead of {self.sha256}). {again or self.get_again}"
            )
        return dataset

    def check_counts(self, name: str, train: int, test: int, *, again: str = "") -> None:
        """Refuse another number of training or test images than was published, if that is known."""
        for title, found, count in (("training", train, self.train_count), ("test", test, self.test_count)):
            if count and found != count:
                raise DataError(
                    f"{name}: there are {found} {title} images, but {self.name} has {count}. {again or self.get_again}"
                )


FASHION_MINI = DatasetSpec(
    name="fashion-mini",
    description="the first 500 training and 200 test images of each class of Fashion-MNIST, 28x28 grey",
    class_names=class_names.CLOTHES,
    shape=(1, 28, 28),
    train_count=5_000,
    test_count=2_000,
    mean=(0.2861,),
    std=(0.3530,),
    sha256="9c0e3e70f8677877eca83e9f3dee5e5f84c8f706556a6a3a36650241e6c12bcd",
    licence="mit",
    licence_note=FASHION_TERMS,
)

CIFAR10 = DatasetSpec(
    name="cifar10",
    description="60000 photographs of vehicles and animals in 10 classes, 32x32 RGB",
    class_names=class_names.CIFAR10,
    shape=(3, 32, 32),
    train_count=50_000,
    test_count=10_000,
    mean=CIFAR_MEAN,
    std=CIFAR_STD,
    sha256="b7dc9c827704cef6fbdc7e3b33bd5fc916027c1d025fa402ef1c0e1dd780336e",
    files="cifar-10-python.tar.gz or cifar-10-binary.tar.gz",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    lengths={
        "data_batch_1": 31_035_704,
        "data_batch_2": 31_035_320,
        "data_batch_3": 31_035_999,
        "data_batch_4": 31_035_696,
        "data_batch_5": 31_035_623,
        "test_batch": 31_035_526,
    },
    contents=contents.CIFAR10,
    licence=NO_LICENCE,
    licence_note=CIFAR_TERMS,
)

CIFAR100 = DatasetSpec(
    name="cifar100",
    description="60000 photographs in 100 classes (the fine labels), 32x32 RGB",
    class_names=class_names.CIFAR100,
    shape=(3, 32, 32),
    train_count=50_000,
    test_count=10_000,
    mean=CIFAR_MEAN,  # as IDC, DREAM, MTT and MDC do
    std=CIFAR_STD,
    files="cifar-100-python.tar.gz or cifar-100-binary.tar.gz",
    page="https://www.cs.toronto.edu/~kriz/cifar.html",
    md5={
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
    licence=NO_LICENCE,
    licence_note=CIFAR_TERMS,
)

SVHN = DatasetSpec(
    name="svhn",
    description="99289 cropped digits of house numbers, 32x32 RGB",
    class_names=class_names.DIGITS,
    shape=(3, 32, 32),
    train_count=73_257,
    test_count=26_032,
    mean=(0.4377, 0.4438, 0.4728),
    std=(0.1980, 0.2010, 0.1970),
    flips=False,
    files="train_32x32.mat and test_32x32.mat",
    page="http://ufldl.stanford.edu/housenumbers/",
    md5={
        "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
        "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    },
    lengths={"train_32x32.mat": 182_040_794, "test_32x32.mat": 64_275_384},
    licence="other",
    licence_note="For non-commercial use only, says the page of its authors (Netzer and others, 2011).",
)

STL10 = DatasetSpec(
    name="stl10",
    description="13000 photographs of vehicles and animals in 10 classes, 96x96 RGB (without the unlabelled ones)",
    class_names=class_names.STL10,
    shape=(3, 96, 96),
    train_count=5_000,
    test_count=8_000,
    mean=(0.4467, 0.4398, 0.4066),
    std=(0.2603, 0.2566, 0.2713),
    files="stl10_binary.tar.gz",
    page="https://cs.stanford.edu/~acoates/stl10/",
    md5={
        "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
        "train_y.bin": "5a34089d4802c674881badbb80307741",
        "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
        "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
    },
    licence=NO_LICENCE,
    licence_note=(
        "No licence is stated. The images come from ImageNet, whose terms of access allow non-commercial research and "
        "education only."
    ),
)

EUROSAT = DatasetSpec(
    name="eurosat",
    description="27000 satellite images in 10 classes, 64x64 RGB; a fifth of each class is held out for testing",
    class_names=class_names.EUROSAT,
    shape=(3, 64, 64),
    train_count=21_600,
    test_count=5_400,
    mean=(0.3450, 0.3809, 0.4084),
    std=(0.2038, 0.1370, 0.1152),
    files="EuroSAT.zip",
    page="https://madm.dfki.de/files/sentinel/",
    licence="mit",
    licence_note="MIT, Patrick Helber and others. The images are modified Copernicus Sentinel data.",
)

TINY_IMAGENET = DatasetSpec(
    name="tiny-imagenet",
    description="110000 photographs in 200 classes, 64x64 RGB; the validation images are the test split",
    class_names=class_names.TINY_IMAGENET,
    shape=(3, 64, 64),
    train_count=100_000,
    test_count=10_000,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    files="tiny-imagenet-200.zip",
    page="http://cs231n.stanford.edu/",
    licence="other",
    licence_note=IMAGENET_TERMS,
)

IMAGENETTE = DatasetSpec(
    name="imagenette",
    description="13394 photographs of ImageNet in 10 classes that are easy to tell apart, 224x224 RGB",
    class_names=tuple(class_names.IMAGENETTE.values()),
    shape=(3, 224, 224),
    train_count=9_469,
    test_count=3_925,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    files="imagenette2.tgz",
    page="https://github.com/fastai/imagenette",
    licence="other",
    licence_note=IMAGENET_TERMS,
)

IMAGENET10 = DatasetSpec(
    name="imagenet10",
    description="the 10 classes of ImageNet that the paper uses, 224x224 RGB; the validation images are the test split",
    class_names=tuple(class_names.IMAGENET10.values()),
    shape=(3, 224, 224),
    train_count=0,
    test_count=0,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    files="ILSVRC2012_img_train.tar and ILSVRC2012_img_val.tar",
    page="https://image-net.org/download.php",
    unpacked_as="train/nXXXXXXXX and val/nXXXXXXXX",
    licence="other",
    licence_note=IMAGENET_TERMS,
)

FASHION_MNIST = DatasetSpec(
    name="fashion-mnist",
    description="70000 pictures of clothes in 10 classes, 28x28 grey",
    class_names=class_names.CLOTHES,
    shape=(1, 28, 28),
    train_count=60_000,
    test_count=10_000,
    mean=(0.2861,),
    std=(0.3530,),
    sha256="77eee00c73cfd4c98de51f79414c5f7b64b23fe45ae7d40e5d2e68644be4c737",
    files="the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and t10k-...",
    page="https://github.com/zalandoresearch/fashion-mnist",
    lengths={
        "train-images-idx3-ubyte.gz": 26_421_856,
        "train-labels-idx1-ubyte.gz": 29_491,
        "t10k-images-idx3-ubyte.gz": 4_422_079,
        "t10k-labels-idx1-ubyte.gz": 5_125,
    },
    contents=contents.FASHION_MNIST,
    licence="mit",
    licence_note=FASHION_TERMS,
)

MNIST = DatasetSpec(
    name="mnist",
    description="70000 handwritten digits, 28x28 grey",
    class_names=class_names.DIGITS,
    shape=(1, 28, 28),
    train_count=60_000,
    test_count=10_000,
    mean=(0.1307,),
    std=(0.3081,),
    sha256="9f18b92d455cc76826b2665fcd12911463ed62c4e106f4156d772eddc1c6a7f4",
    flips=False,
    files="the four files train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz and t10k-...",
    page="https://ossci-datasets.s3.amazonaws.com/mnist/",
    lengths={
        "train-images-idx3-ubyte.gz": 9_912_422,
        "train-labels-idx1-ubyte.gz": 28_881,
        "t10k-images-idx3-ubyte.gz": 1_648_877,
        "t10k-labels-idx1-ubyte.gz": 4_542,
    },
    contents=contents.MNIST,
    licence="other",
    licence_note=(
        "The page of its authors states no licence. Copies name CC BY-SA 3.0 or MIT. Yann LeCun and Corinna Cortes "
        "hold the copyright."
    ),
)
