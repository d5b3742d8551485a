"""Every block of README and docs runs: commands and Python at toy size, in the order of their page."""

from __future__ import annotations

import runpy
import shlex
import sys
from pathlib import Path

import pytest

import web
from commands import Here
from pages import PAGES, World, blocks, check_settings, commands_of, is_printed, make_small, page_name, set_of

OWN_TESTS = {"README.md", "docs/python.md"}  # whose Python blocks test_readme.py and test_docs_python.py run
LONG = {"docs/results.md"}  # its commands differ in little but names and numbers
WITH_BLOCKS = [
    pytest.param(page, marks=[pytest.mark.slow] if page_name(page) in LONG else [], id=page_name(page))
    for page in PAGES
    if blocks(page)
]


@pytest.mark.parametrize("page", WITH_BLOCKS)
def test_blocks_of_the_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    data = make_small(monkeypatch)
    content = set_of(data["cifar10"]).to_bytes()

    def run(*words: str) -> str:
        if words[0] != "python":
            return here(*words)
        capfd.readouterr()
        runpy.run_path(words[1], run_name="__main__")
        return capfd.readouterr().out

    with web.serving(content) as server:
        world = World(page, tmp_path, server.url, content, run)
        for block in blocks(page):
            if block.kind != "python" or block.file or page_name(page) not in OWN_TESTS:
                world.play(block)
    for module in world.modules:
        sys.modules.pop(module, None)


@pytest.mark.parametrize("page", [page for page in PAGES if page_name(page) in LONG], ids=page_name)
def test_commands_of_a_long_page_are_valid(page: Path) -> None:
    """Their flags, their methods, and the settings that they give to recipes."""
    lines = [command for block in blocks(page) if block.kind == "" for command in commands_of(block)]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("mipset ")]
    assert len(commands) > 20
    for words in commands:
        check_settings(words)


def test_what_a_page_shows_must_be_printed() -> None:
    printed = "set.safetensors: 10 images, 80.7 kB, in 12 s\nclasses  a, b, c\nnext: mipset show"
    assert is_printed("set.safetensors: 9 images, 1.0 MB, in 8:20\nnext: mipset show", printed)
    assert is_printed("classes  a, ...", printed)
    assert not is_printed("classes  a, x, ...", printed)
    assert not is_printed("next: mipset show\nclasses  a, b, c", printed)
