"""The libraries of a binary wheel: which one is chosen, and what happens if none fits."""

from __future__ import annotations

import platform
import shutil
from importlib import resources
from pathlib import Path

import pytest
import torch

from mipset.errors import NoCompilerError
from mipset.nn.engines import native
from mipset.nn.native import Kernels, build, library
from mipset.nn.native.levels import LEVELS, levels_of, shipped_name

SOURCE = resources.files("mipset.nn.native").joinpath("kernels.cpp").read_bytes()


@pytest.fixture(autouse=True)
def shipped(kernels: Kernels, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a library for each level of x86: copies of that of this machine. There is no compiler."""
    for level in LEVELS["x86_64"]:
        shutil.copy(kernels._library._name, tmp_path / shipped_name(level, SOURCE))
    monkeypatch.setattr(build, "SHIPPED", tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize(
    ("capability", "flags", "level"),
    [
        ("AVX512", b"flags : fma avx512f avx512_bf16", "avx512-bf16"),
        ("AVX512", b"flags : fma avx512f", "avx512"),
        ("AVX512", b"", "avx512"),  # where the processor cannot be asked
        ("AVX2", b"flags : avx2 avx512_bf16", "avx2"),
        ("DEFAULT", b"flags : sse2", "sse2"),
    ],
)
def test_fastest_library_that_the_processor_runs_is_chosen(
    shipped: Path, monkeypatch: pytest.MonkeyPatch, capability: str, flags: bytes, level: str
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    monkeypatch.setattr(build, "_processor", lambda: flags)
    assert library() == shipped / shipped_name(level, SOURCE)
    assert str(native()) == "compiled kernels"
    assert not (shipped / "home").exists()  # nothing was compiled, nor looked for in the cache


def test_library_of_another_source_is_not_used(shipped: Path) -> None:
    for path in shipped.glob("kernels-*.so"):
        path.rename(shipped / path.name.replace(path.stem.rpartition("-")[2], "0" * 16))
    with pytest.raises(NoCompilerError, match="no-such-compiler"):
        library()


def test_library_that_cannot_be_opened_is_passed_over(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    (shipped / shipped_name("avx2", SOURCE)).write_bytes(b"no library")
    assert library() == shipped / shipped_name("sse2", SOURCE)


def test_kernels_of_other_processors_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(levels_of("AMD64")) == list(levels_of("x86_64")) == list(LEVELS["x86_64"])
    assert list(levels_of("aarch64")) == list(levels_of("arm64")) == ["neon"]
    assert levels_of("riscv64") == {}
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(NoCompilerError, match="no-such-compiler"):
        library()
