"""What the subset losses cost: one match with the base loss alone, with one subset, and with every prefix.

All cases take turns in one process, and the best time of each counts. Also prints what separate passes for the same
losses cost, and the difference between the two gradients.

Run:   python benchmarks/prefixes.py [WIDTH] [THREADS]
Takes: less than a minute with width 64 and one thread (the defaults).
Printed: with `64 1` and with `128 2`, one subset costs 1.01x and 0.99x of the base loss, every prefix 1.08x and 1.11x.
In separate passes, one subset costs 1.08x and 1.06x, every prefix 4.22x and 3.93x.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from mipset.condensing.objectives import GradientMatching
from mipset.nn.memory import keep_freed_memory
from mipset.nn.networks import ConvNet

N, PER_IMAGE, REAL, ROUNDS = 10, 4, 64, 9


def main() -> None:
    width, threads = (int(value) for value in (*sys.argv[1:], "64", "1")[:2])
    keep_freed_memory()
    torch.set_num_threads(threads)
    theta = ConvNet(3, 10, (32, 32), width)
    real, synthetic = torch.randn(REAL, 3, 32, 32), torch.randn(N * PER_IMAGE, 3, 32, 32)
    objective = GradientMatching()

    def in_one_pass(sizes: list[int]) -> Tensor:
        pixels = synthetic.clone().requires_grad_()
        target = objective.target(theta, real[None], [0])
        match = objective.distances(theta, pixels[None], [0], target, [n * PER_IMAGE for n in sizes])
        return torch.autograd.grad(match.distances.sum(), pixels)[0]

    def in_separate_passes(sizes: list[int]) -> Tensor:
        pixels = synthetic.clone().requires_grad_()
        target = objective.target(theta, real[None], [0])
        losses = [
            objective.distances(theta, pixels[None, : n * PER_IMAGE], [0], target, [n * PER_IMAGE]).distances
            for n in sizes
        ]
        return torch.autograd.grad(torch.cat(losses).sum(), pixels)[0]

    cases: dict[str, tuple[Callable[[list[int]], Tensor], list[int]]] = {
        "base loss": (in_one_pass, [N]),
        "base and one subset": (in_one_pass, [1, N]),
        "base and one subset, separate": (in_separate_passes, [1, N]),
        "every prefix": (in_one_pass, list(range(1, N + 1))),
        "every prefix, separate": (in_separate_passes, list(range(1, N + 1))),
    }
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for title, (work, sizes) in cases.items():
            start = time.perf_counter()
            work(sizes)
            best[title] = min(best[title], time.perf_counter() - start)
    print(
        f"one class: {REAL} real and {N * PER_IMAGE} synthetic images, ConvNet-3 of width {width}, {threads} thread(s)"
    )
    for title, seconds in best.items():
        print(f"{title:30} {1e3 * seconds:8.1f} ms   {seconds / best['base loss']:.2f}x")
    all_sizes = list(range(1, N + 1))
    gradient, reference = in_one_pass(all_sizes), in_separate_passes(all_sizes)
    difference = float((gradient - reference).norm() / reference.norm())
    print(f"the gradients of one pass and of separate passes differ by {difference:.1e} in relative norm")


if __name__ == "__main__":
    main()
