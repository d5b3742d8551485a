"""Images that come one at a time, as arrays or as pictures: from folders, from torch datasets, from Hugging Face.

`from_torch` and `from_hf` are here; folder.py uses the same functions for files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data import pictures
from mipset.data.arrays import OutOfRangeError, Part, as_images, dataset_of, is_a, to_bytes
from mipset.data.dataset import Dataset, Images, listed, shape_text
from mipset.errors import DataError, MissingExtraError, SettingError, brief, choices
from mipset.reporting import Report, silent

IT = "image"  # what errors of arrays call a single one
HF_TYPES = ("Dataset", "IterableDataset")
TEST_SPLITS = ("test", "validation", "valid", "val")  # the first that exists is the test split


class Samples:
    """Images that are read one after the other into one array, so that they are never twice in memory.

    `expected` is their number, or 0 if it is unknown. An image that cannot be read takes no place in the array; `bad`
    says why.
    """

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected
        self.kept: list[int] = []  # the numbers of the images in the array, counted over all that were added
        self.bad: list[str] = []  # the title of each, and the reason
        self._added = 0
        self._shapes: dict[tuple[int, ...], str] = {}  # and the title of the first image that has it
        self._pixels: Images = np.empty((0, 0, 0, 0), dtype=np.uint8)

    def add(self, title: str, read: Callable[[], Images]) -> None:
        """Read one image. If it is the first, values that are not those of pixels are refused at once."""
        number, self._added = self._added, self._added + 1
        try:
            image = read()
        except MissingExtraError:
            raise
        except Exception as error:  # decoders raise all kinds of exceptions on broken bytes
            if isinstance(error, OutOfRangeError) and not number:
                raise OutOfRangeError(f"{title}{str(error).removeprefix(f'{IT}: it')}") from error
            self.bad.append(f"{title} ({brief(error, str).removeprefix(f'{IT}: ').removesuffix('.')})")
            return
        self._shapes.setdefault(image.shape[1:], title)
        if len(self._shapes) == 1:  # else nothing comes of them
            self._make_room(image)
            self._pixels[len(self.kept)] = image  # a grey image spreads over all channels
            self.kept.append(number)

    def check(self, name: str, skip_bad: bool, again: str = "", unlabelled: Sequence[str] = ()) -> tuple[str, ...]:
        """Refuse images that cannot be used, all in one message. Gives the notes about those that are left out.

        `again` is the advice of a published dataset, of which nothing may be left out: where to get its files.
        `unlabelled` are the titles of images without a label.
        """
        problems, notes = list[str](), tuple[str, ...]()
        if unlabelled:
            have = f"{listed(unlabelled)} {'has' if len(unlabelled) == 1 else 'have'}"
            problems.append(f"{have} no label. Give every image one, or remove those without.")
        if self.bad:
            could_not = f"{len(self.bad)} of {self._added} pictures could not be read"
            if skip_bad:
                notes = (f"{could_not} and {'was' if len(self.bad) == 1 else 'were'} left out: {listed(self.bad)}.",)
            else:
                advice = "Repair or remove them, or set `skip_bad` to leave them out."
                problems.append(f"{could_not}: {listed(self.bad)}. {again or advice}")
        if len(self._shapes) > 1:
            (first, first_title), (second, second_title) = list(self._shapes.items())[:2]
            problems.append(
                f"The pictures have different shapes ({first_title} is {shape_text(first)}, {second_title} is "
                f"{shape_text(second)}, height by width). Give `resolution` to scale them."
            )
        if problems:
            raise DataError(f"{name}: {' '.join(problems)}")
        if not self.kept:
            raise DataError(f"{name}: none of {self._added} pictures could be read. Give it images.")
        return notes

    def divided(self, end: int) -> list[tuple[list[int], Images]]:
        """The images before number `end` and the others: their numbers, and their pixels as a part of the array."""
        middle = bisect_left(self.kept, end)
        parts = slice(0, middle), slice(middle, len(self.kept))
        return [(self.kept[part], self._pixels[part]) for part in parts]

    def _make_room(self, image: Images) -> None:
        """Make the array large enough for one more image. All are grey if every one is grey, else all are RGB."""
        room, channels = len(self._pixels), max(self._pixels.shape[1], len(image))
        if len(self.kept) == room:
            room = max(self.expected, 2 * room, 1)
        if (room, channels) != self._pixels.shape[:2]:
            before, self._pixels = self._pixels, np.empty((room, channels, *image.shape[1:]), dtype=np.uint8)
            if self.kept:
                self._pixels[: len(self.kept)] = before[: len(self.kept)]


def pixels_of(source: Any, resolution: int | None) -> Images:
    """One image as [ch, h, w] bytes."""
    if source is None:
        raise ValueError("there is no picture")
    if isinstance(source, Path | bytes):
        return pictures.opened(source, resolution)
    if is_a(source, "PIL.Image", "Image"):
        return pictures.converted(source, resolution)
    image = to_bytes(IT, "it", as_images(IT, "it", source)[np.newaxis])[0]
    return image if resolution is None else pictures.scaled(image, resolution)


def check_resolution(resolution: int | None) -> None:
    """Refuse a resolution without a pixel."""
    if resolution is not None and not isinstance(resolution, int | np.integer):
        raise SettingError(f"`resolution` is {brief(resolution)}: it must be a whole number of pixels. Write it as 32.")
    if resolution is not None and resolution < 1:
        raise SettingError(f"`resolution` is {resolution}: it must be at least 1 pixel. Choose a larger value.")


@dataclass(frozen=True)
class Names:
    """The names of the classes, if they are known, and whether they are those of the data, not of the user."""

    given: Sequence[str] | None
    of_data: bool = False


def from_torch(
    train: Any,
    test: Any = None,
    *,
    resolution: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: npt.ArrayLike | None = None,
    std: npt.ArrayLike | None = None,
    name: str = "torch",
    seed: int = 0,
    skip_bad: bool = False,
    report: Report = silent,
) -> Dataset:
    """Make a dataset of a torch `Dataset`, or of two. A sample is a pair of an image and its label.

    Images are tensors, arrays or pictures of Pillow: bytes, or floats from 0 to 1. Use no random transform and no
    Normalize. `resolution` scales the centred square of each image. The names of the classes are those of the dataset
    if it has `classes`, as those of torchvision; classes without an image are left out. The other arguments are those
    of `from_arrays`; `report(stage, done, total)` is called while images are read, and `skip_bad` leaves out images
    that cannot be read.
    """
    splits = [train] if test is None else [train, test]
    names = Names(class_names) if class_names is not None else Names(_classes_of(train), of_data=True)
    parts = [_pairs(name, split) for split in splits]
    return _dataset_of_samples(name, parts, _length(splits), resolution, names, mean, std, seed, skip_bad, report)


def from_hf(
    train: Any,
    test: Any = None,
    *,
    image: str | None = None,
    label: str | None = None,
    resolution: int | None = None,
    class_names: Sequence[str] | None = None,
    mean: npt.ArrayLike | None = None,
    std: npt.ArrayLike | None = None,
    name: str = "hf",
    seed: int = 0,
    skip_bad: bool = False,
    report: Report = silent,
) -> Dataset:
    """Make a dataset of a Hugging Face `Dataset`, or of two, or of a `DatasetDict` with a split `train`.

    The test split of a `DatasetDict` is its split `test`, or else `validation`; then `notes` of the result says so.
    `image` and `label` are the names of the columns. By default they are the column of images and the column of class
    labels. Classes of a `ClassLabel` without an image are left out. The other arguments are those of `from_torch`.
    """
    notes = tuple[str, ...]()
    if isinstance(train, Mapping):
        if "train" not in train or test is not None:
            raise DataError(
                f"{name}: there are the splits {', '.join(map(str, train))}. Give the training split as `train` and "
                "the test split as `test`."
            )
        found = next((split for split in TEST_SPLITS if split in train), None)
        if found not in (None, TEST_SPLITS[0]):
            notes = (f"There is no split {TEST_SPLITS[0]!r}, so the images of {found!r} are the test images.",)
        train, test = train["train"], None if found is None else train[found]
    splits = [train] if test is None else [train, test]
    if not all(is_a(split, "datasets", *HF_TYPES) for split in splits):
        kind = next(type(split).__name__ for split in splits if not is_a(split, "datasets", *HF_TYPES))
        raise DataError(f"{name}: {brief(kind, str)} is no dataset of Hugging Face. Use `from_arrays`.")
    features = train.features or {}
    image = image or _column(name, features, "image", "Image", ("image", "img", "picture"))
    label = label or _column(name, features, "label", "ClassLabel", ("label", "labels"))
    of_feature = getattr(features.get(label), "names", None)
    names = Names(class_names) if class_names is not None else Names(of_feature, of_data=True)
    parts = [_rows(split, image, label) for split in splits]
    return _dataset_of_samples(
        name, parts, _length(splits), resolution, names, mean, std, seed, skip_bad, report, notes
    )


def _dataset_of_samples(
    name: str,
    parts: Sequence[Iterable[tuple[Any, Any]]],
    total: int,
    resolution: int | None,
    class_names: Names,
    mean: npt.ArrayLike | None,
    std: npt.ArrayLike | None,
    seed: int,
    skip_bad: bool,
    report: Report,
    notes: tuple[str, ...] = (),
) -> Dataset:
    check_resolution(resolution)
    samples, labels, ends = Samples(total), list[Any](), list[int]()
    titles = ("image", "test image") if len(parts) > 1 else ("image",)
    with pictures.without_bombs():
        for title, part in zip(titles, parts, strict=True):
            for number, (source, one_label) in enumerate(part):
                try:
                    samples.add(f"{title} {number}", partial(pixels_of, source, resolution))
                except OutOfRangeError as error:
                    raise DataError(f"{name}: {error}") from error
                labels.append(_plain_label(one_label))
                report("reading images", len(labels), total)
            ends.append(len(labels))
    if ends[0] == 0 or (ends[-1] == ends[0] and len(ends) > 1):
        raise DataError(f"{name}: a split is empty. Give it images.")
    unlabelled = [
        f"image {number}" if number < ends[0] else f"test image {number - ends[0]}"
        for number in samples.kept
        if labels[number] is None
    ]
    notes = (*notes, *samples.check(name, skip_bad, unlabelled=unlabelled))
    divided = samples.divided(ends[0])[: len(parts)]
    kept, names = [[labels[row] for row in rows] for rows, _ in divided], class_names.given
    if names is not None and class_names.of_data:
        names, kept, left_out = _without_empty(name, tuple(names), kept)
        notes = (*notes, *left_out)
    train, *test = (
        Part(images, numbers, f"{prefix}images", f"{prefix}labels")
        for prefix, numbers, (_, images) in zip(("", "test_"), kept, divided, strict=False)
    )
    return dataset_of(name, train, test[0] if test else None, names, mean, std, seed, notes)


def _without_empty(
    name: str, class_names: tuple[str, ...], parts: list[list[Any]]
) -> tuple[tuple[str, ...], list[list[Any]], tuple[str, ...]]:
    """Leave out the classes without an image, and number the others anew: names, labels of each split, and notes."""
    if not all(type(label) is int and 0 <= label < len(class_names) for labels in parts for label in labels):
        return class_names, parts, ()  # other labels, or wrong ones, which are refused with the others
    found = [set(labels) for labels in parts]
    everywhere = set[int]().union(*found)
    for labels, split, other in zip(found, ("training", "test"), ("test", "training"), strict=False):
        if absent := sorted(everywhere - labels):
            raise DataError(
                f"{name}: {_classes(class_names, absent)} images in the {other} split, but none in the {split} split. "
                "Add some, or leave out the images of the other split."
            )
    if len(everywhere) == len(class_names):
        return class_names, parts, ()
    absent, present = sorted(set(range(len(class_names))) - everywhere), sorted(everywhere)
    numbers = {label: number for number, label in enumerate(present)}
    who = _classes(class_names, absent)
    return (
        tuple(class_names[label] for label in present),
        [[numbers[label] for label in labels] for labels in parts],
        (f"{who[0].upper()}{who[1:]} no images and {'was' if len(absent) == 1 else 'were'} left out.",),
    )


def _classes(class_names: tuple[str, ...], labels: list[int]) -> str:
    """The subject of a sentence about these classes, and its verb."""
    shown = listed([repr(class_names[label]) for label in labels])
    return f"class {shown} has" if len(labels) == 1 else f"{len(labels)} classes ({shown}) have"


def _classes_of(dataset: Any) -> Sequence[str] | None:
    """The attribute `classes` of a dataset of torchvision, or of the one that a subset is taken from."""
    while dataset is not None:
        names = getattr(dataset, "classes", None)
        if isinstance(names, list | tuple) and all(isinstance(class_name, str) for class_name in names):
            return names
        dataset = getattr(dataset, "dataset", None)
    return None


def _pairs(name: str, dataset: Any) -> Iterator[tuple[Any, Any]]:
    if is_a(dataset, "torch", "Tensor") or isinstance(dataset, np.ndarray):
        raise DataError(f"{name}: this is an array, not a dataset of pairs. Use `from_arrays`(images, labels).")
    if is_a(dataset, "torch.utils.data", "DataLoader"):
        raise DataError(f"{name}: this is a DataLoader, which makes batches. Give its dataset: loader.dataset.")
    in_order = is_a(dataset, "torch.utils.data", "IterableDataset") or not isinstance(dataset, Sized)
    usable = isinstance(dataset, Iterable) if in_order else callable(getattr(dataset, "__getitem__", None))
    if not usable or isinstance(dataset, Mapping):
        raise DataError(f"{name}: {brief(type(dataset).__name__, str)} is no torch dataset. Give one, or arrays.")
    for sample in dataset if in_order else (dataset[row] for row in range(len(dataset))):
        if not isinstance(sample, tuple | list) or len(sample) < 2:
            raise DataError(
                f"{name}: a sample is {brief(type(sample).__name__, str)}, but must be a pair of an image and its "
                "label. Return such pairs, or give arrays to `from_arrays`."
            )
        yield sample[0], sample[1]


def _column(name: str, features: Mapping[str, Any], argument: str, kind: str, usual: tuple[str, ...]) -> str:
    """The name of the only column of this kind, or else of one with a usual name."""
    fitting = [column for column, feature in features.items() if type(feature).__name__ == kind]
    named = [column for column in fitting or features if column in usual]
    found = fitting if len(fitting) == 1 else named
    if len(found) != 1:
        raise DataError(
            f"{name}: the columns are {', '.join(features) or 'unknown'}. Choose the column of the {argument}s with "
            f"`{argument}`{'' if len(fitting) < 2 else ': ' + choices(fitting)}."
        )
    return found[0]


def _rows(dataset: Any, image: str, label: str) -> Iterator[tuple[Any, Any]]:
    for column in (image, label):
        if column not in (dataset.features or ()):
            columns = ", ".join(dataset.features or ())
            raise DataError(f"There is no column {column!r}, only {columns}. Choose one as `image` or `label`.")
    plain = dataset.with_format(None)
    if type(plain.features[image]).__name__ == "Image":  # decoded here, by the formats that we allow
        plain = plain.cast_column(image, type(plain.features[image])(decode=False))
    for row in plain:
        picture = row[image]
        if isinstance(picture, dict) and picture.keys() >= {"bytes", "path"}:
            file = None if picture["path"] is None else Path(picture["path"])
            picture = file if picture["bytes"] is None else picture["bytes"]
        yield picture, row[label]


def _plain_label(label: Any) -> Any:
    """A label as a number or a string of Python, if it is a tensor or a number of numpy."""
    is_number = isinstance(label, np.generic | np.ndarray) or is_a(label, "torch", "Tensor")
    return label.item() if is_number and label.ndim == 0 else label


def _length(splits: Sequence[Any]) -> int:
    """The number of samples, or 0 if it is unknown."""
    return sum(map(len, splits)) if all(isinstance(split, Sized) for split in splits) else 0
