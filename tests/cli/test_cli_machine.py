"""The flag --compile: which engine a verb computes with."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from commands import BRIEF, TINY, Here
from mipset import cli, read
from mipset.nn import engines
from mipset.nn.native import Kernels


class TestCompile:
    """Compiled kernels are used if a user asks for them or if the work is long."""

    WIDE = ("--width", "16", "--train-precision", "bfloat16")

    @pytest.fixture(autouse=True)
    def with_a_compiler(self, kernels: Kernels) -> None:
        """Skip where there is none."""

    def engine(self, path: Path) -> object:
        return read(path).provenance["engine"]

    def test_compile_on_off_and_auto(self, here: Here, tmp_path: Path, pets: Path) -> None:
        chosen = {}
        for choice in ("on", "off", "auto"):
            out = tmp_path / choice
            here("condense", f"npz:{pets}", "--out", out, *TINY, *self.WIDE, "--compile", choice)
            chosen[choice] = self.engine(out)
        assert chosen == {"on": "compiled kernels", "off": "plain torch", "auto": "plain torch"}  # toys are too small
        on, off = (read(tmp_path / choice).images.astype(int) for choice in ("on", "off"))
        assert np.abs(on - off).max() <= 8
        for workers in ("1", "2"):
            here("evaluate", tmp_path / "on", *BRIEF[:-1], workers, "--compile", "on", "--data", f"npz:{pets}")

    def test_longer_work_is_compiled(
        self, here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engines, "COMPILE_FROM", 1.0)
        here("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY)
        assert self.engine(tmp_path / "x") == "compiled kernels"

    def test_machine_without_a_compiler(
        self,
        refusal: Here,
        tmp_path: Path,
        pets: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(engines, "COMPILE_FROM", 1.0)
        monkeypatch.setenv("CXX", "no-such-compiler")
        command = ["condense", f"npz:{pets}", "--out", str(tmp_path / "x"), *TINY]
        assert "no C++ compiler (no-such-compiler) on this machine. Install g++." in refusal(
            *command, "--compile", "on"
        )
        with pytest.raises(SystemExit) as ended:
            cli.main(command)
        assert ended.value.code == 0
        messages = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mipset:")]
        assert messages == [
            "mipset: There is no C++ compiler (no-such-compiler) on this machine. Install g++. "
            "Continuing without compiled kernels, which is several times slower."
        ]
        assert self.engine(tmp_path / "x") == "plain torch"
        second = tmp_path / "y"
        second.write_bytes((tmp_path / "x").read_bytes())
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", str(tmp_path / "x"), str(second), *BRIEF, "--data", f"npz:{pets}"])
        assert ended.value.code == 0
        assert capfd.readouterr().err.count("no C++ compiler") == 1  # for two files

    def test_dry_run_times_the_chosen_engine(self, here: Here, pets: Path) -> None:
        printed = here("condense", f"npz:{pets}", *TINY, "--dry-run", "--compile", "on")
        assert "(cpu, 1 thread, compiled kernels)" in str(printed)


class TestMemory:
    """Work that needs more memory than is free is refused before anything is allocated."""

    @pytest.mark.parametrize("size", [("--width", 10**6), ("--ipc", 10**6), ("--width", 10**9), ("--ipc", 10**9)])
    def test_sizes_without_sense_are_refused_at_once(
        self, refusal: Here, tmp_path: Path, pets: Path, size: tuple[str, int]
    ) -> None:
        start = time.process_time()
        message = refusal("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY, "--init", "noise", *size)
        assert f"{size[0]} is {size[1]}: it must be at" in message or "GB of memory, but " in message
        assert time.process_time() - start < 15

    @pytest.mark.parametrize("size", [("--width", 10**6), ("--width", 10**9), ("--depth", 2**63)])
    def test_evaluate_refuses_networks_without_sense_at_once(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, size: tuple[str, int]
    ) -> None:
        here("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY, "--outer", 1, "--inner", 1)
        message = refusal("evaluate", tmp_path / "x", "--data", f"npz:{pets}", *BRIEF, *size)
        assert f"{size[0]} is {size[1]}: it must be at" in message or "GB of memory, but " in message

    def test_estimate_above_the_free_memory_is_refused_unless_forced(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out, grown = tmp_path / "x", tmp_path / "grown"
        monkeypatch.setattr("mipset.io.memory.free_memory", lambda: 2_000_000)
        advice = "but 2.0 MB are free. Choose a smaller --width, --real-batch or --ipc, or set --force-memory to try it"
        condense = ("condense", f"npz:{pets}", "--out", out, *TINY)
        assert advice in refusal(*condense)
        here(*condense, "--force-memory")
        grow = ("grow", out, "--data", f"npz:{pets}", "--ipc", 3, "--out", grown, "--threads", 1)
        assert advice in refusal(*grow)
        here(*grow, "--force-memory")
        evaluate = ("evaluate", out, "--data", f"npz:{pets}", *BRIEF)
        assert "Choose a smaller --width or --workers, or set --force-memory" in refusal(*evaluate)
        here(*evaluate, "--force-memory")
        compare = ("compare", "own-cpu", "--data", f"npz:{pets}", "--out", tmp_path / "table", *TINY)
        assert advice in refusal(*compare)
        monkeypatch.setattr("mipset.io.memory.free_memory", lambda: None)  # an unknown system
        here(*condense, "--force")
