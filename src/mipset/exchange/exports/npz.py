"""Arrays for numpy, under the names that `npz:FILE` reads as a dataset."""

from __future__ import annotations

import io

import numpy as np

from mipset.errors import ArtifactError
from mipset.exchange.exports.images import in_a_row, labels
from mipset.file.artifact import Artifact

MOST_PADDING = 1 << 20  # bytes, beside 16 for each letter, of names, each of which becomes as long as the longest
NUL = "\ufffd"  # what stands for a NUL character: numpy drops those at the end of a string


def content(artifact: Artifact) -> bytes:
    """images uint8 [n, ch, h, w], labels, class_names, mean, std and factor."""
    lengths = [len(name) for name in artifact.class_names]
    longest = max(lengths)
    if 4 * longest * len(lengths) > MOST_PADDING + 16 * sum(lengths):
        raise ArtifactError(f"a class name of {longest:,} letters is too long for npz: export to parquet or pt.")
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
