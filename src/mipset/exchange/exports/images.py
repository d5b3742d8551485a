"""The images of a set as one list with their labels, and each as a PNG file. All formats start from here."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mipset.errors import ArtifactError, missing
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels


def image_list(artifact: Artifact) -> Pixels:
    """All images [N * C, ch, h, w], rank by rank."""
    return np.ascontiguousarray(artifact.images.reshape(-1, *artifact.images.shape[2:]))


def label_list(artifact: Artifact) -> npt.NDArray[np.int64]:
    """The label of each image of `image_list`."""
    ranks, classes = artifact.images.shape[:2]
    return np.tile(np.arange(classes, dtype=np.int64), ranks)


def png_files(artifact: Artifact) -> Iterator[bytes]:
    """Each image of `image_list` as the content of a PNG file."""
    try:
        from PIL import Image
    except ImportError as error:
        raise missing("Pillow", "Exporting pictures") from error
    channels = artifact.images.shape[2]
    if channels not in (1, 3):
        raise ArtifactError(f"Images of {channels} channels cannot be PNG files, which need 1 or 3. Export to npz.")
    for image in image_list(artifact):
        pixels = image[0] if channels == 1 else np.ascontiguousarray(np.moveaxis(image, 0, -1))
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, format="PNG")
        yield stream.getvalue()
