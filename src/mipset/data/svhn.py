"""SVHN, the cropped digits: two files of MATLAB, one for each split."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from mipset.data import matlab
from mipset.data.checksums import check_md5
from mipset.data.dataset import Split, shape_text
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError

TRAIN_FILE, TEST_FILE = "train_32x32.mat", "test_32x32.mat"


def is_in(folder: Path) -> bool:
    """Whether both files are in the folder. They are not read."""
    return all((folder / name).is_file() for name in (TRAIN_FILE, TEST_FILE))


def read(folder: Path, spec: DatasetSpec) -> tuple[Split, Split]:
    """Read the training and test split from the two files in the folder. The file of extra images is not used."""
    for name in (TRAIN_FILE, TEST_FILE):
        if not (folder / name).is_file():
            raise DataError(
                f"{folder} does not hold {spec.name}: there is no file {name}. Get {spec.files} from {spec.page} and "
                "put them there."
            )
    return _read_split(folder / TRAIN_FILE, spec.train_count, spec), _read_split(
        folder / TEST_FILE, spec.test_count, spec
    )


def _read_split(path: Path, count: int, spec: DatasetSpec) -> Split:
    check_md5(path, spec.md5.get(path.name), spec.get_file_again(path))
    channels, height, width = spec.shape
    stored = (count, channels, width, height)  # images are stored column by column
    try:
        arrays = matlab.read_arrays(path.read_bytes(), math.prod(stored))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} could not be read ({error}). {spec.get_file_again(path)}") from error
    images, labels = arrays.get("X"), arrays.get("y")
    if images is None or labels is None:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'} instead of X and y. {spec.get_file_again(path)}"
        )
    if images.shape != stored or images.dtype != np.uint8 or labels.size != count:
        raise DataError(
            f"{path} holds {shape_text(images.shape)} values of {images.dtype} and {labels.size} labels instead of "
            f"{shape_text(stored)} bytes and {count} labels. {spec.get_file_again(path)}"
        )
    if not np.isin(labels, range(1, 11)).all():
        raise DataError(f"{path} has labels that are not from 1 to 10. {spec.get_file_again(path)}")
    return Split.of(images.transpose(0, 1, 3, 2), labels.reshape(-1).astype(np.int64) % 10)  # 10 stands for the digit 0
