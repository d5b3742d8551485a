"""Leak check: which real training image is nearest to each image of a file, and how near that is.

Images are compared as the file can show them: real ones are shrunk and enlarged like the tile that they are compared
with. A distance is the root mean square over pixels and channels, in grey levels from 0 to 255. What is near is told by
the real images themselves: how far each of a sample of them is from the nearest other one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from mipset.condensing.synthetic import Formation, formation
from mipset.data import Dataset
from mipset.file.artifact import Artifact
from mipset.nn.pixels import to_uint8, to_unit
from mipset.nn.randomness import Purpose, permutation

BLOCK = 2048  # real images that are compared at a time
SAMPLE = 1000  # real images whose nearest neighbours tell what is near
Report = Callable[[float], None]  # is told the share that is done


@dataclass(frozen=True)
class Nearest:
    """One image of the file, as it is trained on, and the real training image that is most like it."""

    rank: int  # from 1, as sizes are
    label: int
    tile: int  # from 1, among those of the stored image
    row: int  # of the real image in the training images
    real_label: int
    distance: float
    share: float  # of sampled real images that are nearer than this to another real image


@dataclass(frozen=True)
class Audit:
    """All images of a file, the nearest first, and what they are compared with."""

    found: list[Nearest]
    usual: float  # the median distance of a real image from the nearest other one, as the first tile shows them

    @property
    def suspicious(self) -> list[Nearest]:
        """Those that are nearer to a real image than half of the real images are to another."""
        return [one for one in self.found if one.share < 0.5]


def audit(artifact: Artifact, data: Dataset, seed: int = 0, progress: Report | None = None) -> Audit:
    """Find the nearest real training image of every image in the file, whatever its class."""
    data.check_source_of(artifact.images.shape[2:])
    form = formation(artifact.factor)
    real = torch.from_numpy(data.train.images)
    drawn = permutation(len(real), seed, Purpose.AUDIT)[:SAMPLE]
    stored = form.decode(to_unit(torch.from_numpy(artifact.images.copy()).flatten(0, 1)))
    by_tile = stored.reshape(-1, form.images, stored[0].numel())
    groups = _alike(form, data.shape[1:])
    found, usual = [], []
    for number, tiles in enumerate(groups):
        asked = by_tile[:, tiles].flatten(0, 1)
        show = partial(_shown, form, tiles[0])
        report = None if progress is None else partial(_report, progress, number, len(groups))
        distances, rows = _nearest(torch.cat([asked, show(real[drawn])]), drawn, real, show, report)
        usual.append(distances[len(asked) :].sort().values)
        for place, (distance, row) in enumerate(zip(distances[: len(asked)].tolist(), rows.tolist(), strict=False)):
            image, tile = divmod(place, len(tiles))
            rank, label = divmod(image, artifact.images.shape[1])
            share = int(torch.searchsorted(usual[-1], distance)) / len(drawn)
            real_label = int(data.train.labels[row])
            found.append(Nearest(rank + 1, label, tiles[tile] + 1, row, real_label, distance, share))
    return Audit(sorted(found, key=lambda one: one.distance), float(usual[0].median()))


def _alike(form: Formation, size: tuple[int, int]) -> list[list[int]]:
    """The tiles of a stored image, those together that have as many pixels and so show a real image alike."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for tile in range(form.images):
        pixels = tuple(side.stop - side.start for side in form.place(tile, size))
        groups.setdefault(pixels, []).append(tile)
    return list(groups.values())


def _shown(form: Formation, tile: int, images: Tensor) -> Tensor:
    """Real images [n, ch, h, w] in bytes as this tile of a file would show them, flat."""
    return form.shown(to_unit(images), tile).flatten(1)


def _report(progress: Report, number: int, groups: int, share: float) -> None:
    progress((number + share) / groups)


def _nearest(
    asked: Tensor, drawn: Tensor, real: Tensor, show: Callable[[Tensor], Tensor], progress: Report | None
) -> tuple[Tensor, Tensor]:
    """The smallest distance of each of `asked` [k, d] from a real image, and the row of that image.

    The last of them are the real images `drawn`, none of which is its own neighbour.
    """
    best, rows = torch.full((len(asked),), float("inf")), torch.zeros(len(asked), dtype=torch.long)
    own_rows = torch.cat([torch.full((len(asked) - len(drawn),), -1), drawn])
    lengths = asked.square().sum(dim=1)
    for start in range(0, len(real), BLOCK):
        block = show(real[start : start + BLOCK])
        far = lengths[:, None] + block.square().sum(dim=1) - 2 * asked @ block.T
        own = (own_rows >= start) & (own_rows < start + len(block))
        far[own, own_rows[own] - start] = float("inf")
        nearest, column = far.min(dim=1)
        rows = torch.where(nearest < best, start + column, rows)
        best = torch.minimum(nearest, best)
        if progress is not None:
            progress((start + len(block)) / len(real))
    return 255 * (best / asked.shape[1]).clamp(min=0).sqrt(), rows


def pairs(artifact: Artifact, data: Dataset, found: list[Nearest]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """[k, 2, ch, h, w]: each image as it is trained on, and the real one beside it as it is."""
    form = formation(artifact.factor)
    shown = []
    for one in found:
        stored = torch.from_numpy(artifact.images[one.rank - 1, one.label].copy())[None]
        decoded = to_uint8(form.decode(to_unit(stored))[one.tile - 1]).numpy()
        shown.append(np.stack([decoded, data.train.images[one.row]]))
    return np.stack(shown)
