"""What the subset losses cost: one match with the base loss alone, with one subset, and with every prefix.

All are measured in turn in one process; the best time of each counts. Beside it, what separate passes for the same
losses would cost, and how far the two gradients are apart. Usage: prefixes.py [WIDTH] [THREADS]
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

    def together(sizes: list[int]) -> Tensor:
        pixels = synthetic.clone().requires_grad_()
        target = objective.target(theta, real, 0)
        match = objective.distances(theta, pixels, 0, target, [n * PER_IMAGE for n in sizes])
        return torch.autograd.grad(match.distances.sum(), pixels)[0]

    def apart(sizes: list[int]) -> Tensor:
        pixels = synthetic.clone().requires_grad_()
        target = objective.target(theta, real, 0)
        losses = [
            objective.distances(theta, pixels[: n * PER_IMAGE], 0, target, [n * PER_IMAGE]).distances for n in sizes
        ]
        return torch.autograd.grad(torch.cat(losses).sum(), pixels)[0]

    cases: dict[str, tuple[Callable[[list[int]], Tensor], list[int]]] = {
        "base loss": (together, [N]),
        "base and one subset": (together, [1, N]),
        "base and one subset, apart": (apart, [1, N]),
        "every prefix": (together, list(range(1, N + 1))),
        "every prefix, apart": (apart, list(range(1, N + 1))),
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
        print(f"{title:28} {1e3 * seconds:8.1f} ms   {seconds / best['base loss']:.2f}x")
    everything = list(range(1, N + 1))
    one, many = together(everything), apart(everything)
    print(f"gradients of the two ways differ by {float((one - many).norm() / many.norm()):.1e} in relative norm")


if __name__ == "__main__":
    main()
