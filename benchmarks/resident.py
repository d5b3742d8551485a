"""Peak resident memory of a CIFAR-10 condensation at the paper's width, and the estimate `max_memory`.

Runs the real command, `mipset condense cifar10 --recipe paper-cifar10-ipc10`, for a few iterations. If CIFAR-10 was not
downloaded, random images of the same shape and number replace it. The exit code is 1 above 1.5 GB.

Run:   python benchmarks/resident.py [POLICY]
Takes: about a minute on 2 cores.
Printed: docs/speed.md has the result, as part of `make bench`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import noise

from mipset.condensing.costs import cost
from mipset.data import available
from mipset.settings.paper_recipes import PAPER_CIFAR10
from mipset.units import byte_count

LIMIT = 1_500_000_000
OUTER, INNER, TRAIN, TEST = 2, 4, 50_000, 10_000


def peak_and_estimate(policy: str) -> tuple[int, int]:
    """The peak resident memory of `mipset condense` in bytes, and its estimate."""
    recipe = PAPER_CIFAR10.replace(policy=policy, outer=OUTER, inner=INNER)
    downloaded = any(entry.name == "cifar10" and entry.present for entry in available())
    with tempfile.TemporaryDirectory() as folder:
        data = "cifar10" if downloaded else noise.write_dataset(Path(folder) / "noise.npz", TRAIN, TEST)
        flags = ["--recipe", "paper-cifar10-ipc10", "--policy", policy, "--out", f"{folder}/out.safetensors"]
        loops = ["--outer", str(OUTER), "--inner", str(INNER)]
        command = [sys.executable, "-m", "mipset", "condense", data, *flags, *loops]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, code, usage = os.wait4(process.pid, 0)
    if code:
        raise SystemExit(f"{' '.join(command)} failed")
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak, cost(recipe, (3, 32, 32), 10, TRAIN, TEST).max_memory


def main() -> None:
    policy = (*sys.argv[1:], "every-prefix")[0]
    peak, estimate = peak_and_estimate(policy)
    print(
        f"CIFAR-10 or random images of its shape; {policy}, width {PAPER_CIFAR10.width}, {PAPER_CIFAR10.ipc} per class"
    )
    print(f"peak resident memory {peak / 1e6:,.0f} MB; max_memory {estimate / 1e6:,.0f} MB: {estimate / peak:.2f}x")
    print(f"{'below' if peak < LIMIT else 'above'} {byte_count(LIMIT)}")
    sys.exit(peak >= LIMIT)


if __name__ == "__main__":
    main()
