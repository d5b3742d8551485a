"""Logging a run: what is known after each outer iteration, for a callback, such as one that writes a file.

    for step in logged(condense(parts), callback):
        ...

`callback(entry, step)` is called after each outer iteration. A `LogFile` is such a callback.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import torch

from mipset.condensing.parts import Step
from mipset.condensing.spent import Spent
from mipset.errors import ArtifactError
from mipset.file import run_log
from mipset.file.artifact import Artifact
from mipset.file.run_log import Entry
from mipset.io.memory import held_memory

Callback: TypeAlias = Callable[[Entry, Step], object]


def entry_of(step: Step, spent: Spent) -> Entry:
    """What is known after a step that ends an outer iteration."""
    classes = range(step.parts.S.C)
    distances = step.F.mean(dim=0).tolist() if step.F.numel() and bool(step.F.any()) else []
    return Entry(
        outer=step.t,
        loss=step.loss,
        distances=tuple(distances),
        selected=tuple(step.parts.policy.selected(c) for c in classes),
        frozen=tuple(step.parts.policy.frozen(c) for c in classes),
        seconds=spent.seconds,
        processor_seconds=spent.processor_seconds,
        memory=held_memory(),
    )


def logged(steps: Iterable[Step], callback: Callback, spent: Callable[[], Spent] | None = None) -> Iterator[Step]:
    """Pass the steps of a run on, and call `callback(entry, step)` after each outer iteration.

    `spent` tells the time of the run so far; by default it is counted from the first step asked for.
    """
    start = Spent.now()
    for step in steps:
        if step.outer_done:
            callback(entry_of(step, spent() if spent else Spent.now() - start), step)
        yield step


class LogFile:
    """A callback that writes a log: `FILE.log.jsonl` is a good name for that of FILE.

    `pack` makes an artifact of a step, as `mipset.pack` does: the first line of the log has its description. A run that
    goes on after iteration `kept_until` keeps the lines up to it. A file that is not a log is refused, unless `force`
    is set. If the log cannot be written, the run goes on without it, and `failure` says why.
    """

    def __init__(
        self, path: Path | str, pack: Callable[[Step], Artifact], kept_until: int = 0, *, force: bool = False
    ) -> None:
        self.path, self.failure = Path(path), ""
        self._pack, self._kept_until, self._begun = pack, kept_until, False
        if not force:
            run_log.refuse_other_file(self.path)

    def __call__(self, entry: Entry, step: Step) -> None:
        if self.failure or not step.parts.team.leads:
            return
        try:
            if not self._begun:
                run_log.begin(self.path, _about(self._pack(step), step), self._kept_until)
                self._begun = True
            run_log.add(self.path, entry)
        except (OSError, ArtifactError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            self.failure = f"The log {self.path} cannot be written: {reason}. The run goes on without it."


def _about(artifact: Artifact, step: Step) -> dict[str, object]:
    """The first line of a log."""
    parts = step.parts
    of_processors = parts.learner.preparing_processor_seconds
    return {
        "outer": parts.T,
        "inner": parts.E,
        "class_names": list(artifact.class_names),
        "factor": artifact.factor,
        "mean": list(artifact.mean),
        "std": list(artifact.std),
        "recipe": dict(artifact.recipe),
        "provenance": dict(artifact.provenance),
        "preparing_seconds": round(parts.learner.preparing_seconds, 3),
        "preparing_processor_seconds": round(of_processors, 3) if math.isfinite(of_processors) else None,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "processes": parts.team.processes,
    }
