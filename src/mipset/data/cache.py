"""Datasets as .npz files: reading any of them, and writing the one in the cache folder that holds a decoded dataset."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data.dataset import Split, shape_text
from mipset.errors import DataError, brief

SUFFIX = ".npy"  # of the members of the archive
SPLITS = ("train_images", "train_labels", "test_images", "test_labels")
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_arrays(path: Path, wanted: Callable[[Collection[str]], Collection[str]]) -> dict[str, npt.NDArray[Any]]:
    """Read some arrays of the .npz file at `path`: those that `wanted` chooses from the names of all arrays in it.

    Nothing is read of the others. Pickled objects are refused, and so is an array whose header does not agree with the
    length of its data.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                raise DataError(f"{path} holds one array, not an .npz archive. Save it with numpy.savez().")
            with zipfile.ZipFile(stream) as archive:
                names = [name.removesuffix(SUFFIX) for name in archive.namelist() if name.endswith(SUFFIX)]
                return {name: _read_array(archive, name + SUFFIX) for name in wanted(names)}
    except (DataError, MemoryError):
        raise
    except Exception as error:  # a damaged or hostile archive or header may raise anything
        reason = brief(error, str).removesuffix(".")
        raise DataError(f"{path} could not be read as an .npz file ({reason}). Write or fetch it again.") from error


def _read_array(archive: zipfile.ZipFile, member: str) -> npt.NDArray[Any]:
    """Read one array, after its header was compared with the length that the archive states."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in HEADERS:
            raise ValueError(f"{member} has the unknown version {version}")
        shape, _, dtype = HEADERS[version](stream)
        if dtype.hasobject:
            raise ValueError("Object arrays cannot be loaded when allow_pickle=False")
        stated = archive.getinfo(member).file_size - stream.tell()
        if math.prod(shape) * dtype.itemsize != stated:
            raise ValueError(f"{member} has {stated} bytes, but says that it holds {shape_text(shape)} of {dtype}")
    with archive.open(member) as stream:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
        return array


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
    arrays = read_arrays(path, lambda names: [name for name in SPLITS if name in names])
    try:
        return (
            Split.of(arrays["train_images"], arrays["train_labels"]),
            Split.of(arrays["test_images"], arrays["test_labels"]),
        )
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{path} does not hold a stored dataset ({error}). Delete it and fetch the dataset again."
        ) from error
