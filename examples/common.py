"""What the examples share: the flag `--toy`, settings of minutes or of seconds, and one condensation."""

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
from mipset.errors import NoCompilerError
from mipset.nn.engines import Engine, native
from mipset.nn.networks import Network, fresh, network_builder
from mipset.nn.randomness import Purpose, key
from mipset.nn.training import Images
from mipset.settings.protocol import Protocol

CPU = torch.device("cpu")
BRIEF = {"ipc": 3, "width": 4, "depth": 2, "outer": 1, "inner": 1, "real_batch": 4, "train_batch": 8}


@dataclass(frozen=True)
class Setting:
    """Fashion-MNIST in small, the recipe `demo`, the protocol `quick`; as a toy, hardly any of each."""

    toy: bool

    def __post_init__(self) -> None:
        if self.toy:
            torch.set_num_threads(1)  # it is too small to share out

    @cached_property
    def data(self) -> Dataset:
        """5,000 training and 2,000 test images of clothes, which come with mipset."""
        data = load("fashion-mini")
        if not self.toy:
            return data
        train, test = (split.at(np.arange(0, len(split), 20)) for split in (data.train, data.test))
        return replace(data, train=train, test=test)

    @property
    def changes(self) -> dict[str, Any]:
        """What a toy changes in a recipe."""
        return BRIEF if self.toy else {}

    @property
    def recipe(self) -> Recipe:
        """How to condense: every prefix counts."""
        return recipe("demo", policy="every-prefix", **self.changes)

    def protocol(self, **changes: Any) -> Protocol:
        """How to train on what was condensed."""
        return protocol("quick", **{**changes, **({"epochs": 1, "least_steps": 2} if self.toy else {})})

    @cached_property
    def engine(self) -> Engine:
        """Our own kernels where they can be compiled, which a toy does not wait for."""
        try:
            return Engine() if self.toy else native()
        except NoCompilerError:
            return Engine()

    @property
    def network(self) -> Network:
        """A new network, the same one every time, that knows all classes."""
        r, data = self.recipe, self.data
        build = network_builder(r.network, data.shape, data.classes, r.width, r.depth, self.engine)
        return fresh(build, key(0, Purpose.EVALUATION_NETWORK), CPU)

    def images(self, split: Split) -> Images:
        """Real images as a network is given them."""
        pixels = torch.from_numpy(split.images).float() / 255
        return Images.of(pixels, torch.from_numpy(split.labels), self.data.mean, self.data.std, CPU)

    def condensed(self, data: Dataset) -> Artifact:
        """The training images of `data` as a set whose every prefix is one."""
        *_, last = condense(assemble(self.recipe, data, engine=self.engine))
        return pack(last, self.recipe, data)


def repeated(images: Images, count: int) -> Images:
    """So many images: all of them, again and again."""
    return images.at(torch.arange(len(images)).repeat(-(-count // len(images)))[:count])


def at_least(least: int) -> Callable[[str], int]:
    """What reads an argument that is a whole number, none below the least."""

    def number(text: str) -> int:
        if int(text) < least:
            raise ArgumentTypeError(f"cannot be {text}: it must be at least {least}")
        return int(text)

    return number


def parser(text: str | None) -> ArgumentParser:
    """Arguments of a script with this docstring."""
    found = ArgumentParser(description=text, formatter_class=RawDescriptionHelpFormatter)
    found.add_argument("--toy", action="store_true", help="seconds instead of minutes, and numbers that mean nothing")
    return found
