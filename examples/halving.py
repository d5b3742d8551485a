"""Successive halving of training settings, where the size of a condensed set is the fidelity.

The search tries all settings (learning rates and augmentations) on one image per class, the better half of them on two,
and so on; it tries the last ones on the whole condensed set. This is less work than trying all settings on the real
images. The script prints both shares of work, with and without the condensation itself.

The search is useful only if small sizes rank the settings as the real images do. So the script also tries all settings
at every size and on the real images, and compares the rankings (Spearman's correlation). All accuracies are measured on
held-out training images, because they choose a setting.

Run:   python examples/halving.py
Takes: some minutes on 2 cores. `--toy` takes some seconds.
Printed at the end (recipe `fashion-mini-gradient-cpu`; one condensation, one network for each of twelve settings and
each column):

                                size 1  size 2  size 5  size 10
    rank correlation with real    0.79    0.86    0.87     0.84
    tried 12 at size 1, 6 at size 2, 3 at size 5, 2 at size 10: 0.05, none is left
    on real images it has 87.0 %, the best 87.0 %, the mean 81.4 %
    it took 36.8% of the work of trying all settings on the real images, and 63.3% together with condensing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
from common import CPU, Setting, argument_parser

from mipset import Artifact, Dataset, Evaluation
from mipset.condensing.costs import cost
from mipset.display.tables import in_columns
from mipset.evaluation.selection import select
from mipset.settings.protocol import Protocol

RATES = (0.002, 0.01, 0.05, 0.25)
AUGMENTATIONS = ("none", "color_crop", "color_crop_flip_scale_rotate")
REAL_EPOCHS = 6  # on the real images: they are so many that this is more steps than on any size


def score(artifact: Artifact, data: Dataset, protocol: Protocol, size: int, setting: Setting) -> float:
    """The accuracy on the test images of `data` of one network, trained on one size by this protocol."""
    return Evaluation(artifact, data, protocol, engine=setting.engine).score(size, 0).accuracy


def all_real_images(data: Dataset, setting: Setting) -> Artifact:
    """All real training images as an artifact, as many of each class."""
    fewest = int(np.bincount(data.train.labels).min())
    return select("random", setting.recipe.replace(ipc=fewest, factor=1), data, CPU)


def positions(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """The position of every value in sorted order, from 0. Equal values share the mean of their positions."""
    return np.array([sum(other < value for other in values) + (values.count(value) - 1) / 2 for value in values])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation of two lists, from -1 to 1. It is 0 if all values of a list are equal."""
    a, b = (places - places.mean() for places in map(positions, (first, second)))
    length = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / length) if length else 0.0


def successive_halving(scores: dict[int, list[float]]) -> tuple[int, dict[int, list[int]]]:
    """The number of the winning setting, and the numbers of the settings tried at each size."""
    left, tried = list(range(len(next(iter(scores.values()))))), {}
    for size in sorted(scores):
        tried[size] = left
        best_first = sorted(left, key=lambda number: -scores[size][number])
        left = best_first[: -(-len(left) // 2)]
    return left[0], tried


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    setting = Setting(arguments.toy)
    data = setting.data.held_out(0.2, seed=0)
    condensed = setting.condensed(data)
    real = all_real_images(data, setting)
    candidates = [setting.protocol(rate=rate, augment=names) for rate, names in product(RATES, AUGMENTATIONS)]
    candidates = candidates[::3] if arguments.toy else candidates
    sizes = [1, 2, 3] if arguments.toy else [1, 2, 5, 10]
    scores = {n: [score(condensed, data, protocol, n, setting) for protocol in candidates] for n in sizes}
    on_real = [replace(protocol, epochs=min(REAL_EPOCHS, protocol.epochs)) for protocol in candidates]
    real_scores = [score(real, data, protocol, real.ipc, setting) for protocol in on_real]

    rows = [["rate, augmentation", *(f"size {n}" for n in sizes), "real images"]]
    for number, protocol in enumerate(candidates):
        cells = [f"{values[number]:.1f}" for values in (*scores.values(), real_scores)]
        rows.append([f"{protocol.rate:g}, {protocol.augment}", *cells])
    rows.append(["rank correlation with real", *(f"{spearman(scores[n], real_scores):.2f}" for n in sizes), ""])
    print(f"accuracy in % on held-out images\n{in_columns(rows)}")

    winner, tried = successive_halving(scores)
    search_flops = sum(len(tried[n]) * Evaluation(condensed, data, candidates[0]).flops(n) for n in sizes)
    real_flops = len(candidates) * Evaluation(real, data, on_real[0]).flops(real.ipc)
    condensing_flops = cost(setting.recipe, data.shape, data.classes, len(data.train), len(data.test)).run_flops
    best, mean = max(real_scores), np.mean(real_scores)
    print(f"tried {', '.join(f'{len(tried[n])} at size {n}' for n in sizes)}: {rows[1 + winner][0]} is left")
    print(f"on real images it has {real_scores[winner]:.1f} %, the best {best:.1f} %, the mean {mean:.1f} %")
    print(
        f"it took {search_flops / real_flops:.1%} of the work of trying all settings on the real images, "
        f"and {(condensing_flops + search_flops) / real_flops:.1%} together with condensing"
    )


if __name__ == "__main__":
    main()
