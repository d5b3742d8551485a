"""For which processors kernels are compiled when a binary wheel is built, and how their files are named.

`setup.py` reads this module before mipset is installed, so it imports nothing but the standard library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

FLAGS = ("-O3", "-std=c++17", "-fopenmp", "-shared", "-fPIC", "-fno-math-errno")

AVX2 = ("-mavx2", "-mfma")
AVX512 = (*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")

# By machine, the fastest level first: the flags that allow exactly the instruction sets that `build.py` asks for.
LEVELS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "x86_64": {
        "avx512-bf16": (*AVX512, "-mavx512bf16"),
        "avx512": AVX512,
        "avx2": AVX2,
        "sse2": (),
    },
    "arm64": {"neon": ()},
}
SAME_MACHINES = {"amd64": "x86_64", "aarch64": "arm64"}


def levels_of(machine: str) -> Mapping[str, Sequence[str]]:
    """The levels of `platform.machine()`; none if no binary wheel is built for it."""
    name = machine.lower()
    return LEVELS.get(SAME_MACHINES.get(name, name), {})


def short_hash(content: bytes) -> str:
    """The beginning of a digest, for the name of a file."""
    return hashlib.sha256(content).hexdigest()[:16]


def shipped_name(level: str, source: bytes) -> str:
    """The name of the library that a wheel has for a level, compiled from this source."""
    return f"kernels-{level}-{short_hash(source)}.so"
