"""Condensed sets that others published as torch files, converted to files of ours.

There are two kinds. In both, the images [C * N, ch, h, w] come class by class.

mdc  The files of MDC, and of IDC and DREAM, on which it builds: a list of images and labels. Values are in [0, 1] or
     slightly outside, because the authors do not clip after the last steps. A stored image is a grid of f x f tiles.
     The file does not contain f.
dc   The files of DC, DSA and DM: `{"data": [[images, labels], ...]}`, one pair for each of several experiments. Also
     the files of MTT (without ZCA whitening): one file with a tensor of images, another with a tensor of labels. Values
     are normalised and were never limited to what a picture can hold. They are denormalised and clipped to [0, 1].

With tiles, the S_[n] of the authors is not the first n stored images. Their decoder goes tile position by tile
position: with N stored images per class, decoded image j is tile j div N (row by row, from the top left) of stored
image j mod N. S_[n] is the first n * f² decoded images. Here the tiles are moved, so that

    tile q of our stored image r  =  tile j div N of their stored image j mod N,   where j = r * f² + q.

So our S_[n], the first n stored images, decodes to theirs in their order. The pixels of a tile do not change. All tiles
must have the same size for this. If f does not divide the sides, only the order of whole images can be kept.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mipset import __version__
from mipset.errors import ArtifactError, SettingError, choose
from mipset.exchange.torch_files import Floats, Integers, float_array, integer_array, is_tensor, load_without_code
from mipset.file.artifact import Artifact
from mipset.file.description import tiles_fit
from mipset.file.pixels import Pixels, to_uint8
from mipset.file.provenance import Provenance, public_name
from mipset.settings.exchange_choices import IMPORT_KINDS, IMPORT_ORDERS

PAIRS = (("images", "labels"), ("images_train", "labels_train"))  # the keys that a dictionary of the two may have
TOLERANCE = 0.5  # values of `mdc` may leave [0, 1] by this much; beyond it the file must be of another kind


class SourceDataset(Protocol):
    """The facts that are needed about the dataset from which a set was condensed."""

    @property
    def name(self) -> str: ...
    @property
    def class_names(self) -> tuple[str, ...]: ...
    @property
    def shape(self) -> tuple[int, int, int]: ...
    @property
    def mean(self) -> tuple[float, ...]: ...
    @property
    def std(self) -> tuple[float, ...]: ...
    @property
    def sha256(self) -> str: ...


@dataclass(frozen=True)
class PublishedSet:
    """Images and labels as they are in a published file. Sometimes the labels are in a second file."""

    files: tuple[Path, ...]  # the images are in the first
    images: Floats
    labels: Integers
    sha256: str  # of the first file
    experiment: int | None = None

    @property
    def path(self) -> Path:
        """The file of the images."""
        return self.files[0]


@dataclass(frozen=True)
class ImportedSet:
    """A condensed set of ours, and the share of its values that were clipped to [0, 1]."""

    artifact: Artifact
    clipped_share: float


def open_published(path: Path, labels: Path | None = None, experiment: int | None = None) -> PublishedSet:
    """Read the images and labels in a torch file. Nothing in it is executed.

    `labels` is the file of the labels, if the file at `path` holds only images. The default is the file beside it whose
    name has `labels` in place of `images`. `experiment` is the number of one of several experiments, counted from 0.
    The default is the first.
    """
    file_bytes = _read_bytes(path)
    content = load_without_code(path, file_bytes)
    if isinstance(content, dict) and isinstance(experiments := dict.get(content, "data"), list):
        if not experiments:
            raise ArtifactError(f"{path} holds no experiment, and so no images. Choose another file.")
        experiment = 0 if experiment is None else experiment
        if not 0 <= experiment < len(experiments):
            raise SettingError(
                f"`experiment` is {experiment}, but {path} holds {len(experiments)}. Choose from 0 to "
                f"{len(experiments) - 1}."
            )
        content = experiments[experiment]
    elif experiment is not None:
        raise SettingError(f"`experiment` is {experiment}, but {path} does not hold several experiments. Leave it out.")
    files, labels_length = [path], len(file_bytes)
    if is_tensor(content):
        files.append(labels or _labels_beside(path))
        labels_bytes = _read_bytes(files[1])
        content, labels_length = [content, load_without_code(files[1], labels_bytes)], len(labels_bytes)
    elif labels is not None:
        raise SettingError(f"{path} holds its own labels. Leave out `labels`.")
    match _images_and_labels(content):
        case [image_tensor, label_tensor] if is_tensor(image_tensor) and is_tensor(label_tensor):
            return PublishedSet(
                tuple(files),
                float_array(image_tensor, path, len(file_bytes)),
                integer_array(label_tensor, path, labels_length),
                hashlib.sha256(file_bytes).hexdigest(),
                experiment,
            )
    raise ArtifactError(
        f"{path} does not hold images and labels in a form that MDC, DC or MTT publish. Choose another file."
    )


def as_artifact(
    published: PublishedSet,
    kind: str,
    dataset: SourceDataset,
    *,
    factor: int | None = None,
    order: str | None = None,
    origin: Provenance | None = None,
) -> ImportedSet:
    """Convert a published set to one of ours.

    `factor` is the number f of tiles along a side of an mdc file. `order` is "tiles" (the default: S_[n] is what the
    authors measured as size n) or "images" (S_[n] is the first n stored images). `origin` is further provenance, such
    as the arguments of `load`.
    """
    f, order = _check_factor(published, kind, factor), _check_order(kind, order)
    _check_images(published, dataset)
    ipc = _images_per_class(published, dataset)
    if not tiles_fit(f, dataset.shape[1:]):
        raise SettingError(
            f"`factor` is {f}, but images of {dataset.shape[1]} x {dataset.shape[2]} pixels cannot be cut into "
            f"{f} x {f} tiles. Choose a smaller `factor`."
        )
    values = _denormalised(published, kind, dataset)
    by_class = to_uint8(np.clip(values, 0, 1)).reshape(len(dataset.class_names), ipc, *dataset.shape)
    if order == "tiles" and f > 1 and ipc > 1:
        if any(side % f for side in dataset.shape[1:]):
            raise SettingError(
                f"The tiles of {published.path} cannot be put in order, because they are not all of one size "
                f"({f} does not divide {dataset.shape[1]} x {dataset.shape[2]}). Set `order` to images."
            )
        by_class = order_by_tiles(by_class, f)
    provenance: Provenance = {
        "mipset": __version__,
        "dataset": public_name(dataset.name),
        "sha256": dataset.sha256,
        **(origin or {}),
        "imported": kind,
        "imported_sha256": published.sha256,
    }
    if published.experiment is not None:
        provenance["experiment"] = published.experiment
    if f > 1:
        provenance["order"] = order
    artifact = Artifact(
        images=np.ascontiguousarray(by_class.swapaxes(0, 1)),
        factor=f,
        mean=dataset.mean,
        std=dataset.std,
        class_names=dataset.class_names,
        provenance=provenance,
    )
    return ImportedSet(artifact, np.count_nonzero((values < 0) | (values > 1)) / values.size)


def order_by_tiles(images: Pixels, factor: int) -> Pixels:
    """Move the tiles of stored images [C, N, ch, h, w] into the order in which the release decodes those of a class."""
    classes, ipc, channels, height, width = images.shape
    tile = height // factor, width // factor
    grid = images.reshape(classes, ipc, channels, factor, tile[0], factor, tile[1]).transpose(0, 1, 3, 5, 2, 4, 6)
    by_image = grid.reshape(classes, ipc, factor**2, channels, *tile)
    by_position = by_image.swapaxes(1, 2)  # in each class, the order in which the release decodes
    new_grid = by_position.reshape(classes, ipc, factor, factor, channels, *tile)
    return new_grid.transpose(0, 1, 4, 2, 5, 3, 6).reshape(images.shape)


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ArtifactError(f"There is no file {path}. Correct the name.") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}. Choose a file that can.") from error


def _labels_beside(path: Path) -> Path:
    beside = path.with_name(path.name.replace("images", "labels"))
    if beside == path or not beside.exists():
        raise SettingError(f"{path} holds only images. Give the file of their labels as `labels`.")
    return beside


def _images_and_labels(content: Any) -> Any:
    """The two in a list, if they are in a dictionary; else the content itself."""
    for names in PAIRS:
        if isinstance(content, dict) and all(name in content for name in names):
            return [content[name] for name in names]
    return content


def _check_factor(published: PublishedSet, kind: str, factor: int | None) -> int:
    if kind not in IMPORT_KINDS:
        raise SettingError(f"There is no `kind` {kind!r} of published files. {choose(kind, IMPORT_KINDS)}.")
    if kind == "dc":
        if factor not in (None, 1):
            raise SettingError(f"`factor` is {factor}, but images of `kind` dc have no tiles. Leave `factor` out.")
        return 1
    if factor is None:
        raise SettingError(
            f"{published.path} does not say how many tiles its images have. Give `factor` (its authors use 2 for "
            "32 x 32 pixels and 3 for ImageNet; 1 means no tiles)."
        )
    if factor < 1:
        raise SettingError(f"`factor` is {factor}: it must be at least 1. Choose a larger value.")
    return factor


def _check_order(kind: str, order: str | None) -> str:
    if kind == "dc" and order is not None:
        raise SettingError(f"`order` is {order}, but images of `kind` dc have no tiles. Leave `order` out.")
    if order not in (None, *IMPORT_ORDERS):
        raise SettingError(f"There is no `order` {order!r}. {choose(order, IMPORT_ORDERS)}.")
    return order or "tiles"


def _check_images(published: PublishedSet, dataset: SourceDataset) -> None:
    path, images = published.path, published.images
    if images.ndim != 4 or images.shape[1:] != dataset.shape or not len(images):
        shape = " x ".join(map(str, dataset.shape))
        raise ArtifactError(
            f"{path} holds images {list(images.shape)}, but the images of {dataset.name} are {shape}. "
            "Name another `dataset`."
        )
    if not np.isfinite(images).all():
        raise ArtifactError(f"{path} holds values that are not finite: the images are broken. Choose another file.")


def _images_per_class(published: PublishedSet, dataset: SourceDataset) -> int:
    """The number of images of each class, if it is the same for all and the classes come one after the other."""
    path, last = published.path, len(dataset.class_names) - 1
    if published.labels.shape != published.images.shape[:1]:
        raise ArtifactError(
            f"{path} has labels {list(published.labels.shape)} for {len(published.images)} images. Each image needs "
            "one label."
        )
    labels: npt.NDArray[np.int64] = published.labels.astype(np.int64)
    wrong = labels[(labels < 0) | (labels > last)]
    if len(wrong):
        raise ArtifactError(
            f"{path} has the label {wrong[0]}, but the labels of {dataset.name} are 0 to {last}. "
            "Name another `dataset`."
        )
    counts = np.bincount(labels, minlength=last + 1)
    fewest, most = int(counts.argmin()), int(counts.argmax())
    if counts[fewest] == 0:
        raise ArtifactError(
            f"{path} has no image of class {fewest} of {dataset.name} ({dataset.class_names[fewest]}). "
            "Name another `dataset`."
        )
    if counts[fewest] != counts[most]:
        raise ArtifactError(
            f"{path} has {counts[fewest]} images of class {fewest} and {counts[most]} of class {most}. "
            "A condensed set needs equally many of each."
        )
    if (np.diff(labels) < 0).any():
        raise ArtifactError(f"{path} does not hold its images class by class, as they are published. Sort them.")
    return int(counts[0])


def _denormalised(published: PublishedSet, kind: str, dataset: SourceDataset) -> Floats:
    """The values of the images on the scale where [0, 1] is black to white. Some values may be outside."""
    images = published.images
    low, high = float(images.min()), float(images.max())
    stated = f"{published.path} holds values from {low:.3g} to {high:.3g}"
    if kind == "mdc":
        if low < -TOLERANCE or high > 1 + TOLERANCE:
            raise ArtifactError(
                f"{stated}, but `kind` mdc is for values in [0, 1]. Use `kind` dc for normalised values."
            )
        return images
    if low >= 0 and high <= 1:
        raise ArtifactError(f"{stated}, but `kind` dc is for normalised values. Use `kind` mdc for values in [0, 1].")
    mean, std = (np.array(values, np.float32).reshape(-1, 1, 1) for values in (dataset.mean, dataset.std))
    with np.errstate(over="ignore"):  # infinite values are clipped like other large ones
        values: Floats = images * std + mean
    return values
