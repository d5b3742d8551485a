"""A recipe as TOML, which people can edit and `tomllib` of Python reads."""

from __future__ import annotations

import json
import textwrap
from dataclasses import fields

from mipset.settings.recipe import Recipe

LINE = 100  # letters of a comment


def recipe_toml(name: str, recipe: Recipe) -> str:
    """The settings of a named recipe, each with a comment that explains it, and the name under `recipe`."""
    lines = [f"recipe = {json.dumps(name)}"]
    for f in fields(recipe):
        value = getattr(recipe, f.name)
        text = f.metadata["help"]
        names = f.metadata["choices"]
        comment = f"{text}: {', '.join(names)}" if names else text
        lines += [
            "",
            *textwrap.wrap(comment, LINE, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False),
        ]
        lines.append(f"{f.name} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines)
