"""EuroSAT (RGB): one folder of pictures for each class. It has no test split, so ours is drawn once and for all."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from mipset.data import folder as folders
from mipset.data import pictures
from mipset.data.class_names import EUROSAT
from mipset.data.dataset import HELD_OUT, Split, held_out_mask
from mipset.data.places import first_place
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError
from mipset.reporting import Report, silent

FOLDERS = ("", "2750", "EuroSAT_RGB", "EuroSAT/2750")
SEED = 0  # draws the test split


def is_in(folder: Path) -> bool:
    """Whether the folder, or a sub-folder, has a folder for each class."""
    return _find(folder) is not None


def read(folder: Path, spec: DatasetSpec, report: Report = silent) -> tuple[Split, Split]:
    """Read all pictures, and hold out a fifth of each class for testing: always the same ones."""
    root = _find(folder)
    if root is None:
        raise DataError(
            f"{folder} does not hold {spec.name}: it needs the class folders {', '.join(spec.class_names)}. "
            f"{spec.put_there}"
        )
    files = {name: folders.pictures_below(root / name, Counter()) for name in spec.class_names}
    read_picture = partial(pictures.of_size, height=spec.shape[1], width=spec.shape[2])
    (whole,), _ = folders.decode(spec.name, root, [files], read_picture, False, report, spec.get_again)
    mask = held_out_mask(whole.labels, spec.class_names, HELD_OUT, SEED)
    return whole.at(~mask), whole.at(mask)


def _find(folder: Path) -> Path | None:
    return first_place(folder, FOLDERS, lambda place: all((place / name).is_dir() for name in EUROSAT))
