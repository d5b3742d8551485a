"""The recipes of the paper: its settings for each dataset, and where the value of each setting comes from.

docs/fidelity.md says what the paper and the authors' release state, and where they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from mipset.settings.recipe import Recipe

PAPER_CIFAR10 = Recipe()  # the defaults of every setting

# What differs from CIFAR-10. The rate for ImageNet is 3e-3 for 10 images per class of 224 x 224 pixels; `pixel_lr` is
# that of 32 x 32. IDC tuned it for L1; the release of MDC uses squares.
DATASETS: Mapping[str, Mapping[str, Any]] = {
    "svhn": {"train_images": 500},
    "cifar10": {},
    "cifar100": {},
    "imagenet10": {
        "network": "resnet-ap",
        "width": 64,
        "depth": 10,
        "factor": 3,
        "outer": 500,
        "period": 50,
        "train_images": 500,
        "early_epochs": 10,
        "cutmix": 1.0,
        "pixel_lr": 3e-3 * (32 / 224) ** 2,
    },
}
SIZES: Mapping[str, tuple[int, ...]] = {
    "svhn": (10, 50),
    "cifar10": (10, 50),
    "cifar100": (10, 20, 50),
    "imagenet10": (20,),
}


# What DREAM changes of IDC, on every dataset.
DREAM: Mapping[str, Any] = {"sampler": "k-means", "init": "k-means", "real_batch": 128, "train_batch": 128}


def paper_recipe(dataset: str, ipc: int, **changes: Any) -> Recipe:
    """The recipe of the paper for a dataset and a number of images per class; `changes` are those of another method."""
    return PAPER_CIFAR10.replace(ipc=ipc, **{**DATASETS[dataset], **changes})


@dataclass(frozen=True)
class Authors:
    """What the authors of another method than the paper's have chosen: some settings of a recipe."""

    recipe: Recipe
    settings: Collection[str]
    ours: Collection[str] = ()  # which their method needs here, and they do not have

    @classmethod
    def of_all(cls, recipe: Recipe, *ours: str) -> Self:
        """Those of all settings that a run without a policy of ours reads, but for `ours`."""
        alone = recipe.replace(policy="baseline-c")
        known = {f.name for f in fields(alone) if alone.reads(f.name)}
        return cls(recipe, known - {"policy", "seed", "student_sizes", *ours}, ours)

    def chose(self, setting: str, value: object) -> bool:
        """Whether this value of a setting is theirs."""
        return setting in self.settings and value == getattr(self.recipe, setting)


PAPER, RELEASE, AUTHORS, OURS = "paper", "release", "authors", "ours"
# Where the values of the paper's recipes come from: the text of the paper, the code that its authors or those of IDC
# published, or us, if neither has such a setting. Those of other methods can come from their authors.
SOURCES: Mapping[str, str] = {
    **dict.fromkeys(("ipc", "policy", "period", "metric", "subset_weight", "round_distances"), PAPER),
    **dict.fromkeys(("factor", "objective", "learner", "network", "depth", "outer", "inner", "pool", "life"), PAPER),
    **dict.fromkeys(("freeze", "init", "distance", "width", "real_batch", "train_images", "train_batch"), RELEASE),
    **dict.fromkeys(("pixel_optimiser", "pixel_lr", "pixel_momentum", "match_augment", "train_augment"), RELEASE),
    **dict.fromkeys(
        ("sampler", "cluster_every", "matched_layers", "composition", "resampling", "pixel_space", "step_after"),
        RELEASE,
    ),
    **dict.fromkeys(
        ("early_epochs", "train_precision", "match_precision", "network_lr", "network_momentum", "network_decay"),
        RELEASE,
    ),
}
_OTHER_SOURCES: Mapping[tuple[str, object], str] = {("cutmix", 0.5): PAPER, ("cutmix", 1.0): RELEASE}


def source_of(setting: str, value: object, *, papers: bool, authors: Authors | None = None) -> str:
    """Where the value of a setting comes from. `papers` says that it is in one of the paper's recipes.

    `authors` are those of another method, if it is one. In another recipe than the paper's, a value that is not theirs
    and differs from the paper's for CIFAR-10 is ours.
    """
    if authors is not None and authors.chose(setting, value):
        return AUTHORS
    if authors is not None and setting in authors.ours:
        return OURS
    if not papers and value != getattr(PAPER_CIFAR10, setting):
        return OURS
    return _OTHER_SOURCES.get((setting, value)) or SOURCES.get(setting, OURS)
