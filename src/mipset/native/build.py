"""Compiling `kernels.cpp` once for this machine, and finding it again."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from mipset.errors import MipsetError
from mipset.files import home

FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-shared", "-fPIC", "-fno-math-errno")
COMPILERS = ("c++", "g++", "clang++")


class NoCompilerError(MipsetError):
    """The kernels cannot be compiled here."""


def library() -> Path:
    """The compiled kernels in the cache folder; made if they are not there."""
    source = resources.files("mipset.native").joinpath("kernels.cpp").read_bytes()
    compiler = _compiler()
    version = _run([compiler, "--version"])
    name = hashlib.sha256(b"\0".join([source, version, " ".join(FLAGS).encode(), _processor()])).hexdigest()[:16]
    path = home() / "kernels" / f"{name}.so"
    if not path.is_file():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".build-", dir=path.parent) as folder:
                text, made = Path(folder) / "kernels.cpp", Path(folder) / path.name
                text.write_bytes(source)
                _run([compiler, *FLAGS, "-o", str(made), str(text)])
                made.replace(path)  # several processes may build at once: each puts a whole file in place
        except OSError as error:
            raise NoCompilerError(f"the kernels cannot be kept in {path.parent} ({error}): set MIPSET_HOME.") from error
    return path


def _compiler() -> str:
    asked = os.environ.get("CXX")
    for name in (asked,) if asked else COMPILERS:
        found = shutil.which(name)
        if found:
            return found
    raise NoCompilerError(f"there is no C++ compiler ({asked or ', '.join(COMPILERS)}) here: install g++.")


def _run(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    except (OSError, subprocess.SubprocessError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
        reason = (output or b"").decode(errors="replace").strip().splitlines()
        raise NoCompilerError(f"{command[0]} does not compile the kernels: {(reason or [str(error)])[0]}.") from error


def _processor() -> bytes:
    """What tells this processor from another that might not run the same code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features"))})).encode()
