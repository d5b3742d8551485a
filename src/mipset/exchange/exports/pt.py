"""Format `pt`: tensors and plain values that `torch.load(FILE, weights_only=True)` opens."""

from __future__ import annotations

import io

from mipset.errors import missing
from mipset.exchange.exports.images import image_list, label_list
from mipset.file.artifact import Artifact


def file_content(artifact: Artifact) -> bytes:
    """The bytes of the file: images uint8 [n, ch, h, w], labels int64, class_names, mean, std and factor."""
    try:
        import torch
    except ImportError as error:
        raise missing("torch", "Exporting to pt") from error
    stream = io.BytesIO()
    values = {
        "images": torch.from_numpy(image_list(artifact).copy()),
        "labels": torch.from_numpy(label_list(artifact)),
        "class_names": list(artifact.class_names),
        "mean": list(artifact.mean),
        "std": list(artifact.std),
        "factor": artifact.factor,
    }
    torch.save(values, stream)
    return stream.getvalue()
