"""Classes of ImageNet from the usual folders: train/nXXXXXXXX and val/nXXXXXXXX, named by WordNet ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from mipset.data import folder as folders
from mipset.data import pictures
from mipset.data.class_names import IMAGENET10, IMAGENETTE
from mipset.data.dataset import Dataset, Split
from mipset.data.places import first_place
from mipset.data.samples import check_resolution
from mipset.data.specs import IMAGENET_MEAN, IMAGENET_STD, DatasetSpec
from mipset.errors import DataError, choices
from mipset.reporting import Report, silent

RESOLUTION = 224
SPLITS = ("train", "val")
CLASSES = {"imagenet10": tuple(IMAGENET10), "imagenette": tuple(IMAGENETTE)}
SUBFOLDERS = ("", "imagenette2")  # which may hold train and val


def is_in(folder: Path, classes: Iterable[str]) -> bool:
    """Whether the folder has a folder for each of these classes in train and in val. Pictures are not looked for."""
    root = _root(folder)
    return all((root / split / wnid).is_dir() for split in SPLITS for wnid in classes)


def read(folder: Path, spec: DatasetSpec, report: Report = silent) -> tuple[Split, Split]:
    """Read the classes of a published subset of ImageNet, at the resolution of the spec."""
    root = _root(folder)
    absent = [split for split in SPLITS if not (root / split).is_dir()]
    if absent:
        raise DataError(f"{folder} does not hold {spec.name}: there is no folder {choices(absent)}. {spec.put_there}")
    files = _files(spec.name, root, CLASSES[spec.name], Counter(), spec.get_again)
    spec.check_counts(spec.name, *(sum(map(len, part.values())) for part in files))  # before the slow part
    splits, _ = _decode(spec.name, root, files, spec.shape[1], False, report, spec.get_again)
    return splits


def read_own(
    name: str,
    path: Path,
    classes: Sequence[str],
    resolution: int | None,
    report: Report = silent,
    skip_bad: bool = False,
) -> Dataset:
    """Read these classes, or all if none is named, from the folders train and val in `path`, and call them `name`.

    The names of the classes are those of their folders. `resolution` is 224 if it is None. `skip_bad` leaves out
    pictures that cannot be read.
    """
    check_resolution(resolution)
    ignored: folders.Ignored = Counter()
    if not classes and (path / SPLITS[0]).is_dir():
        classes = [each.name for each in folders.folders_in(path / SPLITS[0])]
    files = _files(name, path, classes, ignored)
    (train, test), notes = _decode(name, path, files, resolution or RESOLUTION, skip_bad, report)
    notes = (*folders.note_about(ignored), *notes)
    return Dataset(name, train, test, tuple(classes), IMAGENET_MEAN, IMAGENET_STD, notes=notes)


def _root(folder: Path) -> Path:
    """The folder or sub-folder that holds train and val, or the folder itself if none does."""
    return first_place(folder, SUBFOLDERS, lambda place: all((place / split).is_dir() for split in SPLITS)) or folder


def _files(
    name: str, root: Path, classes: Sequence[str], ignored: folders.Ignored, again: str = ""
) -> list[folders.Files]:
    """The pictures of each class in train and in val. `again` is where to get those of a published dataset."""
    parts = []
    for split in SPLITS:
        place = root / split
        if not place.is_dir():
            raise DataError(
                f"{name}: there is no folder {place}. Put the pictures into train/nXXXXXXXX and val/nXXXXXXXX, with "
                "the WordNet id of the class."
            )
        if not folders.folders_in(place):
            sort = again or f"Sort its pictures into {split}/nXXXXXXXX."
            raise DataError(f"{name}: {place} holds no class folders. {sort}")
        for wnid in classes:
            if not (place / wnid).is_dir():
                raise DataError(f"{name}: the class folder {wnid} is not in {place}. {again or 'Put it there.'}")
        files = {wnid: folders.pictures_below(place / wnid, ignored) for wnid in classes}
        empty = next((wnid for wnid, found in files.items() if not found), None)
        if empty is not None:
            add = again or "Add its .JPEG files."
            raise DataError(f"{name}: the class folder {place / empty} holds no pictures. {add}")
        parts.append(files)
    return parts


def _decode(
    name: str, root: Path, files: list[folders.Files], resolution: int, skip_bad: bool, report: Report, again: str = ""
) -> tuple[tuple[Split, Split], tuple[str, ...]]:
    read_picture = partial(pictures.photograph, resolution=resolution)
    (train, test), notes = folders.decode(name, root, files, read_picture, skip_bad, report, again)
    return (train, test), notes
