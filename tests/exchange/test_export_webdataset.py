"""Export to WebDataset, read back with the webdataset library and tarfile."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from export_sets import any_names, image_list_of, pixels_of, small_set
from mipset.exchange.exports import export, webdataset


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("channels", [1, 3])
def test_webdataset_library_opens_a_webdataset_export(tmp_path: Path, channels: int) -> None:
    library = pytest.importorskip("webdataset", reason="the webdataset package is not installed")
    artifact, out = small_set(channels), tmp_path / "set.tar"
    export(artifact, "webdataset", out, stored=True)
    samples = list(library.WebDataset(str(out), shardshuffle=False).decode("pil"))
    assert [sample["__key__"] for sample in samples] == [f"{i:06d}" for i in range(6)]
    assert [sample["cls"] for sample in samples] == [0, 1, 0, 1, 0, 1]
    assert [sample["json"] for sample in samples] == [{"factor": 2}] * 6
    for sample, expected in zip(samples, image_list_of(artifact), strict=True):
        np.testing.assert_array_equal(  # the library makes all pictures RGB
            pixels_of(sample["png"]), np.broadcast_to(expected, (3, *expected.shape[1:]))
        )


@given(any_names)
def test_webdataset_export_has_only_harmless_member_names(class_names: list[str]) -> None:
    content = webdataset.file_content(small_set(1, tuple(class_names), 1, size=(4, 4)))
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        expected = [f"{i:06d}.{kind}" for i in range(3 * len(class_names)) for kind in ("png", "cls")]
        assert tar.getnames() == ["__mipset__/classes.json", *expected]
        aside = tar.extractfile("__mipset__/classes.json")
        assert aside is not None
        assert [entry["name"] for entry in json.load(aside)["classes"]] == class_names
