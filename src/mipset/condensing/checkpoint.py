"""Checkpoints: the state of a run after an inner iteration, in one small file, and the one before it in another.

Every random draw has an address, so the state is small: pixels, the states of optimiser, objective, sampler, policy and
learner, and the place in the run. A file that is damaged is noticed, and the run goes on from the one before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from mipset.condensing.condense import condense
from mipset.condensing.own_parts import own_code
from mipset.condensing.parts import START, Parts, Place, Step
from mipset.condensing.spent import NOTHING, Spent
from mipset.condensing.states import check, finite_number, from_bytes, like, to_bytes, whole_number
from mipset.errors import ArtifactError, SettingError
from mipset.file.artifact import Artifact
from mipset.io.files import remove_leftovers, write_whole
from mipset.nn.distributed import ALONE, Team
from mipset.nn.pixels import to_uint8
from mipset.settings.recipe import Recipe

SECONDS = 30.0  # between two checkpoints
GO_ON, SAVE, STOP = range(3)  # what a process wants after a step; the largest wish of all processes is done


@dataclass(frozen=True)
class Identity:
    """What a run depends on: a checkpoint of it must agree in all of this."""

    recipe: Recipe
    sources: str  # identifies the data
    engine: str = ""
    budget: str = ""  # that chose settings of the recipe, if one did
    code: Mapping[str, str] = field(init=False)  # digests of classes of somebody's own that the recipe names

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", own_code(self.recipe))


@dataclass
class CheckpointedRun:
    """A run that writes a checkpoint to `path` every 30 seconds, and can resume from it."""

    path: Path
    parts: Parts
    identity: Identity
    place: Place = START  # that the checkpoint holds
    last: Step | None = None  # the last step that was done, by this process or before
    _spent_before: Spent = field(default_factory=Spent)
    _start: Spent = field(default_factory=Spent.now)
    _saved: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """The duration of the run, with its experts and with the time before it was resumed."""
        return self.parts.learner.preparing_seconds + self.spent.seconds

    @property
    def spent(self) -> Spent:
        """The time of the iterations, with those before the run was resumed."""
        return self._spent_before + Spent.now() - self._start

    @property
    def share(self) -> float:
        """The part of the run that the checkpoint holds, from 0 to 1."""
        return (self.place.t * self.parts.E + self.place.e) / (self.parts.T * self.parts.E)

    @property
    def complete(self) -> bool:
        """Whether all iterations are done."""
        return self.last is not None and self.last.place.t == self.parts.T

    def resume(self, found: Found) -> None:
        """Restore the parts from the checkpoint that was found."""
        restored = found.restore(self.parts, self.identity)
        self.place, self._spent_before = restored.place, restored.spent
        if self.place.t == self.parts.T:
            self.last = Step(self.parts, self.parts.T, self.parts.E, restored.loss, torch.zeros(0))
        self._start = Spent.now()

    def steps(self, stop: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """The rest of the run. If `stop` becomes true, a checkpoint is written, and this was the last step."""
        for step in condense(self.parts, self.place):
            self.last = step
            yield step  # before the checkpoint: the caller must have what it needs of an iteration that is done
            if self.complete:
                return
            wish = self._agreed(STOP if stop() else SAVE if time.monotonic() - self._saved > SECONDS else GO_ON)
            if wish > GO_ON and (step.outer_done or self.parts.learner.saved_inside):
                self.save()
            if wish == STOP:
                return

    def save(self) -> None:
        """Write a checkpoint of the last step. All processes of a team take part."""
        assert self.last is not None
        parts, place = self.parts, self.last.place
        if place.F is not None:  # at the end of an outer iteration, every process has everything
            for tensor in (parts.S.pixels, *parts.optimiser.state.values()):
                parts.team.complete(tensor, parts.classes, dim=1)
            parts.team.complete(place.F, parts.classes)
        for tensor in parts.sampler.state.values():
            parts.team.complete(tensor, parts.classes)
        if parts.team.leads:
            self.write()
        self._agreed(GO_ON)  # no process ends before the file is written
        self.place, self._saved = place, time.monotonic()

    def write(self) -> None:
        """Write a checkpoint of the last step, in a process that has everything."""
        assert self.last is not None
        save(self.path, self.last, self.identity, self.spent)

    def _agreed(self, wish: int) -> int:
        """The largest wish of all processes."""
        team = self.parts.team
        wishes = torch.zeros(team.processes)
        wishes[team.process] = wish
        team.complete(wishes, [team.process])
        return int(wishes.max())


def save(path: Path, step: Step, identity: Identity, spent: Spent = NOTHING) -> None:
    """Write the state of a run after `step`. The checkpoint before it is kept."""
    place, parts = step.place, step.parts
    state = {
        "parts": dict(parts.descriptions),
        "t": place.t,
        "e": place.e,
        "F": place.F,
        "loss": step.loss,
        "seconds": spent.seconds,
        "processor_seconds": spent.processor_seconds,
        "pixels": parts.S.pixels.cpu(),
        "optimiser": {name: tensor.cpu() for name, tensor in parts.optimiser.state.items()},
        "objective": {name: tensor.cpu() for name, tensor in parts.objective.state.items()},
        "sampler": parts.sampler.state,
        "policy": parts.policy.state(),
        "learner": parts.learner.state(),
    }
    _write(path, identity, state)


def save_choice(path: Path, identity: Identity) -> None:
    """Write a checkpoint before the first iteration: it keeps the settings that were chosen for the run."""
    _write(path, identity, None)


def _write(path: Path, identity: Identity, state: dict[str, Any] | None) -> None:
    written = to_bytes({**asdict(identity), "state": state})
    try:
        write_whole(path, lambda stream: stream.write(written), _previous(path))
    except OSError as error:
        raise ArtifactError(
            f"The checkpoint {path} cannot be written: {error.strerror or error}. "
            f"Free some space, and the same command continues from the checkpoint before it, if there is one."
        ) from error


def needed_bytes(file_bytes: int) -> int:
    """The least space for a file of so many bytes and its checkpoints: two are there while a third is written.

    A checkpoint has two float32 numbers or more for every byte of the file: pixels and their momentum.
    """
    return file_bytes + 3 * 2 * 4 * file_bytes


def remove(path: Path) -> None:
    """Remove a checkpoint, the one before it, and what killed processes left of others."""
    for file in (path, _previous(path)):
        file.unlink(missing_ok=True)
    remove_leftovers(path)


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


@dataclass(frozen=True)
class Restored:
    """Where a run goes on, how long it took until there, and its loss then."""

    place: Place = START
    spent: Spent = NOTHING
    loss: float = 0.0


@dataclass
class Found:
    """The checkpoints of a run, the newest first: the files that are not damaged, with what they hold."""

    contents: dict[Path, dict[str, Any]]
    damaged: list[Path]

    @property
    def path(self) -> Path:
        """The checkpoint to go on from."""
        return next(iter(self.contents))

    @property
    def recipe(self) -> dict[str, Any]:
        """The settings of the run. Those that were added since it began have their defaults."""
        return {**asdict(Recipe()), **self.contents[self.path]["recipe"]}

    def check_fits(self, identity: Identity) -> None:
        """Refuse a checkpoint of another run, and say everything that differs."""
        content = self.contents[self.path]
        differences = [
            f"`{name}` is {self.recipe.get(name)} there and {value} here"
            for name, value in asdict(identity.recipe).items()
            if self.recipe.get(name) != value
        ]
        if identity.budget and content["budget"] != identity.budget:
            differences.append(f"`budget` is {content['budget'] or 'missing'} there and {identity.budget} here")
        if content["sources"] != identity.sources:
            differences.append("the data are others")
        if content["engine"] != identity.engine:
            differences.append(f"`compile`: {content['engine']} there and {identity.engine} here")
        saved_code = content.get("code", {})  # older checkpoints do not have it
        for name, digest in identity.code.items():
            if saved_code.get(name, digest) != digest:
                differences.append(f"the code of {name} has changed since then")
        if differences:
            raise SettingError(
                f"The checkpoint {self.path} is of another run: {'; '.join(differences)}. "
                f"Use the same settings and data to continue it, or set `fresh` to start again."
            )

    def _check_parts(self, state: dict[str, Any] | None, parts: Parts) -> None:
        """Refuse a checkpoint that was made with another class of somebody's own, or with other settings of it."""
        for axis, text in parts.descriptions.items():
            saved = text if state is None else state["parts"][axis]
            if saved != text:
                raise SettingError(
                    f"The checkpoint {self.path} was made with the {axis} {saved}, not {text}. "
                    f"Use the same parts to continue it, or set `fresh` to start again."
                )

    def restore(self, parts: Parts, identity: Identity) -> Restored:
        """Restore the parts from the newest checkpoint that is not damaged. One that is damaged is removed."""
        newest = self.path
        while self.contents:
            self.check_fits(identity)
            state = self.contents[self.path]["state"]
            try:
                self._check_parts(state, parts)
                restored = _restored(state, parts)
            except (ArtifactError, LookupError, TypeError, ValueError, AttributeError):
                self.damaged.append(self.path)
                del self.contents[self.path]
            else:
                if parts.team.leads:
                    for path in self.damaged:
                        path.unlink(missing_ok=True)  # so that the good one is kept
                return restored
        raise _unusable(newest)


