"""Class-incremental learning with a replay buffer of fixed size, in which images of old classes make room for new ones.

Classes arrive two at a time, and their real images are gone when the next ones come. What stays of them is a buffer of
so many stored images in all: with every arrival each class has to give some up. Of a condensed set it keeps a shorter
prefix, which is a good set too. Beside it stand buffers of as many bytes with real images, drawn: whole ones, or four
shrunk ones in the place of one, as a condensed image holds them. All buffers are replayed alike: one network learns the
new real images and the old classes' decoded ones, repeated so that every class has as many.

The last run printed (one condensation and one network for each row, so a point is not much):

    old and new classes          0 + 2  2 + 2  4 + 2  6 + 2  8 + 2   mean
    stored images per old class      -     10      5      3      2
    bytes in the buffer              0  15680  15680  14112  12544
    condensed                     98.5   84.0   81.8   66.8   71.0  80.43
    real                          98.5   87.2   80.5   61.2   61.8  77.84
    real, shrunk                  98.5   84.6   82.2   65.8   69.8  80.17
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
import torch
from common import CPU, Setting, at_least, parser, repeated

from mipset import Artifact, Dataset
from mipset.data import Split
from mipset.display.tables import in_columns
from mipset.evaluation.evaluate import decoded
from mipset.evaluation.selection import select
from mipset.nn.networks import Network
from mipset.nn.training import Images, accuracy, fit, rule_of, schedule_of

TOGETHER = 2  # classes that arrive at a time


def only(data: Dataset, classes: range) -> Dataset:
    """The images of some classes that follow each other, labelled from 0."""

    def part(split: Split) -> Split:
        kept = split.at(np.isin(split.labels, classes))
        return Split.of(kept.images, kept.labels - classes.start)

    names = data.class_names[classes.start : classes.stop]
    return replace(data, train=part(data.train), test=part(data.test), class_names=names)


def together(parts: Sequence[Images]) -> Images:
    """The images of tasks in their order, whose labels go on where those of the task before end."""
    labels = [part.labels + TOGETHER * task for task, part in enumerate(parts)]
    return replace(parts[0], pixels=torch.cat([part.pixels for part in parts]), labels=torch.cat(labels))


def learn(theta: Network, setting: Setting, tasks: Sequence[Dataset], buffer: Sequence[Artifact]) -> float:
    """Let the network learn the last of these tasks, and again those before, from the buffer; test it on all."""
    new = setting.images(tasks[-1].train)
    old = [repeated(decoded(stored, CPU), len(new)) for stored in buffer]
    seen, protocol = together([*old, new]), setting.protocol(epochs=4)
    for _ in fit(theta, seen, rule_of(protocol), schedule_of(protocol, len(seen)), 0, len(tasks)):
        pass
    return accuracy(theta, together([setting.images(task.test) for task in tasks]))


def incremental(
    setting: Setting, tasks: Sequence[Dataset], sets: Sequence[Artifact], sizes: Sequence[int]
) -> list[float]:
    """The accuracy, after each task, on all classes that have come by then."""
    theta = setting.network
    return [
        learn(theta, setting, tasks[: t + 1], [stored.prefix(size) for stored in sets[:t]])
        for t, size in enumerate(sizes)
    ]


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument(
        "--total", type=at_least(1), default=20, help="stored images in the buffer, of all classes together"
    )
    chosen = arguments.parse_args()
    setting = Setting(chosen.toy)
    starts = range(0, 6 if chosen.toy else setting.data.classes, TOGETHER)  # also how many classes came before
    if chosen.total < starts[-1]:
        arguments.error(f"argument --total: cannot be {chosen.total}: {starts[-1]} old classes need one image each")
    tasks = [only(setting.data, range(start, start + TOGETHER)) for start in starts]
    sizes = [min(setting.recipe.ipc, chosen.total // max(1, start)) for start in starts]
    image_bytes = int(np.prod(setting.data.shape))
    buffers: dict[str, Callable[[Dataset], Artifact]] = {
        "condensed": setting.condensed,
        "real": lambda task: select("random", setting.recipe.replace(factor=1), task, CPU),
        "real, shrunk": lambda task: select("random", setting.recipe, task, CPU),
    }
    rows = [
        ["old and new classes", *(f"{start} + {TOGETHER}" for start in starts), "mean"],
        ["stored images per old class", "-", *map(str, sizes[1:]), ""],
        ["bytes in the buffer", *(str(start * n * image_bytes) for start, n in zip(starts, sizes, strict=True)), ""],
    ]
    for name, make in buffers.items():
        found = incremental(setting, tasks, [make(task) for task in tasks], sizes)
        rows.append([name, *(f"{value:.1f}" for value in found), f"{fmean(found):.2f}"])
    print("accuracy in % on the test images of all classes so far, of a network with a buffer of images that are")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
