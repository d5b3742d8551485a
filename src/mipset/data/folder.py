"""Datasets of the form folder:PATH: your own pictures, one sub-folder per class."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from mipset.data import pictures
from mipset.data.dataset import HELD_OUT, Dataset, Images, Labels, Split, held_out_mask, statistics
from mipset.data.samples import Samples, check_resolution, pixels_of
from mipset.errors import DataError, choices
from mipset.reporting import Report

TEST_FOLDERS = ("test", "val", "valid")  # the first that exists is the test split
HIDDEN, NO_SUFFIX = "hidden", "without a suffix"

Files = dict[str, list[Path]]  # the pictures of every class, both in sorted order
Ignored = Counter[str]  # how many entries of each kind were ignored


def read(name: str, path: Path, resolution: int | None, seed: int, report: Report, skip_bad: bool = False) -> Dataset:
    """Read the dataset in `path` and call it `name`.

    Either `path` holds a folder train and one of test, val or valid, each with one sub-folder per class. Or it holds
    the folders of the classes directly; then a fifth of every class, drawn by `seed`, becomes the test split. The
    pictures of a class are all pictures below its folder. With a `resolution`, the centred square of every picture is
    scaled to `resolution` x `resolution`. `skip_bad` leaves out pictures that cannot be read.
    """
    if not path.is_dir():
        raise DataError(f"{name}: {path} is not a folder. Correct the path.")
    check_resolution(resolution)
    train_folder, test_folder = path / "train", _test_folder(path)
    if test_folder is None and train_folder.is_dir() and folders_in(train_folder):
        raise DataError(
            f"{name}: there is {train_folder} but no test split next to it. Add a folder called "
            f"{choices(TEST_FOLDERS)}, or put the class folders directly into {path}."
        )
    ignored: Ignored = Counter()
    if test_folder is None or not train_folder.is_dir():
        parts = [_classes(path, ignored)]
        try:  # before the slow part, since it may raise
            held_out_mask(_labels(parts[0]), tuple(parts[0]), HELD_OUT, seed)
        except DataError as error:
            raise DataError(" ".join([str(error), *note_about(ignored)])) from error
    else:
        ignored.update(_kind(entry) for entry in _entries(path) if entry not in (train_folder, test_folder))
        parts = [_classes(train_folder, ignored), _classes(test_folder, ignored)]
        _same_classes(name, train_folder, parts[0], test_folder, parts[1])
    class_names = tuple(parts[0])
    splits, notes = decode(name, path, parts, partial(pixels_of, resolution=resolution), skip_bad, report)
    if len(splits) == 1:
        mask = held_out_mask(splits[0].labels, class_names, HELD_OUT, seed)
        splits = [splits[0].at(~mask), splits[0].at(mask)]
    mean, std = statistics(splits[0].images)
    return Dataset(name, splits[0], splits[1], class_names, mean, std, notes=(*note_about(ignored), *notes))


def _test_folder(path: Path) -> Path | None:
    return next((path / name for name in TEST_FOLDERS if (path / name).is_dir()), None)


def folders_in(path: Path) -> list[Path]:
    return [entry for entry in _entries(path) if entry.is_dir() and not _is_hidden(entry)]


def _entries(path: Path) -> list[Path]:
    """The entries of a folder, sorted by name in the same way on every system."""
    try:
        return sorted(path.iterdir(), key=lambda entry: entry.name)
    except OSError as error:
        raise DataError(f"{path} could not be listed ({error.strerror}). Check its permissions.") from error


def _is_hidden(entry: Path) -> bool:
    return entry.name.startswith(".")


def _kind(entry: Path) -> str:
    """What a note calls an entry that is ignored."""
    if _is_hidden(entry):
        return HIDDEN
    return f"folder {entry.name}" if entry.is_dir() else entry.suffix.lower() or NO_SUFFIX


def _classes(path: Path, ignored: Ignored) -> Files:
    folders = folders_in(path)
    if not folders:
        raise DataError(f"{path} holds no folders. Give every class a sub-folder with its pictures.")
    ignored.update(_kind(entry) for entry in _entries(path) if entry not in folders)
    files = {folder.name: pictures_below(folder, ignored) for folder in folders}
    empty = [name for name, found in files.items() if not found]
    if empty:
        who = f"Class {empty[0]!r} has" if len(empty) == 1 else f"Classes {', '.join(map(repr, empty))} have"
        raise DataError(
            f"{who} no pictures in {path}. Add some ({', '.join(sorted(pictures.readable_suffixes()))}) or remove "
            f"the folder.{''.join(' ' + note for note in note_about(ignored))}"
        )
    return files


def pictures_below(folder: Path, ignored: Ignored) -> list[Path]:
    """All pictures below a folder, in the order of torchvision's ImageFolder: by folder, then by name."""
    suffixes = pictures.readable_suffixes()
    found: list[Path] = []
    seen: set[tuple[int, int]] = set()  # a link to a folder above must not be followed for ever

    def visit(place: Path) -> None:
        status = place.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        entries = _entries(place)
        folders[str(place)] = [entry for entry in entries if not _is_hidden(entry) and entry.is_file()]
        ignored[HIDDEN] += sum(map(_is_hidden, entries))
        for entry in entries:
            if entry.is_dir() and not _is_hidden(entry):
                visit(entry)

    folders: dict[str, list[Path]] = {}
    visit(folder)
    for _, entries in sorted(folders.items()):
        found += [entry for entry in entries if entry.suffix.lower() in suffixes]
        ignored.update(_kind(entry) for entry in entries if entry.suffix.lower() not in suffixes)
    return found


