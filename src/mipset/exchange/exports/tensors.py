"""Tensors and plain values for torch: `torch.load(FILE, weights_only=True)` opens it."""

from __future__ import annotations

import io

from mipset.errors import missing
from mipset.exchange.exports.images import in_a_row, labels
from mipset.file.artifact import Artifact


def content(artifact: Artifact) -> bytes:
    """images uint8 [n, ch, h, w], labels int64, class_names, mean, std and factor."""
    try:
        import torch
    except ImportError as error:
        raise missing("torch", "Exporting to pt") from error
    stream = io.BytesIO()
    values = {
        "images": torch.from_numpy(in_a_row(artifact).copy()),
        "labels": torch.from_numpy(labels(artifact)),
        "class_names": list(artifact.class_names),
        "mean": list(artifact.mean),
        "std": list(artifact.std),
        "factor": artifact.factor,
    }
    torch.save(values, stream)
    return stream.getvalue()
