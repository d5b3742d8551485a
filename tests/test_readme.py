"""The README's Python example, word for word, at toy size."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mipset
from mipset import evaluate, recipes

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.strip().splitlines()) <= 12
    small = recipes.RECIPES["demo"].recipe.replace(outer=1, inner=2, width=4, real_batch=8, train_images=64)
    monkeypatch.setitem(recipes.RECIPES, "demo", replace(recipes.RECIPES["demo"], recipe=small))
    monkeypatch.setitem(evaluate.PROTOCOLS, "quick", replace(evaluate.PROTOCOLS["quick"], epochs=1, least_steps=1))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["images"].shape == (3, 10, 1, 28, 28)
    assert [point.size for point in names["curve"]] == [1, 3, 10]
    assert mipset.read("clothes.safetensors").recipe["policy"] == "every-prefix"
