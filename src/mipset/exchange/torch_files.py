"""Torch files from elsewhere: read without running any code in them, and given as numpy arrays.

Only this module imports torch, and only when a file is read.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, missing

if TYPE_CHECKING:
    from torch import Tensor

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.integer[Any]]


class _IgnoredNumber:
    """In place of numpy's numbers: the files of DC hold accuracies beside the images, which nobody needs here."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


_STAND_INS: list[Any] = [
    (_IgnoredNumber, name) for name in ("numpy.core.multiarray.scalar", "numpy._core.multiarray.scalar", "numpy.dtype")
]


def load_without_code(path: Path, file_bytes: bytes) -> Any:
    """What the bytes of a torch file hold, if that is only tensors and plain values. `path` is for messages."""
    try:
        import torch
    except ImportError as error:
        raise missing("torch", "Reading a torch file") from error
    try:
        _check_archive(file_bytes)
        with warnings.catch_warnings(), torch.serialization.safe_globals(_STAND_INS):
            warnings.simplefilter("ignore")  # about files of older versions of torch
            return torch.load(io.BytesIO(file_bytes), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises all kinds of exceptions on broken bytes
        raise ArtifactError(
            f"{path} is damaged, or holds more than tensors and plain values. It was not opened, because it could run "
            "code. Get the file again, or save only its tensors."
        ) from error


def _check_archive(file_bytes: bytes) -> None:
    """Refuse a zip file with compressed or damaged records.

    Torch does not compress; other files may unpack to any length. Torch does not compare the checksums either.
    """
    if file_bytes.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(file_bytes)) as archive:
            if sum(record.file_size for record in archive.infolist()) > len(file_bytes):
                raise ValueError("its records are compressed")
            if archive.testzip() is not None:
                raise ValueError("a record does not have its checksum")


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether a value from a torch file is a tensor."""
    from torch import Tensor

    return isinstance(value, Tensor)


def float_array(tensor: Tensor, path: Path, length: int) -> Floats:
    """The images in a file of `length` bytes, as float32."""
    import torch

    images = _plain_tensor(tensor, path, "images")
    if images.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ArtifactError(f"{path} holds images of type {images.dtype}. They must be floats, as they are published.")
    _refuse_repetition(images, path, "images", length)
    array: Floats = images.float().numpy(force=True)
    return array


def integer_array(tensor: Tensor, path: Path, length: int) -> Integers:
    """The labels in a file of `length` bytes, in their own integer type."""
    import torch

    labels = _plain_tensor(tensor, path, "labels")
    if labels.dtype not in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        raise ArtifactError(f"{path} has labels of type {labels.dtype}. They must be whole numbers.")
    _refuse_repetition(labels, path, "labels", length)
    array: Integers = labels.numpy(force=True)
    return array


def _plain_tensor(tensor: Tensor, path: Path, title: str) -> Tensor:
    """The tensor without attributes of its own, since a file could use them to replace its methods."""
    import torch

    plain = torch.Tensor.detach(tensor)
    dense = plain.layout is torch.strided and not plain.is_nested
    if type(plain) is not torch.Tensor or not dense or plain.device.type != "cpu":
        raise ArtifactError(
            f"{path} holds its {title} in a special tensor (sparse, nested or without values). Save them as a plain "
            "tensor."
        )
    return plain


def _refuse_repetition(tensor: Tensor, path: Path, title: str, length: int) -> None:
    """Refuse a tensor that is longer than its file. It repeats a few values by its strides, to fill the memory."""
    if tensor.nbytes > length:
        raise ArtifactError(f"{path} is damaged: it is smaller than the {title} that it says it holds.")