def find(path: Path, team: Team = ALONE) -> Found | None:
    """The checkpoints of a run, if there are any. Only the leading process of a team needs the files."""
    found = Found({}, [])
    for file in (path, _previous(path)):
        written = team.first(lambda file=file: _content(file))  # type: ignore[misc]
        if not written:
            continue
        try:
            content = from_bytes(written)
            check(isinstance(content["recipe"], dict) and isinstance(content["state"], dict | None))
            check(all(isinstance(content[name], str) for name in ("sources", "engine", "budget")))
            check(isinstance(content.get("code", {}), dict))
            found.contents[file] = content
        except (ArtifactError, KeyError):
            found.damaged.append(file)
    if not found.contents and found.damaged:
        raise _unusable(path)
    return found if found.contents else None


def running_set(path: Path, about: Mapping[str, Any] | None = None) -> tuple[Artifact, str] | None:
    """The set in the checkpoint of a run that goes on, and how far the run is; None if there is no set yet.

    `about` is the first line of the log of the run: without it, the classes have no names.
    """
    found = find(path)
    state = found.contents[found.path]["state"] if found is not None else None
    if found is None or state is None:
        return None
    try:
        pixels, e = state["pixels"], state["e"]
        recipe, (_, C, channels, *_) = found.recipe, pixels.shape
        known = about or {"class_names": [f"class {c + 1}" for c in range(C)], "provenance": {}}
        mean, std = known.get("mean", [0.5] * channels), known.get("std", [0.5] * channels)
        described = (tuple(known["class_names"]), recipe, known["provenance"])
        artifact = Artifact(to_uint8(pixels).numpy(), recipe["factor"], tuple(mean), tuple(std), *described)
        inner = f" and {e} of {recipe['inner']} inner iterations" if e else ""
        return artifact, f"outer iteration {state['t']} of {recipe['outer']}{inner}"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(path) from error


