"""Checkpoints: the state of a run between two outer iterations, in one small file.

Every random draw has an address, so the state is small: pixels, the states of optimiser, policy and learner, and the
number of the iteration. The file holds tensors, numbers and lists; nothing in it is executed.
"""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mipset.condensing.condense import Parts, Step, condense
from mipset.condensing.own_parts import texts
from mipset.errors import ArtifactError, SettingError
from mipset.io.files import write_whole
from mipset.settings.recipe import Recipe

SECONDS = 30.0  # between two checkpoints


@dataclass
class CheckpointedRun:
    """A run that writes a checkpoint to `path` every 30 seconds, and can resume from it."""

    path: Path
    parts: Parts
    recipe: Recipe
    sources: str  # identifies the data
    engine: str = ""
    done: int = 0  # outer iterations that the checkpoint holds
    _seconds_before: float = 0.0
    _start: float = field(default_factory=time.monotonic)
    _saved: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The duration of the run, with its experts and with the time before it was resumed."""
        return self.parts.learner.preparing_seconds + self._own_seconds

    @property
    def _own_seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._start

    def resume(self) -> None:
        """Restore the parts from the checkpoint."""
        self.done, self._seconds_before = resume(self.path, self.parts, self.recipe, self.sources, self.engine)
        self._start = time.monotonic()

    def steps(self) -> Iterator[Step]:
        """The rest of the run."""
        for step in condense(self.parts, self.done):
            yield step  # before the checkpoint: the caller must have what it needs of an iteration that is done
            if step.outer_done and step.t < self.recipe.outer:
                self._save_if_due(step)

    def _save_if_due(self, step: Step) -> None:
        team = self.parts.team
        if team.leads and time.monotonic() - self._saved > SECONDS:
            save(self.path, step, self.recipe, self.sources, self.engine, self._own_seconds)
            self.done, self._saved = step.t, time.monotonic()
        self.done = int(team.first(str(self.done).encode))  # every process may have to print it


def save(path: Path, step: Step, recipe: Recipe, sources: str, engine: str = "", seconds: float = 0.0) -> None:
    """Write the state of the run after the outer iteration that `step` ends; `sources` identifies the data."""
    content = {
        "recipe": asdict(recipe),
        "parts": texts(step.parts),
        "sources": sources,
        "engine": engine,
        "done": step.t,
        "seconds": seconds,
        "pixels": step.parts.S.pixels.cpu(),
        "optimiser": {name: tensor.cpu() for name, tensor in step.parts.optimiser.state.items()},
        "policy": step.parts.policy.state(),
        "learner": step.parts.learner.state(),
    }
    try:
        write_whole(path, lambda stream: torch.save(content, stream))
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        raise ArtifactError(
            f"The checkpoint {path} cannot be written ({error}). Free some space, or choose another folder."
        ) from error


def recipe_in(path: Path) -> dict[str, Any]:
    """The settings of the run that a checkpoint belongs to."""
    try:
        return dict(torch.load(path, map_location="cpu", weights_only=True)["recipe"])
    except FileNotFoundError as error:
        raise ArtifactError(_absent(path)) from error
    except Exception as error:  # damaged bytes make torch raise errors of any type
        raise ArtifactError(_unreadable(path)) from error


def resume(path: Path, parts: Parts, recipe: Recipe, sources: str, engine: str = "") -> tuple[int, float]:
    """Restore `parts` from a checkpoint; gives the number of outer iterations that are done and their seconds.

    Only the leading process of a team needs the file. The team may have another number of processes than before.
    """
    try:
        written = parts.team.first(path.read_bytes)
    except FileNotFoundError as error:
        raise ArtifactError(_absent(path)) from error
    except OSError as error:
        raise ArtifactError(_unreadable(path)) from error
    try:
        content = torch.load(io.BytesIO(written), map_location=parts.S.pixels.device, weights_only=True)
        saved_recipe, saved_sources, done = dict(content["recipe"]), content["sources"], int(content["done"])
        seconds = float(content["seconds"])
        pixels, optimiser = content["pixels"], dict(content["optimiser"])
        policy, learner, saved_engine = content["policy"], content["learner"], content["engine"]
        saved_parts = dict(content["parts"])
    except Exception as error:  # damaged bytes make torch raise errors of any type
        raise ArtifactError(_unreadable(path)) from error
    for name, value in asdict(recipe).items():
        if saved_recipe.get(name) != value:
            raise SettingError(
                f"The checkpoint {path} was made with `{name}` {saved_recipe.get(name)}, not {value}. "
                f"Use the same settings, or delete the checkpoint to start again."
            )
    for axis, text in texts(parts).items():
        if saved_parts.get(axis) != text:
            raise SettingError(
                f"The checkpoint {path} was made with the {axis} {saved_parts.get(axis)}, not {text}. "
                f"Use the same parts, or delete the checkpoint to start again."
            )
    if saved_engine != engine:
        raise SettingError(
            f"The checkpoint {path} was made with {saved_engine}, not with {engine}. "
            f"Use the same `compile` (on or off), or delete the checkpoint to start again."
        )
    if saved_sources != sources:
        raise SettingError(
            f"The checkpoint {path} was made from other data. "
            f"Use the same data, or delete the checkpoint to start again."
        )
    parts.S.pixels.copy_(pixels)
    for name, tensor in parts.optimiser.state.items():
        tensor.copy_(optimiser[name])
    parts.policy.restore(policy)
    parts.learner.restore(learner)
    return done, seconds


def _absent(path: Path) -> str:
    return f"There is no checkpoint {path}. Start without `resume`."


def _unreadable(path: Path) -> str:
    return f"The checkpoint {path} cannot be read. Delete it to start again."
