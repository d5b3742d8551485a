"""Classes of one's own that a recipe names as `module:Class`, and what the parts of a run are called in files.

A module is imported only if the user names it: `recipe_of` in growing.py refuses names that come from a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mipset.condensing.parts import Parts
from mipset.errors import SettingError, brief
from mipset.settings.part import Part, imported, own_name
from mipset.settings.recipe import Recipe

# The fields of `Parts`, and the settings of a recipe that name them.
AXES: Mapping[str, str] = {
    "objective": "objective",
    "policy": "policy",
    "sampler": "sampler",
    "learner": "learner",
    "optimiser": "pixel_optimiser",
    "metric": "metric",
    "augmentation": "match_augment",
}


def own_part(name: str, kind: type[Any], setting: str, recipe: Recipe) -> Any:
    """The part of this kind that a recipe names as `module:Class`. Modules in the current folder are found too."""
    module, _, title = name.partition(":")
    found = imported(name, setting)
    if not isinstance(found, type) or not issubclass(found, Part) or not issubclass(found, kind):
        raise SettingError(
            f"`{setting}` is {name!r}, but {module} has no class {title} that is derived from "
            f"{kind.__module__}.{kind.__name__}. Correct the name or the class."
        )
    try:
        return found.from_recipe(recipe)
    except TypeError as error:
        raise SettingError(
            f"`{setting}` is {name!r}, which cannot be made ({brief(error, str)}). Give its arguments defaults, or "
            f"write a class method from_recipe(recipe)."
        ) from error


def texts(parts: Parts) -> dict[str, str]:
    """The description of each part."""
    return {axis: repr(getattr(parts, axis)) for axis in AXES}


def replaced(parts: Parts, as_named: Parts) -> dict[str, str]:
    """The descriptions of parts that are not those of the recipe, or whose class is somebody's own."""
    expected = texts(as_named)
    return {axis: text for axis, text in texts(parts).items() if text != expected[axis] or ":" in text}


def recorded_settings(settings: Mapping[str, Any], parts: Parts, as_named: Parts) -> dict[str, Any]:
    """The settings of a recipe, with the class of each part that is another one than the recipe names."""
    expected = texts(as_named)
    return {
        **settings,
        **{
            setting: own_name(part)
            for axis, setting in AXES.items()
            if repr(part := getattr(parts, axis)) != expected[axis]
        },
    }
