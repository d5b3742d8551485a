"""Condensed sets that others have published as torch files.

Two kinds are known. In both, images [C * N, ch, h, w] come class by class.

mdc  The files of MDC, and of IDC and DREAM, which it builds on: a list of images and labels. Values are in [0, 1], or
     almost: the last steps were not cut off. A stored image is a grid of f x f tiles; the file does not say f.
dc   The files of DC, DSA and DM: `{"data": [[images, labels], ...]}`, one pair for each of several experiments. And
     those of MTT (without ZCA whitening): a tensor of images, and one of labels in a file of its own. Values are
     normalised and were never kept within what a picture can hold: they are put back into [0, 1], and cut off there.

With tiles, what the authors call S_[n] is not the first n stored images. Their decoder goes tile position by tile
position: of the N stored images of a class, decoded image j is tile j div N (row by row, from the top left) of stored
image j mod N; and S_[n] is the first n * f² decoded images. Here tiles are put together anew, so that

    tile q of our stored image r  =  tile j div N of their stored image j mod N,   where j = r * f² + q.

So our S_[n], the first n stored images, decodes to theirs in their order. Nothing is lost: tiles are moved as they are.
They have to be of one size for that; where f does not divide the sides, only whole images can be kept in order.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from mipset import __version__
from mipset.condensing.checks import check_cut
from mipset.condensing.synthetic import cut, join
from mipset.errors import ArtifactError, SettingError, choices
from mipset.file.artifact import Artifact
from mipset.file.provenance import Provenance, public_name
from mipset.nn.pixels import to_uint8

KINDS = ("mdc", "dc")
ORDERS = ("tiles", "images")
PAIRS = (("images", "labels"), ("images_train", "labels_train"))  # names under which the two may stand
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
STRAY = 0.5  # how far the values of `mdc` may have left [0, 1] before they are taken for another kind


class About(Protocol):
    """What has to be known about the dataset that a set was condensed from."""

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
class Published:
    """Images and labels as they were found in a file, or in two."""

    files: tuple[Path, ...]  # the images are in the first
    images: Tensor
    labels: Tensor
    size: int  # of the file
    sha256: str
    experiment: int | None = None

    @property
    def path(self) -> Path:
        """The file of the images."""
        return self.files[0]


@dataclass(frozen=True)
class Imported:
    """A set of ours, and the share of its values that had to be cut off to fit into [0, 1]."""

    artifact: Artifact
    cut_off: float


def open_published(path: Path, labels: Path | None = None, experiment: int | None = None) -> Published:
    """The images and labels in a torch file; nothing in it is executed.

    `labels` is the file of labels, where images are alone in theirs: by default the one beside it whose name has
    `labels` in place of `images`. `experiment` is which of several to take, counted from 0: by default the first.
    """
    written = _read(path)
    content = _opened(path, written)
    if isinstance(content, dict) and isinstance(experiments := dict.get(content, "data"), list):
        if not experiments:
            raise ArtifactError(f"{path} holds no experiment, and so no images: choose another file.")
        experiment = 0 if experiment is None else experiment
        if not 0 <= experiment < len(experiments):
            raise SettingError(f"--experiment cannot be {experiment}: {path} holds {len(experiments)}, from 0 on.")
        content = experiments[experiment]
    elif experiment is not None:
        raise SettingError(f"{path} does not hold several experiments: leave out --experiment.")
    files = [path]
    if isinstance(content, Tensor):
        files.append(labels or _beside(path))
        content = [content, _opened(files[1], _read(files[1]))]
    elif labels is not None:
        raise SettingError(f"{path} holds more than images: leave out --labels.")
    match _pair(content):
        case [Tensor() as images, Tensor() as its_labels]:
            digest = hashlib.sha256(written).hexdigest()
            # Bare tensors: by attributes of its own, a file could give one other methods.
            bare, its_labels = Tensor.detach(images), Tensor.detach(its_labels)
            return Published(tuple(files), bare, its_labels, len(written), digest, experiment)
    raise ArtifactError(f"{path} does not hold images and labels in a way that MDC, DC or MTT publish them.")


def as_artifact(
    published: Published,
    kind: str,
    about: About,
    *,
    factor: int | None = None,
    order: str | None = None,
    origin: Provenance | None = None,
) -> Imported:
    """The set as one of ours. `factor` is f of an mdc file, and `order` what its prefixes are prefixes of.

    With `tiles`, the default, S_[n] is what the authors measured as size n; with `images`, it is the first n stored
    images.
    `origin` is as for `recipes.pack`.
    """
    f, order = _factor(published, kind, factor), _order(kind, order)
    images = _checked_images(published, about)
    ipc = _images_per_class(published, about)
    check_cut(f, about.shape)
    values = _in_unit_space(images, published.path, kind, about)
    by_class = to_uint8(values).reshape(len(about.class_names), ipc, *about.shape)
    if order == "tiles" and f > 1 and ipc > 1:
        if any(side % f for side in about.shape[1:]):
            raise SettingError(
                f"the tiles of {published.path} cannot be put in order, since they are not all of one size "
                f"({f} does not divide {about.shape[1]} x {about.shape[2]}): add --order images."
            )
        by_class = prefixes_of_tiles(by_class, f)
    artifact = Artifact(
        images=by_class.transpose(0, 1).contiguous().numpy(),
        factor=f,
        mean=about.mean,
        std=about.std,
        class_names=about.class_names,
        provenance={
            "mipset": __version__,
            "dataset": public_name(about.name),
            "sha256": about.sha256,
            **(origin or {}),
            "imported": kind,
            "imported_sha256": published.sha256,
            **({} if published.experiment is None else {"experiment": published.experiment}),
            **({} if f == 1 else {"order": order}),
        },
    )
    return Imported(artifact, float(((values < 0) | (values > 1)).float().mean()))


def prefixes_of_tiles(images: Tensor, factor: int) -> Tensor:
    """Stored images [C, N, ch, h, w] of the same tiles, in the order in which the release decodes those of a class."""
    classes, ipc, channels = images.shape[:3]
    tiles = cut(images.flatten(0, 1), factor)
    by_image = tiles.reshape(classes, ipc, factor**2, channels, *tiles.shape[2:])
    by_position = by_image.transpose(1, 2)  # in each class, what the release decodes one after the other
    return join(by_position.reshape(tiles.shape), factor).reshape(images.shape)


class _Forgotten:
    """In place of numpy's numbers: DC's files hold accuracies beside the images, which nobody asks for here."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


