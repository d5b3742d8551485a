"""Leak check: find the real training image that is nearest to each image of a file.

Images are compared at the resolution of a tile: real images are shrunk and enlarged like the tile that they are
compared with. A distance is the root mean square over pixels and channels, in grey levels from 0 to 255. The real
images show which distances are small: the audit also measures how far each image of a sample of them is from the
nearest other one.
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
from mipset.file.audit_file import AuditFile, Neighbour, suspicious
from mipset.nn.pixels import to_uint8, to_unit
from mipset.nn.randomness import Purpose, permutation
from mipset.reporting import Report, silent

BLOCK = 2048  # real images that are compared at a time
SAMPLE = 1000  # real images whose distance to the nearest other one is measured
STAGE = "comparing with real images"


@dataclass(frozen=True)
class Audit:
    """The nearest real image of every training image in a file, and the usual distance between real images."""

    neighbours: list[Neighbour]  # the nearest first
    usual: float  # median distance of a real image from the nearest other one, at the resolution of the first tile

    def as_file(self, artifact: Artifact, data: Dataset) -> AuditFile:
        """What is kept beside the file of the set."""
        return AuditFile(artifact.images_sha256, data.sha256, self.usual, data.class_names, self.neighbours)

    @property
    def suspicious(self) -> list[Neighbour]:
        """The images that are nearer to a real image than half of the real images are to another."""
        return suspicious(self.neighbours)


def audit(artifact: Artifact, data: Dataset, seed: int = 0, report: Report = silent) -> Audit:
    """Find the nearest real training image of every training image in the file, in all classes."""
    data.check_source_of(artifact.images.shape[2:])
    form = formation(artifact.factor)
    real = torch.from_numpy(data.train.images)
    sample = permutation(len(real), seed, Purpose.AUDIT)[:SAMPLE]
    decoded = form.decode(to_unit(torch.from_numpy(artifact.images.copy()).flatten(0, 1)))
    by_tile = decoded.reshape(-1, form.images, decoded[0].numel())
    groups = _tiles_by_shape(form, data.shape[1:])
    neighbours, usual = [], []
    for number, tiles in enumerate(groups):
        images = by_tile[:, tiles].flatten(0, 1)
        show = partial(_at_resolution_of_tile, form, tiles[0])
        report_block = partial(_report_block, report, number, len(groups), len(real))
        distances, rows = _nearest(torch.cat([images, show(real[sample])]), sample, real, show, report_block)
        usual.append(distances[len(images) :].sort().values)
        for place, (distance, row) in enumerate(zip(distances[: len(images)].tolist(), rows.tolist(), strict=False)):
            image, tile = divmod(place, len(tiles))
            rank, label = divmod(image, artifact.images.shape[1])
            share = int(torch.searchsorted(usual[-1], distance)) / len(sample)
            real_label = int(data.train.labels[row])
            file = data.train.files[row] if data.train.files else ""
            neighbours.append(Neighbour(rank + 1, label, tiles[tile] + 1, row, real_label, distance, share, file))
    return Audit(sorted(neighbours, key=lambda neighbour: neighbour.distance), float(usual[0].median()))


def _tiles_by_shape(form: Formation, resolution: tuple[int, int]) -> list[list[int]]:
    """The tiles of a stored image in groups of equal height and width. Tiles of a group show a real image alike."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for tile in range(form.images):
        shape = tuple(side.stop - side.start for side in form.place(tile, resolution))
        groups.setdefault(shape, []).append(tile)
    return list(groups.values())


def _at_resolution_of_tile(form: Formation, tile: int, images: Tensor) -> Tensor:
    """Real uint8 images [n, ch, h, w] as this tile of a file would show them, flat."""
    return form.shown(to_unit(images), tile).flatten(1)


def _report_block(report: Report, group: int, groups: int, images: int, done: int) -> None:
    report(STAGE, group * images + done, groups * images)


def _nearest(
    images: Tensor, sample: Tensor, real: Tensor, show: Callable[[Tensor], Tensor], report_block: Callable[[int], None]
) -> tuple[Tensor, Tensor]:
    """The smallest distance of each of `images` [k, d] from a real image, and the row of that real image.

    The last of `images` are the real images with the rows `sample`. None of them is its own neighbour.
    """
    best, rows = torch.full((len(images),), float("inf")), torch.zeros(len(images), dtype=torch.long)
    own_rows = torch.cat([torch.full((len(images) - len(sample),), -1), sample])
    squares = images.square().sum(dim=1)
    for start in range(0, len(real), BLOCK):
        block = show(real[start : start + BLOCK])
        far = squares[:, None] + block.square().sum(dim=1) - 2 * images @ block.T
        own = (own_rows >= start) & (own_rows < start + len(block))
        far[own, own_rows[own] - start] = float("inf")
        nearest, column = far.min(dim=1)
        rows = torch.where(nearest < best, start + column, rows)
        best = torch.minimum(nearest, best)
        report_block(start + len(block))
    return 255 * (best / images.shape[1]).clamp(min=0).sqrt(), rows


def pairs(
    artifact: Artifact, data: Dataset, neighbours: list[Neighbour]
) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """[k, 2, ch, h, w]: each training image of the file, and beside it the real image, unchanged."""
    form = formation(artifact.factor)
    shown = []
    for neighbour in neighbours:
        stored = torch.from_numpy(artifact.images[neighbour.rank - 1, neighbour.label].copy())[None]
        decoded = to_uint8(form.decode(to_unit(stored))[neighbour.tile - 1]).numpy()
        shown.append(np.stack([decoded, data.train.images[neighbour.row]]))
    return np.stack(shown)
