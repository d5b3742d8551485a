"""Avalanche: class-incremental learning with a replay buffer of condensed sets, beside Avalanche's own buffer.

Two new classes arrive in each experience. The ReplayPlugin of Avalanche mixes their real images with those of a buffer,
which holds a fixed number of stored images. PrefixBuffer condenses the classes of an experience, and gives up images by
keeping shorter prefixes. ClassBalancedBuffer of Avalanche keeps random real images. A third buffer holds real images
that are shrunk, four in the place of one, as in a condensed image. All buffers have the same bytes.

The accuracy is that of all classes after the last experience. Forgetting is how much accuracy the classes of an
experience have lost since they were learned, as the mean over all experiences but the last.

Run:   python examples/avalanche_replay.py (needs `pip install ".[condense,avalanche]"`)
Takes: some minutes on 2 cores, on CIFAR-10 if `mipset data fetch cifar10` has fetched it. `--toy` takes some seconds.
Printed (CIFAR-10; one condensation of each experience and one network for each row, so small differences mean little):

                               accuracy in %  forgetting  images in the buffer   bytes
    PrefixBuffer, condensed             32.1        59.4                   200  153600
    PrefixBuffer, real shrunk           30.6        59.0                   200  153600
    ClassBalancedBuffer                 21.4        73.4                    50  153600
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch
from common import CPU, Setting, argument_parser, at_least, framework_setting
from replay import CLASSES_PER_TASK, only_classes
from standin import stand_in_for_torchvision
from torch.utils.data import TensorDataset

from mipset import Artifact, Dataset
from mipset.data import Split
from mipset.display.tables import in_columns
from mipset.evaluation.selection import select
from mipset.nn.training import accuracy

stand_in_for_torchvision()
from avalanche.benchmarks import class_incremental_benchmark  # noqa: E402
from avalanche.benchmarks.utils import _make_taskaware_classification_dataset as as_dataset  # noqa: E402
from avalanche.training.plugins import EvaluationPlugin, ReplayPlugin  # noqa: E402
from avalanche.training.storage_policy import ClassBalancedBuffer  # noqa: E402
from avalanche.training.supervised import Naive  # noqa: E402

from mipset.integrations.avalanche import PrefixBuffer  # noqa: E402


def benchmark(setting: Setting) -> Any:
    """A stream of experiences of two classes each, with the images normalised."""

    def dataset(split: Split) -> Any:
        pixels, labels = setting.images(split).batch(slice(None))
        return as_dataset(TensorDataset(pixels, labels), targets=labels.tolist(), task_labels=0)

    data = setting.data
    return class_incremental_benchmark(
        {"train": dataset(data.train), "test": dataset(data.test)},
        class_order=list(range(data.classes)),
        num_experiences=data.classes // CLASSES_PER_TASK,
    )


def learned(setting: Setting, buffer: Any, epochs: int) -> list[list[float]]:
    """The accuracy on the classes of each experience, after each experience."""
    torch.manual_seed(0)  # Avalanche draws from the common generator
    network, data = setting.network, setting.data
    strategy = Naive(
        model=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9),
        train_mb_size=32,
        train_epochs=epochs,
        plugins=[ReplayPlugin(mem_size=buffer.max_size, storage_policy=buffer)],
        evaluator=EvaluationPlugin(),
    )
    starts = range(0, data.classes, CLASSES_PER_TASK)
    tests = [data.test.at((data.test.labels // CLASSES_PER_TASK) == number) for number in range(len(starts))]
    after = []
    for experience in benchmark(setting).train_stream:
        strategy.train(experience)
        after.append([accuracy(network, setting.images(test)) for test in tests])
    return after


def forgetting(after: list[list[float]]) -> float:
    """The mean accuracy that experiences have lost since they were learned."""
    return fmean(after[number][number] - after[-1][number] for number in range(len(after) - 1))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--total", type=at_least(1), help="stored images in the buffer (default: 50; with --toy 20)")
    arguments = parser.parse_args()
    total = arguments.total or (20 if arguments.toy else 50)
    setting = framework_setting(arguments)

    def of(make: Callable[[Dataset], Artifact]) -> Callable[[Any], Artifact]:
        def condense(experience: Any) -> Artifact:
            labels = experience.classes_in_this_experience
            return make(only_classes(setting.data, range(min(labels), max(labels) + 1)))

        return condense

    real_bytes = setting.data.train.images[0].nbytes
    buffers = {
        "PrefixBuffer, condensed": PrefixBuffer(total, of(setting.condensed)),
        "PrefixBuffer, real shrunk": PrefixBuffer(total, of(lambda task: select("random", setting.recipe, task, CPU))),
        "ClassBalancedBuffer": ClassBalancedBuffer(total),
    }
    rows = [["", "accuracy in %", "forgetting", "images in the buffer", "bytes"]]
    for title, buffer in buffers.items():
        after = learned(setting, buffer, epochs=1 if arguments.toy else 4)
        count = len(buffer.buffer)
        stored = buffer.nbytes if isinstance(buffer, PrefixBuffer) else count * real_bytes
        rows.append([title, f"{fmean(after[-1]):.1f}", f"{forgetting(after):.1f}", str(count), str(stored)])
    print(f"{setting.dataset}, {len(after)} experiences of {CLASSES_PER_TASK} classes, all measured after the last one")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
