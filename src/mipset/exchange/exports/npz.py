"""Format `npz`: arrays for numpy, under the names that mipset reads as the dataset npz:FILE."""

from __future__ import annotations

import io

import numpy as np

from mipset.errors import ArtifactError
from mipset.exchange.exports.images import image_list, label_list
from mipset.file.artifact import Artifact

MAX_PADDING = 1 << 20  # bytes, besides 16 for each letter: numpy makes all class names as long as the longest
NUL_REPLACEMENT = "\ufffd"  # numpy would drop NUL characters at the end of a string


def file_content(artifact: Artifact) -> bytes:
    """The bytes of the file: images uint8 [n, ch, h, w], labels, class_names, mean, std and factor."""
    lengths = [len(name) for name in artifact.class_names]
    longest = max(lengths)
    if 4 * longest * len(lengths) > MAX_PADDING + 16 * sum(lengths):
        raise ArtifactError(f"A class name of {longest:,} letters is too long for npz. Export to parquet or pt.")
    stream = io.BytesIO()
    np.savez(
        stream,
        images=image_list(artifact),
        labels=label_list(artifact),
        class_names=np.array([name.replace("\0", NUL_REPLACEMENT) for name in artifact.class_names], dtype=np.str_),
        mean=np.array(artifact.mean),
        std=np.array(artifact.std),
        factor=np.array(artifact.factor),
    )
    return stream.getvalue()
