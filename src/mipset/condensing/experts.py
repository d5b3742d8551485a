"""Experts: networks that are trained once on real images, before the condensation, and kept on disk.

Of an expert, some snapshots are kept: copies of its weights after some training steps. `Experts` knows its first
weights and its last ones. θ of an inner iteration lies between the two of a random expert: λ · first + (1 - λ) · last
with λ uniform in [0, 1] (DANCE). So few networks stand for many, of every age, and the condensation itself trains
nothing. `Trajectories` has a snapshot of every so many steps. θ is one of them (MTT).

Experts depend on the data, the architecture, the training settings, the seed, and on what computes them: device,
engine, threads, versions. Runs that agree in these share the files. An interrupted training goes on from its last file,
with the same result.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from mipset.condensing.learners import Learner
from mipset.condensing.spent import NOTHING, Spent
from mipset.condensing.states import (
    check,
    from_bytes,
    like,
    network_state,
    restore_network,
    to_bytes,
    weights_of,
    whole_number,
)
from mipset.condensing.tensor_files import TensorFile
from mipset.errors import ArtifactError, DivergedError, SettingError
from mipset.io.files import free_bytes, write_whole
from mipset.nn.distributed import ALONE, Team
from mipset.nn.guards import sound_weights
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, generator, key, shuffled_batch
from mipset.nn.training import Images, TrainingRule
from mipset.reporting import Report, silent
from mipset.units import byte_count

SECONDS = 30.0  # between two files of a training
WARM_UP = 20  # training steps
BEAT_STEPS = 20  # training steps between two exchanges of the processes
SPARE = 2  # trajectories more than are kept: that of an expert in training, and its next file


@dataclass(frozen=True)
class Expert:
    """The first and the last weights of a network as vectors, and the networks that are used for both."""

    first: Tensor
    last: Tensor
    between: Network  # holds λ · first + (1 - λ) · last
    trained: Network  # holds the last weights


@dataclass(frozen=True)
class ExpertFiles:
    """The folder with the experts of one training. Without a folder, nothing is kept."""

    folder: Path | None

    @classmethod
    def of(cls, home: Path, description: Mapping[str, Any]) -> ExpertFiles:
        """The folder below the cache folder `home` for everything that the experts depend on."""
        text = json.dumps(dict(description), sort_keys=True)
        return cls(home / "experts" / hashlib.sha256(text.encode()).hexdigest()[:24])

    def read(self, number: int, device: torch.device) -> dict[str, Any]:
        """What is known of an expert; nothing, if there is no file, or if a bit of it has changed."""
        if self.folder is None:
            return {}
        try:
            return from_bytes(self._path(self.folder, number).read_bytes(), device)
        except (OSError, ArtifactError):  # missing, or damaged in any way: it is trained again
            return {}

    def write(self, number: int, content: Mapping[str, Any]) -> None:
        """Keep what is known of an expert, unless the folder cannot be written: then the next run trains it again."""
        if self.folder is None:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._path(self.folder, number), lambda stream: stream.write(to_bytes(content)))

    def trajectory(self, number: int) -> Path:
        """The file with the snapshots of an expert."""
        if self.folder is None:
            raise SettingError("`learner` trajectories keeps its snapshots on disk. Give its files a folder.")
        return self.folder / f"{number}.safetensors"

    def missing_trajectories(self, experts: int) -> int:
        """How many of the first so many experts have no file with snapshots yet."""
        return sum(not self.trajectory(number).exists() for number in range(experts))

    @property
    def free_bytes(self) -> int | None:
        """What is left on the disk of the folder, which need not exist yet; None if that is not known."""
        if self.folder is None:
            return None
        return free_bytes(next(parent for parent in self.folder.absolute().parents if parent.exists()))

    def remove(self, number: int) -> None:
        """Forget what is known of an expert."""
        if self.folder is not None:
            with suppress(OSError):
                self._path(self.folder, number).unlink(missing_ok=True)

    @staticmethod
    def _path(folder: Path, number: int) -> Path:
        return folder / f"{number}.expert"


class TrainedOnce(Learner):
    """Learners whose networks are trained once, before the first iteration.

    `builds` has a function for each expert that makes a new network. `steps` are the training steps of an expert, with
    `batch` real images each.
    """

    saved_inside = True

    def __init__(
        self,
        builds: Sequence[Callable[[], Network]],
        images: Images,
        rule: TrainingRule,
        *,
        steps: int,
        batch: int,
        seed: int,
        files: ExpertFiles,
        team: Team = ALONE,
    ) -> None:
        self.builds, self.images, self.rule = builds, images, rule
        self.steps, self.batch, self.seed, self.files, self.team = steps, batch, seed, files, team
        self._spent = NOTHING

    @property
    @abstractmethod
    def marks(self) -> Sequence[int]:
        """The numbers of training steps after which a snapshot is kept, from 0 to all."""

    @abstractmethod
    def rate_factor(self, step: int) -> float:
        """The part of the learning rate at a training step."""

    @property
    def preparing_seconds(self) -> float:
        return self._spent.seconds

    @property
    def preparing_processor_seconds(self) -> float:
        return self._spent.processor_seconds

    def start(self, t: int) -> Network:
        return self._chosen_by(t)

    def advance(self, theta: Network, number: int) -> Network:
        return self._chosen_by(0, number)

    @abstractmethod
    def _chosen_by(self, *address: int) -> Network:
        """The network that is drawn at this place in the run."""

    @property
    def _device(self) -> torch.device:
        return self.images.pixels.device

    def _fresh(self, number: int) -> Network:
        """Expert `number` before its training."""
        return fresh(self.builds[number], key(self.seed, Purpose.EXPERT, number), self._device)

    def _holding(self, number: int, weights: Tensor) -> Network:
        """A network for expert `number` with these weights."""
        theta = fresh(self.builds[number], 0, self._device)
        vector_to_parameters(weights, theta.parameters())
        return theta

    def _train(self, theta: Network, number: int, step_done: Callable[[int], None]) -> tuple[Tensor, Spent]:
        """The snapshots of expert `number`, [marks, parameters], and the time of its training."""
        first, optimiser = weights_of(theta), self.rule.optimiser(theta)
        snapshots, last, done, spent = self._kept(theta, optimiser, number, first)
        start, written = Spent.now(), time.monotonic()

        def so_far(steps: int, last: Mapping[str, Tensor]) -> dict[str, Any]:
            between = {"between": torch.stack(snapshots[1:])} if len(snapshots) > 1 else {}
            return {"steps": steps, **(spent + Spent.now() - start).fields, "first": first, **between, **last}

        for step in range(done, self.steps):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.EXPERT_BATCH, number)
            draws = generator(self.seed, Purpose.EXPERT_AUGMENTATION, number, step)
            for group in optimiser.param_groups:
                group["lr"] = self.rule.rate * self.rate_factor(step)
            self.rule.step(theta, optimiser, *self.images.batch(order), draws)
            if step + 1 in self.marks and step + 1 < self.steps:
                snapshots.append(weights_of(theta))
            if time.monotonic() - written > SECONDS and step + 1 < self.steps:
                written = time.monotonic()
                self.files.write(number, so_far(step + 1, network_state(theta, optimiser)))
            try:
                step_done(step + 1)
            except KeyboardInterrupt:  # between two steps: nothing is lost
                self.files.write(number, so_far(step + 1, network_state(theta, optimiser)))
                raise
        if done < self.steps:
            last = weights_of(theta)
            if not sound_weights(theta):
                raise DivergedError("The weights of an expert network became too large. Try a smaller `network_lr`.")
            known = so_far(self.steps, {"weights": last})
            self.files.write(number, known)
            spent = Spent.read(known)
        return torch.stack([*snapshots, last]), spent

    def _kept(
        self, theta: Network, optimiser: torch.optim.SGD, number: int, first: Tensor
    ) -> tuple[list[Tensor], Tensor, int, Spent]:
        """The snapshots of an expert in its file, its last weights there, the steps that made them, and the time.

        θ continues there.
        """
        kept = self.files.read(number, self._device)
        try:
            done, spent = whole_number(kept["steps"], range(1, self.steps + 1)), Spent.read(kept)
            last = like(kept["weights"], first)
            check(torch.equal(like(kept["first"], first), first))  # it is this expert
            passed = sum(0 < mark <= done and mark < self.steps for mark in self.marks)
            between = list(like(kept["between"], first.expand(passed, -1))) if passed else []
            if done < self.steps:
                restore_network(theta, optimiser, kept)
        except (ArtifactError, KeyError):
            return [first], first, 0, NOTHING
        return [first, *between], last, done, spent


class Experts(TrainedOnce):
    """A learner whose networks lie between the first and the last weights of experts.

    The learning rate decays to zero, which trains a network better in few steps. The processes of a team train
    different experts, and then exchange them.
    """

    _experts: Sequence[Expert] = ()
    _chosen = 0

    @property
    def marks(self) -> Sequence[int]:
        return (0, self.steps)

    def rate_factor(self, step: int) -> float:
        return rate_factor(step, self.steps)

    def prepare(self, report: Report = silent) -> None:
        """Train the experts, or read them from their files."""
        if self._experts:
            return
        numbers = range(len(self.builds))
        own = self.team.share(numbers)
        beats = Heartbeat(self.team, -(-len(numbers) // self.team.processes) * self.steps)
        networks = [self._fresh(n) for n in numbers]
        weights = [torch.zeros(1, 2, sum(p.numel() for p in theta.parameters())) for theta in networks]
        spent = torch.zeros(len(numbers), len(NOTHING))
        for place, number in enumerate(own):

            def step_done(done: int, before: int = place * self.steps) -> None:
                beats.step_done()
                report("training experts", before + done, len(own) * self.steps)

            weights[number][0], its_spent = self._train(networks[number], number, step_done)
            spent[number] = torch.tensor(its_spent)
        beats.finish()
        self.team.complete(spent, own)
        for number in numbers:
            self.team.complete(weights[number], [0] if number in own else [])
        self._spent = Spent(*spent.sum(dim=0).tolist())
        self._experts = [self._expert(number, *weights[number][0].to(self._device)) for number in numbers]

    def _expert(self, number: int, first: Tensor, last: Tensor) -> Expert:
        return Expert(first, last, fresh(self.builds[number], 0, self._device), self._holding(number, last))

    def trained(self, theta: Network) -> Network:
        return self._experts[self._chosen].trained

    def _chosen_by(self, *address: int) -> Network:
        """A network between the first and the last weights of a random expert."""
        self.prepare()
        draws = generator(self.seed, Purpose.EXPERT_CHOICE, *address)
        self._chosen = int(torch.randint(len(self._experts), (), generator=draws))
        lam = float(torch.rand((), generator=draws))
        expert = self._experts[self._chosen]
        with torch.no_grad():
            vector_to_parameters(torch.lerp(expert.last, expert.first, lam), expert.between.parameters())
        return expert.between


class Trajectories(TrainedOnce):
    """A learner whose networks are snapshots of experts, which are kept on disk: only those in use are in memory.

    There is a snapshot after every `every` training steps. θ is one of the first `starts` of a random expert, and
    `later` is the one `ahead` snapshots after it. No expert is trained further than that. The learning rate is
    constant.
    """

    def __init__(
        self,
        builds: Sequence[Callable[[], Network]],
        images: Images,
        rule: TrainingRule,
        *,
        every: int,
        starts: int,
        ahead: int,
        batch: int,
        seed: int,
        files: ExpertFiles,
    ) -> None:
        steps = (starts - 1 + ahead) * every
        super().__init__(builds, images, rule, steps=steps, batch=batch, seed=seed, files=files)
        self.every, self.starts, self.ahead = every, starts, ahead
        self._files: list[TensorFile] = []
        self._chosen = (0, 0)  # expert and snapshot

    @property
    def marks(self) -> Sequence[int]:
        return range(0, self.steps + 1, self.every)

    def rate_factor(self, step: int) -> float:
        return 1.0

    def prepare(self, report: Report = silent) -> None:
        """Train the experts whose trajectories are not on disk yet."""
        if self._files:
            return
        networks = [self._fresh(number) for number in range(len(self.builds))]
        shape = (len(self.marks), weights_of(networks[0]).numel())
        files = [TensorFile(self.files.trajectory(number), "snapshots", shape) for number in range(len(networks))]
        missing = [number for number, file in enumerate(files) if not self._holds(file, networks[number])]
        if missing:
            self._check_room(files[0].bytes * (len(missing) + SPARE))
        for place, number in enumerate(missing):

            def step_done(done: int, before: int = place * self.steps) -> None:
                report("training experts", before + done, len(missing) * self.steps)

            snapshots, spent = self._train(networks[number], number, step_done)
            files[number].write(snapshots, spent.fields)
            self.files.remove(number)
        self._spent = sum((Spent.read(file.notes()) for file in files), NOTHING)
        self._files = files

    def _check_room(self, needed: int) -> None:
        """Refuse trajectories that do not fit on the disk of the cache folder."""
        free = self.files.free_bytes
        if free is not None and free < needed:
            raise ArtifactError(
                f"The trajectories of the experts need {byte_count(needed)} in {self.files.folder}, but "
                f"{byte_count(free)} are left there. Choose fewer `experts` or `expert_starts`, or another folder with "
                f"the variable MIPSET_HOME."
            )

    @staticmethod
    def _holds(file: TensorFile, theta: Network) -> bool:
        """Whether the file has the whole trajectory of this expert, and no bit of it has changed."""
        try:
            Spent.read(file.notes())
            first, *others = (file.row(number) for number in range(file.shape[0]))
            return torch.equal(first, weights_of(theta).cpu()) and all(bool(row.isfinite().all()) for row in others)
        except (ArtifactError, KeyError):
            return False

    def _chosen_by(self, *address: int) -> Network:
        """A random snapshot of a random expert."""
        self.prepare()
        draws = generator(self.seed, Purpose.EXPERT_CHOICE, *address)
        number, snapshot = (int(torch.randint(count, (), generator=draws)) for count in (len(self._files), self.starts))
        self._chosen = (number, snapshot)
        return self._holding(number, self._snapshot(number, snapshot))

    def later(self, theta: Network) -> Tensor:
        number, snapshot = self._chosen
        return self._snapshot(number, snapshot + self.ahead)

    def trained(self, theta: Network) -> Network:
        number, _ = self._chosen
        return self._holding(number, self._snapshot(number, len(self.marks) - 1))

    def _snapshot(self, number: int, snapshot: int) -> Tensor:
        return self._files[number].row(snapshot).to(self._device)


class Heartbeat:
    """Lets processes that train for different times wait for each other, without being taken for lost.

    Every process takes part in one exchange for each BEAT_STEPS of `steps`. One that has less to do takes part in the
    rest of them at the end, so it never waits for longer than BEAT_STEPS training steps.
    """

    def __init__(self, team: Team, steps: int) -> None:
        self._team, self._left = team, -(-steps // BEAT_STEPS)
        self._done = 0

    def step_done(self) -> None:
        """This process has taken one training step."""
        self._done += 1
        if self._done % BEAT_STEPS == 0:
            self._beat()

    def finish(self) -> None:
        """This process has taken all of its training steps."""
        while self._left > 0:
            self._beat()

    def _beat(self) -> None:
        self._left -= 1
        self._team.complete(torch.zeros(self._team.processes), [self._team.process])


def rate_factor(step: int, steps: int) -> float:
    """The part of the learning rate at a training step: it rises for WARM_UP steps, then falls to 0 like a cosine."""
    return min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))
