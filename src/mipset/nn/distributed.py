"""Several processes for one run, started by torchrun.

A `Team` is all that the rest of mipset knows of it. Classes are shared out for matching, and the batches of network
training are shared out image by image; every process has the whole of S, the same networks, and draws the same numbers
(law 6). `Alone` is the team of one: it does nothing, so it costs nothing and changes no bit.

How a run of several ends: a process that stops for a reason writes it down where all can read it, then closes its
connections, on which the others stop too. One process of each machine says the first reason that was written. If a
process was killed there is none: the connections break all the same, and torchrun sends SIGTERM to the rest.

torch is imported when there are others, not before: `mipset --help` needs none.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn, TypeVar

from mipset.errors import SettingError, TeamError

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

T = TypeVar("T")

TIMEOUT = timedelta(minutes=10)  # for a machine that went away without a word; a process that ends is noticed at once
PATIENCE_SECONDS = 3.0  # how long a process lets the first of its machine speak before it speaks itself
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # by torchrun when another process ends, and by Ctrl-C
ENDED = "another process of this run has ended or does not answer"


class Team(ABC):
    """The processes of one run, as one of them sees it."""

    process: int  # the number of this process, from 0
    processes: int  # how many there are

    @property
    def leads(self) -> bool:
        """Whether this is the process that prints and writes files."""
        return self.process == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of `items`: a stretch, no longer than another's by more than one, and maybe empty."""
        return items[len(items) * self.process // self.processes : len(items) * (self.process + 1) // self.processes]

    @abstractmethod
    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        """Fill in what the others have found: of `whole`, this process has found the entries `own` along `dim`."""

    @abstractmethod
    def backward(self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter]) -> None:
        """Gradients of the mean loss of `count` images, where `loss` gives the mean of some of them.

        Every process looks at its share of the images and has the gradients of all of them afterwards.
        """

    @abstractmethod
    def first(self, read: Callable[[], bytes]) -> bytes:
        """What the leading process reads: the others may be on machines that do not see its files."""

    def agree(self, settings: Mapping[str, str]) -> None:
        """Stop if another command was typed here than where the leading process runs, or the data differ."""
        theirs = json.loads(self.first(json.dumps(dict(settings)).encode))
        for name, value in settings.items():
            if theirs.get(name) != value:
                raise SettingError(
                    f"process {self.process} has {name} {value}, but process 0 has {theirs.get(name)}: "
                    f"start every process of a run with the same command, version and data."
                )

    @abstractmethod
    def threads(self, cores: int) -> int | None:
        """How many threads of so many cores are for this process; None leaves it to torch."""

    @abstractmethod
    def device(self, name: str) -> str:
        """Which of the devices called `name` is for this process."""

    @abstractmethod
    def last_words(self, sentence: str) -> str | None:
        """What to say now that this process stops because of `sentence`, if it is the one to speak.

        The others stop too, and for the same reason.
        """


@dataclass(frozen=True)
class Alone(Team):
    """One process, which has everything."""

    process: int = 0
    processes: int = 1

    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        pass

    def backward(self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter]) -> None:
        loss(slice(0, count)).backward()  # type: ignore[no-untyped-call]

    def first(self, read: Callable[[], bytes]) -> bytes:
        return read()

    def threads(self, cores: int) -> int | None:
        return None

    def device(self, name: str) -> str:
        return name

    def last_words(self, sentence: str) -> str | None:
        return sentence


ALONE = Alone()


