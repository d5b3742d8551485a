"""What README and docs say exists: files that are linked, modules that are named, commands with their flags; and the
pages that the site needs: each page in its navigation, each public name in its reference."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import mipset
from mipset import device
from pages import PAGES, ROOT, page_name


def anchors(page: Path) -> set[str]:
    """The anchors that a Markdown page offers: its headings in lower case, with hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_linked_files_and_anchors_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(linked), f"{target} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_named_modules_and_scripts_exist(page: Path) -> None:
    for name in re.findall(r"`([\w/]+/[\w]+\.(?:py|cpp|npz))`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or (ROOT / "src" / "mipset" / name).exists(), f"{name} does not exist"


@cache
def help_of(verb: str) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "mipset", verb, "--help"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, f"there is no verb {verb!r}"
    return shown.stdout


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_have_these_verbs_and_flags(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    commands = [line.partition("  #")[0] for line in re.findall(r"^\s*(?:\S+ -m )?mipset [a-z].*$", text, re.MULTILINE)]
    commands += re.findall(r"`(mipset [a-z][^`]*)`", text)
    for command in commands:
        verb = command[command.index("mipset ") :].split()[1]
        for flag in re.findall(r"(?<!\S)--[a-z][a-z-]*", command):
            assert re.search(rf"{flag}\b(?!-)", help_of(verb)), f"`mipset {verb}` has no flag {flag}: {command}"


def test_navigation_of_the_site_has_every_page_of_docs() -> None:
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .*?: (\S+\.md)$", site, re.MULTILINE)
    hook = (ROOT / "scripts" / "site_pages.py").read_text(encoding="utf-8")
    moved = dict(re.findall(r'"([\w/]+\.md)": "(\w+\.md)"', hook))
    wanted = {moved.get(page_name(page), page_name(page).removeprefix("docs/")) for page in PAGES}
    assert set(listed) == wanted
    assert len(listed) == len(wanted)


def test_reference_has_every_public_name() -> None:
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md")]
    shown = [name for text in pages for name in re.findall(r"^::: (\S+)$", text, re.MULTILINE)]
    public = {f"mipset.{name}" for name in mipset.__all__} | {f"mipset.device.{name}" for name in device.__all__}
    assert public <= set(shown)
    assert len(shown) == len(set(shown))
    for name in shown:
        module, _, title = name.rpartition(".")
        value = getattr(importlib.import_module(module), title)
        assert value.__doc__, f"{name} has no docstring"


def test_citation_names_the_paper_and_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {mipset.__version__}\n" in citation
    assert 'title: "Multisize Dataset Condensation"' in citation
    assert re.findall(r"family-names: (\w+)", citation) == ["He", "Xiao", "Zhou", "Tsang"]
