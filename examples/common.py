"""Shared by all examples: the option `--toy`, the settings of an example, and one condensation."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from mipset import Artifact, Dataset, Recipe, assemble, condense, load, pack, protocol, recipe
from mipset.data import Split
from mipset.nn.engines import Engine, default_engine
from mipset.nn.networks import Network, builder, fresh
from mipset.nn.pixels import to_unit
from mipset.nn.randomness import Purpose, key
from mipset.nn.training import Images
from mipset.settings.protocol import Protocol

CPU = torch.device("cpu")
TOY_RECIPE = {"ipc": 3, "width": 4, "depth": 2, "outer": 1, "inner": 1, "real_batch": 4, "train_batch": 8}
TOY_PROTOCOL = {"epochs": 1, "least_steps": 2}


@dataclass(frozen=True)
class Setting:
    """The embedded dataset, the recipe `fashion-mini-gradient-cpu`, the protocol `quick`; a toy uses a part of each."""

    toy: bool

    def __post_init__(self) -> None:
        if self.toy:
            torch.set_num_threads(1)  # more threads make such small work slower

    @cached_property
    def data(self) -> Dataset:
        """The dataset that is embedded in mipset: 5,000 training images and 2,000 test images of clothes."""
        data = load("fashion-mini")
        if not self.toy:
            return data
        train, test = (split.at(np.arange(0, len(split), 20)) for split in (data.train, data.test))
        return replace(data, train=train, test=test)

    @property
    def recipe_changes(self) -> dict[str, Any]:
        """The settings of the recipe that a toy changes."""
        return TOY_RECIPE if self.toy else {}

    @property
    def recipe(self) -> Recipe:
        """The recipe `fashion-mini-gradient-cpu` with the policy `every-prefix`."""
        return recipe("fashion-mini-gradient-cpu", policy="every-prefix", **self.recipe_changes)

    def protocol(self, **changes: Any) -> Protocol:
        """The protocol `quick` with some changes. The settings of a toy win over them."""
        return protocol("quick", **{**changes, **(TOY_PROTOCOL if self.toy else {})})

    @cached_property
    def engine(self) -> Engine:
        """The compiled kernels. A toy, or a machine without a compiler, uses plain torch."""
        return Engine() if self.toy else default_engine(CPU, lambda: float("inf"))

    @property
    def network(self) -> Network:
        """A new network for all classes, with the same first weights each time."""
        r, data = self.recipe, self.data
        build = builder(r.architecture, data.shape, data.classes, self.engine)
        return fresh(build, key(0, Purpose.EVALUATION_NETWORK), CPU)

    def images(self, split: Split) -> Images:
        """Real images in the form that a network learns from."""
        pixels = to_unit(torch.from_numpy(split.images))
        return Images.of(pixels, torch.from_numpy(split.labels), self.data.mean, self.data.std, CPU)

    def condensed(self, data: Dataset) -> Artifact:
        """Condense the training images of `data`. Every prefix of the result is a training set."""
        *_, last = condense(assemble(self.recipe, data, engine=self.engine))
        return pack(last, self.recipe, data)


def repeated(images: Images, count: int) -> Images:
    """Repeat the images until there are `count`."""
    return images.at(torch.arange(len(images)).repeat(-(-count // len(images)))[:count])


def at_least(least: int) -> Callable[[str], int]:
    """A converter for an argument that must be a whole number of at least `least`."""

    def number(text: str) -> int:
        if int(text) < least:
            raise ArgumentTypeError(f"cannot be {text}: it must be at least {least}")
        return int(text)

    return number


def argument_parser(docstring: str | None) -> ArgumentParser:
    """A parser for a script with this docstring, with the option `--toy`."""
    parser = ArgumentParser(description=docstring, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--toy", action="store_true", help="a tiny example; its results have no meaning")
    return parser
