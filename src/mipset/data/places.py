"""Where official files may be: in a folder, or in the sub-folder into which their archive is unpacked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path


def first_place(folder: Path, names: Iterable[str], holds: Callable[[Path], bool]) -> Path | None:
    """The first of these sub-folders, or the folder itself for an empty name, that holds the files; or None."""
    return next((place for name in names if holds(place := folder / name)), None)
