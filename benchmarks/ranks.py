"""What a second process is worth: the same condensation in one process and shared by two, each of one thread.

Both run `mipset condense` on random images of CIFAR's shape, twice in alternation, and the best time counts: that
of one inner iteration, in which ten classes are matched and the network learns from 512 images, the first excepted.
Prints the ratio, which should be 1.7 or more where two cores are free, and that of the processor time which the first
process spent: about what the other would be on a machine that has nothing else to do. Usage: ranks.py [WIDTH]
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
    *("--ipc", "10", "--policy", "mdc", "--outer", "1", "--inner", str(INNER), "--train-images", "512"),
    *("--threads", "1", "--compile", "on", "--force"),
]


class Timed(Progress):
    """A progress bar that also prints when each inner iteration was over."""

    def advance(self, amount: float, note: str = "", earlier: bool = False) -> None:
        super().advance(amount, note)
        print("at", time.perf_counter(), time.process_time(), flush=True)


def seconds(processes: int, folder: Path, width: int) -> tuple[float, float]:
    """On the clock and of the processor, for one inner iteration: the least of each.

    The first does not count, nor does the last, after which no network learns.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, __file__, "condense", f"npz:{folder / 'noise.npz'}", "--out", str(folder / "set")]
    team = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1"}
    started = [
        subprocess.Popen(
            [*command, *SETTINGS, "--width", str(width)],
            env={**os.environ, **team, "MASTER_PORT": port, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(processes)
    ]
    printed, *_ = [process.communicate(timeout=300)[0] for process in started]
    times = np.array([line.split()[1:] for line in printed.splitlines() if line.startswith("at ")], dtype=float)
    clock, processor = np.diff(times[: INNER - 1], axis=0).min(axis=0)
    return float(clock), float(processor)


def measured(width: int) -> dict[int, tuple[float, float]]:
    """The best times of one process and of two, on the clock and of the processor."""
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        noise.write(folder / "noise.npz", train=1000, test=50)
        for _ in range(ROUNDS):
            for processes, rounds in found.items():
                rounds.append(seconds(processes, folder, width))
    return {processes: (min(r[0] for r in rounds), min(r[1] for r in rounds)) for processes, rounds in found.items()}


def main() -> None:
    if "condense" in sys.argv:
        setattr(condensing, "Progress", Timed)  # noqa: B010
        cli.main(sys.argv[1:])
    width = int((*sys.argv[1:], "64")[0])
    found = measured(width)
    print(f"one inner iteration: 10 classes of 10 images, 512 images to learn from, ConvNet-3 of width {width}")
    for title, of in (("on the clock", 0), ("of the processor", 1)):
        one, two = found[1][of], found[2][of]
        print(f"{title:17} one process of one thread {one:.2f} s, two {two:.2f} s: {one / two:.2f}x")


if __name__ == "__main__":
    main()
