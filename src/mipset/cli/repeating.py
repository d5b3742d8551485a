"""The command that makes a set again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from mipset.cli.parser import flag_of
from mipset.errors import MipsetError, SettingError

if TYPE_CHECKING:
    from mipset.file.artifact import Artifact
    from mipset.settings.recipe import Recipe


def command_of(artifact: Artifact) -> str:
    """The command that makes a set again: the nearest named recipe, and what differs from it. Empty if unknown."""
    from mipset.data import is_from_memory
    from mipset.file.provenance import NOT_ONE_RUN
    from mipset.settings.catalogue import RECIPES
    from mipset.settings.recipe import Recipe

    provenance: Mapping[str, Any] = artifact.provenance
    dataset = provenance.get("dataset")
    unusual = (*NOT_ONE_RUN, "rank", "held_out")
    if (
        not isinstance(dataset, str)
        or is_from_memory(dataset)
        or any(provenance.get(key) is not None for key in unusual)
    ):
        return ""
    stored = {f.name: artifact.recipe[f.name] for f in fields(Recipe) if f.name in artifact.recipe}
    try:
        wanted = Recipe(**stored)
    except (MipsetError, TypeError, ValueError):
        return ""
    fitting = [name for name, named in RECIPES.items() if named.dataset == dataset] or ["own-cpu"]
    possible = []
    for name in fitting:
        with suppress(SettingError):  # a recipe that cannot have this policy
            possible.append(_differences(name, wanted))
    if not possible:
        return ""
    flags = min(possible, key=len)
    loading = {"resolution": provenance.get("size"), "split_seed": provenance.get("split_seed") or None}
    given = {**flags, **{name: value for name, value in loading.items() if value is not None}}
    words = ["mipset", "condense", dataset, *(word for name, value in given.items() for word in (flag_of(name), value))]
    bad = ["--skip-bad"] if provenance.get("skip_bad") else []
    return " ".join(shlex.quote(str(word)) for word in (*words, *bad, "--out", "FILE"))


def _differences(name: str, wanted: Recipe) -> dict[str, Any]:
    """The flags that make the wanted recipe from a named one."""
    from mipset.settings.catalogue import RECIPES, settled

    named = settled(name, (), {key: getattr(wanted, key) for key in ("policy", "steps")})
    settings = asdict(wanted)
    different = {key: value for key, value in settings.items() if value != getattr(named, key) and wanted.reads(key)}
    if wanted.policy != RECIPES[name].recipe.policy:
        different = {"policy": wanted.policy, **different}
    return {"recipe": name, **different}
