"""What the sampler `k-means` (DREAM) costs, and whether its affordable version costs accuracy.

`exact` is DREAM's: k-means from random images, with at most 100 steps, on the features of all images of a class. `warm`
starts from the images chosen before and takes 3 steps. `affordable` also looks at 512 images only, as the recipe
cifar10-dream-cpu does. Prints the processor seconds of choosing the images of one class again, after the network has
learned a little, and how well they stand for the class: the mean distance of all its images from the nearest of them.

With `accuracy`, condenses fashion-mini by each of them and by the sampler `shuffled-epochs` for the same number of
iterations, and tests on held-out training images.

Run:   python benchmarks/representatives.py [DATASET]
       python benchmarks/representatives.py accuracy [SEED ...]
Takes: a minute on one core for CIFAR-10 (default); `accuracy` two minutes for each seed.
Printed: docs/speed.md has the results.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mipset import Evaluation, assemble, condense, load, pack, protocol, recipe
from mipset.condensing.clustering import nearest_by_torch
from mipset.condensing.parts import Parts
from mipset.condensing.samplers import Representatives
from mipset.nn.engines import native
from mipset.nn.networks import Network
from mipset.nn.training import last_features

REPEATS, WIDTH, CLUSTERS = 3, 64, 64
SIZES, NETWORKS = (1, 2, 5), 3
VERSIONS: dict[str, dict[str, Any]] = {
    "exact": {"cluster_steps": 100},
    "warm": {"cluster_steps": 3},
    "affordable": {"cluster_steps": 3, "cluster_images": 512},
}


class Cold(Representatives):
    """DREAM as published: every choice starts from random images."""

    def _choose(self, c: int, theta: Network, number: int) -> torch.Tensor:
        self._chosen[c] = -1
        return super()._choose(c, theta, number)


def cold(parts: Parts) -> Parts:
    """The same parts with a sampler that starts anew each time."""
    sampler = parts.sampler
    assert isinstance(sampler, Representatives)
    settings = {"inner": sampler.inner, "every": sampler.every, "steps": sampler.steps}
    again = Cold(sampler.images, sampler.members, sampler.batch, sampler.seed, **settings)
    return replace(parts, sampler=again)


def parts_of(version: str, dataset: str) -> Parts:
    settings = {"sampler": "k-means", "real_batch": CLUSTERS, "cluster_every": 1, "init": "noise", **VERSIONS[version]}
    named = recipe("cifar10-gradient-cpu", width=WIDTH, **settings)
    parts = assemble(named, load(dataset), engine=native())
    return cold(parts) if version == "exact" else parts


def cost(dataset: str) -> None:
    """Choose twice, with a little training in between, and measure the second choice."""
    found: dict[str, tuple[float, float]] = {}
    for version in VERSIONS:
        parts = parts_of(version, dataset)
        sampler = parts.sampler
        assert isinstance(sampler, Representatives)
        theta = parts.learner.start(1)
        sampler.sample(0, theta, 0)
        seconds, spread = [], []
        for number in range(1, REPEATS + 1):
            theta = parts.learner.advance(theta, number)
            start = time.process_time()
            sampler.sample(0, theta, number)
            seconds.append(time.process_time() - start)
            features = last_features(theta, sampler.images.at(sampler.members[0]))
            spread.append(float(nearest_by_torch(features, features[sampler.state["chosen"][0]])[0].mean()))
        found[version] = min(seconds), statistics.fmean(spread)
        print(
            f"{version:10}  {min(seconds):7.3f} s  {min(seconds) / found['exact'][0]:6.3f} of exact  "
            f"distance {found[version][1] / found['exact'][1]:.3f} of exact",
            flush=True,
        )


def accuracy(seeds: Sequence[int]) -> None:
    """Condense with every sampler, for the same number of iterations."""
    data, engine = load("fashion-mini").held_out(0.2, 0), native()
    shared = {"policy": "every-prefix", "ipc": 5, "outer": 3, "real_batch": 32}
    plain: dict[str, Any] = {"shuffled-epochs": {}}
    versions = {name: {"sampler": "k-means", "cluster_every": 5, **changes} for name, changes in VERSIONS.items()}
    versions["affordable"]["cluster_images"] = 96  # a class has fewer images here
    for seed in seeds:
        for name, changes in {**plain, **versions}.items():
            settings = recipe("fashion-mini-gradient-cpu", **shared, **changes, seed=seed)
            start = time.process_time()
            parts = assemble(settings, data, engine=engine)
            *_, last = condense(cold(parts) if name == "exact" else parts)
            seconds = time.process_time() - start
            evaluation = Evaluation(pack(last, settings, data), data, protocol("quick"), engine=engine)
            curve = evaluation.curve(list(evaluation.scores(SIZES, NETWORKS)))
            points = "  ".join(f"{point.size}: {point.mean:.1f} ±{point.std:.1f}" for point in curve)
            mean = statistics.fmean(point.mean for point in curve)
            print(f"{name:16} seed {seed}  {seconds:4.0f} s  {points}  mean {mean:.2f}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    first, *rest = sys.argv[1:] or ["cifar10"]
    if first == "accuracy":
        accuracy([int(seed) for seed in rest] or [0])
    else:
        cost(first)


if __name__ == "__main__":
    main()
