"""Evaluation: train a new network on each prefix of a written file, and test it after the last epoch.

What is measured is what is shipped: only the uint8 images of the file are trained on (law 5). Test images are looked at
once, when training is over, and choose nothing (law 7).
"""

from __future__ import annotations

import multiprocessing
import signal
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch

from mipset.artifact import Accuracy, Artifact
from mipset.costs import training_flops
from mipset.data import Dataset
from mipset.engines import Engine
from mipset.errors import ArtifactError, DivergedError, MipsetError, SettingError, choices
from mipset.memory import keep_freed_memory
from mipset.networks import fresh
from mipset.randomness import Purpose, key
from mipset.recipes import augmentation, network_builder, network_size
from mipset.synthetic import formation, training_images
from mipset.training import Images, Schedule, TrainingRule, accuracy, fit


@dataclass(frozen=True)
class Protocol:
    """How a network is trained on a condensed set. The defaults are the paper's (E-IDC)."""

    name: str = "paper"
    epochs: int = 1000
    least_steps: int = 0  # small sets are trained for more epochs, until there were as many steps
    batch: int = 64
    rate: float = 0.01
    momentum: float = 0.9
    decay: float = 5e-4
    augment: str = "color_crop_flip_scale_rotate"
    mix: float = 0.5  # probability of CutMix
    milestones: tuple[float, ...] = (2 / 3, 5 / 6)  # of the epochs, where the rate drops
    drop: float = 0.2  # what the rate is multiplied with there
    even: bool = False  # whether the batches of an epoch are of one size

    def epochs_for(self, images: int) -> int:
        """How long a network is trained on so many images."""
        steps_per_epoch = -(-images // self.batch)
        return max(self.epochs, -(-self.least_steps // steps_per_epoch))

    def schedule_for(self, images: int) -> Schedule:
        """The epochs of a network that is trained on so many images."""
        return Schedule(self.epochs_for(images), self.batch, self.milestones, self.drop, self.even)

    @property
    def rule(self) -> TrainingRule:
        """How it learns from a batch."""
        return TrainingRule(self.rate, self.momentum, self.decay, augmentation(self.augment), self.mix)

    def __str__(self) -> str:
        least = f", at least {self.least_steps} steps" if self.least_steps else ""
        return f"{self.name}, {self.epochs} epochs{least}"


# With few steps and a high rate, a last batch of a few images undoes what the others did: on CIFAR-10, 200 images in
# batches of 64, 64, 64 and 8 were 5 points worse than in four of 50.
QUICK = Protocol("quick", epochs=16, least_steps=100, rate=0.05, even=True)
PROTOCOLS = {protocol.name: protocol for protocol in (Protocol(), QUICK)}


def protocol(name: str, **changes: Any) -> Protocol:
    """A named protocol, with some settings changed."""
    if name not in PROTOCOLS:
        raise SettingError(f"there is no protocol {name!r}: choose {choices(PROTOCOLS)}.")
    chosen = replace(PROTOCOLS[name], **changes)
    if chosen.epochs < 1:
        raise SettingError(f"--epochs cannot be {chosen.epochs}: it must be at least 1.")
    return chosen


@dataclass(frozen=True)
class Architecture:
    """Which network is trained."""

    name: str = "convnet"
    width: int = 128
    depth: int = 3

    def __str__(self) -> str:
        return f"{self.name}-{self.depth}, width {self.width}"

    @classmethod
    def named(cls, name: str) -> Architecture:
        """The network of this name, as wide and as deep as it is by default."""
        return cls(name, *network_size(name))

    @classmethod
    def of(cls, artifact: Artifact) -> Architecture:
        """The network that the set was condensed with."""
        r = artifact.recipe
        if "network" not in r:
            return cls()
        name, width, depth = (r.get(key) for key in ("network", "width", "depth"))
        if not (isinstance(name, str) and isinstance(width, int) and isinstance(depth, int) and width > 0 < depth):
            raise ArtifactError(f"its recipe names no network that can be built: {name}, width {width}, depth {depth}.")
        return cls(name, width, depth)


@dataclass(frozen=True)
class Score:
    """The last-epoch accuracy, in percent, of one network trained on S_[size]."""

    size: int
    network: int
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """How good each size of a condensed set is: all that a score depends on, beside its size and its number.

    Classes are told by their names: in `data` they may have another order than in the set.
    """

    artifact: Artifact
    data: Dataset
    protocol: Protocol = field(default_factory=lambda: PROTOCOLS["quick"])
    architecture: Architecture | None = None  # what the set was condensed with
    seed: int = 0
    device: str = "cpu"
    engine: Engine = field(default_factory=Engine)

    def __post_init__(self) -> None:
        self.data.check_source_of(self.artifact.images.shape[2:])
        self.data.in_order(self.artifact.class_names)

    @property
    def network(self) -> Architecture:
        """The architecture that is trained."""
        return self.architecture or Architecture.of(self.artifact)

    def scores(self, sizes: Sequence[int], networks: int = 3, workers: int = 1) -> Iterator[Score]:
        """Train `networks` networks on each of the prefixes; yield each score as it is there, largest sizes first."""
        for _, score in scores([(self, sizes)], networks, workers):
            yield score

    def flops(self, size: int) -> float:
        """The work of one score."""
        return evaluation_flops(self.data, self.network, self.protocol, self.artifact.factor, size)

    def training_set(self, size: int) -> Images:
        """What a network learns from: S_[size] as it is in the file."""
        return decoded(self.artifact.prefix(size), torch.device(self.device))

    def score(self, size: int, number: int) -> Score:
        """Train network `number` on S_[size] and test it."""
        device, p = torch.device(self.device), self.protocol
        train = self.training_set(size)
        a = self.network
        build = network_builder(a.name, self.data.shape, self.data.classes, a.width, a.depth, self.engine)
        theta = fresh(build, key(self.seed, Purpose.EVALUATION_NETWORK, size, number), device)
        for _ in fit(theta, train, p.rule, p.schedule_for(len(train)), self.seed, size, number):
            pass
        if not all(bool(parameter.isfinite().all()) for parameter in theta.parameters()):
            raise DivergedError(f"a network trained on size {size} is no longer finite: try another --protocol.")
        asked = self.data.in_order(self.artifact.class_names).test
        pixels, labels = torch.from_numpy(asked.images), torch.from_numpy(asked.labels)
        test = Images.of(pixels, labels, self.artifact.mean, self.artifact.std, device)
        return Score(size, number, accuracy(theta, test))

    def curve(self, scores: Sequence[Score]) -> list[Accuracy]:
        """Mean and spread over networks for each size."""
        points = []
        for size in sorted({score.size for score in scores}):
            values = [score.accuracy for score in sorted(scores, key=lambda s: s.network) if score.size == size]
            points.append(
                Accuracy(
                    size=size,
                    mean=statistics.fmean(values),
                    std=statistics.stdev(values) if len(values) > 1 else 0.0,
                    networks=len(values),
                    network=str(self.network),
                    protocol=str(self.protocol),
                    seed=self.seed,
                    data=self.data.sha256,
                )
            )
        return points


def evaluation_flops(data: Dataset, architecture: Architecture, protocol: Protocol, factor: int, size: int) -> float:
    """What it takes to train a network on S_[size] and to test it: learning is three times the work of looking."""
    images = size * data.classes * factor**2
    per_image = learning_flops(architecture, data.shape, data.classes)
    return per_image * (images * protocol.epochs_for(images) + len(data.test) / 3)


@cache
def learning_flops(a: Architecture, shape: tuple[int, int, int], classes: int) -> int:
    """Of a network that learns from one image [ch, h, w]."""
    return training_flops(network_builder(a.name, shape, classes, a.width, a.depth), shape)


def decoded(artifact: Artifact, device: torch.device) -> Images:
    """The training images in a file: every stored image decoded, class by class within a rank."""
    stored = torch.from_numpy(artifact.images.copy()).to(device)  # [n, C, ch, h, w]
    return training_images(stored.float() / 255, formation(artifact.factor), artifact.mean, artifact.std)


Job = tuple[int, int, int]  # which evaluation, which size, which network


def scores(
    tasks: Sequence[tuple[Evaluation, Sequence[int]]], networks: int = 3, workers: int = 1
) -> Iterator[tuple[int, Score]]:
    """Train `networks` networks on each size of each task; yield each score as it is there, with its task's index.

    Tasks are taken in turn, largest sizes first. With more than one worker, scores are made by processes of one thread
    each: small networks gain more from that than from threads. A score depends on the seed, its size and its number,
    never on which process made it, nor on what else is evaluated.
    """
    for evaluation, sizes in tasks:
        for size in sizes:
            evaluation.artifact.prefix(size)
    if networks < 1:
        raise SettingError(f"--networks cannot be {networks}: at least one has to be trained.")
    evaluations = [evaluation for evaluation, _ in tasks]
    jobs = [
        (index, size, number)
        for index, (_, sizes) in enumerate(tasks)
        for size in sorted(sizes, reverse=True)
        for number in range(networks)
    ]
    if workers > 1:
        yield from _in_processes(evaluations, jobs, workers)
        return
    for index, size, number in jobs:
        yield index, evaluations[index].score(size, number)


_evaluations: Sequence[Evaluation] = ()  # of a worker process: sent once, not with every job


def _start_worker(evaluations: Sequence[Evaluation]) -> None:
    global _evaluations
    _evaluations = evaluations
    keep_freed_memory()
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    _hold_interrupts(False)


def _hold_interrupts(hold: bool) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if hold else signal.SIG_UNBLOCK, {signal.SIGINT})


def _work(index: int, size: int, number: int) -> tuple[int, Score]:
    return index, _evaluations[index].score(size, number)


def _in_processes(evaluations: Sequence[Evaluation], jobs: Sequence[Job], workers: int) -> Iterator[tuple[int, Score]]:
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(evaluations,))
    try:
        _hold_interrupts(True)  # workers inherit it, so that Ctrl-C meets none of them half started
        try:
            futures = [pool.submit(_work, *job) for job in jobs]
        finally:
            _hold_interrupts(False)
        for future in as_completed(futures):
            yield future.result()
    except (BrokenProcessPool, BrokenPipeError) as error:
        raise MipsetError(
            "a worker process was ended from outside (out of memory?): try again with --workers 1."
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
