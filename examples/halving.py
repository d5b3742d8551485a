"""Successive halving of training settings, with the size of a condensed set as the fidelity.

Which learning rate, which augmentation? All settings are tried on one image per class, the better half of them on two,
and so on: the last few on the whole condensed set. That is less work than trying all of them on the real images. How
much less depends on whether the set has to be condensed for it: both shares of the work are printed. Whether it is
worth anything depends on whether small sizes rank settings as the real images do: so here all settings are scored at
every size and on the real images too, and their ranks compared (Spearman's correlation). Settings are scored on
held-out training images, since a choice is made.

The last run printed at its end (one condensation, one network for each of twelve settings and each column):

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
from common import CPU, Setting, parser

from mipset import Artifact, Dataset, Evaluation
from mipset.condensing.costs import cost
from mipset.display.tables import in_columns
from mipset.evaluation.selection import select
from mipset.settings.protocol import Protocol

RATES = (0.002, 0.01, 0.05, 0.25)
AUGMENTATIONS = ("none", "color_crop", "color_crop_flip_scale_rotate")
REAL_EPOCHS = 6  # on the real images: these are so many that there are more steps than on any size


def score(stored: Artifact, data: Dataset, protocol: Protocol, size: int, setting: Setting) -> float:
    """The accuracy on held-out images of a network trained on one size as the protocol says."""
    return Evaluation(stored, data, protocol, engine=setting.engine).score(size, 0).accuracy


def ranks(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """The place of every value in their order, from 0; equal ones share the mean of their places."""
    return np.array([sum(other < value for other in values) + (values.count(value) - 1) / 2 for value in values])


def spearman(first: Sequence[float], second: Sequence[float]) -> float:
    """How alike two lists rank the same things: from -1 to 1, and 0 where all of one list are equal."""
    a, b = (places - places.mean() for places in map(ranks, (first, second)))
    length = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / length) if length else 0.0


def halved(scores: dict[int, list[float]]) -> tuple[int, dict[int, list[int]]]:
    """The setting that is left, and which were tried at each size, of settings with these scores."""
    left, tried = list(range(len(next(iter(scores.values()))))), {}
    for size in sorted(scores):
        tried[size] = left
        best_first = sorted(left, key=lambda number: -scores[size][number])
        left = best_first[: -(-len(left) // 2)]
    return left[0], tried


def main() -> None:
    chosen = parser(__doc__).parse_args()
    setting = Setting(chosen.toy)
    data = setting.data.held_out(0.2, seed=0)
    condensed = setting.condensed(data)
    fewest = int(np.bincount(data.train.labels).min())
    real = select("random", setting.recipe.replace(ipc=fewest, factor=1), data, CPU)  # a set too: all real images
    settings = [setting.protocol(rate=rate, augment=names) for rate, names in product(RATES, AUGMENTATIONS)]
    settings = settings[::3] if chosen.toy else settings
    sizes = [1, 2, 3] if chosen.toy else [1, 2, 5, 10]
    scores = {n: [score(condensed, data, protocol, n, setting) for protocol in settings] for n in sizes}
    on_real = [replace(protocol, epochs=min(REAL_EPOCHS, protocol.epochs)) for protocol in settings]
    truth = [score(real, data, protocol, fewest, setting) for protocol in on_real]

    rows = [["rate, augmentation", *(f"size {n}" for n in sizes), "real images"]]
    for number, protocol in enumerate(settings):
        cells = [f"{values[number]:.1f}" for values in (*scores.values(), truth)]
        rows.append([f"{protocol.rate:g}, {protocol.augment}", *cells])
    rows.append(["rank correlation with real", *(f"{spearman(scores[n], truth):.2f}" for n in sizes), ""])
    print(f"accuracy in % on held-out images\n{in_columns(rows)}")

    winner, tried = halved(scores)
    spent = sum(len(tried[n]) * Evaluation(condensed, data, settings[0]).flops(n) for n in sizes)
    whole = len(settings) * Evaluation(real, data, on_real[0]).flops(fewest)
    print(f"tried {', '.join(f'{len(tried[n])} at size {n}' for n in sizes)}: {rows[1 + winner][0]} is left")
    print(f"on real images it has {truth[winner]:.1f} %, the best {max(truth):.1f} %, the mean {np.mean(truth):.1f} %")
    made = cost(setting.recipe, data.shape, data.classes, len(data.train), len(data.test)).run_flops
    print(
        f"it took {spent / whole:.1%} of the work of trying all settings on the real images, "
        f"and {(made + spent) / whole:.1%} together with condensing"
    )


if __name__ == "__main__":
    main()