class Processes(Team):
    """Processes that torchrun started, on one machine or several: gloo between CPUs, nccl between GPUs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import torch
        import torch.distributed as dist
        import torch.distributed.nn  # imported later, its default arguments would hold on to the connections for ever
        from torch.distributed.rendezvous import rendezvous

        self.process, self.processes = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        self.local_process = int(environment.get("LOCAL_RANK", "0"))
        self.local_processes = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        self.machine = environment.get("GROUP_RANK", str(self.process))
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)  # while torch waits for the others, Python cannot answer a signal
        self._gpus = torch.cuda.is_available() and dist.is_nccl_available()
        self._joined = True
        backend = "cpu:gloo,cuda:nccl" if self._gpus else "gloo"
        try:
            self._store, *_ = next(rendezvous("env://", timeout=TIMEOUT))
            dist.init_process_group(
                backend, store=self._store, rank=self.process, world_size=self.processes, timeout=TIMEOUT
            )
        except (RuntimeError, ValueError, OSError) as error:
            at = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}"
            raise TeamError(
                f"process {self.process} of {self.processes} did not meet the others at {at}: "
                f"start all of them with torchrun, and see that the machines reach each other."
            ) from error
        for number in SIGNALS:
            signal.signal(number, self._stop)

    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        import torch

        index = torch.tensor(list(own), dtype=torch.long, device=whole.device)
        found = torch.zeros_like(whole).index_copy_(dim, index, whole.index_select(dim, index))
        self._sum(found)  # of zeros and one other number: exact
        whole.copy_(found)

    def backward(self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter]) -> None:
        import torch

        mine, learning = self.share(range(count)), list(parameters)
        if mine:
            part = loss(slice(mine[0], mine[-1] + 1)) * (len(mine) / count)
            part.backward()  # type: ignore[no-untyped-call]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self._sum(flat)
        for parameter, gradient in zip(learning, torch.split(flat, [p.numel() for p in learning]), strict=True):
            parameter.grad = gradient.view_as(parameter)

    def first(self, read: Callable[[], bytes]) -> bytes:
        import torch
        import torch.distributed as dist

        content = read() if self.leads else b""
        length = torch.tensor([len(content)])
        with _heard():
            dist.broadcast(length, src=0)
            passed = bytearray(content) if self.leads else bytearray(int(length))
            if passed:
                dist.broadcast(torch.frombuffer(passed, dtype=torch.uint8), src=0)
        return bytes(passed)

    def threads(self, cores: int) -> int | None:
        return max(1, cores // self.local_processes)

    def device(self, name: str) -> str:
        import torch

        kind, _, number = name.partition(":")
        if kind != "cuda" or self.local_processes == 1:
            return name
        if number:
            raise SettingError(f"--device {name} is one GPU for {self.local_processes} processes: choose cuda, or cpu.")
        if torch.cuda.device_count() < self.local_processes:
            raise SettingError(
                f"this machine has {torch.cuda.device_count()} GPUs for {self.local_processes} processes: "
                f"start fewer with --nproc-per-node, or add --device cpu."
            )
        torch.cuda.set_device(self.local_process)
        return f"cuda:{self.local_process}"

    def last_words(self, sentence: str) -> str | None:
        self._ignore_signals()
        here, claim = platform.node(), f"mipset/said/{self.machine}"
        try:
            written = self._store.compare_set("mipset/reason", "", f"{here}\n{sentence}").decode()
            if not self._gpus:  # leaving nccl may wait for the others; it ends with the process
                self.leave()
            self._joined = False
            end = time.monotonic() + PATIENCE_SECONDS * (self.local_process > 0)
            while time.monotonic() < end and not self._store.check([claim]):
                time.sleep(0.05)
            mine = self._store.add(claim, 1) == 1
        except RuntimeError:  # whoever kept the store has ended
            return sentence if self.local_process == 0 else None
        there, _, reason = written.partition("\n")
        return (reason if there == here else f"on {there}: {reason}") if mine else None

    def leave(self) -> None:
        """Close the connections."""
        import torch.distributed as dist

        if self._joined and dist.is_initialized():
            dist.destroy_process_group()
        self._joined = False

    def _sum(self, tensor: Tensor) -> None:
        import torch.distributed as dist

        with _heard():
            dist.all_reduce(tensor)

    def _stop(self, number: int, frame: object) -> NoReturn:
        """The terminal or torchrun ends this process: once is enough."""
        self._ignore_signals()
        raise KeyboardInterrupt(ENDED if number == signal.SIGTERM else "")

    def _ignore_signals(self) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def _heard() -> Iterator[None]:
    """Around what all do together: gloo and nccl tell of a lost process by a RuntimeError and nothing more precise."""
    try:
        yield
    except RuntimeError as error:
        raise TeamError(ENDED) from error


@contextmanager
def joined() -> Iterator[Team]:
    """The team that torchrun started this process for; a team of one where nobody else was started."""
    environment = dict(os.environ)
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(environment) or environment["WORLD_SIZE"] == "1":
        yield ALONE
        return
    team = Processes(environment)
    try:
        yield team
    finally:
        team.leave()
