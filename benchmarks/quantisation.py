"""What it costs to ship bytes: the accuracy of condensed pixels as float32, and of the same rounded to 256 levels.

Condenses by a recipe, then trains the same networks on each size twice, with the same batches and augmentations: on the
pixels as they were when the condensation ended, and on the bytes that a file has. A difference is that of one network
in both cases, in points of accuracy; ± is the deviation over networks. Do not expect less of it than of accuracies:
networks that begin alike and see images that differ by half a level grow apart while they learn.

Usage: quantisation.py RECIPE [--policy NAME] [--networks K]   for example: quantisation.py cifar10-cpu --networks 10
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from mipset import Evaluation, assemble, condense, load, pack, protocol, recipe
from mipset.condensing.synthetic import formation, training_images
from mipset.display.tables import in_columns
from mipset.nn.engines import native
from mipset.nn.memory import keep_freed_memory
from mipset.nn.training import Images
from mipset.settings.catalogue import RECIPES
from mipset.settings.choices import POLICIES

SIZES = (1, 2, 5, 10)
Pairs = dict[int, list[tuple[float, float]]]
"""For each size the accuracies of every network: from float32, from uint8."""


@dataclass(frozen=True, kw_only=True)
class Unrounded(Evaluation):
    """How good each size would be if a file could hold the pixels as they are."""

    pixels: Tensor  # [N, C, ch, h, w] in [0, 1]

    def training_set(self, size: int) -> Images:
        stored = self.artifact
        return training_images(self.pixels[:size], formation(stored.factor), stored.mean, stored.std)


def compared(shipped: Evaluation, pixels: Tensor, sizes: Sequence[int], networks: int) -> Pairs:
    """What networks make of each size of a file, and of the pixels [N, C, ch, h, w] that it was rounded from."""
    unrounded = Unrounded(**vars(shipped), pixels=pixels)
    return {
        size: [(unrounded.score(size, k).accuracy, shipped.score(size, k).accuracy) for k in range(networks)]
        for size in sizes
    }


def table(found: Pairs) -> str:
    """One column for each size: both accuracies, and the difference between the two of every network."""

    def row(title: str, values: Sequence[Sequence[float]], form: str) -> list[str]:
        spread = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in values]
        means = map(statistics.fmean, values)
        return [title, *(f"{mean:{form}} ±{std:.2f}" for mean, std in zip(means, spread, strict=True))]

    pairs = list(found.values())
    return in_columns(
        [
            ["images per class", *map(str, found)],
            row("float32", [[both[0] for both in each] for each in pairs], ".2f"),
            row("uint8", [[both[1] for both in each] for each in pairs], ".2f"),
            row("float32 - uint8", [[both[0] - both[1] for both in each] for each in pairs], "+.2f"),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("recipe", choices=RECIPES)
    parser.add_argument("--policy", choices=POLICIES, default="every-prefix")
    parser.add_argument("--networks", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=protocol("quick").epochs)
    chosen = parser.parse_args(arguments)
    keep_freed_memory()
    data, engine = load(RECIPES[chosen.recipe].dataset), native()
    settings = recipe(chosen.recipe, policy=chosen.policy)
    *_, last = condense(assemble(settings, data, engine=engine))
    how = protocol("quick", epochs=chosen.epochs)
    shipped = Evaluation(pack(last, settings, data), data, how, engine=engine)
    sizes = [size for size in SIZES if size <= settings.ipc]
    print(f"{data.name}, recipe {chosen.recipe}, policy {chosen.policy}; protocol {how}; {chosen.networks} networks")
    print(table(compared(shipped, last.parts.S.pixels, sizes, chosen.networks)))


if __name__ == "__main__":
    main()
