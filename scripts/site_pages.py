"""A hook of mkdocs: files of the repository outside of docs/ become pages of the site, and links follow them.

Links in Markdown are written for the repository, where README.md is in the main folder. On the site it is index.md,
beside the pages of docs/. The table of all settings is made of the fields of `Recipe`.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import fields
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from mipset.settings.recipe import Recipe

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s#]+)")  # the target of a relative link, without its anchor

SETTINGS = "<!-- the settings of a recipe -->"  # where the table stands

# Paths in the repository, and on the site.
PLACES = {
    "README.md": "index.md",
    "FORMAT.md": "format.md",
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "CITATION.cff",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "LICENSE.txt",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
    "src/mipset/data/assets/LICENSE.fashion-mnist": "LICENSE.fashion-mnist.txt",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside of docs/."""
    for source, place in PLACES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let the links of a page lead to where their targets are on the site, and put in the table of settings."""
    sources = {place: source for source, place in PLACES.items()}
    here = page.file.src_uri
    source = sources.get(here, f"docs/{here}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        place = PLACES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(place, posixpath.dirname(here) or '.')}"

    return LINK.sub(moved, markdown.replace(SETTINGS, settings_table()))


def settings_table() -> str:
    """The name, the default and the meaning of every setting, as Markdown."""
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    for setting in fields(Recipe):
        choices = "".join(f"<br>`{name}`: {text}" for name, text in setting.metadata["choices"].items())
        lines.append(f"| `{setting.name}` | `{setting.default!r}` | {setting.metadata['help']}{choices} |")
    return "\n".join(lines)
