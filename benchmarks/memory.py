"""How much time it saves to keep freed memory: one match and one training step, with and without.

Each case runs in processes of its own, three times in alternation, and the best time counts. Prints the ratios.

Run:   python benchmarks/memory.py
Takes: about a minute on 2 cores.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import torch

from mipset.condensing.objectives import GradientMatching
from mipset.nn.augment import IDC, Operation
from mipset.nn.memory import keep_freed_memory
from mipset.nn.networks import ConvNet
from mipset.nn.training import TrainingRule

ROUNDS, REPEATS, WIDTH = 3, 7, 64


def best_time(work: Callable[[], object]) -> float:
    """The shortest of several times, after two that do not count."""
    times = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def measure(keep: bool) -> list[float]:
    """The seconds of the real target, of the synthetic distances and of one training step."""
    if keep:
        keep_freed_memory()
    torch.set_num_threads(1)
    theta = ConvNet(3, 10, (32, 32), WIDTH)
    real, synthetic, labels = torch.randn(64, 3, 32, 32), torch.randn(40, 3, 32, 32), torch.arange(64) % 10
    objective = GradientMatching()
    target = objective.target(theta, real[None], [0])
    rule = TrainingRule(0.01, 0.9, 5e-4, IDC((Operation.COLOR, Operation.CROP)), 0.5)
    optimiser, draws = rule.optimiser(theta), torch.Generator()

    def match() -> object:
        pixels = synthetic.clone().requires_grad_()
        return torch.autograd.grad(objective.distances(theta, pixels[None], [0], target, [40]).distances.sum(), pixels)

    return [
        best_time(lambda: objective.target(theta, real[None], [0])),
        best_time(match),
        best_time(lambda: rule.step(theta, optimiser, real, labels, draws)),
    ]


def main() -> None:
    if len(sys.argv) > 1:
        print(*measure(sys.argv[1] == "keep"))
        return
    times: dict[str, list[list[float]]] = {"give back": [], "keep": []}
    for _ in range(ROUNDS):
        for case, rounds in times.items():
            out = subprocess.run([sys.executable, __file__, case], capture_output=True, text=True, check=True).stdout
            rounds.append([float(number) for number in out.split()])
    print(f"ConvNet-3, width {WIDTH}, one thread, torch {torch.__version__}; best of {ROUNDS} x {REPEATS}")
    for i, title in enumerate(("real target", "synthetic distances", "training step")):
        before, after = (min(seconds[i] for seconds in times[case]) for case in times)
        print(f"{title:20} {1e3 * before:7.1f} ms -> {1e3 * after:7.1f} ms   {before / after:.2f}x")


if __name__ == "__main__":
    main()
