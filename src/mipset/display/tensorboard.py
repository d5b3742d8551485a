"""A run for TensorBoard: scalars of every outer iteration, and the images as a grid now and then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mipset.display.pictures import contact_sheet
from mipset.errors import ArtifactError, missing
from mipset.file.artifact import Artifact
from mipset.file.run_log import Entry

EVERY = 100  # outer iterations between two grids, after the first ones


class TensorBoard:
    """Writes event files into a folder. A run that goes on after iteration `kept_until` replaces what came after it."""

    def __init__(self, folder: Path, outers: int, kept_until: int = 0) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError as error:
            raise missing("tensorboardX", "Writing for TensorBoard") from error
        self._outers = outers
        try:
            self._writer: Any = SummaryWriter(str(folder), purge_step=kept_until + 1 if kept_until else None)
        except OSError as error:
            raise ArtifactError(f"{folder} cannot be written: {error.strerror or error}.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    def add(self, entry: Entry, pack: Callable[[], Artifact]) -> None:
        """Add an outer iteration; `pack` gives the set after it, whose images are added now and then."""
        scalars: dict[str, float | None] = {
            "loss": entry.loss,
            **{f"distance/size {size}": distance for size, distance in enumerate(entry.distances, start=1)},
            "selected (mean over classes)": sum(entry.selected) / len(entry.selected),
            "frozen (mean over classes)": sum(entry.frozen) / len(entry.frozen),
            "cost/seconds": entry.seconds,
            "cost/processor seconds": entry.processor_seconds,
            "cost/memory": entry.memory,
        }
        for name, value in scalars.items():
            if value is not None:
                self._writer.add_scalar(name, value, entry.outer)
        if entry.outer.bit_count() == 1 or entry.outer % EVERY == 0 or entry.outer == self._outers:
            artifact = pack()
            if artifact.images.shape[2] in (1, 3):
                self._writer.add_image("images", np.asarray(contact_sheet(artifact)), entry.outer, dataformats="HWC")
