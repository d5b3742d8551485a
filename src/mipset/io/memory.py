"""How much memory is free: the one place that asks the system."""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path("/")
UNLIMITED = 1 << 60  # a limit of this size is none: version 1 of cgroups writes about 2^63


def free_memory(root: Path = ROOT) -> int | None:
    """Bytes that this process can still get without swapping; None if the system does not say.

    That is the least of the memory of the machine, of the control groups of this process (a container has one), and of
    the limit of its address space. `root` is the root of the file system.
    """
    known = [value for value in (_of_machine(root), _of_groups(root), _of_process(root)) if value is not None]
    return max(0, min(known)) if known else None


def held_memory(root: Path = ROOT) -> int | None:
    """Bytes that this process holds in memory now; its peak, where the system tells nothing else; None if neither."""
    with suppress(OSError, ValueError):
        return _kilobytes(root / "proc/self/status", "VmRSS")
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _of_machine(root: Path) -> int | None:
    with suppress(OSError, ValueError):
        return _kilobytes(root / "proc/meminfo", "MemAvailable")
    with suppress(OSError, ValueError, AttributeError):  # macOS knows the installed memory only, Windows neither
        names = [name for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES") if name in os.sysconf_names]
        return os.sysconf(names[0]) * os.sysconf("SC_PAGE_SIZE") if names else None
    return None


def _of_groups(root: Path) -> int | None:
    """What the control groups of this process leave, of version 1 and 2, those that they are a part of included."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    left: list[int] = []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        top = root / "sys/fs/cgroup" / controllers
        names = (
            ("memory.max", "memory.current") if not controllers else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        group = top / place.lstrip("/")
        for folder in (group, *group.parents):
            with suppress(OSError, ValueError):  # a group without a limit says "max", or lacks the files
                limit, used = (int((folder / name).read_text()) for name in names)
                if limit < UNLIMITED:
                    left.append(limit - used + _reclaimable(folder))
            if folder == top:
                break
    return min(left, default=None)


def _reclaimable(group: Path) -> int:
    """Bytes of the file cache, which count as used but are given up when somebody needs them."""
    match = re.search(r"^(?:total_)?inactive_file (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
    return int(match[1]) if match else 0


def _of_process(root: Path) -> int | None:
    """What the limit of the address space (ulimit -v) leaves."""
    if sys.platform != "linux":
        return None
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    with suppress(OSError, ValueError):
        return limit - _kilobytes(root / "proc/self/status", "VmSize")
    return limit


def _kilobytes(path: Path, name: str) -> int:
    """A value of a file of lines such as `MemAvailable:  1234 kB`, in bytes."""
    match = re.search(rf"^{name}:\s*(\d+) kB$", path.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError
    return int(match[1]) * 1024
