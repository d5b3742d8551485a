"""Peak resident memory of a CIFAR-10 condensation at the paper's width, next to its `max_memory` estimate.

Runs the real command, `mipset condense cifar10 --ipc 10 --width 128`, for a few iterations.
Where CIFAR-10 has not been fetched, random images of the same shape and number stand in. Exits with 1 above 1.5 GB.

Usage: resident.py [POLICY]
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
from mipset.settings.catalogue import PAPER_CIFAR10
from mipset.units import byte_count

MOST = 1_500_000_000
OUTER, INNER, TRAIN, TEST = 2, 4, 50_000, 10_000


def measured(policy: str) -> tuple[int, int]:
    """The peak resident memory of `mipset condense`, and what was estimated."""
    recipe = PAPER_CIFAR10.replace(policy=policy, outer=OUTER, inner=INNER)
    fetched = any(entry.name == "cifar10" and entry.present for entry in available())
    with tempfile.TemporaryDirectory() as folder:
        data = "cifar10" if fetched else noise.write(Path(folder) / "noise.npz", TRAIN, TEST)
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
    peak, estimate = measured(policy)
    print(
        f"CIFAR-10 or random images of its shape; {policy}, width {PAPER_CIFAR10.width}, {PAPER_CIFAR10.ipc} per class"
    )
    print(f"peak resident memory {peak / 1e6:,.0f} MB; max_memory {estimate / 1e6:,.0f} MB: {estimate / peak:.2f}x")
    print(f"{'below' if peak < MOST else 'above'} {byte_count(MOST)}")
    sys.exit(peak >= MOST)


if __name__ == "__main__":
    main()
