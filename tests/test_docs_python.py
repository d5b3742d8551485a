"""The Python blocks of docs/python.md run, one after the other, at toy size."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import mipset
from mipset.settings import catalogue, protocol

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.fixture
def toy_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the recipe, the protocol and the embedded dataset so small that the page runs in seconds."""
    demo = catalogue.RECIPES["demo"]
    small = demo.recipe.replace(outer=1, inner=2, width=4, real_batch=8, train_images=64)
    monkeypatch.setitem(catalogue.RECIPES, "demo", replace(demo, recipe=small))
    monkeypatch.setitem(protocol.PROTOCOLS, "standard", replace(protocol.STANDARD, epochs=1, least_steps=1))
    data = mipset.load("fashion-mini")
    few = replace(data, train=data.train.at(np.arange(500)), test=data.test.at(np.arange(200)))
    monkeypatch.setattr("mipset.data.load", lambda _: few)


@pytest.mark.usefixtures("toy_sizes")
def test_blocks_of_the_python_page_run_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 23
    module = ModuleType("own_module")  # which the page imports by its name
    monkeypatch.setitem(sys.modules, module.__name__, module)
    names = vars(module)
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), names)
    assert mipset.read("clothes.safetensors").recipe["policy"] == "every-prefix"
    assert [point.size for point in mipset.read("clothes.safetensors").accuracy] == [1, 3, 10]
    assert mipset.read("clothes-3.safetensors").ipc == 3
    assert names["step"].outer_done
    parts = names["condensed_own"].provenance["parts"]
    assert parts == {"objective": "own_module:TwoMoments()", "policy": "own_module:SmallestAndLargest(ipc=2)"}
    assert names["by_own"].recipe["network"] == "own_module:Small"
    assert names["condensed_own"].recipe["policy"] == "own_module:SmallestAndLargest"
    printed = capsys.readouterr().out
    assert "`pixel_lr` is -1: it must be at least 0" in printed
    assert "comparing with real images: " in printed
    assert "outer 1: loss " in printed
    assert [entry.outer for entry in names["entries"]] == [1]
    assert len(names["first"]) == 3 * 10
    assert names["predicted"].shape[1] == 10
    assert (tmp_path / "clothes.html").read_bytes().startswith(b"<!doctype html>")
