"""The speed-up of a second process: the same condensation in one process and shared by two, each of one thread.

Both run `mipset condense` on random images of CIFAR's shape, twice in alternation. The best time of one inner iteration
counts: ten classes are matched, and the network learns from 512 images. Prints two ratios. The ratio of the elapsed
times should be 1.7 or more if two cores are free. The ratio of the processor times of the first process is about what
the elapsed times would give on a machine without other work.

Run:   python benchmarks/processes.py [WIDTH]
Takes: about a minute on 2 free cores.
Printed: docs/speed.md has the result, as part of `make bench`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import noise
import numpy as np

from mipset import cli
from mipset.cli import condensing
from mipset.display.progress import Progress

ROUNDS, INNER = 2, 5
SETTINGS = [
    "--recipe",
    "paper-cifar10-ipc10",
    *("--ipc", "10", "--policy", "mdc", "--outer", "1", "--inner", str(INNER), "--train-images", "512"),
    *("--threads", "1", "--compile", "on", "--force"),
]


class TimedProgress(Progress):
    """A progress bar that also prints the time at the end of each inner iteration."""

    def advance(self, amount: float, note: str = "", earlier: bool = False) -> None:
        super().advance(amount, note)
        print("at", time.perf_counter(), time.process_time(), flush=True)


def iteration_seconds(processes: int, folder: Path, width: int) -> tuple[float, float]:
    """The shortest elapsed time and the shortest processor time of one inner iteration.

    The first iteration does not count. Nor does the last, because no network learns after it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, __file__, "condense", f"npz:{folder / 'noise.npz'}", "--out", str(folder / "set")]
    team = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    started = [
        subprocess.Popen(
            [*command, *SETTINGS, "--width", str(width)],
            env={**os.environ, **team, "MASTER_PORT": port, "RANK": str(process), "LOCAL_RANK": str(process)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for process in range(processes)
    ]
    printed, *_ = [running.communicate(timeout=300)[0] for running in started]
    times = np.array([line.split()[1:] for line in printed.splitlines() if line.startswith("at ")], dtype=float)
    elapsed, processor = np.diff(times[: INNER - 1], axis=0).min(axis=0)
    return float(elapsed), float(processor)


def best_seconds(width: int) -> dict[int, tuple[float, float]]:
    """For one process and for two: the best elapsed time and processor time of an inner iteration."""
    times: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        noise.write_dataset(folder / "noise.npz", train=1000, test=50)
        for _ in range(ROUNDS):
            for processes, rounds in times.items():
                rounds.append(iteration_seconds(processes, folder, width))
    return {processes: (min(r[0] for r in rounds), min(r[1] for r in rounds)) for processes, rounds in times.items()}


def main() -> None:
    if "condense" in sys.argv:
        setattr(condensing, "Progress", TimedProgress)  # noqa: B010
        cli.main(sys.argv[1:])
    width = int((*sys.argv[1:], "64")[0])
    best = best_seconds(width)
    print(f"one inner iteration: 10 classes of 10 images, 512 images to learn from, ConvNet-3 of width {width}")
    for clock, title in enumerate(("elapsed time", "processor time")):
        one, two = best[1][clock], best[2][clock]
        print(f"{title:17} one process of one thread {one:.2f} s, two {two:.2f} s: {one / two:.2f}x")


if __name__ == "__main__":
    main()
