"""Ideas that might buy the same accuracy with less work, each given the processor time of the plain recipe.

Condenses CIFAR-10 by the recipe `cifar10-cpu` with 15 outer iterations and policy every-prefix, or with one idea and
as many outer iterations as take as long on one core; then trains three networks on each of five sizes (protocol quick).
Prints one line for each. Usage: less_work.py [IDEA:SEED ...], such as plain:0 pool:0; by default all with seed 0.
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
IDEAS: dict[str, dict[str, Any]] = {
    "plain": {"outer": 15},  # 15 x 10 iterations, between which a new network each time learns from 512 images
    "few": {"outer": 18, "train_images": 128},
    "untrained": {"outer": 19, "train_images": 0},
    "early": {"outer": 31, "inner": 5},
    "earlier": {"outer": 82, "inner": 2},
    "late": {"outer": 5, "inner": 30},
    "real": {"outer": 18, "real_batch": 32},
    "pool": {"outer": 15, "pool": 3, "life": 5},
    "pool-few": {"outer": 18, "pool": 3, "life": 6, "train_images": 128},
    "pool-old": {"outer": 15, "pool": 3, "life": 15},
    "bfloat16": {"outer": 15, "train_precision": "bfloat16"},  # not less work, but less precise
}


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    data, engine = load("cifar10"), native()
    for job in sys.argv[1:] or [f"{idea}:0" for idea in IDEAS]:
        idea, _, seed = job.partition(":")
        settings = recipe("cifar10-cpu", policy="every-prefix", seed=int(seed or 0), **IDEAS[idea])
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
