"""A condensed set where it is used: take the prefix that fits, verify it, train, grow it, shrink it.

    from mipset import device

    source = device.open("https://example.org/c10.safetensors")   # or a path; reads the header alone
    chosen = device.plan(source, bytes=200_000)                   # the largest size that fits, and how good it is
    small = source.prefix(chosen.size)                            # reads and verifies so many images per class
    for images, labels in small.batches(64, epochs=chosen.epochs):
        ...                                                       # float32 [k, ch, h, w] and int64 [k], k <= 64
    small = small.grow(chosen.size + 1)                           # reads one more image per class, and no more

Numpy and the standard library are all it needs. Whatever a file or a server does, the outcome is verified images or one
of the errors in `mipset.errors`.
"""

from __future__ import annotations

from mipset.device.planning import Expected, Plan, plan, probe
from mipset.device.source import Source, open
from mipset.device.subset import Subset

__all__ = ["Expected", "Plan", "Source", "Subset", "open", "plan", "probe"]
