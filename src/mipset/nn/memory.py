"""Keep freed memory instead of giving it back: the same large tensors are made again in every iteration."""

from __future__ import annotations

import ctypes
import sys

# Of mallopt(3).
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX = -1, -2, -4
MOST = 2**31 - 1


def keep_freed_memory() -> None:
    """Let this process reuse freed memory where the C library can be told to (glibc); elsewhere nothing happens.

    By default every large tensor is mapped anew and its pages are zeroed at first touch, which can take a fifth of
    the time (benchmarks/memory.py).
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