_STAND_INS: list[Any] = [
    (_Forgotten, name) for name in ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype")
]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ArtifactError(f"there is no file {path}: correct the name.") from error
    except OSError as error:
        raise ArtifactError(f"{path} cannot be read: {error.strerror or error}.") from error


def _opened(path: Path, written: bytes) -> Any:
    """What a torch file holds, if that is tensors and plain values."""
    try:
        _refuse_packed(written)
        with warnings.catch_warnings(), torch.serialization.safe_globals(_STAND_INS):
            warnings.simplefilter("ignore")  # about files of older versions of torch
            return torch.load(io.BytesIO(written), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever broken bytes lead it to
        raise ArtifactError(
            f"{path} is damaged, or holds more than tensors and plain values: it is not opened, as it could run code."
        ) from error


def _refuse_packed(written: bytes) -> None:
    """Torch packs nothing, so its zip files hold no more than they are long; others may unpack to any size."""
    if written.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(written)) as archive:
            if sum(record.file_size for record in archive.infolist()) > len(written):
                raise ValueError("its records are compressed")


def _beside(path: Path) -> Path:
    found = path.with_name(path.name.replace("images", "labels"))
    if found == path or not found.exists():
        raise SettingError(f"{path} holds images alone: add --labels with the file of their labels.")
    return found


def _pair(content: Any) -> Any:
    """Images and labels, if they are the two in a dictionary."""
    for names in PAIRS:
        if isinstance(content, dict) and all(name in content for name in names):
            return [content[name] for name in names]
    return content


