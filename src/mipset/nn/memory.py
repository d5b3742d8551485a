"""Keep freed memory in the process: every iteration allocates the same large tensors again."""

from __future__ import annotations

import ctypes
import sys

# Of mallopt(3).
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Let this process reuse freed memory, if its C library is glibc; otherwise do nothing.

    By default glibc maps new pages for every large tensor, and the kernel fills them with zeros, which can take a fifth
    of the time (benchmarks/memory.py).
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):  # another C library
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, MOST)
    mallopt(M_TOP_PAD, 64 * 2**20)
