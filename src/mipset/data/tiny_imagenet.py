"""Tiny-ImageNet in its own layout: class folders for training, and one list for the validation pictures."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from mipset.data import folder as folders
from mipset.data import pictures
from mipset.data.dataset import Split
from mipset.data.places import first_place
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError, brief
from mipset.reporting import Report, silent

FOLDERS = ("", "tiny-imagenet-200")
ANNOTATIONS = Path("val") / "val_annotations.txt"  # lines of a picture, its class and its box, separated by tabs


def is_in(folder: Path) -> bool:
    """Whether the folder, or its sub-folder, has the list of validation pictures."""
    return _find(folder) is not None


def read(folder: Path, spec: DatasetSpec, report: Report = silent) -> tuple[Split, Split]:
    """Read the training and validation pictures. The classes are in the order of their WordNet ids."""
    root = _find(folder)
    if root is None:
        raise DataError(f"{folder} does not hold {spec.name}: there is no {ANNOTATIONS.as_posix()}. {spec.put_there}")
    files = [_train_files(root, spec), _val_files(root, spec)]
    spec.check_counts(spec.name, *(sum(map(len, part.values())) for part in files))  # before the slow part
    read_picture = partial(pictures.of_size, height=spec.shape[1], width=spec.shape[2])
    (train, test), _ = folders.decode(spec.name, root, files, read_picture, False, report, spec.get_again)
    return train, test


def _find(folder: Path) -> Path | None:
    return first_place(folder, FOLDERS, lambda place: (place / ANNOTATIONS).is_file())


def _train_files(root: Path, spec: DatasetSpec) -> folders.Files:
    files = {wnid: sorted((root / "train" / wnid / "images").glob("*.JPEG")) for wnid in spec.class_names}
    for wnid, found in files.items():
        if not found:
            raise DataError(
                f"{spec.name} is incomplete: there are no pictures in {root / 'train' / wnid / 'images'}. "
                f"{spec.get_again}"
            )
    return files


def _val_files(root: Path, spec: DatasetSpec) -> folders.Files:
    files: folders.Files = {wnid: [] for wnid in spec.class_names}
    path = root / ANNOTATIONS
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        picture, _, rest = line.partition("\t")
        wnid = rest.partition("\t")[0]
        if wnid not in files or Path(picture).name != picture:
            raise DataError(
                f"{path} is damaged: line {number} is {brief(line)} instead of a picture and one of the "
                f"{len(files)} classes. {spec.get_again}"
            )
        if not (root / "val" / "images" / picture).is_file():
            raise DataError(
                f"{spec.name} is incomplete: {picture} is in {path}, but not in {root / 'val' / 'images'}. "
                f"{spec.get_again}"
            )
        files[wnid].append(root / "val" / "images" / picture)
    return files
