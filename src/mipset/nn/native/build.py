"""Compiling `kernels.cpp` once for this machine, and finding it again."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from mipset.errors import NoCompilerError
from mipset.io.files import home

FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-shared", "-fPIC", "-fno-math-errno")
COMPILERS = ("c++", "g++", "clang++")


def library() -> Path:
    """The compiled kernels in the cache folder; made if they are not there, or not whole."""
    source = resources.files("mipset.nn.native").joinpath("kernels.cpp").read_bytes()
    folder = home() / "kernels"
    reasons = []
    for compiler in _compilers():
        try:
            version = _run([*compiler, "--version"])
            machine = " ".join([*FLAGS, platform.machine(), *platform.libc_ver()]).encode()
            name = _hash(b"\0".join([source, version, machine, _processor()]))
            path = next((path for path in folder.glob(f"{name}-*.so") if _whole(path)), None)
            path = path or _compile(compiler, source, folder, name)
            ctypes.CDLL(str(path))
            return path
        except NoCompilerError as error:
            reasons.append(error)
        except OSError as error:
            raise NoCompilerError(
                f"the kernels cannot be kept in and opened from {folder} ({error}): set MIPSET_HOME to another folder."
            ) from error
    raise reasons[0]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _whole(path: Path) -> bool:
    """Whether a file is what its name says: opening a library that was cut short would end the process."""
    return path.stem.endswith(_hash(path.read_bytes()))


def _compile(compiler: list[str], source: bytes, to: Path, name: str) -> Path:
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=to) as folder:
        text, made = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        text.write_bytes(source)
        _run([*compiler, *FLAGS, "-o", str(made), str(text)])
        path = to / f"{name}-{_hash(made.read_bytes())}.so"
        made.replace(path)  # several processes may build at once: each puts a whole file in place
    return path


def _compilers() -> list[list[str]]:
    """Commands that may compile: what CXX says, or those that are known and here."""
    asked = os.environ.get("CXX")
    named = [shlex.split(asked)] if asked else [[name] for name in COMPILERS]
    found = [command for command in named if command and shutil.which(command[0])]
    if not found:
        raise NoCompilerError(f"there is no C++ compiler ({asked or ', '.join(COMPILERS)}) here: install g++.")
    return found


def _run(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    except (OSError, subprocess.SubprocessError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
        said = (output or b"").decode(errors="replace").strip().splitlines() or [str(error)]
        reason = next((line for line in said if "error" in line), said[0])
        raise NoCompilerError(f"{command[0]} does not compile the kernels: {reason}.") from error


def _processor() -> bytes:
    """What tells this processor from another that might not run the same code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features"))})).encode()
