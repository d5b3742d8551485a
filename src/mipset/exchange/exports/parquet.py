"""Format `parquet`: Hugging Face `datasets` opens it with a column of images and one of labels with class names."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from mipset.errors import missing
from mipset.exchange.exports.images import label_list, png_files
from mipset.exchange.exports.metadata import metadata
from mipset.exchange.exports.png import picture_paths
from mipset.file.artifact import Artifact
from mipset.file.hugging_face import distinct_names


def file_content(artifact: Artifact) -> bytes:
    """The bytes of the file. One row per image: `image` (the bytes of a PNG file, and a path) and `label`.

    Stored images with tiles have a third column, `factor`.
    """
    (content,) = file_contents(artifact, artifact.ipc)
    return content


def file_contents(artifact: Artifact, ranks: int) -> Iterator[bytes]:
    """The same in several files, each with the next `ranks` ranks."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing("pyarrow", "Exporting to Parquet") from error
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = [("image", image), ("label", pa.int64()), ("factor", pa.int64())][: 3 if artifact.factor > 1 else 2]
    schema = pa.schema(columns, metadata=schema_metadata(artifact))
    pictures = [
        {"bytes": picture, "path": path}
        for picture, path in zip(png_files(artifact), picture_paths(artifact), strict=True)
    ]
    labels = label_list(artifact)
    values = [pa.array(pictures, image), pa.array(labels), pa.array([artifact.factor] * len(labels))]
    table = pa.table(values[: len(columns)], schema=schema)
    rows = ranks * len(artifact.class_names)
    for start in range(0, len(labels), rows):
        stream = io.BytesIO()
        pq.write_table(table.slice(start, rows), stream)
        yield stream.getvalue()


def schema_metadata(artifact: Artifact) -> dict[str, str]:
    """The features of the columns as `datasets` describes them, and the metadata that only a condensed set has."""
    features: dict[str, Any] = {
        "image": {"_type": "Image"},
        "label": {"_type": "ClassLabel", "names": distinct_names(artifact.class_names)},
    }
    if artifact.factor > 1:
        features["factor"] = {"_type": "Value", "dtype": "int64"}
    return {
        "huggingface": json.dumps({"info": {"features": features}}),
        "mipset": json.dumps(metadata(artifact)),
    }
