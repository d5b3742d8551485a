"""Classes of one's own that a recipe names as `module:Class`, and what the parts of a run are called in files.

A module is imported only if the user names it: `recipe_of` in growing.py refuses names that come from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mipset.condensing.parts import Parts
from mipset.errors import SettingError, brief
from mipset.settings.part import Part, code_digest, imported, is_own, own_name
from mipset.settings.recipe import Recipe

# The settings of a recipe that name the parts of a run, by axis, where they have another name.
SETTINGS: Mapping[str, str] = {"optimiser": "pixel_optimiser", "augmentation": "match_augment"}


def own_part(name: str, kind: type[Any], setting: str, recipe: Recipe) -> Any:
    """The part of this kind that a recipe names as `module:Class`. Modules in the current folder are found too."""
    module, _, title = name.partition(":")
    found = imported(name, setting)
    if not isinstance(found, type) or not issubclass(found, Part) or not issubclass(found, kind):
        raise SettingError(
            f"`{setting}` is {name!r}, but {module} has no class {title} that is derived from "
            f"{kind.__module__}.{kind.__name__}. Correct the name or the class."
        )
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise SettingError(f"`{setting}` is {name!r}, which lacks {' and '.join(missing)}. Write what is missing.")
    try:
        return found.from_recipe(recipe)
    except TypeError as error:
        raise SettingError(
            f"`{setting}` is {name!r}, which cannot be made ({brief(error, str)}). Give its arguments defaults, or "
            f"write a class method from_recipe(recipe)."
        ) from error


def own_code(recipe: Recipe) -> dict[str, str]:
    """A digest of the code of each class or function of one's own that a recipe names."""
    named = {"policy": [recipe.policy], "network": [recipe.network], "objective": [name for _, name, _ in recipe.terms]}
    return {name: code_digest(name, setting) for setting, names in named.items() for name in names if is_own(name)}


def replaced(parts: Parts, as_named: Parts) -> dict[str, str]:
    """The descriptions of parts that are not those of the recipe, or whose class is somebody's own."""
    expected = as_named.descriptions
    return {axis: text for axis, text in parts.descriptions.items() if text != expected[axis] or ":" in text}


def recorded_settings(settings: Mapping[str, Any], parts: Parts, as_named: Parts) -> dict[str, Any]:
    """The settings of a recipe, with the class of each part that is another one than the recipe names."""
    own = {
        SETTINGS.get(axis, axis): own_name(getattr(parts, axis))
        for axis, text in parts.descriptions.items()
        if text != as_named.descriptions[axis]
    }
    return {**settings, **own}
