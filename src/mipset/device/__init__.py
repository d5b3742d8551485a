"""Condensed sets on devices: open a file, plan the size that fits, read that prefix, train, grow, shrink.

    from mipset import device

    source = device.open("https://example.org/c10.safetensors")   # or a path; reads only the header
    plan = device.plan(source, bytes=200_000)                     # the largest size that fits, and its accuracy
    small = source.prefix(plan.size)                              # reads and verifies so many images per class
    for images, labels in small.batches(64, epochs=plan.epochs):
        ...                                                       # float32 [k, ch, h, w] and int64 [k], k <= 64
    small = small.grow(plan.size + 1)                             # reads only one more image per class

It needs only numpy and the standard library. Whatever a file or a server does, the result is verified images or one of
the errors in `mipset.errors`. docs/devices.md is the guide.
"""

from __future__ import annotations

from mipset.device.planning import Expected, Plan, plan, probe
from mipset.device.source import Source, open
from mipset.device.subset import Subset

__all__ = ["Expected", "Plan", "Source", "Subset", "open", "plan", "probe"]
