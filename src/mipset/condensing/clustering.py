"""k-means: Lloyd's algorithm, in plain torch or, if it is installed, with the distances of faiss."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeAlias

import torch
from torch import Tensor

# The distance of each point [B, F] from its nearest centroid [k, F], and the row of that centroid: [B] and [B].
Nearest: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
MOST_STEPS = 100  # as in DREAM; it ends earlier if no point changes its cluster


def nearest_by_torch(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Distances from one matrix product."""
    distances, rows = torch.cdist(points, centroids).min(dim=1)
    return distances, rows


def nearest_by_faiss(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The same from faiss, with as many threads as torch has."""
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    squares, rows = faiss.knn(points.contiguous().numpy(), centroids.contiguous().numpy(), 1)
    return torch.from_numpy(squares[:, 0]).clamp_(min=0).sqrt_(), torch.from_numpy(rows[:, 0])


def faster_nearest(device: torch.device) -> Nearest:
    """faiss, if it is installed, unless the points are on a GPU; otherwise torch."""
    return nearest_by_faiss if device.type in ("cpu", "meta") and find_spec("faiss") is not None else nearest_by_torch


def random_points(points: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """`k` different random points, as first centroids."""
    return points[torch.randperm(len(points), generator=generator)[:k].to(points.device)].clone()


def k_means(
    points: Tensor, first: Tensor, steps: int = MOST_STEPS, nearest: Nearest = nearest_by_torch
) -> tuple[Tensor, Tensor]:
    """The centroids [k, F] of points [B, F], from first centroids [k, F], and the number of points of each [k].

    A cluster that becomes empty gets the point that is farthest from its centroid.
    """
    centroids, k = first, len(first)
    clusters = torch.full((len(points),), -1, device=points.device)
    for _ in range(steps):
        lengths, labels = nearest(points, centroids)
        counts = torch.bincount(labels, minlength=k)
        for empty in (counts == 0).nonzero().flatten().tolist():
            farthest = int(lengths.argmax())
            labels[farthest], lengths[farthest] = empty, -1.0  # it is not moved again
        if torch.equal(labels, clusters):
            break
        clusters = labels
        counts = torch.bincount(clusters, minlength=k)
        sums = torch.zeros_like(centroids).index_add_(0, clusters, points)
        centroids = sums / counts.clamp(min=1)[:, None]
    return centroids, torch.bincount(clusters, minlength=k)
