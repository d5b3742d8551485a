"""The .npz file in the cache folder that holds a decoded dataset: reading and writing it."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data.dataset import Split
from mipset.errors import DataError


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read every array of the .npz file at `path`. Pickled objects are refused."""
    try:
        with path.open("rb") as stream:  # opened here, because numpy leaves a damaged archive open
            content = np.load(stream, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise DataError(f"{path} holds one array, not an .npz archive. Save it with numpy.savez().")
            with content as file:
                return {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} could not be read as an .npz file ({error}). Write or fetch it again.") from error


def write_splits(path: Path, train: Split, test: Split, *, compressed: bool = False) -> None:
    """Write a decoded dataset to `path`. Its labels must fit into a byte."""
    save = np.savez_compressed if compressed else np.savez
    save(
        path,
        train_images=train.images,
        train_labels=train.labels.astype(np.uint8),
        test_images=test.images,
        test_labels=test.labels.astype(np.uint8),
    )


def read_splits(path: Path) -> tuple[Split, Split]:
    """Read the training and test split that `write_splits` wrote to `path`."""
    arrays = read_arrays(path)
    try:
        return (
            Split.of(arrays["train_images"], arrays["train_labels"]),
            Split.of(arrays["test_images"], arrays["test_labels"]),
        )
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{path} does not hold a stored dataset ({error}). Delete it and fetch the dataset again."
        ) from error
