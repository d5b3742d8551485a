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
from dataclasses import dataclass, replace
from typing import Any

import torch

from mipset.artifact import Accuracy, Artifact
from mipset.data import Dataset
from mipset.errors import ArtifactError, DataError, MipsetError, SettingError, choices
from mipset.memory import keep_freed_memory
from mipset.networks import fresh
from mipset.randomness import Purpose, generator, key, permutation
from mipset.recipes import augmentation, network_builder
from mipset.synthetic import formation
from mipset.training import Images, TrainingRule, accuracy


@dataclass(frozen=True)
class Protocol:
    """How a network is trained on a condensed set. The defaults are the paper's (E-IDC)."""

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

    def epochs_for(self, images: int) -> int:
        """How long a network is trained on so many images."""
        steps_per_epoch = -(-images // self.batch)
        return max(self.epochs, -(-self.least_steps // steps_per_epoch))

    def describe(self, name: str) -> str:
        """How the protocol is named in a file and in tables."""
        least = f", at least {self.least_steps} steps" if self.least_steps else ""
        return f"{name}, {self.epochs} epochs{least}"


PROTOCOLS = {"paper": Protocol(), "quick": Protocol(epochs=25, least_steps=150, rate=0.03)}


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
class Task:
    """All that one score depends on, beside its size and number."""

    artifact: Artifact
    data: Dataset
    protocol: Protocol
    architecture: Architecture
    seed: int
    device: str

    def score(self, size: int, number: int) -> Score:
        """Train network `number` on S_[size] and test it."""
        device, p = torch.device(self.device), self.protocol
        train = decoded(self.artifact.prefix(size), device)
        build = network_builder(
            self.architecture.name,
            self.data.shape,
            self.data.classes,
            self.architecture.width,
            self.architecture.depth,
        )
        theta = fresh(build, key(self.seed, Purpose.EVALUATION_NETWORK, size, number), device)
        rule = TrainingRule(p.rate, p.momentum, p.decay, augmentation(p.augment), p.mix)
        optimiser = rule.optimiser(theta)
        epochs = p.epochs_for(len(train))
        drops = {int(share * epochs) for share in p.milestones}
        for epoch in range(epochs):
            if epoch in drops:
                for group in optimiser.param_groups:
                    group["lr"] *= p.drop
            address = (size, number, epoch)
            order = permutation(len(train), self.seed, Purpose.EVALUATION_BATCH, *address)
            draws = generator(self.seed, Purpose.EVALUATION_AUGMENTATION, *address)
            for batch in torch.split(order, p.batch):
                labels = train.labels[batch.to(device)]
                rule.step(theta, optimiser, train.batch(batch), labels, draws)
        pixels, labels = (torch.from_numpy(a) for a in (self.data.test.images, self.data.test.labels))
        test = Images.of(pixels, labels, self.artifact.mean, self.artifact.std, device)
        return Score(size, number, accuracy(theta, test))


def decoded(artifact: Artifact, device: torch.device) -> Images:
    """The training images in a file: every stored image decoded, class by class within a rank."""
    stored = torch.from_numpy(artifact.images.copy()).to(device)  # [n, C, ch, h, w]
    form = formation(artifact.factor)
    images = form.decode(stored.flatten(0, 1).float() / 255)
    classes = torch.arange(stored.shape[1], device=device).repeat(stored.shape[0])
    return Images.of(images, classes.repeat_interleave(form.images), artifact.mean, artifact.std, device)


def scores(
    artifact: Artifact,
    data: Dataset,
    *,
    sizes: Sequence[int],
    networks: int = 3,
    protocol: Protocol = PROTOCOLS["quick"],
    architecture: Architecture | None = None,
    seed: int = 0,
    device: str = "cpu",
    workers: int = 1,
) -> Iterator[Score]:
    """Train `networks` networks on each of the prefixes and yield each score as it is there, largest sizes first.

    With more than one worker, scores are made by processes of one thread each: small networks gain more from that than
    from threads. A score depends on the seed, its size and its number, never on which process made it.
    """
    _check_fit(artifact, data, sizes, networks)
    task = Task(artifact, data, protocol, architecture or Architecture.of(artifact), seed, device)
    jobs = [(size, number) for size in sorted(sizes, reverse=True) for number in range(networks)]
    if workers <= 1:
        for size, number in jobs:
            yield task.score(size, number)
        return
    yield from _in_processes(task, jobs, workers)


def _check_fit(artifact: Artifact, data: Dataset, sizes: Sequence[int], networks: int) -> None:
    for size in sizes:
        artifact.prefix(size)
    if networks < 1:
        raise SettingError(f"--networks cannot be {networks}: at least one has to be trained.")
    _, classes, *shape = artifact.images.shape
    if tuple(shape) != data.shape or classes != data.classes:
        raise DataError(
            f"the file holds {classes} classes of images {shape}, but {data.name} has {data.classes} "
            f"of {list(data.shape)}: test with the dataset it was condensed from."
        )


_task: Task | None = None  # of a worker process: sent once, not with every job


def _start_worker(task: Task) -> None:
    global _task
    _task = task
    keep_freed_memory()
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    _hold_interrupts(False)


def _hold_interrupts(hold: bool) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if hold else signal.SIG_UNBLOCK, {signal.SIGINT})


def _work(size: int, number: int) -> Score:
    assert _task is not None
    return _task.score(size, number)


def _in_processes(task: Task, jobs: Sequence[tuple[int, int]], workers: int) -> Iterator[Score]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(task,))
    try:
        _hold_interrupts(True)  # workers inherit it, so that Ctrl-C meets none of them half started
        try:
            futures = [pool.submit(_work, size, number) for size, number in jobs]
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
        for process in multiprocessing.active_children():
            process.terminate()


def curve(results: Sequence[Score], protocol_name: str, architecture: Architecture) -> list[Accuracy]:
    """Mean and spread over networks for each size."""
    points = []
    for size in sorted({score.size for score in results}):
        values = [score.accuracy for score in sorted(results, key=lambda s: s.network) if score.size == size]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        points.append(Accuracy(size, statistics.fmean(values), spread, len(values), str(architecture), protocol_name))
    return points