def _content(path: Path) -> bytes:
    """The bytes of a file, b"" if there is none."""
    try:
        return path.read_bytes() or b"empty"
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ArtifactError(f"The checkpoint {path} cannot be read: {error.strerror or error}.") from error


def _restored(state: dict[str, Any] | None, parts: Parts) -> Restored:
    """Restore the parts from a state, whose every field is checked."""
    if state is None:
        return Restored()
    t = whole_number(state["t"], range(parts.T + 1))
    e = whole_number(state["e"], range(parts.E if t < parts.T else 1))
    begun = e > 0 or state["F"] is not None
    check(not begun or t < parts.T)
    F = like(state["F"], torch.zeros(parts.S.C, parts.S.N)) if begun else None
    processor_seconds = state.get("processor_seconds", 0.0)  # older checkpoints do not have it
    spent, loss = Spent(finite_number(state["seconds"]), finite_number(processor_seconds)), finite_number(state["loss"])
    check(min(spent.seconds, spent.processor_seconds) >= 0)
    for own, saved in (
        ({"pixels": parts.S.pixels, **parts.optimiser.state}, {"pixels": state["pixels"], **state["optimiser"]}),
        (parts.objective.state, state["objective"]),
    ):
        check(set(own) == set(saved))
        for name, tensor in own.items():
            tensor.copy_(like(saved[name], tensor))
    parts.sampler.restore(state["sampler"])
    parts.policy.restore(state["policy"])
    check(parts.policy.state() == state["policy"])
    parts.learner.restore(state["learner"])
    return Restored(Place(t, e, F), spent, loss)


def _unusable(path: Path) -> ArtifactError:
    return ArtifactError(f"The checkpoint {path} is damaged, and there is none before it. Set `fresh` to start again.")
