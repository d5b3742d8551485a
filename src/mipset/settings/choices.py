"""What a setting can be: every name that can be chosen, listed once, with one line that explains it.

Everybody reads these tables: `Recipe` checks its values against them, the help of `mipset condense` shows them, and the
tables in condensing/assembly.py have one entry for every name (a test compares them). Networks are in architecture.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from mipset.errors import SettingError, choices

POLICIES: Mapping[str, str] = {
    "baseline-c": "only the whole set counts (the paper's Baseline C)",
    "mdc": "the whole set and one subset count; a metric chooses the subset (the paper's method)",
    "mdc-per-class": "as mdc, with one chosen subset for each class",
    "every-prefix": "every size counts at all times",
}
FREEZE_RULES: Mapping[str, str] = {
    "ratchet": "freeze the largest chosen size below the current one (the authors' code)",
    "predecessor": "freeze the size that was chosen before, if it is smaller (the paper's equation)",
    "never": "freeze nothing",
}
METRICS: Mapping[str, str] = {
    "feature": "distance between mean features",
    "gradient": "distance between gradients",
    "accuracy": "accuracy of a network that is trained on each size",
}
DISTANCES: Mapping[str, str] = {
    "squared": "sum of squared differences",
    "l1": "sum of absolute differences",
    "row-cosine": "sum of one minus the cosine, over output channels",
}
INITIALISATIONS: Mapping[str, str] = {
    "mix": "tiles of real images",
    "noise": "uniform noise",
}
STEPS: Mapping[str, str] = {
    "balanced": "scale the steps so that every image moves as far as in baseline-c",
    "plain": "use the gradients without scaling",
}
PRECISIONS: Mapping[str, str] = {
    "float32": "multiply in 32 bits",
    "bfloat16": "multiply in 16 bits, add in 32 bits",
}
AUGMENTATIONS: Mapping[str, str] = {
    "color": "change brightness, saturation and contrast",
    "crop": "shift by some pixels",
    "cutout": "erase a square",
    "flip": "mirror left and right",
    "scale": "stretch or shrink",
    "rotate": "rotate by some degrees",
}
NO_AUGMENTATION = "none"

# Settings that only some policies read; every policy reads the others.
ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("period", "freeze", "round_distances", "metric", "metric_epochs"), ("mdc", "mdc-per-class")),
    "subset_weight": ("mdc", "mdc-per-class", "every-prefix"),
    "steps": ("every-prefix",),
    "prefix_weights": ("every-prefix",),
}


def augmentation_names(text: str) -> list[str]:
    """`color_crop` as ["color", "crop"], and `none` as an empty list; other names are refused."""
    names = [] if text == NO_AUGMENTATION else text.split("_")
    for name in names:
        if name not in AUGMENTATIONS:
            raise SettingError(
                f"There is no augmentation {name!r}. Choose from {choices(AUGMENTATIONS)}, joined by underscores, "
                f"or {NO_AUGMENTATION}."
            )
    return names
