"""Our own steps of a ConvNet for the CPU, compiled on the machine they run on: `kernels.cpp` through its C interface.

Compiling takes some seconds, once: the result is kept in the cache folder under a name made of the source, the
compiler and the processor.
"""

from __future__ import annotations

from mipset.nn.native.build import library
from mipset.nn.native.kernels import Kernels, lined_up, stretches

__all__ = ["Kernels", "library", "lined_up", "stretches"]