def note_about(ignored: Ignored) -> tuple[str, ...]:
    """One sentence about all that was ignored."""
    counts = {kind: count for kind, count in sorted(ignored.items()) if count}
    if not counts:
        return ()
    kinds = [f"{count} {kind}" if not kind.startswith("folder") else kind for kind, count in counts.items()]
    advice = dict.fromkeys(text for kind in counts if (text := pictures.advice_for(kind)))
    install = f" (install {' and '.join(advice)} to read these pictures)" if advice else ""
    total = sum(counts.values())
    return (f"{total} {'entry was' if total == 1 else 'entries were'} ignored: {', '.join(kinds)}{install}.",)


def _labels(files: Files) -> Labels:
    return np.repeat(np.arange(len(files), dtype=np.int64), [len(found) for found in files.values()])


def _same_classes(name: str, train_folder: Path, train: Files, test_folder: Path, test: Files) -> None:
    for here, there, place in ((train, test, test_folder), (test, train, train_folder)):
        absent = sorted(here.keys() - there.keys())
        if absent:
            raise DataError(
                f"{name}: class {absent[0]!r} has no folder in {place}. Give train and {test_folder.name} "
                "the same classes."
            )


def decode(
    name: str,
    root: Path,
    parts: list[Files],
    read_picture: Callable[[Path], Images],
    skip_bad: bool,
    report: Report,
    again: str = "",
) -> tuple[list[Split], tuple[str, ...]]:
    """Decode every part, of which there are one or two, to a split, and say what was left out.

    All pictures are read into one array. `again` is the advice of a published dataset, of which no picture may be left
    out: where to get its files.
    """
    paths = [path for part in parts for found in part.values() for path in found]
    labels = np.concatenate([_labels(part) for part in parts])
    titles = [os.path.relpath(path, root) for path in paths]
    samples = Samples(len(paths))
    with pictures.without_bombs():
        for done, (title, path) in enumerate(zip(titles, paths, strict=True), start=1):
            samples.add(title, partial(read_picture, path))
            report("reading pictures", done, len(paths))
    notes = samples.check(name, skip_bad, again)
    divided = samples.divided(len(_labels(parts[0])))[: len(parts)]
    return [Split.of(images, labels[rows], tuple(titles[row] for row in rows)) for rows, images in divided], notes
