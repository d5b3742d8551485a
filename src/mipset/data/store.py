"""The one file in the cache folder that holds a decoded dataset."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data.dataset import Split
from mipset.errors import DataError

Report = Callable[[str, int, int], None]
"""Called as report(stage, done, total) while work goes on; `total` is 0 where it is unknown."""


def silent(stage: str, done: int, total: int) -> None:
    """The report that nobody reads."""


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Every array of the .npz file at `path`; pickled objects are refused."""
    try:
        with path.open("rb") as stream:  # opened here, because numpy leaves a damaged archive open
            loaded = np.load(stream, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise DataError(f"{path} holds one array, not an .npz archive: save it with numpy.savez().")
            with loaded as file:
                return {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} could not be read as an .npz file ({error}): write or fetch it again.") from error


def write(path: Path, train: Split, test: Split, *, compressed: bool = False) -> None:
    """Write a decoded dataset, whose labels fit into a byte, to `path`."""
    save = np.savez_compressed if compressed else np.savez
    save(
        path,
        train_images=train.images,
        train_labels=train.labels.astype(np.uint8),
        test_images=test.images,
        test_labels=test.labels.astype(np.uint8),
    )


def read(path: Path) -> tuple[Split, Split]:
    """The training and test split that `write` put into `path`."""
    arrays = read_arrays(path)
    try:
        return (
            Split.of(arrays["train_images"], arrays["train_labels"]),
            Split.of(arrays["test_images"], arrays["test_labels"]),
        )
    except (KeyError, ValueError) as error:
        raise DataError(
            f"{path} does not hold a stored dataset ({error}): delete it and fetch the dataset again."
        ) from error
