"""mipset: condense a labelled image set once; every prefix of the result is a training set.

    load        a real dataset by name            recipe, Recipe   settings
    assemble    the parts of a condensation       condense         Algorithm 1; yields every step
    pack        a step as an Artifact
    read        a written file                    Artifact         what a file holds, `.prefix(n)`, `.write(path)`
    Evaluation  train and test every size         protocol         how: "quick" or "paper"

`from mipset import device` is for where a file is used: prefixes over HTTP, batches, what fits.
Opening a file needs numpy only. Names that need torch are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mipset.errors import (
    ArtifactError,
    BudgetError,
    ChangedError,
    DataError,
    DivergedError,
    MipsetError,
    MissingExtraError,
    RemoteError,
    SettingError,
    missing,
)

if TYPE_CHECKING:
    from mipset.condensing.assembly import assemble
    from mipset.condensing.condense import condense
    from mipset.condensing.packing import pack
    from mipset.data import Dataset, load
    from mipset.evaluation.evaluate import Evaluation, Score
    from mipset.file.artifact import Artifact, read
    from mipset.file.description import Accuracy
    from mipset.settings.catalogue import recipe
    from mipset.settings.protocol import protocol
    from mipset.settings.recipe import Recipe

__version__ = "0.1.0"

_HOME = {
    "Accuracy": "file.description",
    "Artifact": "file.artifact",
    "Dataset": "data",
    "Evaluation": "evaluation.evaluate",
    "Recipe": "settings.recipe",
    "Score": "evaluation.evaluate",
    "assemble": "condensing.assembly",
    "condense": "condensing.condense",
    "load": "data",
    "pack": "condensing.packing",
    "protocol": "settings.protocol",
    "read": "file.artifact",
    "recipe": "settings.catalogue",
}

_NEEDS_TORCH = {"Evaluation", "Score", "assemble", "condense", "pack"}

__all__ = [
    "Accuracy",
    "Artifact",
    "ArtifactError",
    "BudgetError",
    "ChangedError",
    "DataError",
    "Dataset",
    "DivergedError",
    "Evaluation",
    "MipsetError",
    "MissingExtraError",
    "Recipe",
    "RemoteError",
    "Score",
    "SettingError",
    "assemble",
    "condense",
    "load",
    "pack",
    "protocol",
    "read",
    "recipe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mipset' has no attribute {name!r}")
    if name in _NEEDS_TORCH:
        try:
            import_module("torch")
        except ImportError as error:
            raise missing("torch", f"mipset.{name}") from error
    return getattr(import_module(f"mipset.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
