"""Images that come one at a time, as arrays or as pictures: from folders, from torch datasets, from Hugging Face.

`from_torch` and `from_hf` are here; folder.py uses the same functions for files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mipset.data import pictures
from mipset.data.arrays import OutOfRangeError, Part, as_array, dataset_of, is_a, to_bytes
from mipset.data.dataset import Dataset, Images, shape_text
from mipset.errors import DataError, MissingExtraError, SettingError, brief, choices
from mipset.reporting import Report, silent

IT = "image"  # what errors of arrays call a single one
LISTED = 3  # bad files that a message names
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

    def check(self, name: str, skip_bad: bool | None) -> tuple[str, ...]:
        """Refuse images that cannot be used, all in one message. Gives the notes about those that are left out.

        `skip_bad` is None if nothing may be left out.
        """
        problems, notes = list[str](), tuple[str, ...]()
        if self.bad:
            listed = ", ".join(self.bad[:LISTED])
            more = f" and {len(self.bad) - LISTED} more" if len(self.bad) > LISTED else ""
            could_not = f"{len(self.bad)} of {self._added} pictures could not be read"
            if skip_bad:
                notes = (f"{could_not} and {'was' if len(self.bad) == 1 else 'were'} left out: {listed}{more}.",)
            else:
                advice = "Repair or remove them, or set `skip_bad` to leave them out."
                problems.append(f"{could_not}: {listed}{more}. {'Get them again.' if skip_bad is None else advice}")
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
    if isinstance(source, Path | bytes):
        return pictures.opened(source, resolution)
    if is_a(source, "PIL.Image", "Image"):
        return pictures.converted(source, resolution)
    image = to_bytes(IT, "it", as_array(IT, "it", source)[np.newaxis])[0]
    return image if resolution is None else pictures.scaled(image, resolution)


def check_resolution(resolution: int | None) -> None:
    """Refuse a resolution without a pixel."""
    if resolution is not None and resolution < 1:
        raise SettingError(f"`resolution` is {resolution}: it must be at least 1 pixel. Choose a larger value.")


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
    if it has `classes`, as those of torchvision. The other arguments are those of `from_arrays`; `report(stage, done,
    total)` is called while images are read, and `skip_bad` leaves out images that cannot be read.
    """
    if class_names is None:
        class_names = _classes_of(train)
    splits = [split for split in (train, test) if split is not None]
    parts = [_pairs(name, split) for split in splits]
    return _dataset_of_samples(name, parts, _length(splits), resolution, class_names, mean, std, seed, skip_bad, report)


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

    `image` and `label` are the names of the columns. By default they are the column of images and the column of class
    labels. The other arguments are those of `from_torch`.
    """
    if isinstance(train, Mapping):
        if "train" not in train or test is not None:
            raise DataError(
                f"{name}: there are the splits {', '.join(map(str, train))}. Give the training split as `train` and "
                "the test split as `test`."
            )
        test = next((train[split] for split in TEST_SPLITS if split in train), None)
        train = train["train"]
    splits = [split for split in (train, test) if split is not None]
    if not all(is_a(split, "datasets", "Dataset", "IterableDataset") for split in splits):
        raise DataError(f"{name}: {brief(type(train).__name__, str)} is no dataset of Hugging Face. Use `from_arrays`.")
    features = train.features or {}
    image = image or _column(name, features, "image", "Image", ("image", "img", "picture"))
    label = label or _column(name, features, "label", "ClassLabel", ("label", "labels"))
    if class_names is None:
        class_names = getattr(features.get(label), "names", None)
    parts = [_rows(split, image, label) for split in splits]
    return _dataset_of_samples(name, parts, _length(splits), resolution, class_names, mean, std, seed, skip_bad, report)


def _dataset_of_samples(
    name: str,
    parts: Sequence[Iterable[tuple[Any, Any]]],
    total: int,
    resolution: int | None,
    class_names: Sequence[str] | None,
    mean: npt.ArrayLike | None,
    std: npt.ArrayLike | None,
    seed: int,
    skip_bad: bool,
    report: Report,
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
    notes = samples.check(name, skip_bad)
    made = [
        Part(images, [labels[row] for row in rows], f"{prefix}images", f"{prefix}labels")
        for prefix, (rows, images) in zip(("", "test_"), samples.divided(ends[0]), strict=True)
    ]
    return dataset_of(name, made[0], made[1] if len(parts) > 1 else None, class_names, mean, std, seed, notes)


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
    in_order = is_a(dataset, "torch.utils.data", "IterableDataset") or not isinstance(dataset, Sized)
    if (in_order and not isinstance(dataset, Iterable)) or isinstance(dataset, Mapping):
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
            picture = picture["bytes"] if picture["bytes"] is not None else Path(picture["path"])
        yield picture, row[label]


def _plain_label(label: Any) -> Any:
    """A label as a number or a string of Python, if it is a tensor or a number of numpy."""
    is_number = isinstance(label, np.generic | np.ndarray) or is_a(label, "torch", "Tensor")
    return label.item() if is_number and label.ndim == 0 else label


def _length(splits: Sequence[Any]) -> int:
    """The number of samples, or 0 if it is unknown."""
    return sum(map(len, splits)) if all(isinstance(split, Sized) for split in splits) else 0
