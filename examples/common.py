"""Shared by all examples: the option `--toy`, the settings of an example, and one condensation."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch.utils.data import TensorDataset

from mipset import Artifact, DataError, Dataset, Recipe, assemble, condense, load, pack, protocol, recipe
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


EMBEDDED = "fashion-mini"
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {  # by dataset: the name of a recipe, and what is changed in it
    EMBEDDED: ("fashion-mini-gradient-cpu", {}),
    "cifar10": ("cifar10-cpu", {"width": 32, "expert_steps": 200, "outer": 10}),
}


@dataclass(frozen=True)
class Setting:
    """A dataset of 5,000 training and 2,000 test images, a recipe, the protocol `quick`; a toy uses a part of each."""

    toy: bool
    dataset: str = EMBEDDED

    def __post_init__(self) -> None:
        if self.toy:
            torch.set_num_threads(1)  # more threads make such small work slower

    @cached_property
    def data(self) -> Dataset:
        """The dataset: of each class, the first 500 training and 200 test images."""
        data = load(self.dataset)
        data = replace(data, train=first_of_each_class(data.train, 500), test=first_of_each_class(data.test, 200))
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
        """The recipe of the dataset with the policy `every-prefix`."""
        name, changes = RECIPES[self.dataset]
        return recipe(name, policy="every-prefix", **{**changes, **self.recipe_changes})

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

    def dataset_of(self, split: Split) -> TensorDataset:
        """The same for a loop of plain torch."""
        return TensorDataset(*self.images(split).batch(slice(None)))

    def condensed(self, data: Dataset) -> Artifact:
        """Condense the training images of `data`. Every prefix of the result is a training set."""
        *_, last = condense(assemble(self.recipe, data, engine=self.engine))
        return pack(last, self.recipe, data)


def first_of_each_class(split: Split, count: int) -> Split:
    """The first `count` images of each class, in their order."""
    rows = [np.flatnonzero(split.labels == c)[:count] for c in range(int(split.labels.max()) + 1)]
    return split.at(np.sort(np.concatenate(rows)))


def cifar10_if_here() -> str:
    """`cifar10` if `mipset data fetch cifar10` has fetched it, else the embedded dataset."""
    try:
        load("cifar10")
    except DataError:
        return EMBEDDED
    return "cifar10"


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


@cache
def setting_of(toy: bool, dataset: str) -> Setting:
    """The setting of this process: each process of a simulation loads its data once."""
    return Setting(toy, dataset)


def framework_setting(arguments: Namespace) -> Setting:
    """CIFAR-10 if it is here and this is no toy, else the embedded dataset."""
    return setting_of(arguments.toy, EMBEDDED if arguments.toy else cifar10_if_here())
