"""Which device, how many threads and which engine a verb computes with, and the flags that choose them."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mipset.cli.parser import Parser
from mipset.cli.wording import counted, print_message
from mipset.errors import NoCompilerError, SettingError, choices
from mipset.nn.distributed import Team
from mipset.units import byte_count

if TYPE_CHECKING:
    import torch

    from mipset.data import Dataset
    from mipset.io.executors import Place
    from mipset.nn.engines import Engine
    from mipset.settings.recipe import Recipe


COMPILE = ("auto", "on", "off")
MOST_THREADS = 1024  # torch ends the process if it cannot start as many threads as it is asked for


def add_machine_flags(verb: Parser) -> None:
    """Add the flags that `device_of` and `Engines` read."""
    verb.add_argument("--device", default="auto", help="cpu, cuda, cuda:1, ... (default: auto, a GPU if there is one)")
    verb.add_argument(
        "--threads",
        metavar="K",
        type=int,
        help="CPU threads (default: one per core; under torchrun, a share of the cores)",
    )
    verb.add_argument(
        "--compile",
        choices=COMPILE,
        default="auto",
        help="whether to use our own CPU kernels, which are several times faster and are compiled once "
        "(default: auto, only for longer work)",
    )


def add_worker_flags(verb: Parser, unit: str) -> None:
    """Add the flags that `place_of` and `workers_of` read. `unit` is what an executor gives to its workers."""
    verb.add_argument(
        "--executor",
        metavar="NAME",
        default="processes",
        help=f"where {unit} are computed: processes (of this machine), dask:ADDRESS, slurm, "
        "slurm:partition=cpu,time=60 or submitit:local (default: processes)",
    )
    verb.add_argument(
        "--workers",
        metavar="P",
        type=int,
        help="processes of this machine that evaluate (default: one per core; with another executor, 1)",
    )


def place_of(arguments: argparse.Namespace) -> Place:
    """The place that `--executor` names."""
    from mipset.io.executors import Place

    place = Place.named(arguments.executor)
    if place.kind == "dask" and (arguments.workers or 1) > 1:
        raise SettingError(
            f"`workers` is {arguments.workers}, but a worker of dask starts no processes. Leave out `workers`, and "
            f"start more workers of dask."
        )
    return place


def add_memory_flag(verb: Parser) -> None:
    """Add the flag that `check_memory` reads."""
    verb.add_argument(
        "--force-memory", action="store_true", help="run even if the estimate of the memory is more than what is free"
    )


def check_memory(
    arguments: argparse.Namespace,
    device: torch.device,
    estimate: Callable[[], int],
    reduce: Sequence[str] = ("width", "real_batch", "ipc"),
) -> None:
    """Refuse work that needs more memory than is free, before any of it is allocated; `reduce` names what to reduce."""
    from mipset.io.memory import free_memory

    free = free_memory()
    elsewhere = getattr(arguments, "executor", "processes") != "processes"
    if arguments.force_memory or elsewhere or device.type != "cpu" or free is None:
        return
    needed = estimate()
    if needed > free:
        raise SettingError(
            f"This needs about {byte_count(needed)} of memory, but {byte_count(free)} are free. Choose a smaller "
            f"{choices([f'`{name}`' for name in reduce])}, or set `force_memory` to try it all the same."
        )


def tell_disk(
    arguments: argparse.Namespace, recipes: Iterable[Recipe], data: Dataset, device: torch.device, engine: Engine
) -> None:
    """Say how much disk the trajectories of experts will take, before the first of them is trained."""
    from mipset.condensing.assembly import expert_files
    from mipset.condensing.costs import cost

    experts = {expert_files(r, data, device, engine): r for r in recipes if r.learner == "trajectories"}
    for files, recipe in experts.items():  # recipes that differ in other settings share them
        missing = files.missing_trajectories(recipe.experts)
        if missing and arguments.team.leads:
            all_bytes = cost(recipe, data.shape, data.classes, len(data.train)).trajectory_bytes
            needed = byte_count(all_bytes * missing // recipe.experts)
            free = "" if files.free_bytes is None else f", where {byte_count(files.free_bytes)} are free"
            print_message(
                f"The trajectories of {counted(missing, 'expert')} will take {needed} in {files.folder}{free}."
            )


def refuse_torchrun(verb: str) -> None:
    """Refuse a verb under torchrun. Only `condense` shares its work; other verbs would do it in every process."""
    if os.environ.get("LOCAL_WORLD_SIZE", "1") != "1" and "TORCHELASTIC_RUN_ID" in os.environ:
        raise SettingError(f"torchrun works with `mipset condense` only. Start `mipset {verb}` without torchrun.")


def device_of(arguments: argparse.Namespace, place: Place | None = None) -> torch.device:
    """The device that `--device` names, or the best of this machine. Also sets the number of threads.

    If workers elsewhere compute, this machine need not have the device.
    """
    import torch

    from mipset.nn.memory import keep_freed_memory

    keep_freed_memory()
    team: Team = arguments.team
    threads = team.threads(_cores()) if arguments.threads is None else arguments.threads
    if threads is not None:
        if not 1 <= threads <= MOST_THREADS:
            raise SettingError(f"`threads` is {threads}: it must be from 1 to {MOST_THREADS}. Choose another value.")
        torch.set_num_threads(threads)
    name = arguments.device if arguments.device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of device names that it no longer supports
            device = torch.device(team.device(name))
            if place is None or place.is_this_process or arguments.device == "auto":
                torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, ImportError) as error:
        raise SettingError(f"`device` is {name!r}, which this machine does not have. Choose cpu or auto.") from error
    return device


def workers_of(arguments: argparse.Namespace, device: torch.device) -> int:
    """How many processes evaluate: what `--workers` says, else one per core on a CPU and one on a GPU or elsewhere."""
    if arguments.workers is not None:
        return int(arguments.workers)
    if arguments.executor != "processes":
        return 1
    return _cores() if device.type == "cpu" else 1


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class Engines:
    """Chooses the engine, plain torch or compiled kernels, as `--compile` says and as the work deserves."""

    def __init__(self, arguments: argparse.Namespace, device: torch.device) -> None:
        self._compile: str = arguments.compile
        self._device = device
        self._told = False
        if self._compile == "on" and device.type != "cpu":
            raise SettingError(
                f"`compile` is on, but `device` is {device}: kernels are for the CPU. Leave out `compile`."
            )

    def for_work(self, flops: Callable[[], float]) -> Engine:
        """The engine for work of so many FLOPs, which are counted only if they matter."""
        from mipset.nn.engines import Engine, default_engine, native

        if self._compile == "off":
            return Engine()
        if self._compile == "on":
            return native()
        return default_engine(self._device, flops, self._tell)

    def for_long_work(self) -> Engine:
        """The engine for work that is long for sure."""
        return self.for_work(lambda: float("inf"))

    def _tell(self, error: NoCompilerError) -> None:
        if not self._told:
            print_message(f"{error} Continuing without compiled kernels, which is several times slower.")
        self._told = True
