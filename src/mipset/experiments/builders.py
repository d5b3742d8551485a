"""Builders: how the condensations of a method become a set for each size.

    one-run       one condensation, every size is a prefix of it: Baseline C, MDC, every-prefix
    run-per-size  Baseline A: one condensation for each size
    run-per-rank  Baseline B: condensations of one image per class from different real images, side by side
    random, ...   no condensation: real images in an order whose prefixes are the subsets
    yoco          one condensation with its images in another order
    svd-truncate  one condensation, and for each size its largest components
    recondense    one condensation, and for each size another one, whose real images are those of the first

All condensations run the same loop; no method has a loop of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from mipset.condensing.passes import Passes
from mipset.data import Dataset
from mipset.evaluation.selection import reorder, reordering_passes, select, selection_passes
from mipset.experiments.slimming import component_bytes, truncated
from mipset.file.artifact import Artifact
from mipset.file.provenance import Provenance
from mipset.nn.engines import Engine
from mipset.reporting import Report, silent
from mipset.settings.protocol import PROTOCOLS
from mipset.settings.recipe import Recipe

YOCO_PROTOCOL = PROTOCOLS["paper"]


@dataclass(frozen=True)
class Condensation:
    """One run of the condensation loop. It starts from the real images at `first_rank`.

    If it is `of` another one, the images of that one stand for the real ones, and it starts from the first of them.
    """

    recipe: Recipe
    first_rank: int = 0
    of: Condensation | None = None


@dataclass(frozen=True)
class BuildContext:
    """The data and the machine that sets are built with."""

    data: Dataset
    device: torch.device
    engine: Engine
    origin: Provenance = field(default_factory=Provenance)  # arguments with which the data were loaded
    report: Report = silent


class SetBuilder(ABC):
    """Turns condensations into a set for each size."""

    @abstractmethod
    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        """The condensations that it needs."""

    @abstractmethod
    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        """For each size a set that has it as a prefix; `condensed` has the results of the condensations, in order."""

    def length(self, recipe: Recipe, size: int) -> int:
        """How many stored images of each class of its set a size is trained on."""
        return size

    def storage(self, recipe: Recipe, sizes: Sequence[int], stored: Sequence[Artifact]) -> tuple[int, int]:
        """How many images it keeps in these files, and how many bytes they take."""
        images = sum(artifact.ipc * len(artifact.class_names) for artifact in stored)
        return images, sum(artifact.images.nbytes for artifact in stored)

    def passes(self, recipe: Recipe, data: Dataset) -> Passes:
        """Passes through networks that it spends in `build`."""
        return Passes()


class OneRun(SetBuilder):
    """One condensation, and every size is a prefix of it."""

    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        return [Condensation(recipe)]

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        return dict.fromkeys(sizes, condensed[0])


class RunPerSize(SetBuilder):
    """One condensation for each size. All start from the first real images."""

    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        return [Condensation(recipe.replace(ipc=size)) for size in sizes]

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        return dict(zip(sizes, condensed, strict=True))


class RunPerRank(SetBuilder):
    """One condensation of one image per class for each rank. They start from different real images."""

    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        return [Condensation(recipe.replace(ipc=1), rank) for rank in range(max(sizes))]

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        first = condensed[0]
        joined = replace(
            first,
            images=np.concatenate([artifact.images for artifact in condensed]),
            recipe={**first.recipe, "ipc": len(condensed)},
            provenance={**first.provenance, "condensations": len(condensed)},
        )
        return dict.fromkeys(sizes, joined)


@dataclass(frozen=True)
class SelectedImages(SetBuilder):
    """Real images in a named order of `mipset.evaluation.selection`."""

    order: str

    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        return []

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        selected = select(
            self.order,
            recipe,
            context.data,
            context.device,
            context.engine,
            origin=context.origin,
            report=context.report,
        )
        return dict.fromkeys(sizes, selected)

    def passes(self, recipe: Recipe, data: Dataset) -> Passes:
        return selection_passes(self.order, recipe, data)


class ReorderedRun(OneRun):
    """One condensation. Its images are put into the order of YOCO: images that are easy to learn come first."""

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        reordered = reorder(
            condensed[0], YOCO_PROTOCOL, recipe.seed, context.device, context.engine, report=context.report
        )
        return dict.fromkeys(sizes, reordered)

    def passes(self, recipe: Recipe, data: Dataset) -> Passes:
        return reordering_passes(recipe.ipc * recipe.factor**2 * data.classes, data.classes, YOCO_PROTOCOL)


class TruncatedRun(OneRun):
    """One condensation. A size has all of its images, made of as many components: nothing is learned for it.

    All sizes come from the components of the largest one, which are counted as stored, with their coefficients.
    """

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        return {size: truncated(condensed[0], size) for size in sizes}

    def length(self, recipe: Recipe, size: int) -> int:
        return recipe.ipc

    def storage(self, recipe: Recipe, sizes: Sequence[int], stored: Sequence[Artifact]) -> tuple[int, int]:
        images = len(stored[0].class_names) * (max(sizes) + 1)  # the components and the mean
        return images, component_bytes(stored[0].images.shape, max(sizes))


class Recondensed(SetBuilder):
    """One condensation of the whole set, and from its images alone one more for each smaller size."""

    def condensations(self, recipe: Recipe, sizes: Sequence[int]) -> list[Condensation]:
        first = Condensation(recipe)
        return [first, *(Condensation(recipe.replace(ipc=size), of=first) for size in sizes if size < recipe.ipc)]

    def build(
        self, recipe: Recipe, sizes: Sequence[int], condensed: Sequence[Artifact], context: BuildContext
    ) -> dict[int, Artifact]:
        by_size = {artifact.ipc: artifact for artifact in condensed}
        return {size: by_size[size] for size in sizes}


BUILDERS: dict[str, SetBuilder] = {  # by the keys in mipset.settings.methods
    "one-run": OneRun(),
    "run-per-size": RunPerSize(),
    "run-per-rank": RunPerRank(),
    "random": SelectedImages("random"),
    "herding": SelectedImages("herding"),
    "k-center": SelectedImages("k-center"),
    "yoco": ReorderedRun(),
    "svd-truncate": TruncatedRun(),
    "recondense": Recondensed(),
}
