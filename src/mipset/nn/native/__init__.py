"""C++ kernels for the layers of ConvNets and ResNets on a CPU: `kernels.cpp`, compiled on the machine that runs it.

Compiling takes some seconds, once. The library is kept in the cache folder; its name depends on the source, the
compiler and the processor. A binary wheel brings libraries for several kinds of processors, so that no compiler is
needed.
"""

from __future__ import annotations

from mipset.nn.native.build import library
from mipset.nn.native.kernels import Block, Kernels, lined_up, stretches

__all__ = ["Block", "Kernels", "library", "lined_up", "stretches"]
