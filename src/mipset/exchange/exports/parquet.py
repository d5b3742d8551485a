"""Parquet that Hugging Face `datasets` opens: a column of images and one of labels, which know their names."""

from __future__ import annotations

import io
import json

from mipset.errors import missing
from mipset.exchange.exports.images import as_png, labels
from mipset.exchange.exports.names import described, distinct
from mipset.exchange.exports.png import places
from mipset.file.artifact import Artifact


def content(artifact: Artifact) -> bytes:
    """One row per image: `image` (the bytes of a PNG file, and a path to tell it by) and `label`."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise missing("pyarrow", "Exporting to Parquet", "export") from error
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema([("image", image), ("label", pa.int64())], metadata=metadata(artifact))
    pictures = [
        {"bytes": picture, "path": place} for picture, place in zip(as_png(artifact), places(artifact), strict=True)
    ]
    stream = io.BytesIO()
    pq.write_table(pa.table([pa.array(pictures, image), pa.array(labels(artifact))], schema=schema), stream)
    return stream.getvalue()


def metadata(artifact: Artifact) -> dict[str, str]:
    """What the columns are in the words of `datasets`, and beside it what only a condensed set has."""
    features = {
        "image": {"_type": "Image"},
        "label": {"_type": "ClassLabel", "names": distinct(artifact.class_names)},
    }
    return {
        "huggingface": json.dumps({"info": {"features": features}}),
        "mipset": json.dumps(described(artifact)),
    }
