"""mipset condenses a labelled image set into a few images per class. Every prefix of the result is a training set.

Condense a dataset, write the file, and test two of its sizes:

    import mipset

    data = mipset.load("fashion-mini")
    recipe = mipset.recipe("demo", policy="every-prefix")
    for step in mipset.condense(mipset.assemble(recipe, data)):
        print(f"{step.share:.0%} done, loss {step.loss:.3g}")
    mipset.pack(step, recipe, data).write("fashion.safetensors")

    artifact = mipset.read("fashion.safetensors")
    small = artifact.prefix(1)  # one image per class
    for score in mipset.Evaluation(artifact, data).scores(sizes=[1, 10]):
        print(score.size, score.accuracy)

What is here:

    load, Dataset               a real dataset, by name or from files
    from_arrays, from_torch, from_hf    a real dataset of arrays, or of datasets of torch or Hugging Face
    recipe, Recipe              all settings of a condensation: a named set of them, and the class
    recipe_for                  the best settings for a dataset, in the time that you have
    assemble, condense          the parts of Algorithm 1, and the run, which yields every step
    logged, LogFile             what is known after each outer iteration, for a callback, and as a file
    pack, read, Artifact        a condensed set with its description: make it, read it, cut it, write it
    gallery                     the condensed sets that are ready to use; read("gallery:NAME") opens one
    Evaluation, Score           train networks on every size and test them
    protocol, Accuracy          how networks are trained for that, and the mean accuracy of a size
    augmentation, cutmix        what is done to images while networks are trained, for a loop of your own
    Progress                    a progress bar, for a terminal or a notebook
    MipsetError                 the base of all errors; `mipset.errors` lists them

`mipset.device` is for the device that uses a file: it plans what fits, downloads a prefix, makes batches.

`import mipset` needs numpy only. Names that need torch import it when they are first used.
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
    from mipset import device as device
    from mipset.condensing.assembly import assemble
    from mipset.condensing.budget import recipe_for
    from mipset.condensing.condense import condense
    from mipset.condensing.packing import pack
    from mipset.condensing.run_logging import LogFile, logged
    from mipset.data import Dataset, from_arrays, from_hf, from_torch, load
    from mipset.display.progress import Progress
    from mipset.evaluation.evaluate import Evaluation, Score
    from mipset.file.artifact import Artifact, read
    from mipset.file.description import Accuracy
    from mipset.file.gallery import gallery
    from mipset.nn.augment import augmentation, cutmix
    from mipset.settings.catalogue import recipe
    from mipset.settings.protocol import protocol
    from mipset.settings.recipe import Recipe

__version__ = "0.1.0"

_HOME = {
    "Accuracy": "file.description",
    "Artifact": "file.artifact",
    "Dataset": "data",
    "Evaluation": "evaluation.evaluate",
    "LogFile": "condensing.run_logging",
    "Progress": "display.progress",
    "Recipe": "settings.recipe",
    "Score": "evaluation.evaluate",
    "assemble": "condensing.assembly",
    "augmentation": "nn.augment",
    "condense": "condensing.condense",
    "cutmix": "nn.augment",
    "from_arrays": "data",
    "from_hf": "data",
    "from_torch": "data",
    "gallery": "file.gallery",
    "load": "data",
    "logged": "condensing.run_logging",
    "pack": "condensing.packing",
    "protocol": "settings.protocol",
    "read": "file.artifact",
    "recipe": "settings.catalogue",
    "recipe_for": "condensing.budget",
}

_NEEDS_TORCH = {
    "Evaluation",
    "LogFile",
    "Score",
    "assemble",
    "augmentation",
    "condense",
    "cutmix",
    "logged",
    "pack",
    "recipe_for",
}

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
    "LogFile",
    "MipsetError",
    "MissingExtraError",
    "Progress",
    "Recipe",
    "RemoteError",
    "Score",
    "SettingError",
    "assemble",
    "augmentation",
    "condense",
    "cutmix",
    "from_arrays",
    "from_hf",
    "from_torch",
    "gallery",
    "load",
    "logged",
    "pack",
    "protocol",
    "read",
    "recipe",
    "recipe_for",
]


def __getattr__(name: str) -> Any:
    if name == "device":
        return import_module("mipset.device")
    if name not in _HOME:
        raise AttributeError(f"module 'mipset' has no attribute {name!r}")
    if name in _NEEDS_TORCH:
        try:
            import_module("torch")
        except ImportError as error:
            raise missing("torch", f"mipset.{name}") from error
    return getattr(import_module(f"mipset.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "device"])
