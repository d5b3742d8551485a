"""Evaluation: train a new network on each prefix of a written file, and test it after the last epoch.

Networks are trained on the uint8 images of the file, exactly as devices get them. Test images are used once, after the
last epoch: no setting and no epoch is chosen with them.
"""

from __future__ import annotations

import multiprocessing
import signal
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import torch

from mipset.condensing.costs import BASELINE, learning_memory
from mipset.condensing.synthetic import formation, training_images
from mipset.data import Dataset
from mipset.errors import DivergedError, LostWorkerError, SettingError
from mipset.file.artifact import Artifact
from mipset.file.curves import Curve, curve_table
from mipset.file.description import Accuracy
from mipset.io.executors import TRIES, Jobs, Sent, sent
from mipset.io.processes import end_with_parent
from mipset.markup import table
from mipset.nn.engines import Engine, default_engine
from mipset.nn.flops import learning_flops
from mipset.nn.guards import sound_weights
from mipset.nn.memory import keep_freed_memory
from mipset.nn.networks import builder, fresh
from mipset.nn.pixels import to_unit
from mipset.nn.randomness import Purpose, key
from mipset.nn.training import Images, accuracy, fit, rule_of, schedule_of
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import DEFAULT, PROTOCOLS, Protocol


@dataclass(frozen=True)
class Score:
    """The last-epoch accuracy, in percent, of one network trained on S_[size]."""

    size: int
    network: int
    accuracy: float


@dataclass(frozen=True)
class Evaluation:
    """How to measure each size of a condensed set. A score depends on these fields, its size and its network number.

    Classes are matched by name: their order in `data` may differ from their order in the set. If mirrored images of
    `data` change their class, the protocol does not flip.
    """

    artifact: Artifact
    data: Dataset
    protocol: Protocol = field(default_factory=lambda: PROTOCOLS[DEFAULT])
    architecture: Architecture | None = None  # None: the one that the set was condensed with
    seed: int = 0
    device: str = "cpu"
    engine: Engine | None = None  # None: compiled kernels if the work is long, see `default_engine`

    def __post_init__(self) -> None:
        self.data.check_source_of(self.artifact.images.shape[2:])
        self.data.with_class_order(self.artifact.class_names)
        if not self.data.flips:
            object.__setattr__(self, "protocol", self.protocol.without_flips())

    def __repr__(self) -> str:
        return (
            f"<Evaluation with {self.data!r}\nof {self.artifact.ipc} images per class; {self.network}; "
            f"protocol {self.protocol}; seed {self.seed}; {self.device}>"
        )

    def _repr_html_(self) -> str:
        """How each size is measured, and the accuracies that the set has."""
        rows = {
            "set": repr(self.artifact).partition("\n")[0],
            "data": repr(self.data),
            "network": str(self.network),
            "protocol": str(self.protocol),
            "seed": str(self.seed),
            "device": self.device,
        }
        return table([], list(rows.items())) + curve_table(self.artifact.accuracy)

    @property
    def network(self) -> Architecture:
        """The architecture that is trained."""
        return self.architecture or Architecture.of(self.artifact.recipe)

    def scores(
        self,
        sizes: Sequence[int],
        networks: int = 3,
        workers: int = 1,
        executor: Executor | None = None,
        folder: Path = Path(),
    ) -> Iterator[Score]:
        """Train `networks` networks on each size and yield each score as soon as it is known, largest sizes first.

        See `mipset.evaluation.evaluate.scores` for `executor` and `folder`.
        """
        for _, score in scores([(self, sizes)], networks, workers, executor, folder):
            yield score

    def flops(self, size: int) -> float:
        """The FLOPs of one score."""
        return evaluation_flops(self.data, self.network, self.protocol, self.artifact.factor, size)

    def all_flops(self) -> float:
        """The FLOPs of one score of every size: the engine, and with it a score, does not depend on the sizes asked."""
        return sum(self.flops(size) for size in range(1, self.artifact.ipc + 1))

    def max_memory(self, workers: int = 1) -> int:
        """An estimate of the most resident bytes of all processes, on a CPU."""
        return evaluation_memory(self.data, self.network, self.protocol, workers)

    @cached_property
    def _engine(self) -> Engine:
        return self.engine or default_engine(torch.device(self.device), self.all_flops)

    def training_set(self, size: int) -> Images:
        """The training images of S_[size], decoded from the file."""
        return decoded(self.artifact.prefix(size), torch.device(self.device))

    def score(self, size: int, number: int) -> Score:
        """Train network `number` on S_[size] and test it."""
        device, p = torch.device(self.device), self.protocol
        train = self.training_set(size)
        build = builder(self.network, self.data.shape, self.data.classes, self._engine)
        theta = fresh(build, key(self.seed, Purpose.EVALUATION_NETWORK, size, number), device)
        schedule = schedule_of(p, len(train), self.data.classes)
        for _ in fit(theta, train, rule_of(p), schedule, self.seed, size, number):
            pass
        if not sound_weights(theta):
            raise DivergedError(
                f"The weights of a network trained on size {size} became too large. Choose another `protocol`."
            )
        split = self.data.with_class_order(self.artifact.class_names).test
        pixels, labels = torch.from_numpy(split.images), torch.from_numpy(split.labels)
        test = Images.of(pixels, labels, self.artifact.mean, self.artifact.std, device)
        return Score(size, number, accuracy(theta, test))

    def curve(self, scores: Sequence[Score]) -> Curve:
        """The mean and standard deviation over networks, for each size."""
        points = Curve()
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
                    epochs=self.protocol.epochs_at(
                        size * self.artifact.factor**2 * self.data.classes, self.data.classes
                    ),
                    least_steps=self.protocol.least_steps,
                    batch=self.protocol.batch,
                )
            )
        return points


