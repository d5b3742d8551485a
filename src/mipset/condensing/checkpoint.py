"""Going on later: everything a run remembers between two outer iterations, in one small file.

Randomness is addressed, so pixels, their momentum, what policy and learner remember, and the number of the iteration
are all there is. Tensors and plain values only; nothing in the file is executed.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from mipset.condensing.condense import Parts, Step, condense
from mipset.errors import ArtifactError, SettingError
from mipset.io.files import write_whole
from mipset.settings.recipe import Recipe

SECONDS = 30.0  # between two checkpoints


@dataclass
class CheckpointedRun:
    """A run that leaves a checkpoint in `path` now and then, and goes on from the one that it finds there."""

    path: Path
    parts: Parts
    recipe: Recipe
    sources: str  # tells the data apart
    engine: str = ""
    done: int = 0  # outer iterations that the checkpoint holds
    _before: float = 0.0
    _start: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long the run has taken, in all processes that shared in it one after the other."""
        return self._before + time.monotonic() - self._start

    def resume(self) -> None:
        """Put the parts where the checkpoint was."""
        self.done, self._before = resume(self.path, self.parts, self.recipe, self.sources, self.engine)
        self._start = time.monotonic()

    def steps(self) -> Iterator[Step]:
        """What is left of the run."""
        for step in condense(self.parts, self.done):
            yield step  # whoever keeps something of it has done so before the checkpoint says that it is over
            if step.outer_done and step.t < self.recipe.outer:
                self._see(step)

    def _see(self, step: Step) -> None:
        team = self.parts.team
        if team.leads and time.monotonic() - self._saved > SECONDS:
            save(self.path, step, self.recipe, self.sources, self.engine, self.seconds)
            self.done, self._saved = step.t, time.monotonic()
        self.done = int(team.first(str(self.done).encode))  # any process may have to say it


def save(path: Path, step: Step, recipe: Recipe, sources: str, engine: str = "", seconds: float = 0.0) -> None:
    """Write where the run stands after the outer iteration that `step` closes; `sources` tells the data apart."""
    content = {
        "recipe": asdict(recipe),
        "sources": sources,
        "engine": engine,
        "done": step.t,
        "seconds": seconds,
        "pixels": step.parts.S.pixels.cpu(),
        "velocity": step.parts.S.velocity.cpu(),
        "policy": step.parts.policy.state(),
        "learner": step.parts.learner.state(),
    }
    try:
        write_whole(path, lambda stream: torch.save(content, stream))
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise ArtifactError(f"the checkpoint {path} cannot be written: {error}.") from error


def resume(path: Path, parts: Parts, recipe: Recipe, sources: str, engine: str = "") -> tuple[int, float]:
    """Put `parts` where the checkpoint was, and say how many outer iterations are done and how long they took.

    One process of a team needs to see the file; how many there were when it was written does not matter.
    """
    try:
        written = parts.team.first(path.read_bytes)
    except FileNotFoundError as error:
        raise ArtifactError(f"there is no checkpoint {path} to resume: leave out --resume to start.") from error
    except OSError as error:
        raise ArtifactError(f"the checkpoint {path} cannot be read: leave out --resume to start anew.") from error
    try:
        content = torch.load(io.BytesIO(written), map_location=parts.S.pixels.device, weights_only=True)
        was, made_from, done = dict(content["recipe"]), content["sources"], int(content["done"])
        seconds = float(content["seconds"])
        pixels, velocity = content["pixels"], content["velocity"]
        policy, learner, made_by = content["policy"], content["learner"], content["engine"]
    except Exception as error:  # torch raises whatever broken bytes lead it to
        raise ArtifactError(f"the checkpoint {path} cannot be read: leave out --resume to start anew.") from error
    for name, value in asdict(recipe).items():
        if was.get(name) != value:
            raise SettingError(
                f"the checkpoint {path} was made with `{name}` {was.get(name)}, not {value}: "
                f"use the same settings, or leave out --resume to start anew."
            )
    if made_by != engine:
        raise SettingError(
            f"the checkpoint {path} was made by {made_by}, not by {engine}: use the same --compile (on or off), "
            f"or leave out --resume to start anew."
        )
    if made_from != sources:
        raise SettingError(f"the checkpoint {path} was made from other data: leave out --resume to start anew.")
    parts.S.pixels.copy_(pixels)
    parts.S.velocity.copy_(velocity)
    parts.policy.restore(policy)
    parts.learner.restore(learner)
    return done, seconds
