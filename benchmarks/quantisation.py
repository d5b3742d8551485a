"""What it costs to store bytes: the accuracy of condensed pixels as float32, and rounded to 256 levels.

Condenses by a recipe. Then the same networks learn each size twice, with the same batches and augmentations: from the
float32 pixels at the end of the condensation, and from the bytes of the file. The last row has the difference for each
network, in points of accuracy; ± is the standard deviation over networks. It is as large as that of the accuracies:
two networks with equal first weights drift apart if their images differ by half a level.

Run:   python benchmarks/quantisation.py RECIPE [--policy NAME] [--networks K] [--epochs E]
       for example `cifar10-gradient-cpu --networks 5`, which needs CIFAR-10.
Takes: the time of one condensation, and of training two networks for each size and each of K.
Printed: docs/results.md has the results.
"""

from __future__ import annotations

import statistics
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import dataclass, fields

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
"""For each size and network: the accuracy with float32 pixels, and with uint8 pixels."""


@dataclass(frozen=True, kw_only=True)
class Unrounded(Evaluation):
    """The evaluation of a file that could hold float32 pixels."""

    pixels: Tensor  # [N, C, ch, h, w] in [0, 1]

    def training_set(self, size: int) -> Images:
        artifact = self.artifact
        return training_images(self.pixels[:size], formation(artifact.factor), artifact.mean, artifact.std)


def accuracy_pairs(shipped: Evaluation, pixels: Tensor, sizes: Sequence[int], networks: int) -> Pairs:
    """Train the same networks on each size of a file and of the pixels [N, C, ch, h, w] before rounding."""
    unrounded = Unrounded(**{f.name: getattr(shipped, f.name) for f in fields(shipped)}, pixels=pixels)
    return {
        size: [(unrounded.score(size, k).accuracy, shipped.score(size, k).accuracy) for k in range(networks)]
        for size in sizes
    }


def table(pairs_by_size: Pairs) -> str:
    """One column for each size: both accuracies, and the difference of each network."""

    def row(title: str, values: Sequence[Sequence[float]], form: str) -> list[str]:
        spread = [statistics.stdev(each) if len(each) > 1 else 0.0 for each in values]
        means = map(statistics.fmean, values)
        return [title, *(f"{mean:{form}} ±{std:.2f}" for mean, std in zip(means, spread, strict=True))]

    pairs = list(pairs_by_size.values())
    return in_columns(
        [
            ["images per class", *map(str, pairs_by_size)],
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
    options = parser.parse_args(arguments)
    keep_freed_memory()
    data, engine = load(RECIPES[options.recipe].dataset), native()
    settings = recipe(options.recipe, policy=options.policy)
    *_, last = condense(assemble(settings, data, engine=engine))
    training = protocol("quick", epochs=options.epochs)
    shipped = Evaluation(pack(last, settings, data), data, training, engine=engine)
    sizes = [size for size in SIZES if size <= settings.ipc]
    title = f"{data.name}, recipe {options.recipe}, policy {options.policy}"
    print(f"{title}; protocol {training}; {options.networks} networks")
    print(table(accuracy_pairs(shipped, last.parts.S.pixels, sizes, options.networks)))


if __name__ == "__main__":
    main()
