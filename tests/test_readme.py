"""The README's Python examples, word for word, at toy size."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import mipset
import web
from mipset.settings import catalogue, protocol

README = Path(__file__).parent.parent / "README.md"


def examples() -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert all(len(example.strip().splitlines()) <= 12 for example in blocks)
    return blocks


def test_condensing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example, _ = examples()
    small = catalogue.RECIPES["demo"].recipe.replace(outer=1, inner=2, width=4, real_batch=8, expert_steps=2)
    monkeypatch.setitem(catalogue.RECIPES, "demo", replace(catalogue.RECIPES["demo"], recipe=small))
    monkeypatch.setitem(protocol.PROTOCOLS, "standard", replace(protocol.STANDARD, epochs=1, least_steps=1))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["images"].shape == (3, 10, 1, 28, 28)
    assert [point.size for point in names["curve"]] == [1, 3, 10]
    assert mipset.read("clothes.safetensors").recipe["policy"] == "every-prefix"


def test_the_device_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the golden file for the one at the address; it decodes to 8 images for each of its three ranks."""
    _, example = examples()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    golden = Path(__file__).parent / "data" / "golden.safetensors"
    with web.serving(golden.read_bytes()) as server:
        names: dict[str, Any] = {}
        address = "https://example.org/c10.safetensors"
        assert address in example
        exec(compile(example.replace(address, server.url), "README.md", "exec"), names)
        assert names["plan"].size == 3
        assert names["images"].shape == (24, 1, 4, 5)
        assert names["labels"].shape == (24,)
        assert names["subset"].sizes == (2, 2)
        whole = mipset.read(golden)
        assert server.sent == golden.stat().st_size + whole.images[0].nbytes
        assert {path.stem for path in (tmp_path / "ranks").iterdir()} == set(whole.rank_sha256[:2])
