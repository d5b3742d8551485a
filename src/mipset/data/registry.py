"""From the name of a dataset to the dataset."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from mipset.data import embedded, folder, npz, store
from mipset.data.dataset import Dataset
from mipset.data.known import FASHION_MINI, Known
from mipset.data.shelf import SHELVES
from mipset.data.store import Report
from mipset.errors import DataError, SettingError, choices
from mipset.io import files

OWN = {
    "folder": ("your own pictures, in one sub-folder per class", "give the folder: folder:PATH"),
    "npz": ("your own arrays, in one .npz file", "give the file: npz:PATH"),
}
KINDS = (FASHION_MINI.name, *SHELVES, *OWN)
NAMES = (FASHION_MINI.name, *SHELVES, *(f"{kind}:PATH" for kind in OWN))


@dataclass(frozen=True)
class Entry:
    """A dataset that can be loaded by name: what it is, where it is if it is here, and how to get it."""

    name: str
    description: str
    where: Path | None
    how: str

    @property
    def present(self) -> bool:
        """Whether `load(name)` finds it."""
        return self.where is not None


def load(
    name: str,
    *,
    resolution: int | None = None,
    seed: int = 0,
    home: Path | None = None,
    progress: Report | None = None,
) -> Dataset:
    """The dataset called `name`: fashion-mini, cifar10, fashion-mnist, mnist, folder:PATH or npz:PATH.

    The published ones are looked for in the cache folder (`home`, or what `mipset.data.home()` says), or at
    PATH with cifar10:PATH and the like. `resolution` is the height and width to scale the pictures of a folder to.
    `seed` draws the test split of a folder or file that has none. `progress(stage, done, total)` is called
    while a folder is read.
    """
    kind, colon, given = name.partition(":")
    if kind not in KINDS:
        raise DataError(_unknown(name, kind))
    if kind == FASHION_MINI.name and colon:
        raise DataError(f"{name!r} cannot be: {kind} comes with mipset and takes no path, so leave the path out.")
    if not given and (colon or kind in OWN):
        raise DataError(f"{name!r} lacks a path: write {kind}:PATH.")
    try:
        place = Path(given).expanduser().resolve() if given else None
    except RuntimeError as error:  # ~somebody, whom this machine does not know
        raise DataError(f"{name!r} names a home folder that is not here: write the whole path.") from error
    resolved = f"{kind}:{place}" if place is not None else kind
    if kind == "folder" and place is not None:
        return folder.read(resolved, place, resolution, seed, progress or store.silent)
    if kind == "npz" and place is not None:
        dataset = npz.read(resolved, place, seed)
        _check_resolution(resolved, dataset.shape, resolution)
        return dataset
    known = SHELVES[kind].known if kind in SHELVES else FASHION_MINI
    _check_resolution(resolved, known.shape, resolution)
    if kind == FASHION_MINI.name:
        return embedded.read()
    return SHELVES[kind].open(resolved, place or _find(kind, home))


def facts(name: str) -> Known | None:
    """What is known about a published dataset without its files; None of other names."""
    return FASHION_MINI if name == FASHION_MINI.name else (SHELVES[name].known if name in SHELVES else None)


def available(*, home: Path | None = None) -> list[Entry]:
    """Every dataset that can be loaded by name. Only looks whether files exist."""
    root = files.home() if home is None else home
    entries = [Entry(FASHION_MINI.name, FASHION_MINI.description, embedded.PATH, "comes with mipset")]
    for name, shelf in SHELVES.items():
        entries.append(Entry(name, shelf.known.description, shelf.find(root), _how(name)))
    entries += [Entry(f"{kind}:PATH", what, None, how) for kind, (what, how) in OWN.items()]
    return entries


def _find(kind: str, home: Path | None) -> Path:
    root = files.home() if home is None else home
    found = SHELVES[kind].find(root)
    if found is None:
        raise DataError(f"{kind} is not in {root / kind}: {_how(kind)}.")
    return found


def _how(name: str) -> str:
    return f"run mipset data fetch {name}, or load it from a folder with its official files as {name}:PATH"


def _check_resolution(name: str, shape: tuple[int, int, int], resolution: int | None) -> None:
    if resolution is not None and shape[1:] != (resolution, resolution):
        raise SettingError(
            f"`resolution` {resolution} was asked for, but the images of {name} are {shape[1]}x{shape[2]} and only "
            "pictures in a folder are scaled: leave it out or use folder:PATH."
        )


def _unknown(name: str, kind: str) -> str:
    close = difflib.get_close_matches(kind, KINDS, n=1)
    path = Path(name)
    if path.is_dir():
        advice = f"write folder:{name}."
    elif path.suffix == ".npz" and path.is_file():
        advice = f"write npz:{name}."
    elif close:
        advice = f"did you mean {close[0]}?"
    else:
        advice = "choose one of these."
    return f"There is no dataset called {name!r}, only {choices(NAMES)}: {advice}"
