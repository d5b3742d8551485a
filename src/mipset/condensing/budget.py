"""Budgets: from an amount of processor time and a dataset to the settings of a run. Nobody has to tune anything.

The rule, for a recipe with experts:

    depth        so many blocks that 4 to 7 pixels are left along a side: 3 for 32 pixels, 5 for 224
    experts      take at most EXPERT_SHARE of the time. Their number and the steps of each grow with its square root,
                 from 2 experts of 800 steps on
    iterations   get the rest
    precision    bfloat16 for experts and first-order objectives of a ConvNet, if compiled kernels run on a CPU with a
                 unit that multiplies such matrices (AMX); else that of the recipe

With trajectories, the steps of an expert follow from the recipe, and only the number of experts is chosen.
A recipe without experts gets as many outer iterations as fit. The times of a match and of a training step are measured
on this machine first. Batches are never larger than the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch

from mipset.condensing import checks
from mipset.condensing.costs import Shape, cost, processor_seconds
from mipset.data import Dataset
from mipset.errors import SettingError, brief
from mipset.nn.engines import Engine, Native, default_engine, matrix_unit
from mipset.settings.catalogue import name_for, recipe
from mipset.settings.choices import FIRST_ORDER, HALF_PRECISION, MOST_AMOUNT
from mipset.settings.recipe import Recipe
from mipset.units import duration, parse_duration

EXPERT_SHARE = 0.3  # of the time
USUAL_STEPS = 800  # of an expert; with fewer, there are fewer experts rather than worse ones
FEWEST_EXPERTS, MOST_EXPERTS = 2, 20
MOST_TRAJECTORIES = 100  # as the authors of MTT have
FEWEST_ITERATIONS = 20  # inner iterations, below which a budget is refused
CHOSEN = ("experts", "expert_steps", "outer")  # what a budget decides
FITTED = ("depth", "train_precision", "match_precision", *checks.FITTED)  # to data and processor, unless given
MOST_HOURS = 1_000_000  # of a budget: more is a slip of the finger
COARSE = 1.25  # steps of experts are rounded to powers of this, so that runs with the same budget can share experts


@dataclass(frozen=True)
class Times:
    """Processor seconds on this machine; on a GPU, seconds."""

    match: float  # of one class in one inner iteration
    step: float  # of one training step
    start: float  # of choosing the first pixels
    early: float = 0.0  # of one network before its first match

    @classmethod
    def measured(cls, r: Recipe, data: Dataset, device: torch.device, engine: Engine) -> Times:
        """Measure them with about a second of work."""
        whole = cost(r, data.shape, data.classes, len(data.train))
        match, step = processor_seconds(r, data.shape, data.classes, device, engine)
        per_flop, early = step / whole.step_flops, r.early_steps(len(data.train)) * step
        return cls(match + per_flop * whole.sampling_flops, step, per_flop * whole.start_flops, early)


def recipe_for(data: Dataset, budget: str | None = None, device: torch.device | str = "cpu", **settings: Any) -> Recipe:
    """The best recipe for a dataset, with some settings changed: the one that `mipset condense` uses.

    With a `budget` such as "10min" of processor time, experts and iterations are as many as this machine can do in it.
    Batches and the first pixels are chosen so that the images suffice.
    """
    best = recipe(name_for(data.name), **settings)
    if budget is None:
        return checks.fitted_to_data(best, data, settings)
    return recipe_within(best, data, budget, device, given=settings)


def recipe_within(
    r: Recipe,
    data: Dataset,
    budget: str,
    device: torch.device | str = "cpu",
    engine: Engine | None = None,
    given: Mapping[str, Any] | None = None,
) -> Recipe:
    """The recipe with what a `budget` such as "10min" of processor time chooses for these data on this machine.

    `given` are settings of the recipe that must stay as they are.
    """
    fixed, device = given or {}, torch.device(device)
    for name in CHOSEN:
        if name in fixed and r.reads(name):
            raise SettingError(f"`budget` chooses `{name}`. Leave one of the two out.")
    seconds = parse_budget(budget)
    engine = engine or default_engine(device, lambda: math.inf)
    fitted = in_half(fitted_to_data(r, data, fixed), fixed, engine)
    return within(fitted, seconds, Times.measured(fitted, data, device, engine), data.classes, budget)


def fitted_to_data(r: Recipe, data: Dataset, given: Mapping[str, Any]) -> Recipe:
    """The recipe with the depth for this resolution, and with batches and a start for which the data suffice.

    Settings in `given` stay as they are.
    """
    fitted = checks.fitted_to_data(r, data, given)
    return fitted if "depth" in given or r.network != "convnet" else fitted.replace(depth=depth_for(data.shape))


def in_half(r: Recipe, given: Mapping[str, Any], engine: Engine) -> Recipe:
    """The recipe with bfloat16 where that is up to twice as fast, and as accurate. Settings in `given` stay.

    Gradients of pixels are off by a tenth with a ConvNet, which costs no accuracy, and by a quarter with deep networks.
    """
    measured = r.network == "convnet" and all(name in FIRST_ORDER for _, name, _ in r.terms)
    if not (measured and isinstance(engine, Native) and matrix_unit()):
        return r
    settings = [name for name in ("train_precision", "match_precision") if r.reads(name) and name not in given]
    return r.replace(**dict.fromkeys(settings, HALF_PRECISION))


def depth_for(shape: Shape) -> int:
    """Blocks of a ConvNet for images [ch, h, w], each of which halves them."""
    side = min(shape[1:])
    return max(1, int(math.log2((32 if side == 28 else side) / 4)))  # images of 28 pixels are padded to 32


def within(r: Recipe, seconds: float, times: Times, classes: int, typed: str = "") -> Recipe:
    """The recipe with as many experts, training steps and iterations as fit into so many seconds.

    `typed` is how the user wrote these seconds.
    """
    learning: dict[str, int] = {}
    iteration, before = classes * times.match, times.start
    if r.learner == "trained" and r.life > 1:
        before += r.pool * times.early  # the last networks do not live to their end
    left = seconds - before
    if r.learner == "experts":
        all_steps = EXPERT_SHARE * seconds / times.step
        experts = round(FEWEST_EXPERTS * math.sqrt(all_steps / (FEWEST_EXPERTS * USUAL_STEPS)))
        experts = min(MOST_EXPERTS, max(FEWEST_EXPERTS, experts))
        learning = {"experts": experts, "expert_steps": _rounded_down(min(all_steps / experts, MOST_AMOUNT))}
        left -= experts * learning["expert_steps"] * times.step
    elif r.learner == "trajectories":
        each = r.steps_per_expert * times.step
        learning = {"experts": min(MOST_TRAJECTORIES, max(FEWEST_EXPERTS, int(EXPERT_SHARE * seconds / each)))}
        left -= learning["experts"] * each
    else:
        iteration += (r.inner - 1) / r.inner * r.train_steps(classes) * times.step
        iteration += times.early / (r.life * r.inner)
    fewest = max(FEWEST_ITERATIONS, r.inner)
    if left < fewest * iteration:
        spare = 1 - EXPERT_SHARE if learning else 1.0
        least = r.steps_per_expert if r.learner == "trajectories" else 1
        needed = (fewest * iteration + before) / spare + FEWEST_EXPERTS * least * times.step * bool(learning)
        raise SettingError(
            f"`budget` is {typed or duration(seconds)} of processor time, which is too little for these data on this "
            f"machine. Choose {_written(1.1 * needed)} or more, fewer images per class (`ipc`), or a smaller `width`."
        )
    return r.replace(**learning, outer=int(min(left / iteration / r.inner, MOST_AMOUNT)))


def _written(seconds: float) -> str:
    """At least so many seconds, as a budget is typed: `7s`, `3min` or `2h`."""
    length, unit = next((each for each in ((3600, "h"), (60, "min")) if seconds > 2 * each[0]), (1, "s"))
    return f"{math.ceil(seconds / length)}{unit}"


def _rounded_down(steps: float) -> int:
    """The largest power of COARSE that is not larger, but at least 1."""
    return max(1, int(COARSE ** math.floor(math.log(max(1.0, steps), COARSE))))


def parse_budget(text: str) -> float:
    """`90s`, `3min`, `3.5min` or `2h` in seconds."""
    try:
        seconds = parse_duration(text) if isinstance(text, str) else math.nan
    except ValueError:
        seconds = math.nan
    if math.isnan(seconds):
        raise SettingError(f"`budget` is {brief(text)}. Write a time such as 90s, 3min or 2h.")
    if seconds > 3600 * MOST_HOURS:
        raise SettingError(f"`budget` is {brief(text, str)}: it must be at most {MOST_HOURS}h. Choose less time.")
    return seconds


def chosen(r: Recipe, within_budget: Recipe) -> dict[str, Any]:
    """The settings that a budget has chosen, and others that it has changed."""
    values = {f.name: getattr(within_budget, f.name) for f in fields(r)}
    return {
        name: value for name, value in values.items() if (name in CHOSEN and r.reads(name)) or value != getattr(r, name)
    }
