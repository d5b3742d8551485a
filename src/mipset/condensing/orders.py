"""Orders of the real images of a class, from their features. Every prefix of an order is a selection."""

from __future__ import annotations

import torch
from torch import Tensor

from mipset.condensing.clustering import k_means, random_points
from mipset.errors import SettingError
from mipset.nn.randomness import Purpose, generator, permutation


def random_order(count: int, n: int, seed: int, c: int) -> Tensor:
    """`n` of the `count` images of class `c`, shuffled: their rows."""
    _check_enough(count, n)
    return permutation(count, seed, Purpose.SELECTION, c)[:n]


def herding(features: Tensor, n: int) -> Tensor:
    """The rows of `n` images with these features [B, F].

    Each next image is the one that brings the mean of the selected images closest to the mean of all.
    """
    _check_enough(len(features), n)
    mean = features.mean(dim=0)
    total = torch.zeros_like(mean)
    selected: list[int] = []
    for size in range(1, n + 1):
        far = _squared_distances(features, size * mean - total)  # size² times the squared distance of the means
        far[selected] = float("inf")
        selected.append(int(far.argmin()))
        total += features[selected[-1]]
    return torch.tensor(selected)


def k_center(features: Tensor, n: int) -> Tensor:
    """The rows of `n` images with these features [B, F].

    The first is nearest to the mean of all. Each next image is the one that is farthest from the selected images.
    """
    _check_enough(len(features), n)
    selected = [int(_squared_distances(features, features.mean(dim=0)).argmin())]
    nearest = features.new_full((len(features),), float("inf"))
    while len(selected) < n:
        nearest = torch.minimum(nearest, _squared_distances(features, features[selected[-1]]))
        nearest[selected] = -1.0  # an image is selected once, even if all others are its copies
        selected.append(int(nearest.argmax()))
    return torch.tensor(selected)


def nearest_to_centroids(features: Tensor, n: int, seed: int, c: int) -> Tensor:
    """The rows of `n` images with these features [B, F]: for each of n clusters, the image nearest to its centroid.

    Images of large clusters come first. No image is selected twice.
    """
    _check_enough(len(features), n)
    centroids, counts = k_means(features, random_points(features, n, generator(seed, Purpose.CLUSTERS, c)))
    selected: list[int] = []
    for cluster in counts.argsort(descending=True, stable=True).tolist():
        far = _squared_distances(features, centroids[cluster])
        far[selected] = float("inf")
        selected.append(int(far.argmin()))
    return torch.tensor(selected)


def _squared_distances(features: Tensor, point: Tensor) -> Tensor:
    return (features - point).square_().sum(dim=1)


def _check_enough(count: int, n: int) -> None:
    if not 1 <= n <= count:
        raise SettingError(
            f"{n} of {count} images cannot be selected: the number must be from 1 to {count}. Choose another."
        )