def evaluation_flops(data: Dataset, architecture: Architecture, protocol: Protocol, factor: int, size: int) -> float:
    """The FLOPs to train a network on S_[size] and to test it. Testing an image is a third of training on it."""
    images = size * data.classes * factor**2
    per_image = learning_flops(architecture, data.shape, data.classes)
    return per_image * (images * protocol.epochs_for(images, data.classes) + len(data.test) / 3)


def evaluation_memory(data: Dataset, architecture: Architecture, protocol: Protocol, workers: int = 1) -> int:
    """The resident bytes of all processes that evaluate. With several workers, one more process waits for them."""
    images = data.train.images.nbytes + data.test.images.nbytes
    learning = learning_memory(architecture, data.shape, data.classes, protocol.batch)
    return images + workers * learning + (images * workers + BASELINE if workers > 1 else 0)


def decoded(artifact: Artifact, device: torch.device) -> Images:
    """The training images in a file: every stored image decoded, ordered by rank, then by class."""
    stored = torch.from_numpy(artifact.images.copy()).to(device)  # [n, C, ch, h, w]
    return training_images(to_unit(stored), formation(artifact.factor), artifact.mean, artifact.std)


ScoreKey = tuple[int, int, int]  # index of the evaluation, size, number of the network


def scores(
    tasks: Sequence[tuple[Evaluation, Sequence[int]]],
    networks: int = 3,
    workers: int = 1,
    executor: Executor | None = None,
    folder: Path = Path(),
) -> Iterator[tuple[int, Score]]:
    """Train `networks` networks on each size of each task; yield each score as soon as it is known, with its task.

    A task is an evaluation and its sizes; it is named by its index. Tasks are taken in turn, largest sizes first. With
    more than one worker, processes of one thread each compute the scores: small networks gain more from that than from
    threads. With an executor, its workers do, which must see `folder` under the same path: sets and test images are
    written there once, and removed at the end. A score depends on the seed, its size and its number, not on the process
    or on other scores.
    """
    for evaluation, sizes in tasks:
        for size in sizes:
            evaluation.artifact.prefix(size)
    if networks < 1:
        raise SettingError(f"`networks` is {networks}: it must be at least 1. Choose a larger value.")
    evaluations = [replace(evaluation, engine=evaluation._engine) for evaluation, _ in tasks]
    keys = [
        (index, size, number)
        for index, (_, sizes) in enumerate(tasks)
        for size in sorted(sizes, reverse=True)
        for number in range(networks)
    ]
    if executor is not None:
        yield from _on_executor(evaluations, keys, executor, folder)
        return
    if workers > 1:
        yield from _in_processes(evaluations, keys, workers)
        return
    for index, size, number in keys:
        yield index, evaluations[index].score(size, number)


def _on_executor(
    evaluations: Sequence[Evaluation], keys: Sequence[ScoreKey], executor: Executor, folder: Path
) -> Iterator[tuple[int, Score]]:
    jobs: Jobs[ScoreKey] = Jobs(executor)
    with sent(evaluations, folder) as work:
        try:
            for score_key in keys:
                jobs.submit(score_key, _score_at_worker, work, *score_key)
            while jobs:
                for (index, size, number), future in jobs.finished():
                    try:
                        yield index, future.result()
                    except LostWorkerError as error:
                        raise LostWorkerError(f"Network {number + 1} at size {size}: {error}") from error
        finally:
            jobs.cancel()


def _score_at_worker(work: Sent, index: int, size: int, number: int) -> Score:
    keep_freed_memory()
    torch.set_num_threads(1)
    evaluation: Evaluation = work.value[index]
    return evaluation.score(size, number)


_evaluations: Sequence[Evaluation] = ()  # of a worker process: sent once, not with every score


def _start_worker(evaluations: Sequence[Evaluation]) -> None:
    global _evaluations
    end_with_parent()
    _evaluations = evaluations
    keep_freed_memory()
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends a worker without a traceback
    _hold_interrupts(False)


def _hold_interrupts(hold: bool) -> None:
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_BLOCK if hold else signal.SIG_UNBLOCK, {signal.SIGINT})


def _score_in_worker(index: int, size: int, number: int) -> tuple[int, Score]:
    return index, _evaluations[index].score(size, number)


def _in_processes(
    evaluations: Sequence[Evaluation], keys: Sequence[ScoreKey], workers: int
) -> Iterator[tuple[int, Score]]:
    """Scores from processes. If one of them is killed, others compute what is left."""
    left = dict.fromkeys(keys)
    for _ in range(TRIES):
        try:
            for index, score in _in_pool(evaluations, list(left), workers):
                del left[index, score.size, score.network]
                yield index, score
            return
        except BrokenExecutor as error:
            broken = error
        except BrokenPipeError as error:  # the same, while the process started
            broken = BrokenExecutor(str(error))
    raise LostWorkerError(
        f"A worker process was killed, {TRIES} times, perhaps because memory ran out. Try again with `workers` 1."
    ) from broken


def _in_pool(evaluations: Sequence[Evaluation], keys: Sequence[ScoreKey], workers: int) -> Iterator[tuple[int, Score]]:
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(evaluations,))
    try:
        _hold_interrupts(True)  # workers inherit this, so that Ctrl-C cannot stop one while it starts
        try:
            futures = [pool.submit(_score_in_worker, *score_key) for score_key in keys]
        finally:
            _hold_interrupts(False)
        for future in as_completed(futures):
            yield future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
