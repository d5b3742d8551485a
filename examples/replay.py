"""Class-incremental learning with a replay buffer of fixed size: old classes keep ever shorter prefixes.

Two new classes arrive at a time. Their real images are gone when the next classes arrive. A buffer keeps a fixed number
of stored images of all old classes together, so each class must give up images whenever new classes arrive. A condensed
set gives up images by keeping a shorter prefix, which is a good training set too. The table compares it with buffers of
the same number of bytes that hold random real images: whole images, or four shrunk images in the place of one, as in a
condensed image. Every buffer is used in the same way: one network learns the new real images and the decoded images of
the old classes, repeated so that every class has the same number.

Run:   python examples/replay.py
Takes: some minutes on 2 cores. `--toy` takes some seconds.
Printed (recipe `fashion-mini-gradient-cpu`; one condensation and one network for each row, so small differences mean
little):

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
from common import CPU, Setting, argument_parser, at_least, repeated

from mipset import Artifact, Dataset
from mipset.data import Split
from mipset.display.tables import in_columns
from mipset.evaluation.evaluate import decoded
from mipset.evaluation.selection import select
from mipset.nn.networks import Network
from mipset.nn.training import Images, accuracy, fit, rule_of, schedule_of

CLASSES_PER_TASK = 2


def only_classes(data: Dataset, classes: range) -> Dataset:
    """The images of some consecutive classes, with labels that start at 0."""

    def part(split: Split) -> Split:
        chosen = split.at(np.isin(split.labels, classes))
        return Split.of(chosen.images, chosen.labels - classes.start)

    names = data.class_names[classes.start : classes.stop]
    return replace(data, train=part(data.train), test=part(data.test), class_names=names)


def concatenated(parts: Sequence[Images]) -> Images:
    """The images of all tasks. The labels of a task continue after those of the task before."""
    labels = [part.labels + CLASSES_PER_TASK * task for task, part in enumerate(parts)]
    return replace(parts[0], pixels=torch.cat([part.pixels for part in parts]), labels=torch.cat(labels))


def learn(network: Network, setting: Setting, tasks: Sequence[Dataset], buffer: Sequence[Artifact]) -> float:
    """Train on the last task and, from the buffer, on the tasks before it. Return the accuracy on all tasks."""
    new = setting.images(tasks[-1].train)
    old = [repeated(decoded(artifact, CPU), len(new)) for artifact in buffer]
    images, protocol = concatenated([*old, new]), setting.protocol(epochs=4)
    schedule = schedule_of(protocol, len(images), CLASSES_PER_TASK * len(tasks))
    for _ in fit(network, images, rule_of(protocol), schedule, 0, len(tasks)):
        pass
    return accuracy(network, concatenated([setting.images(task.test) for task in tasks]))


def accuracies_after_tasks(
    setting: Setting, tasks: Sequence[Dataset], artifacts: Sequence[Artifact], sizes: Sequence[int]
) -> list[float]:
    """After each task, the accuracy on all classes that have arrived."""
    network = setting.network
    return [
        learn(network, setting, tasks[: t + 1], [artifact.prefix(size) for artifact in artifacts[:t]])
        for t, size in enumerate(sizes)
    ]


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument(
        "--total", type=at_least(1), default=20, help="stored images in the buffer, of all classes together"
    )
    arguments = parser.parse_args()
    setting = Setting(arguments.toy)
    starts = range(0, 6 if arguments.toy else setting.data.classes, CLASSES_PER_TASK)  # the number of old classes too
    if arguments.total < starts[-1]:
        parser.error(f"argument --total: cannot be {arguments.total}: {starts[-1]} old classes need one image each")
    tasks = [only_classes(setting.data, range(start, start + CLASSES_PER_TASK)) for start in starts]
    sizes = [min(setting.recipe.ipc, arguments.total // max(1, start)) for start in starts]
    image_bytes = int(np.prod(setting.data.shape))
    buffers: dict[str, Callable[[Dataset], Artifact]] = {
        "condensed": setting.condensed,
        "real": lambda task: select("random", setting.recipe.replace(factor=1), task, CPU),
        "real, shrunk": lambda task: select("random", setting.recipe, task, CPU),
    }
    rows = [
        ["old and new classes", *(f"{start} + {CLASSES_PER_TASK}" for start in starts), "mean"],
        ["stored images per old class", "-", *map(str, sizes[1:]), ""],
        ["bytes in the buffer", *(str(start * n * image_bytes) for start, n in zip(starts, sizes, strict=True)), ""],
    ]
    for title, make_artifact in buffers.items():
        accuracies = accuracies_after_tasks(setting, tasks, [make_artifact(task) for task in tasks], sizes)
        rows.append([title, *(f"{value:.1f}" for value in accuracies), f"{fmean(accuracies):.2f}"])
    print("test accuracy in % on all classes that have arrived, for each kind of image in the buffer")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
