"""Experts: networks that are trained once on real images, before the condensation, and kept on disk.

An expert is known by its first weights and its last ones. θ of an inner iteration lies between the two of a random
expert: λ · first + (1 - λ) · last with λ uniform in [0, 1] (DANCE). So few networks stand for many, of every age, and
the condensation itself trains nothing.

Experts depend on the data, the architecture, the training settings, the seed, and on what computes them: device,
engine, threads, versions. Runs that agree in these share the files. An interrupted training goes on from its last file,
with the same result.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from mipset.condensing.learners import Learner
from mipset.condensing.states import (
    check,
    finite_number,
    from_bytes,
    like,
    network_state,
    restore_network,
    to_bytes,
    weights_of,
    whole_number,
)
from mipset.errors import ArtifactError, DivergedError
from mipset.io.files import write_whole
from mipset.nn.distributed import ALONE, Team
from mipset.nn.guards import sound_weights
from mipset.nn.networks import Network, fresh
from mipset.nn.randomness import Purpose, generator, key, shuffled_batch
from mipset.nn.training import Images, TrainingRule
from mipset.reporting import Report, silent

SECONDS = 30.0  # between two files of a training
WARM_UP = 20  # training steps
BEAT_STEPS = 20  # training steps between two exchanges of the processes


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

    @staticmethod
    def _path(folder: Path, number: int) -> Path:
        return folder / f"{number}.expert"


class Experts(Learner):
    """A learner whose networks lie between the first and the last weights of experts.

    `builds` has a function for each expert that makes a new network. `steps` are the training steps of an expert, with
    `batch` real images each. The learning rate decays to zero, which trains a network better in few steps. The
    processes of a team train different experts, and then exchange them.
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
        self._experts: list[Expert] = []
        self._chosen = 0
        self._seconds = 0.0

    def prepare(self, report: Report = silent) -> None:
        """Train the experts, or read them from their files."""
        if self._experts:
            return
        numbers = range(len(self.builds))
        own = self.team.share(numbers)
        beats = Heartbeat(self.team, -(-len(numbers) // self.team.processes) * self.steps)
        networks = [fresh(self.builds[n], key(self.seed, Purpose.EXPERT, n), self._device) for n in numbers]
        weights = [torch.zeros(1, 2, sum(p.numel() for p in theta.parameters())) for theta in networks]
        seconds = torch.zeros(len(numbers))
        for place, number in enumerate(own):

            def step_done(done: int, before: int = place * self.steps) -> None:
                beats.step_done()
                report("training experts", before + done, len(own) * self.steps)

            weights[number][0], seconds[number] = self._train(networks[number], number, step_done)
        beats.finish()
        self.team.complete(seconds, own)
        for number in numbers:
            self.team.complete(weights[number], [0] if number in own else [])
        self._seconds = float(seconds.sum())
        self._experts = [self._expert(number, *weights[number][0].to(self._device)) for number in numbers]

    @property
    def preparing_seconds(self) -> float:
        return self._seconds

    @property
    def _device(self) -> torch.device:
        return self.images.pixels.device

    def _expert(self, number: int, first: Tensor, last: Tensor) -> Expert:
        between, trained = (fresh(self.builds[number], 0, self._device) for _ in range(2))
        vector_to_parameters(last, trained.parameters())
        return Expert(first, last, between, trained)

    def _train(self, theta: Network, number: int, step_done: Callable[[int], None]) -> tuple[Tensor, float]:
        """The first and the last weights of expert `number`, [2, parameters], and the seconds of its training."""
        first, optimiser = weights_of(theta), self.rule.optimiser(theta)
        last, done, seconds = self._kept(theta, optimiser, number, first)
        if done == self.steps:
            return torch.stack([first, last]), seconds
        start = written = time.monotonic()
        for step in range(done, self.steps):
            order = shuffled_batch(len(self.images), self.batch, step, self.seed, Purpose.EXPERT_BATCH, number)
            draws = generator(self.seed, Purpose.EXPERT_AUGMENTATION, number, step)
            for group in optimiser.param_groups:
                group["lr"] = self.rule.rate * rate_factor(step, self.steps)
            self.rule.step(theta, optimiser, *self.images.batch(order), draws)
            so_far = {"steps": step + 1, "seconds": seconds + time.monotonic() - start, "first": first}
            if time.monotonic() - written > SECONDS and step + 1 < self.steps:
                written = time.monotonic()
                self.files.write(number, {**so_far, **network_state(theta, optimiser)})
            try:
                step_done(step + 1)
            except KeyboardInterrupt:  # between two steps: nothing is lost
                self.files.write(number, {**so_far, **network_state(theta, optimiser)})
                raise
        last = weights_of(theta)
        if not sound_weights(theta):
            raise DivergedError("The weights of an expert network became too large. Try a smaller `network_lr`.")
        seconds += time.monotonic() - start
        self.files.write(number, {"steps": self.steps, "seconds": seconds, "first": first, "weights": last})
        return torch.stack([first, last]), seconds

    def _kept(
        self, theta: Network, optimiser: torch.optim.SGD, number: int, first: Tensor
    ) -> tuple[Tensor, int, float]:
        """The last weights of an expert in its file, the steps that made them, and the seconds; θ continues there."""
        kept = self.files.read(number, self._device)
        try:
            done, seconds = whole_number(kept["steps"], range(1, self.steps + 1)), finite_number(kept["seconds"])
            last = like(kept["weights"], first)
            check(torch.equal(like(kept["first"], first), first))  # it is this expert
            if done < self.steps:
                restore_network(theta, optimiser, kept)
        except (ArtifactError, KeyError):
            return first, 0, 0.0
        return last, done, seconds

    def start(self, t: int) -> Network:
        return self._between(t)

    def advance(self, theta: Network, number: int) -> Network:
        return self._between(0, number)

    def trained(self, theta: Network) -> Network:
        return self._experts[self._chosen].trained

    def _between(self, *address: int) -> Network:
        """A network between the first and the last weights of a random expert."""
        self.prepare()
        draws = generator(self.seed, Purpose.EXPERT_CHOICE, *address)
        self._chosen = int(torch.randint(len(self._experts), (), generator=draws))
        lam = float(torch.rand((), generator=draws))
        expert = self._experts[self._chosen]
        with torch.no_grad():
            vector_to_parameters(torch.lerp(expert.last, expert.first, lam), expert.between.parameters())
        return expert.between


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
