"""What a verb computes with: the flags that say so, the device, its threads, and who computes a network's steps."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from mipset.cli.shared import Parser, say
from mipset.errors import NoCompilerError, SettingError
from mipset.nn.distributed import Team

if TYPE_CHECKING:
    import torch

    from mipset.nn.engines import Engine


COMPILE = ("auto", "on", "off")
MOST_THREADS = 1024  # more than that ends the process instead of helping it
COMPILE_FROM = 3e11  # FLOPs from which it pays: some seconds of plain torch


def add_machine_flags(verb: Parser) -> None:
    """What `chosen_device` and `Engines` read."""
    verb.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default: auto)")
    verb.add_argument(
        "--threads", metavar="K", type=int, help="of the CPU (default: every core, or a share of them under torchrun)"
    )
    verb.add_argument(
        "--compile",
        choices=COMPILE,
        default="auto",
        help="kernels of our own, several times faster on a CPU; compiled once, kept (default: auto, for longer work)",
    )


def refuse_torchrun(verb: str) -> None:
    """Only `condense` is shared by the processes that torchrun starts: all others would do the same work twice."""
    if os.environ.get("LOCAL_WORLD_SIZE", "1") != "1" and "TORCHELASTIC_RUN_ID" in os.environ:
        raise SettingError(f"torchrun shares out `mipset condense` only: start `mipset {verb}` without it.")


def chosen_device(chosen: argparse.Namespace) -> torch.device:
    """The device asked for, or the best there is, once it has answered; its threads are set on the way."""
    import torch

    from mipset.nn.memory import keep_freed_memory

    keep_freed_memory()
    team: Team = chosen.team
    threads = team.threads(_cores()) if chosen.threads is None else chosen.threads
    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise SettingError(f"--threads cannot be {threads}: choose from 1 to {MOST_THREADS}.")
        torch.set_num_threads(threads)
    name = chosen.device if chosen.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that are devices no more
            device = torch.device(team.device(name))
            torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise SettingError(f"--device cannot be {name!r} on this machine: choose cpu, or leave it out.") from error
    return device


def workers(chosen: argparse.Namespace, device: torch.device) -> int:
    """How many processes evaluate: as many as --workers says, else one for each core that could have idled."""
    if chosen.workers is not None:
        return int(chosen.workers)
    return _cores() if device.type == "cpu" else 1


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Engines:
    """Who computes the networks' steps: what --compile says, for so much work."""

    def __init__(self, chosen: argparse.Namespace, device: torch.device) -> None:
        self._compile: str = chosen.compile
        self._on_cpu = device.type == "cpu"
        self._compiled: Engine | None = None
        if self._compile == "on" and not self._on_cpu:
            raise SettingError(f"--compile on is for the CPU, not for --device {device}: leave it out.")

    def for_work(self, flops: Callable[[], float]) -> Engine:
        """Compiled kernels, if they were asked for or so many FLOPs make them worth their compilation."""
        from mipset.nn.engines import Engine

        wanted = self._compile == "on" or (self._compile == "auto" and self._on_cpu and flops() >= COMPILE_FROM)
        if not wanted:
            return Engine()
        if self._compiled is None:
            self._compiled = self._native()
        return self._compiled

    def _native(self) -> Engine:
        from mipset.nn.engines import Engine, native

        try:
            return native()
        except NoCompilerError as error:
            if self._compile == "on":
                raise
            say(f"{str(error).rstrip('.')}; going on without, which is several times slower.")
            return Engine()
