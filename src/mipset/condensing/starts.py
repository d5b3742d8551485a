"""Starts: the first pixels of S.

Every start is nested: the first pixels of a smaller set are a prefix of those of a larger one, except for `k-means`,
whose clusters depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mipset.condensing.orders import herding, nearest_to_centroids, random_order
from mipset.condensing.synthetic import Formation, formation, from_noise, from_normal_noise, from_real
from mipset.data import Dataset
from mipset.nn.networks import Network
from mipset.nn.pixels import to_unit
from mipset.nn.training import Images, at_once, last_features
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class Look:
    """How a start looks at real images: by the features of a network, after each was shrunk to a tile and enlarged."""

    network: Callable[[], Network]
    form: Formation
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: torch.device

    def features(self, pixels: Tensor) -> Tensor:
        """The features of images [B, ch, h, w] of bytes: [B, F], on the CPU."""
        theta, parts = self.network(), []
        for part in torch.split(pixels, at_once(pixels.shape[2:])):
            shown = self.form.shown(to_unit(part), 0)
            images = Images.of(shown, torch.zeros(len(shown)), self.mean, self.std, self.device)
            parts.append(last_features(theta, images).cpu())
        return torch.cat(parts)


def _of_each_class(data: Dataset) -> Iterator[Tensor]:
    """A copy of the images of each class, one class after the other, so that not all images are twice in memory."""
    pixels, labels = torch.from_numpy(data.train.images), torch.from_numpy(data.train.labels)
    return (pixels[labels == c] for c in range(data.classes))


def first_real_images(r: Recipe, data: Dataset) -> Tensor:
    """Tiles of the first real images of each class."""
    return from_real(_of_each_class(data), r.ipc, formation(r.factor))


def noise(r: Recipe, data: Dataset) -> Tensor:
    """Uniform noise."""
    return from_noise((r.ipc, data.classes, *data.shape), r.seed)


def normal_noise(r: Recipe, data: Dataset) -> Tensor:
    """Normal noise with the mean and the deviation of the data."""
    return from_normal_noise((r.ipc, data.classes, *data.shape), r.seed, data.mean, data.std)


def random_real_images(r: Recipe, data: Dataset) -> Tensor:
    """Tiles of random real images of each class."""
    count = r.ipc * r.factor**2
    chosen = [images[random_order(len(images), count, r.seed, c)] for c, images in enumerate(_of_each_class(data))]
    return from_real(chosen, r.ipc, formation(r.factor))


def herded_real_images(r: Recipe, data: Dataset, look: Look) -> Tensor:
    """Tiles of real images; the mean features of every prefix are near the mean of the class."""
    count = r.ipc * r.factor**2
    chosen = [images[herding(look.features(images), count)] for images in _of_each_class(data)]
    return from_real(chosen, r.ipc, formation(r.factor))


def clustered_real_images(r: Recipe, data: Dataset, look: Look) -> Tensor:
    """Tiles of the real images that are nearest to the centroids of k-means."""
    count = r.ipc * r.factor**2
    chosen = [
        images[nearest_to_centroids(look.features(images), count, r.seed, c)]
        for c, images in enumerate(_of_each_class(data))
    ]
    return from_real(chosen, r.ipc, formation(r.factor))
