"""How much memory is free, from the files of the system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from mipset.io.memory import free_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these files are those of Linux")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


MACHINE = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    5000 kB\n"}


@pytest.mark.parametrize(
    ("files", "free"),
    [
        ({}, 5000 * 1024),
        ({"proc/self/cgroup": "0::/a/b\n"}, 5000 * 1024),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "max\n",
                "sys/fs/cgroup/a/b/memory.current": "100\n",
                "sys/fs/cgroup/a/memory.max": "1000000\n",
                "sys/fs/cgroup/a/memory.current": "300000\n",
                "sys/fs/cgroup/a/memory.stat": "anon 7\ninactive_file 50000\n",
            },
            750_000,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/job\n1:cpu:/\n0::/\n",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000000\n",
                "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "500000\n",
                "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 0\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
                "sys/fs/cgroup/memory/memory.usage_in_bytes": "8\n",
            },
            1_500_000,
        ),
        (
            {
                "proc/self/cgroup": "0::/\n",
                "sys/fs/cgroup/memory.max": "1000\n",
                "sys/fs/cgroup/memory.current": "2000\n",
                "sys/fs/cgroup/memory.stat": "\n",
            },
            0,
        ),
    ],
    ids=["machine", "no files", "version 2", "version 1", "full"],
)
def test_least_of_machine_and_control_groups_is_free(tmp_path: Path, files: dict[str, str], free: int) -> None:
    assert free_memory(write(tmp_path, {**MACHINE, **files})) == free


def test_limit_of_the_address_space_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (3_000_000, 3_000_000))
    assert free_memory(write(tmp_path, {**MACHINE, "proc/self/status": "VmSize:\t 1000 kB\n"})) == 3_000_000 - 1_024_000


def test_this_machine_has_free_memory() -> None:
    free = free_memory()
    assert free is not None
    assert free > 10_000_000
