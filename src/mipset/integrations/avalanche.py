"""Avalanche: a replay buffer of condensed sets, which shrinks by keeping shorter prefixes.

Give it to the ReplayPlugin of Avalanche: `ReplayPlugin(mem_size=200, storage_policy=PrefixBuffer(200, condense))`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import TensorDataset

from mipset.errors import SettingError
from mipset.evaluation.evaluate import decoded
from mipset.file.artifact import Artifact
from mipset.integrations import needing

with needing("avalanche", "avalanche-lib", "mipset.integrations.avalanche"):
    from avalanche.benchmarks.utils import _make_taskaware_classification_dataset
    from avalanche.benchmarks.utils.utils import concat_datasets
    from avalanche.training.storage_policy import BalancedExemplarsBuffer, ExemplarsBuffer

CPU = torch.device("cpu")


class ClassPrefix(ExemplarsBuffer):  # type: ignore[misc] # Avalanche has no types
    """The stored images of one class. `resize` keeps a prefix of them, and frees the memory of the others."""

    def __init__(self, condensed: Artifact, label: int, task: int) -> None:
        super().__init__(condensed.ipc)
        self.condensed, self.label, self.task = condensed, label, task
        self.size = condensed.ipc  # stored images that are left
        self._decode()

    @property
    def nbytes(self) -> int:
        """Bytes of the stored images."""
        return self.condensed.images[: self.size].nbytes

    def resize(self, strategy: Any, new_size: int) -> None:
        """Keep the first `new_size` stored images. What was given up before does not come back."""
        self.max_size = new_size
        if new_size < self.size:
            self.size = new_size
            if new_size:
                kept = self.condensed.prefix(new_size)
                self.condensed = replace(kept, images=kept.images.copy())
            self._decode()

    def _decode(self) -> None:
        if not self.size:
            self.buffer = concat_datasets([])
            return
        pixels, _ = decoded(self.condensed, CPU).batch(slice(None))
        labels = torch.full((len(pixels),), self.label)
        self.buffer = _make_taskaware_classification_dataset(
            TensorDataset(pixels, labels), targets=labels.tolist(), task_labels=self.task
        )


class PrefixBuffer(BalancedExemplarsBuffer):  # type: ignore[misc] # Avalanche has no types
    """Exemplars of every class seen so far: the longest prefix of its condensed set that fits.

    `max_size` counts stored images of all classes, so a buffer has the bytes of one with as many real images. A stored
    image of factor f is decoded to f² training images. They are normalised as the condensed set says, like the images
    of the benchmark must be.

    `condense(experience)` returns a condensed set of the classes of an experience, in ascending order of their labels.
    It can condense the images of the experience, or take these classes from a file.
    """

    def __init__(self, max_size: int, condense: Callable[[Any], Artifact]) -> None:
        super().__init__(max_size)
        self.condense = condense

    @property
    def nbytes(self) -> int:
        """Bytes of all stored images."""
        return sum(group.nbytes for group in self.buffer_groups.values())

    def post_adapt(self, agent: Any, exp: Any) -> None:
        """Add the classes of an experience, and cut all classes to the same size."""
        labels = sorted(exp.classes_in_this_experience)
        condensed, task = self.condense(exp), int(exp.dataset.targets_task_labels[0])
        if condensed.images.shape[1] != len(labels):
            raise SettingError(
                f"`condense` returned a set of {condensed.images.shape[1]} classes for an experience of {len(labels)}. "
                "Return one that has the classes of the experience, in ascending order of their labels."
            )
        if seen := [label for label in labels if label in self.buffer_groups]:
            raise SettingError(f"The buffer has class {seen[0]} already. Use a benchmark whose classes come once.")
        for place, label in enumerate(labels):
            self.buffer_groups[label] = ClassPrefix(classes_of(condensed, [place]), label, task)
        self.resize(agent, self.max_size)


def classes_of(condensed: Artifact, places: list[int]) -> Artifact:
    """The set with only the classes at these places, such as those of an experience. Its accuracies are left out."""
    names = tuple(condensed.class_names[place] for place in places)
    return replace(condensed, images=condensed.images[:, places], class_names=names, accuracy=())
