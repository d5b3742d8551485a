"""The images of a set in a row, and as PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, missing
from mipset.file.artifact import Artifact, Pixels


def in_a_row(artifact: Artifact) -> Pixels:
    """All images [N * C, ch, h, w], rank by rank."""
    return np.ascontiguousarray(artifact.images.reshape(-1, *artifact.images.shape[2:]))


def labels(artifact: Artifact) -> npt.NDArray[np.int64]:
    """The label of each of them."""
    ranks, classes = artifact.images.shape[:2]
    return np.tile(np.arange(classes, dtype=np.int64), ranks)


def as_png(artifact: Artifact) -> Iterator[bytes]:
    """Each of them as the content of a PNG file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow", "Exporting pictures", "export") from error
    channels = artifact.images.shape[2]
    if channels not in (1, 3):
        raise ArtifactError(f"images of {channels} channels cannot be PNG files, which need 1 or 3: export to npz.")
    for image in in_a_row(artifact):
        pixels = image[0] if channels == 1 else np.ascontiguousarray(np.moveaxis(image, 0, -1))
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, format="PNG")
        yield stream.getvalue()
