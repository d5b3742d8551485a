"""Find the compiled kernels: those that a binary wheel brought, or compile `kernels.cpp` once for this machine.

A library is code. One that comes with the package is trusted as the package is. One that is compiled is kept in, and
loaded from, folders only that no other user can change.
"""

from __future__ import annotations

import ctypes
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

import torch

from mipset.errors import NoCompilerError
from mipset.io.files import home
from mipset.nn.native.levels import FLAGS, levels_of, shipped_name, short_hash

MACHINE_FLAGS = (*FLAGS, "-march=native")
COMPILERS = ("c++", "g++", "clang++")


SHIPPED = Path(__file__).parent  # where a binary wheel has its libraries


def library() -> Path:
    """The path of the compiled kernels: those of the wheel if they fit this machine, or else those of the cache folder.

    They are compiled if they are missing there or damaged.
    """
    source = resources.files("mipset.nn.native").joinpath("kernels.cpp").read_bytes()
    return _shipped(source) or _compiled(source)


def _shipped(source: bytes) -> Path | None:
    """The fastest library of the wheel that this processor runs, if it was compiled from this source."""
    for level in levels_of(platform.machine()):
        path = SHIPPED / shipped_name(level, source)
        if path.is_file() and _runs(level):
            try:
                ctypes.CDLL(str(path))
                return path
            except OSError:  # such as one that needs a newer C library, or OpenMP, which is not here
                continue
    return None


def _runs(level: str) -> bool:
    """Whether this processor has the instruction sets of a level."""
    best = torch.backends.cpu.get_cpu_capability()
    if level == "avx512-bf16":
        return best == "AVX512" and b"avx512_bf16" in _processor().split()
    return {"avx512": best == "AVX512", "avx2": best in ("AVX512", "AVX2")}.get(level, True)


def _compiled(source: bytes) -> Path:
    """The library of the cache folder."""
    folder = home() / "kernels"
    _check_private(folder)
    reasons = []
    for compiler in _compilers():
        try:
            version = _run([*compiler, "--version"])
            machine = " ".join([*MACHINE_FLAGS, platform.machine(), *platform.libc_ver()]).encode()
            name = short_hash(b"\0".join([source, version, machine, _processor()]))
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


def _whole(path: Path) -> bool:
    """Whether the content of a file has the hash in its name: opening a truncated library would end the process."""
    return path.stem.endswith(short_hash(path.read_bytes()))


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
        _run([*compiler, *MACHINE_FLAGS, "-o", str(compiled), str(text)])
        compiled.chmod(0o700)
        path = to / f"{name}-{short_hash(compiled.read_bytes())}.so"
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
