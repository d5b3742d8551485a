"""Compile `kernels.cpp` once for this machine, and find the result again.

A library is code: it is kept in, and loaded from, folders only that no other user can change.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from mipset.errors import NoCompilerError
from mipset.io.files import home

FLAGS = ("-O3", "-march=native", "-std=c++17", "-fopenmp", "-shared", "-fPIC", "-fno-math-errno")
COMPILERS = ("c++", "g++", "clang++")


def library() -> Path:
    """The path of the compiled kernels in the cache folder; compiles them if they are missing or damaged."""
    source = resources.files("mipset.nn.native").joinpath("kernels.cpp").read_bytes()
    folder = home() / "kernels"
    _check_private(folder)
    reasons = []
    for compiler in _compilers():
        try:
            version = _run([*compiler, "--version"])
            machine = " ".join([*FLAGS, platform.machine(), *platform.libc_ver()]).encode()
            name = _hash(b"\0".join([source, version, machine, _processor()]))
            path = next((path for path in folder.glob(f"{name}-*.so") if _own(path) and _whole(path)), None)
            path = path or _compile(compiler, source, folder, name)
            ctypes.CDLL(str(path))
            return path
        except NoCompilerError as error:
            reasons.append(error)
        except OSError as error:
            raise NoCompilerError(
                f"The compiled kernels cannot be stored in {folder} and opened there ({error}). "
                f"Set MIPSET_HOME to another folder."
            ) from error
    raise reasons[0]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _whole(path: Path) -> bool:
    """Whether the content of a file has the hash in its name: opening a truncated library would end the process."""
    return path.stem.endswith(_hash(path.read_bytes()))


def _check_private(folder: Path) -> None:
    """Refuse a folder that another user can change or replace: a library in it might be theirs."""
    place = folder.resolve()
    for path in (place, *place.parents):
        if path.exists() and not _own(path, sticky=path != place):
            raise NoCompilerError(
                f"The compiled kernels are not kept in {folder}, nor loaded from there, because other users can change "
                f"{path}. Set MIPSET_HOME to a folder of your own, or forbid others to write there (chmod go-w)."
            )


def _own(path: Path, sticky: bool = False) -> bool:
    """Whether this user or root owns a file or folder, and nobody else can write to it.

    With `sticky`, others may add files to the folder, if they cannot replace those that are there.
    """
    if sys.platform == "win32":  # where the permissions of a folder are no mode
        return True
    state = path.stat()
    private_group = state.st_gid == state.st_uid and not stat.S_ISREG(state.st_mode)  # many systems give users one
    others = stat.S_IWOTH if private_group else stat.S_IWOTH | stat.S_IWGRP
    closed = not state.st_mode & others or (sticky and bool(state.st_mode & stat.S_ISVTX))
    return closed and state.st_uid in (os.getuid(), 0)


def _compile(compiler: list[str], source: bytes, to: Path, name: str) -> Path:
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_private(to)  # the folder, and those above it that were made just now
    with tempfile.TemporaryDirectory(prefix=".build-", dir=to) as folder:
        text, compiled = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        text.write_bytes(source)
        _run([*compiler, *FLAGS, "-o", str(compiled), str(text)])
        compiled.chmod(0o700)
        path = to / f"{name}-{_hash(compiled.read_bytes())}.so"
        compiled.replace(path)  # atomic: several processes may compile at the same time
    return path


def _compilers() -> list[list[str]]:
    """Commands of installed compilers: that of the variable CXX, or else the usual ones."""
    variable = os.environ.get("CXX")
    commands = [shlex.split(variable)] if variable else [[name] for name in COMPILERS]
    installed = [command for command in commands if command and shutil.which(command[0])]
    if not installed:
        names = variable or ", ".join(COMPILERS)
        raise NoCompilerError(f"There is no C++ compiler ({names}) on this machine. Install g++.")
    return installed


def _run(command: list[str]) -> bytes:
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    except (OSError, subprocess.SubprocessError) as error:
        output = error.stderr if isinstance(error, subprocess.CalledProcessError) else b""
        lines = (output or b"").decode(errors="replace").strip().splitlines() or [str(error)]
        reason = next((line for line in lines if "error" in line), lines[0])
        raise NoCompilerError(f"{command[0]} does not compile the kernels: {reason}.") from error


def _processor() -> bytes:
    """The instruction sets of this processor: another one might not run the same code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor().encode()
    return "\n".join(sorted({line for line in lines if line.startswith(("flags", "Features"))})).encode()
