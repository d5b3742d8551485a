"""Leak check: which real training image is nearest to each image of a file, and how near that is.

Images are compared as the file can show them: real ones are shrunk and enlarged like its own. A distance is the root
mean square over pixels and channels, in grey levels from 0 to 255. What is near is told by the real images themselves:
how far each of a sample of them is from the nearest other one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from mipset.artifact import Artifact
from mipset.data import Dataset
from mipset.randomness import Purpose, permutation
from mipset.synthetic import Formation, formation

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
    usual: float  # the median distance of a real image from the nearest other one

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
    stored = form.decode(torch.from_numpy(artifact.images.copy()).flatten(0, 1).float() / 255)
    asked = torch.cat([stored.flatten(1), _as_stored(real[drawn], form)])
    own_rows = torch.cat([torch.full((len(stored),), -1), drawn])  # nobody is its own neighbour
    nearest, rows = _nearest(asked, own_rows, real, form, progress)
    distances = 255 * (nearest / asked.shape[1]).clamp(min=0).sqrt()
    usual = distances[len(stored) :].sort().values
    found = []
    for place in distances[: len(stored)].argsort(stable=True).tolist():
        rank, rest = divmod(place, artifact.images.shape[1] * form.images)
        label, tile = divmod(rest, form.images)
        distance, row = float(distances[place]), int(rows[place])
        share = int(torch.searchsorted(usual, distance)) / len(usual)
        found.append(Nearest(rank + 1, label, tile + 1, row, int(data.train.labels[row]), distance, share))
    return Audit(found, float(usual.median()))


def _as_stored(images: Tensor, form: Formation) -> Tensor:
    """Real images [n, ch, h, w] in bytes as a file would show them, flat."""
    short = -len(images) % form.images
    whole = torch.cat([images, images[:1].expand(short, -1, -1, -1)]) if short else images
    return form.decode(form.encode(whole.float() / 255))[: len(images)].flatten(1)


def _nearest(
    asked: Tensor, own_rows: Tensor, real: Tensor, form: Formation, progress: Report | None
) -> tuple[Tensor, Tensor]:
    """The smallest squared distance of each of `asked` [k, d] from a real image, and the row of that image."""
    best, rows = torch.full((len(asked),), float("inf")), torch.zeros(len(asked), dtype=torch.long)
    lengths = asked.square().sum(dim=1)
    for start, block in _blocks(real, form):
        far = lengths[:, None] + block.square().sum(dim=1) - 2 * asked @ block.T
        own = (own_rows >= start) & (own_rows < start + len(block))
        far[own, own_rows[own] - start] = float("inf")
        nearest, column = far.min(dim=1)
        rows = torch.where(nearest < best, start + column, rows)
        best = torch.minimum(nearest, best)
        if progress is not None:
            progress((start + len(block)) / len(real))
    return best, rows


def _blocks(real: Tensor, form: Formation) -> Iterator[tuple[int, Tensor]]:
    for start in range(0, len(real), BLOCK):
        yield start, _as_stored(real[start : start + BLOCK], form)


def pairs(artifact: Artifact, data: Dataset, found: list[Nearest]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """[k, 2, ch, h, w]: each image as it is trained on, and the real one beside it as it is."""
    form = formation(artifact.factor)
    shown = []
    for one in found:
        stored = torch.from_numpy(artifact.images[one.rank - 1, one.label].copy())[None].float()
        decoded = form.decode(stored / 255)[one.tile - 1].mul(255).round().to(torch.uint8).numpy()
        shown.append(np.stack([decoded, data.train.images[one.row]]))
    return np.stack(shown)
