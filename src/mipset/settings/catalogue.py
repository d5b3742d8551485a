"""Named recipes: settings for a dataset, with their time and accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mipset.errors import SettingError, choices, choose
from mipset.settings.choices import READ_IF
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class NamedRecipe:
    """A recipe for a dataset, with its time and accuracy."""

    dataset: str
    recipe: Recipe
    promise: str
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # other settings, for a method or a policy


PAPER_CIFAR10 = Recipe()

# The best accuracy for a few minutes: first-order matching at experts (see "What to match" in docs/results.md).
_FAST = PAPER_CIFAR10.replace(
    policy="every-prefix",
    objective="layered+10*confidence/2",
    learner="experts",
    experts=2,
    expert_steps=800,
    network_lr=0.03,
    train_augment="none",
    cutmix=0.0,
    init="herding",
    pixel_optimiser="adam",
    pixel_lr=0.05,
    width=64,
    outer=23,
    inner=10,
    period=2,
)
# Gradient matching as in the paper, with some thousandths of its work: fewer and narrower networks, larger steps.
_GRADIENT = PAPER_CIFAR10.replace(width=64, outer=20, inner=10, train_images=512, period=2, pixel_lr=0.01)

_PHOTOGRAPHS = _FAST.replace(train_augment="flip", depth=5, factor=3)
_UNMEASURED = "not measured; give a budget of time"

RECIPES = {
    "fashion-mini-cpu": NamedRecipe(
        "fashion-mini",
        _FAST.replace(width=32, expert_steps=200, outer=8, period=1),
        "half a minute of one core; with the objective characteristic+10*confidence, mean of sizes 1-10 (quick): "
        "baseline-c 77.1, mdc 77.1, every-prefix 77.3 %",
    ),
    # Starts from noise, with one training image in each stored image: then even a short run tells the policies apart.
    "demo": NamedRecipe(
        "fashion-mini",
        _FAST.replace(width=32, expert_steps=200, outer=8, period=1, init="noise", factor=1),
        "half a minute of one core; mean of sizes 1-10 (quick): baseline-c 71.1, mdc 73.0, every-prefix 73.8 %",
    ),
    "fashion-mini-gradient-cpu": NamedRecipe(
        "fashion-mini",
        _GRADIENT.replace(width=32, outer=4, train_images=256, period=1, pixel_lr=0.1),
        "under a minute on 2 cores; mean of sizes 1-10 (quick): baseline-c 74.7, mdc 74.7, every-prefix 74.9 %",
        tuned={"every-prefix-balanced": {"pixel_lr": 0.3}},  # on held-out images better than 0.1, unlike for the others
    ),
    "cifar10-cpu": NamedRecipe(
        "cifar10",
        _FAST.replace(train_augment="flip"),
        "3.5 minutes of one core; mean of sizes 1-10 (standard): baseline-c 54.8, mdc 56.4, every-prefix 57.4 %",
    ),
    "cifar10-gradient-cpu": NamedRecipe(
        "cifar10",
        _GRADIENT.replace(outer=13, pool=3, life=5, pixel_lr=0.3),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): baseline-c 34.2, mdc 37.1, every-prefix 40.0 %",
        # Rates are the best of 0.01 to 1 on held-out training images; iterations are for equal time (docs/results.md).
        tuned={"every-prefix-plain": {"outer": 12, "pixel_lr": 0.01}, "every-prefix-balanced": {"outer": 12}},
    ),
    "fashion-mnist-cpu": NamedRecipe(
        "fashion-mnist",
        _FAST,
        "3 minutes of one core; with the objective characteristic+10*confidence, every-prefix at sizes 1, 3 and 10 "
        "(standard): 80.4, 81.7 and 82.9 %",
    ),
    "fashion-mnist-gradient-cpu": NamedRecipe(
        "fashion-mnist",
        _GRADIENT.replace(outer=13, pool=3, life=5, pixel_lr=0.03),
        "some 2 minutes on 2 cores; mean of sizes 1-10 (quick): baseline-c 75.0, mdc 75.6, every-prefix 75.5 %",
        tuned={"every-prefix-balanced": {"outer": 12}},  # chosen in the same way
    ),
    "mnist-cpu": NamedRecipe(
        "mnist",
        _FAST,
        "3.5 minutes of one core; its accuracy was not measured since digits are no longer mirrored",
    ),
    "svhn-cpu": NamedRecipe("svhn", _FAST, "about 3.5 minutes of one core; its accuracy was not measured"),
    "cifar100-cpu": NamedRecipe(
        "cifar100",
        _FAST.replace(train_augment="flip"),
        "about half an hour of one core; its accuracy was not measured",
    ),
    # Larger images: one block of the network more for each doubling of the resolution, and factor 3 at 224 pixels.
    "stl10-cpu": NamedRecipe("stl10", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "eurosat-cpu": NamedRecipe("eurosat", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "tiny-imagenet-cpu": NamedRecipe("tiny-imagenet", _FAST.replace(train_augment="flip", depth=4), _UNMEASURED),
    "imagenette-cpu": NamedRecipe("imagenette", _PHOTOGRAPHS, _UNMEASURED),
    "imagenet10-cpu": NamedRecipe("imagenet10", _PHOTOGRAPHS, _UNMEASURED),
    "own-cpu": NamedRecipe(
        "folder:PATH",
        _FAST,
        "for your own data, in the time of the budget that you choose",
    ),
    "paper-cifar10-ipc10": NamedRecipe(
        "cifar10",
        PAPER_CIFAR10,
        "not run by us; the paper reports 11.5 hours for baseline-c and 15.1 for mdc, and means of 53.2 and 58.4 %",
    ),
}


def recipe(name: str, **changes: Any) -> Recipe:
    """A named recipe, with some settings changed."""
    chosen = settled(name, (), changes)
    check_read(changes, chosen)
    return chosen


def check_read(changes: Iterable[str], chosen: Recipe) -> None:
    """Refuse settings that a run with the chosen recipe does not use (law 8 in docs/architecture.md)."""
    for setting in changes:
        for other, values in READ_IF.get(setting, {}).items():
            if getattr(chosen, other) not in values:
                raise SettingError(
                    f"`{setting}` needs `{other}` {choices(values)}, not {getattr(chosen, other)}. Leave it out."
                )


def settled(name: str, tuned_for: Sequence[str], changes: Mapping[str, Any]) -> Recipe:
    """A named recipe with changes, and with the settings that were tuned for a method.

    The first method of `tuned_for` that has tuned settings counts, or else the policy. Balanced and plain steps need
    different settings, so the policy every-prefix has two names here: every-prefix-balanced and every-prefix-plain.
    """
    if name not in RECIPES:
        raise SettingError(f"There is no recipe {name!r}. {choose(name, RECIPES)}.")
    named = RECIPES[name]
    changed = named.recipe.replace(**changes)
    policy = f"{changed.policy}-{changed.steps}" if changed.policy == "every-prefix" else changed.policy
    tuned = next((named.tuned[method] for method in (*tuned_for, policy) if method in named.tuned), {})
    return named.recipe.replace(**{**tuned, **changes})
