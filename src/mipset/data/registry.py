"""Datasets by name: load one, list all of them, and give the facts about the published ones."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from mipset.data import embedded, folder, hf, imagenet, npz
from mipset.data.dataset import Dataset
from mipset.data.official import OFFICIAL, how_to_get
from mipset.data.samples import check_resolution
from mipset.data.specs import FASHION_MINI, DatasetSpec
from mipset.errors import DataError, SettingError, brief, choices, did_you_mean
from mipset.io import files
from mipset.reporting import Report, silent

OWN_DATA = {  # how to write the name, what it is, and how to load it
    "folder": (
        "folder:PATH",
        "your own pictures, in one sub-folder per class",
        "write folder: and the path of the folder, such as folder:pets",
    ),
    "npz": (
        "npz:PATH",
        "your own arrays, in one .npz file",
        "write npz: and the path of the file, such as npz:pets.npz",
    ),
    "imagenet": (
        "imagenet:PATH[:classes=WNID,WNID,...]",
        "any classes of ImageNet, or pictures in the same folders, 224x224 RGB",
        "write imagenet: and the path of the folder that holds train/nXXXXXXXX and val/nXXXXXXXX, and the classes if "
        "not all, such as imagenet:ILSVRC2012:classes=n01440764,n02102040",
    ),
    hf.KIND: (
        "hf:NAME[:CONFIG][:image=COLUMN][:label=COLUMN]",
        "a dataset of Hugging Face, from the cache of its library or from a folder",
        "run `mipset data fetch hf:NAME[:CONFIG]` and write hf:NAME[:CONFIG], or write hf: and the path of a folder",
    ),
}
OPTIONS = {"imagenet": ("classes",), hf.KIND: hf.COLUMNS}  # which may follow the path or name
KINDS = (FASHION_MINI.name, *OFFICIAL, *OWN_DATA)
NAMES = (FASHION_MINI.name, *OFFICIAL, *(f"{kind}:{'NAME' if kind == hf.KIND else 'PATH'}" for kind in OWN_DATA))


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
    """Load the dataset called `name`: a name that `available` lists, such as cifar10, folder:PATH or hf:NAME.

    A published dataset is read from the cache folder (`home`; the default is `mipset.data.home()`), or from PATH if
    `name` is cifar10:PATH or the like. `resolution` is the height and width to which pictures of a folder, of ImageNet
    or of Hugging Face are scaled. `seed` draws the test split of your own data if they have none. `skip_bad` leaves out
    pictures of your own that cannot be read; `notes` of the result tells what was left out. `report(stage, done,
    total)` is called while pictures are read.
    """
    check_resolution(resolution)
    kind, colon, given = name.partition(":")
    if kind not in KINDS:
        raise DataError(_unknown_name_message(name, kind))
    if kind == FASHION_MINI.name and colon:
        raise DataError(f"{name!r} has a path, but {kind} comes with mipset and takes no path. Leave the path out.")
    place, options = _options(given, OPTIONS.get(kind, ()))
    if not place and (colon or kind in OWN_DATA):
        raise DataError(f"{name!r} has no path. Write {OWN_DATA[kind][0] if kind in OWN_DATA else f'{kind}:PATH'}.")
    if kind == hf.KIND:
        is_folder = os.path.isdir(os.path.expanduser(place))  # noqa: PTH111, PTH112 (unlike a Path, they take any text)
        place = str(_path(name, place)) if is_folder else place
        return hf.read(_full_name(kind, place, options), place, options, resolution, seed, report, skip_bad)
    path = _path(name, place) if place else None
    full_name = _full_name(kind, path, options)
    if path is not None and kind in OWN_DATA:
        return _read_own(kind, full_name, path, options, resolution, seed, skip_bad, report)
    official = OFFICIAL.get(kind)
    if official is None or not official.scales:
        _refuse_to_scale(full_name, (official.spec if official else FASHION_MINI).shape, resolution)
    if official is None:
        return embedded.read()
    return official.open(full_name, path or _find(kind, home), resolution, report)


def _read_own(
    kind: str,
    name: str,
    path: Path,
    options: Mapping[str, str],
    resolution: int | None,
    seed: int,
    skip_bad: bool,
    report: Report,
) -> Dataset:
    """Read the data of the user at a path."""
    if kind == "folder":
        return folder.read(name, path, resolution, seed, report, skip_bad)
    if kind == "imagenet":
        classes = [each for each in options.get("classes", "").split(",") if each]
        return imagenet.read_own(name, path, classes, resolution, report, skip_bad)
    dataset = npz.read(name, path, seed)
    _refuse_to_scale(name, dataset.shape, resolution)
    return dataset


def spec_of(name: str) -> DatasetSpec | None:
    """What is known about a published dataset without its files. None for any other name."""
    if name == FASHION_MINI.name:
        return FASHION_MINI
    return OFFICIAL[name].spec if name in OFFICIAL else None


def is_from_memory(name: str) -> bool:
    """Whether `load` knows nothing of this name, as that of data in memory, which somebody chose in Python."""
    kind, colon, _ = name.partition(":")
    return kind not in KINDS or (kind in OWN_DATA and not colon)


def available(*, home: Path | None = None) -> list[DatasetEntry]:
    """List every dataset that can be loaded by name. This only checks whether files exist."""
    root = files.home() if home is None else home
    entries = [DatasetEntry(FASHION_MINI.name, FASHION_MINI.description, embedded.PATH, "comes with mipset")]
    for name, dataset in OFFICIAL.items():
        entries.append(DatasetEntry(name, dataset.spec.description, dataset.find(root), _how_to_get(name, root)))
    for written, description, how in OWN_DATA.values():
        entries.append(DatasetEntry(written, description, None, how))
    return entries


def _options(given: str, allowed: Collection[str]) -> tuple[str, dict[str, str]]:
    """`PATH:key=value:key=value` as the path and the options. Only allowed keys end the path."""
    options: dict[str, str] = {}
    while True:
        rest, colon, last = given.rpartition(":")
        key, sign, value = last.partition("=")
        if not (colon and sign and key in allowed):
            return given, options
        given, options = rest, {key: value, **options}


def _full_name(kind: str, place: Path | str | None, options: Mapping[str, str]) -> str:
    """The name under which the same dataset is loaded again, from anywhere on this machine."""
    return ":".join([kind, *([str(place)] if place else []), *(f"{key}={value}" for key, value in options.items())])


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
    path = OFFICIAL[kind].find(root)
    if path is None:
        advice = _how_to_get(kind, root)
        raise DataError(f"{kind} is not in {root / kind}. {advice[0].upper()}{advice[1:]}.")
    return path


def _how_to_get(name: str, root: Path) -> str:
    by_hand = how_to_get(OFFICIAL[name], root).removesuffix(".")
    by_hand = f"{by_hand[0].lower()}{by_hand[1:]}"
    return f"run `mipset data fetch {name}`, or {by_hand}" if OFFICIAL[name].can_be_fetched else by_hand


def _refuse_to_scale(name: str, shape: tuple[int, int, int], resolution: int | None) -> None:
    if resolution is not None and shape[1:] != (resolution, resolution):
        raise SettingError(
            f"`resolution` is {resolution}, but the images of {name} are {shape[1]}x{shape[2]}: only pictures are "
            "scaled. Leave `resolution` out or use folder:PATH."
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
