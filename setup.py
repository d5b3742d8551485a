"""An optional step of the build: `MIPSET_KERNELS=1 python -m build --wheel` compiles the C++ kernels into the wheel.

Without that variable the wheel is pure Python, and the kernels are compiled on the machine that uses them. With it, the
wheel has a library for each level of `levels.py`, and its tag names the platform. The libraries are no extension
modules: any Python 3 loads them with ctypes.
"""

from __future__ import annotations

import os
import platform
import runpy
import shlex
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

NATIVE = Path("mipset", "nn", "native")
SHIPS_KERNELS = os.environ.get("MIPSET_KERNELS", "0") not in ("", "0")


class BuildKernels(build_py):
    """Copies the package, and compiles the kernels of every level beside their source."""

    def run(self) -> None:
        super().run()
        if SHIPS_KERNELS and not self.editable_mode:
            levels = runpy.run_path(str(Path("src") / NATIVE / "levels.py"))
            machine = os.environ.get("_PYTHON_HOST_PLATFORM", "").rpartition("-")[2] or platform.machine()
            chosen = levels["levels_of"](machine)
            if not chosen:
                raise SystemExit(f"MIPSET_KERNELS is set, but there are no kernels for the processor {machine!r}.")
            source = Path("src") / NATIVE / "kernels.cpp"
            for level, flags in chosen.items():
                out = Path(self.build_lib) / NATIVE / levels["shipped_name"](level, source.read_bytes())
                compiler = shlex.split(os.environ.get("CXX", "c++"))
                subprocess.run([*compiler, *levels["FLAGS"], *flags, "-o", str(out), str(source)], check=True)


class PlatformWheel(bdist_wheel):
    """A wheel for every Python 3 of one platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class BinaryDistribution(Distribution):
    """One that is no pure Python."""

    def has_ext_modules(self) -> bool:
        return True


if SHIPS_KERNELS:
    setup(cmdclass={"build_py": BuildKernels, "bdist_wheel": PlatformWheel}, distclass=BinaryDistribution)
else:
    setup()
