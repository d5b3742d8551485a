"""Export to pt, read back with torch."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

from export_sets import any_names, image_list_of, small_set
from mipset.errors import MissingExtraError
from mipset.exchange.exports import export, pt


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_torch_opens_a_pt_export(tmp_path: Path, channels: int) -> None:
    artifact = small_set(channels)
    export(artifact, "pt", tmp_path / "set.pt", stored=True)
    content = torch.load(tmp_path / "set.pt", weights_only=True)
    assert set(content) == {"images", "labels", "class_names", "mean", "std", "factor"}
    np.testing.assert_array_equal(content["images"].numpy(), image_list_of(artifact))
    assert content["images"].dtype == torch.uint8
    assert content["labels"].tolist() == [0, 1, 0, 1, 0, 1]
    assert content["labels"].dtype == torch.int64
    assert content["class_names"] == ["cat", "dög"]
    assert content["mean"] == list(artifact.mean)
    assert content["std"] == list(artifact.std)
    assert content["factor"] == 2


@given(any_names)
def test_pt_export_keeps_class_names(class_names: list[str]) -> None:
    content = io.BytesIO(pt.file_content(small_set(1, tuple(class_names), size=(4, 4))))
    assert torch.load(content, weights_only=True)["class_names"] == class_names


def test_pt_export_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[condense\]"):
        pt.file_content(small_set())
