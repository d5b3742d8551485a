"""k-means in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor


def k_means(points: Tensor, k: int, generator: torch.Generator, iterations: int = 20) -> tuple[Tensor, Tensor]:
    """The centroids [k, F] of points [B, F] by Lloyd's algorithm, and the number of points of each [k].

    The first centroids are different random points. A cluster that becomes empty gets the point that is farthest from
    its centroid.
    """
    centroids = points[torch.randperm(len(points), generator=generator)[:k].to(points.device)].clone()
    nearest = torch.full((len(points),), -1, device=points.device)
    for _ in range(iterations):
        distances = torch.cdist(points, centroids)
        lengths, labels = distances.min(dim=1)
        counts = torch.bincount(labels, minlength=k)
        for empty in (counts == 0).nonzero().flatten().tolist():
            farthest = int(lengths.argmax())
            labels[farthest], lengths[farthest] = empty, -1.0  # it is not moved again
        if torch.equal(labels, nearest):
            break
        nearest = labels
        counts = torch.bincount(nearest, minlength=k)
        sums = torch.zeros_like(centroids).index_add_(0, nearest, points)
        centroids = sums / counts.clamp(min=1)[:, None]
    return centroids, torch.bincount(nearest, minlength=k)
