"""Arrays for numpy, under the names that `npz:FILE` reads as a dataset."""

from __future__ import annotations

import io

import numpy as np

from mipset.artifact import Artifact
from mipset.exports.images import in_a_row, labels

NUL = "\ufffd"  # what stands for a NUL character: numpy drops those at the end of a string


def content(artifact: Artifact) -> bytes:
    """images uint8 [n, ch, h, w], labels, class_names, mean, std and factor."""
    stream = io.BytesIO()
    np.savez(
        stream,
        images=in_a_row(artifact),
        labels=labels(artifact),
        class_names=np.array([name.replace("\0", NUL) for name in artifact.class_names], dtype=np.str_),
        mean=np.array(artifact.mean),
        std=np.array(artifact.std),
        factor=np.array(artifact.factor),
    )
    return stream.getvalue()
