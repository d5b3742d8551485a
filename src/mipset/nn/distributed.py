"""Several processes for one run, started by torchrun.

The rest of mipset only knows a `Team`. Its processes share the classes when images are matched, and the images of a
batch when the network is trained. Every process has all of S and the same networks, and draws the same numbers. `Alone`
is the team of one process: it does nothing, so it costs nothing and changes no bit.

How a run of several processes ends: a process that stops writes the reason where all processes can read it, then closes
its connections, so the others stop too. One process of each machine prints the first reason that was written. If a
process was killed, there is no reason: the connections break, and torchrun sends SIGTERM to the others.

torch is imported only if there are several processes, so the command line starts fast.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from mipset.errors import SettingError, TeamError
from mipset.units import parse_duration

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter

T = TypeVar("T")

TIMEOUT_VARIABLE = "MIPSET_TEAM_TIMEOUT"  # how long to wait for a process that does not answer, such as 90s
TIMEOUT = "10min"  # if it is not set; a process that ends is noticed at once
PATIENCE_SECONDS = 3.0  # how long a process waits for the first process of its machine to print the reason
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # from torchrun when another process ends, and from Ctrl-C
ENDED = "Another process of this run has ended or does not answer"


class Team(ABC):
    """The processes of one run, from the view of one of them."""

    process: int  # the number of this process, from 0
    processes: int  # how many there are

    @property
    def leads(self) -> bool:
        """Whether this is the process that prints and writes files."""
        return self.process == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """The part of `items` for this process. The lengths of all parts differ by one at most; a part may be empty."""
        return items[len(items) * self.process // self.processes : len(items) * (self.process + 1) // self.processes]

    @abstractmethod
    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        """Fill in the entries of the other processes; this process has computed the entries `own` along `dim`."""

    @abstractmethod
    def backward(
        self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter], at_once: int | None = None
    ) -> None:
        """Compute the gradients of the mean loss of `count` images; `loss` gives the mean loss of some of them.

        Every process computes its share of the images, and has the gradients of all images afterwards. With `at_once`,
        it computes so many of them at a time, which needs less memory.
        """

    @abstractmethod
    def first(self, read: Callable[[], bytes]) -> bytes:
        """The bytes that the leading process reads; the other machines may not have the file."""

    def agree(self, settings: Mapping[str, str]) -> None:
        """Refuse to go on if these settings differ from those of the leading process."""
        theirs = json.loads(self.first(json.dumps(dict(settings)).encode))
        for name, value in settings.items():
            if theirs.get(name) != value:
                raise SettingError(
                    f"Process {self.process} has {name} {value}, but process 0 has {theirs.get(name)}. "
                    f"Start all processes of a run with the same command, version and data."
                )

    @abstractmethod
    def threads(self, cores: int) -> int | None:
        """The number of threads for this process on a machine with so many cores; None leaves it to torch."""

    @abstractmethod
    def device(self, name: str) -> str:
        """The device of this process, if the user asks for `name`."""

    @abstractmethod
    def last_words(self, sentence: str) -> str | None:
        """The message to print when this process stops because of `sentence`; None if another process prints it.

        The other processes stop too, for the same reason.
        """


@dataclass(frozen=True)
class Alone(Team):
    """One process."""

    process: int = 0
    processes: int = 1

    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        pass

    def backward(
        self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter], at_once: int | None = None
    ) -> None:
        del parameters
        _add_gradients(loss, range(count), count, at_once)

    def first(self, read: Callable[[], bytes]) -> bytes:
        return read()

    def threads(self, cores: int) -> int | None:
        return None

    def device(self, name: str) -> str:
        return name

    def last_words(self, sentence: str) -> str | None:
        return sentence


ALONE = Alone()


def _add_gradients(loss: Callable[[slice], Tensor], images: Sequence[int], count: int, at_once: int | None) -> None:
    """Add the gradients of the share of some consecutive images in the mean loss of `count` images."""
    for first in range(0, len(images), at_once or max(1, len(images))):
        part = images[first : first + (at_once or len(images))]
        value = loss(slice(part[0], part[-1] + 1))
        (value if len(part) == count else value * (len(part) / count)).backward()  # type: ignore[no-untyped-call]


class Processes(Team):
    """Processes that torchrun started, on one machine or several: gloo between CPUs, nccl between GPUs."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        import torch
        import torch.distributed as dist
        import torch.distributed.nn  # now: if imported later, its default arguments would keep the connections open
        from torch.distributed.rendezvous import rendezvous

        self.process, self.processes = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        self.local_process = int(environment.get("LOCAL_RANK", "0"))
        self.local_processes = int(environment.get("LOCAL_WORLD_SIZE", "1"))
        self.machine = environment.get("GROUP_RANK", str(self.process))
        timeout = timeout_of(environment)
        self._gpus = torch.cuda.is_available() and dist.is_nccl_available()
        self._joined = True
        backend = "cpu:gloo,cuda:nccl" if self._gpus else "gloo"
        # While torch waits for the others, Python handles no signal: the system does.
        handlers = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
        try:
            self._store, *_ = next(rendezvous("env://", timeout=timeout))
            dist.init_process_group(
                backend, store=self._store, rank=self.process, world_size=self.processes, timeout=timeout
            )
        except (RuntimeError, ValueError, OSError) as error:
            at = f"{environment.get('MASTER_ADDR')}:{environment.get('MASTER_PORT')}"
            raise TeamError(
                f"Process {self.process} of {self.processes} cannot connect to the others at {at}. "
                f"Start all of them with torchrun, and check that the machines can reach each other."
            ) from error
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        import torch

        index = torch.tensor(list(own), dtype=torch.long, device=whole.device)
        entries = torch.zeros_like(whole).index_copy_(dim, index, whole.index_select(dim, index))
        self._sum(entries)  # exact: every sum has one term that is not zero
        whole.copy_(entries)

    def backward(
        self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter], at_once: int | None = None
    ) -> None:
        import torch

        mine, learning = self.share(range(count)), list(parameters)
        _add_gradients(loss, mine, count, at_once)
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
        with _noticing_lost_processes():
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
            raise SettingError(
                f"`device` {name} is one GPU, but there are {self.local_processes} processes. Choose cuda or cpu."
            )
        if torch.cuda.device_count() < self.local_processes:
            raise SettingError(
                f"This machine has {torch.cuda.device_count()} GPUs for {self.local_processes} processes. "
                f"Start fewer processes with torchrun, or choose `device` cpu."
            )
        torch.cuda.set_device(self.local_process)
        return f"cuda:{self.local_process}"

    def last_words(self, sentence: str) -> str | None:
        self._ignore_signals()
        answers: list[str | None] = []
        asking = threading.Thread(target=lambda: answers.append(self._agreed_words(sentence)), daemon=True)
        asking.start()
        asking.join(2 * PATIENCE_SECONDS)
        if answers:
            return answers[0]
        self._joined = False  # the process with the store does not answer: do not wait for it again
        return sentence

    def _agreed_words(self, sentence: str) -> str | None:
        """The first reason that a process wrote, if this process is the one of its machine that prints it."""
        here, claim = platform.node(), f"mipset/printed/{self.machine}"
        try:
            written = self._store.compare_set("mipset/reason", "", f"{here}\n{sentence}").decode()
            if not self._gpus:  # leaving nccl may wait for the others; it ends with the process
                self.leave()
            self._joined = False
            end = time.monotonic() + PATIENCE_SECONDS * (self.local_process > 0)
            while time.monotonic() < end and not self._store.check([claim]):
                time.sleep(0.05)
            mine = self._store.add(claim, 1) == 1
        except RuntimeError:  # the process with the store has ended
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

        with _noticing_lost_processes():
            dist.all_reduce(tensor)

    def _ignore_signals(self) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def timeout_of(environment: Mapping[str, str]) -> timedelta:
    """How long the processes wait for one that does not answer."""
    text = environment.get(TIMEOUT_VARIABLE, TIMEOUT)
    try:
        return timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        raise SettingError(f"{TIMEOUT_VARIABLE} is {text!r}. Write a time such as 90s, 3min or 2h.") from None


@contextmanager
def _noticing_lost_processes() -> Iterator[None]:
    """Around collective operations: gloo and nccl raise a bare RuntimeError when another process is lost."""
    try:
        yield
    except RuntimeError as error:
        raise TeamError(ENDED) from error


@contextmanager
def joined() -> Iterator[Team]:
    """The team of the processes that torchrun started, or a team of one process without torchrun."""
    environment = dict(os.environ)
    if not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(environment) or environment["WORLD_SIZE"] == "1":
        yield ALONE
        return
    team = Processes(environment)
    try:
        yield team
    finally:
        team.leave()