def _factor(published: Published, kind: str, factor: int | None) -> int:
    if kind not in KINDS:
        raise SettingError(f"there is no kind {kind!r} of files to import: choose {choices(KINDS)}.")
    if kind == "dc":
        if factor not in (None, 1):
            raise SettingError(f"--factor cannot be {factor} for --kind dc, whose images have no tiles: leave it out.")
        return 1
    if factor is None:
        raise SettingError(
            f"{published.path} does not say how many tiles its images have: add --factor (its authors use 2 for "
            "32 x 32 pixels and 3 for ImageNet; 1 is without tiles)."
        )
    if factor < 1:
        raise SettingError(f"--factor cannot be {factor}: it must be at least 1.")
    return factor


def _order(kind: str, order: str | None) -> str:
    if kind == "dc" and order is not None:
        raise SettingError(f"--order cannot be {order} for --kind dc, whose images have no tiles: leave it out.")
    if order not in (None, *ORDERS):
        raise SettingError(f"there is no order of {order!r}: choose {choices(ORDERS)}.")
    return order or "tiles"


def _checked_images(published: Published, about: About) -> Tensor:
    path, images = published.path, published.images
    _refuse_unless_plain(images, path, "images")
    if images.dtype not in FLOATS:
        raise ArtifactError(f"{path} holds images of type {images.dtype}: they must be floats, as they are published.")
    if images.ndim != 4 or images.shape[1:] != about.shape or not len(images):
        size = " x ".join(map(str, about.shape))
        raise ArtifactError(
            f"{path} holds images {list(images.shape)}, but those of {about.name} are {size}: name another --dataset."
        )
    if images.nbytes > published.size:
        raise ArtifactError(f"{path} is damaged: it is smaller than the images that it says it holds.")
    values = images.float()
    if not bool(values.isfinite().all()):
        raise ArtifactError(f"{path} holds values that are not finite: the images are broken.")
    return values


def _images_per_class(published: Published, about: About) -> int:
    """How many images each class has, if all have as many and come one after the other."""
    path, labels, last = published.path, published.labels, len(about.class_names) - 1
    _refuse_unless_plain(labels, path, "labels")
    if labels.dtype not in INTEGERS:
        raise ArtifactError(f"{path} has labels of type {labels.dtype}: they must be whole numbers.")
    if labels.shape != published.images.shape[:1]:
        raise ArtifactError(
            f"{path} has labels {list(labels.shape)} for {len(published.images)} images: one each is due."
        )
    labels = labels.long()
    wrong = labels[(labels < 0) | (labels > last)]
    if len(wrong):
        raise ArtifactError(f"{path} has the label {int(wrong[0])}, but those of {about.name} are 0 to {last}.")
    counts = labels.bincount(minlength=last + 1)
    least, most = int(counts.argmin()), int(counts.argmax())
    if counts[least] == 0:
        raise ArtifactError(f"{path} has no image of class {least} of {about.name} ({about.class_names[least]}).")
    if counts[least] != counts[most]:
        raise ArtifactError(
            f"{path} has {int(counts[least])} images of class {least} and {int(counts[most])} of class {most}: "
            "a condensed set has as many of each."
        )
    if bool((labels.diff() < 0).any()):
        raise ArtifactError(f"{path} does not hold its images class by class, as they are published.")
    return int(counts[0])


def _refuse_unless_plain(tensor: Tensor, path: Path, what: str) -> None:
    dense = tensor.layout is torch.strided and not tensor.is_nested
    if type(tensor) is not Tensor or not dense or tensor.device.type != "cpu":
        raise ArtifactError(
            f"{path} holds its {what} in a special tensor (sparse, nested or without values): save them as a plain one."
        )


def _in_unit_space(images: Tensor, path: Path, kind: str, about: About) -> Tensor:
    """Values of which [0, 1] can be shown."""
    low, high = float(images.min()), float(images.max())
    found = f"{path} holds values from {low:.3g} to {high:.3g}"
    if kind == "mdc":
        if low < -STRAY or high > 1 + STRAY:
            raise ArtifactError(f"{found}, but --kind mdc is for values in [0, 1]: --kind dc is for normalised ones.")
        return images
    if low >= 0 and high <= 1:
        raise ArtifactError(f"{found}, but --kind dc is for normalised values: --kind mdc is for those in [0, 1].")
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (about.mean, about.std))
    return images * std + mean
