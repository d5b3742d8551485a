"""Export to Parquet, read back with Hugging Face datasets and pyarrow."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from PIL import Image

from export_sets import FEW_EXAMPLES, any_names, image_list_of, paths_below, pixels_of, small_set
from mipset.errors import MissingExtraError
from mipset.exchange.exports import export, parquet
from mipset.file.hugging_face import distinct_names


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (3, "RGB")])
def test_hugging_face_opens_a_parquet_export(tmp_path: Path, hugging_face: Any, channels: int, mode: str) -> None:
    artifact, out = small_set(channels), tmp_path / "set.parquet"
    export(artifact, "parquet", out, stored=True)
    rows = hugging_face.load_dataset("parquet", data_files=str(out), split="train", cache_dir=str(tmp_path / "cache"))
    assert rows.features == hugging_face.Features(
        {
            "image": hugging_face.Image(),
            "label": hugging_face.ClassLabel(names=["cat", "dög"]),
            "factor": hugging_face.Value("int64"),
        }
    )
    assert set(rows["factor"]) == {2}
    assert rows["label"][:] == [0, 1, 0, 1, 0, 1]
    for row, expected in zip(rows, image_list_of(artifact), strict=True):
        assert row["image"].mode == mode
        np.testing.assert_array_equal(pixels_of(row["image"]), expected)


@FEW_EXAMPLES
@given(class_names=any_names)
def test_hugging_face_accepts_any_class_names_of_a_parquet_export(hugging_face: Any, class_names: list[str]) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(io.BytesIO(parquet.file_content(small_set(1, tuple(class_names)))))
    features = hugging_face.Features.from_arrow_schema(table.schema)
    assert features["label"].names == distinct_names(class_names)
    kept = json.loads(table.schema.metadata[b"mipset"])
    assert [entry["name"] for entry in kept["classes"]] == class_names
    assert kept["factor"] == 2


def test_pyarrow_opens_a_parquet_export() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    artifact = small_set()
    table = pq.read_table(io.BytesIO(parquet.file_content(artifact)))
    assert table.column("label").to_pylist() == [0, 1, 0, 1, 0, 1]
    rows = table.column("image").to_pylist()
    assert [row["path"] for row in rows][:3] == ["0-cat/0000-2x2.png", "1-dog/0000-2x2.png", "0-cat/0001-2x2.png"]
    with Image.open(io.BytesIO(rows[1]["bytes"])) as picture:
        np.testing.assert_array_equal(pixels_of(picture), artifact.images[0, 1])


def test_parquet_export_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r'needs pyarrow, .* run pip install .*\[export\]"\.$'):
        export(small_set(), "parquet", tmp_path / "set.parquet")
    assert paths_below(tmp_path) == set()
