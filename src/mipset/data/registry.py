"""Datasets by name: load one, list all of them, and give the facts about the published ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mipset.data import embedded, folder, npz
from mipset.data.dataset import Dataset
from mipset.data.downloadable import DOWNLOADABLE
from mipset.data.specs import FASHION_MINI, DatasetSpec
from mipset.errors import DataError, SettingError, brief, choices, did_you_mean
from mipset.io import files
from mipset.reporting import Report, silent

OWN_DATA = {  # description, and how to load it
    "folder": ("your own pictures, in one sub-folder per class", "give the folder: folder:PATH"),
    "npz": ("your own arrays, in one .npz file", "give the file: npz:PATH"),
}
KINDS = (FASHION_MINI.name, *DOWNLOADABLE, *OWN_DATA)
NAMES = (FASHION_MINI.name, *DOWNLOADABLE, *(f"{kind}:PATH" for kind in OWN_DATA))


@dataclass(frozen=True)
class DatasetEntry:
    """One line in the list of datasets: what it is, its path if it is on this machine, and how to get it."""

    name: str
    description: str
    path: Path | None
    how_to_get: str

    @property
    def present(self) -> bool:
        """Whether `load(name)` finds it."""
        return self.path is not None


def load(
    name: str,
    *,
    resolution: int | None = None,
    seed: int = 0,
    home: Path | None = None,
    skip_bad: bool = False,
    report: Report = silent,
) -> Dataset:
    """Load the dataset called `name`: fashion-mini, cifar10, fashion-mnist, mnist, folder:PATH or npz:PATH.

    A published dataset is read from the cache folder (`home`; the default is `mipset.data.home()`), or from PATH if
    `name` is cifar10:PATH or the like. `resolution` is the height and width to which the pictures of a folder are
    scaled. `seed` draws the test split of a folder or file that has none. `skip_bad` leaves out pictures of a folder
    that cannot be read; `notes` of the result tells what was left out. `report(stage, done, total)` is called while a
    folder is read.
    """
    kind, colon, given_path = name.partition(":")
    if kind not in KINDS:
        raise DataError(_unknown_name_message(name, kind))
    if kind == FASHION_MINI.name and colon:
        raise DataError(f"{name!r} has a path, but {kind} comes with mipset and takes no path. Leave the path out.")
    if not given_path and (colon or kind in OWN_DATA):
        raise DataError(f"{name!r} has no path. Write {kind}:PATH.")
    path = _path(name, given_path) if given_path else None
    full_name = f"{kind}:{path}" if path is not None else kind
    if kind == "folder" and path is not None:
        return folder.read(full_name, path, resolution, seed, report, skip_bad)
    if kind == "npz" and path is not None:
        dataset = npz.read(full_name, path, seed)
        _check_resolution(full_name, dataset.shape, resolution)
        return dataset
    spec = DOWNLOADABLE[kind].spec if kind in DOWNLOADABLE else FASHION_MINI
    _check_resolution(full_name, spec.shape, resolution)
    if kind == FASHION_MINI.name:
        return embedded.read()
    return DOWNLOADABLE[kind].open(full_name, path or _find(kind, home))


def spec_of(name: str) -> DatasetSpec | None:
    """What is known about a published dataset without its files. None for any other name."""
    if name == FASHION_MINI.name:
        return FASHION_MINI
    return DOWNLOADABLE[name].spec if name in DOWNLOADABLE else None


def available(*, home: Path | None = None) -> list[DatasetEntry]:
    """List every dataset that can be loaded by name. This only checks whether files exist."""
    root = files.home() if home is None else home
    entries = [DatasetEntry(FASHION_MINI.name, FASHION_MINI.description, embedded.PATH, "comes with mipset")]
    for name, dataset in DOWNLOADABLE.items():
        entries.append(DatasetEntry(name, dataset.spec.description, dataset.find(root), _how_to_get(name)))
    for kind, (description, how_to_get) in OWN_DATA.items():
        entries.append(DatasetEntry(f"{kind}:PATH", description, None, how_to_get))
    return entries


def _path(name: str, given: str) -> Path:
    try:
        path = Path(given).expanduser().resolve()
        path.exists()  # raises an error if no file can have this name
    except RuntimeError as error:  # the home folder of a user whom this machine does not know
        raise DataError(f"{name!r} names a home folder that is not on this machine. Write the whole path.") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{brief(name)} is no path of a file or folder ({reason}). Correct it.") from error
    return path


def _find(kind: str, home: Path | None) -> Path:
    root = files.home() if home is None else home
    path = DOWNLOADABLE[kind].find(root)
    if path is None:
        advice = _how_to_get(kind)
        raise DataError(f"{kind} is not in {root / kind}. {advice[0].upper()}{advice[1:]}.")
    return path


def _how_to_get(name: str) -> str:
    return f"run `mipset data fetch {name}`, or load it from a folder with its official files as {name}:PATH"


def _check_resolution(name: str, shape: tuple[int, int, int], resolution: int | None) -> None:
    if resolution is not None and shape[1:] != (resolution, resolution):
        raise SettingError(
            f"`resolution` is {resolution}, but the images of {name} are {shape[1]}x{shape[2]}: only the pictures of "
            "a folder are scaled. Leave `resolution` out or use folder:PATH."
        )


def _unknown_name_message(name: str, kind: str) -> str:
    meant = did_you_mean(kind, KINDS)
    if os.path.isdir(name):  # noqa: PTH112 (unlike a Path, it takes any text)
        advice = f"Write folder:{name}."
    elif name.endswith(".npz") and os.path.isfile(name):  # noqa: PTH113
        advice = f"Write npz:{name}."
    elif meant:
        advice = meant.strip()
    else:
        advice = "Choose one of these."
    return f"There is no dataset {brief(name)}, only {choices(NAMES)}. {advice}"
