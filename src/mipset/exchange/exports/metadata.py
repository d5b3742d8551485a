"""JSON beside the pictures: what a picture file cannot hold, such as class names, factor, mean and std."""

from __future__ import annotations

import json
from typing import Any

from mipset.exchange.exports.names import folder_names
from mipset.file.artifact import Artifact

METADATA_FILE = "classes.json"


def metadata(artifact: Artifact) -> dict[str, Any]:
    """The label, name and folder of every class, and what is needed to decode and to normalise the images."""
    folders = folder_names(artifact.class_names)
    return {
        "classes": [
            {"label": label, "name": name, "folder": folder}
            for label, (name, folder) in enumerate(zip(artifact.class_names, folders, strict=True))
        ],
        "factor": artifact.factor,
        "mean": list(artifact.mean),
        "std": list(artifact.std),
    }


def metadata_json(artifact: Artifact) -> bytes:
    """The content of METADATA_FILE."""
    return json.dumps(metadata(artifact), indent=1).encode("ascii")
