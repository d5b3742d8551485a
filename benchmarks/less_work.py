"""Compare ideas that could give the same accuracy with less work. Each idea gets the processor time of `plain`.

`plain` condenses CIFAR-10 by the recipe `cifar10-gradient-cpu` with 15 outer iterations, a new network in each of them,
plain steps at a pixel learning rate of 0.01, and the policy every-prefix. Every other idea changes some settings, and
has as many outer iterations as take the same time on one core. Then three networks learn from each of five sizes
(protocol `quick`). Prints one line for each idea.

Run:   python benchmarks/less_work.py [IDEA:SEED ...]
       For example `plain:0 pool:0`. Without arguments it runs all ideas with seed 0. It needs CIFAR-10.
Takes: about 4.5 minutes on one core for each condensation, and the evaluation after it.
Printed: docs/speed.md has the results. They are older than the present protocol `quick`, which gives other accuracies.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch

from mipset import Evaluation, assemble, condense, load, pack, recipe
from mipset.nn.engines import native
from mipset.nn.memory import keep_freed_memory

SIZES, NETWORKS = (1, 2, 3, 5, 10), 3
PLAIN: dict[str, Any] = {"steps": "plain", "pixel_lr": 0.01, "pool": 1, "life": 1}  # unlike the recipe today
IDEAS: dict[str, dict[str, Any]] = {
    "plain": {"outer": 15},  # 15 x 10 iterations; in each, a new network learns from 512 images
    "few": {"outer": 18, "train_images": 128},
    "untrained": {"outer": 19, "train_images": 0},
    "early": {"outer": 31, "inner": 5},
    "earlier": {"outer": 82, "inner": 2},
    "late": {"outer": 5, "inner": 30},
    "real": {"outer": 18, "real_batch": 32},
    "pool": {"outer": 15, "pool": 3, "life": 5},
    "pool-few": {"outer": 18, "pool": 3, "life": 6, "train_images": 128},
    "pool-old": {"outer": 15, "pool": 3, "life": 15},
    "bfloat16": {"outer": 15, "train_precision": "bfloat16"},  # the same work with less precision
}


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    data, engine = load("cifar10"), native()
    for run in sys.argv[1:] or [f"{idea}:0" for idea in IDEAS]:
        idea, _, seed = run.partition(":")
        settings = recipe(
            "cifar10-gradient-cpu", policy="every-prefix", seed=int(seed or 0), **{**PLAIN, **IDEAS[idea]}
        )
        start = time.process_time()
        *_, last = condense(assemble(settings, data, engine=engine))
        seconds = time.process_time() - start
        evaluation = Evaluation(pack(last, settings, data), data, engine=engine)
        curve = evaluation.curve(list(evaluation.scores(SIZES, NETWORKS)))
        points = "  ".join(f"{point.size}: {point.mean:.1f} ±{point.std:.1f}" for point in curve)
        mean = statistics.fmean(point.mean for point in curve)
        print(f"{idea:10} seed {settings.seed}  {seconds:4.0f} s  {points}  mean {mean:.2f}", flush=True)


if __name__ == "__main__":
    main()
