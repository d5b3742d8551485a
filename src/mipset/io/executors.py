"""Executors: where work runs. Any `concurrent.futures.Executor` will do; these are the ones that have a name.

    processes           this process, and the processes that it starts
    dask:ADDRESS        the workers of a dask scheduler, such as dask:tcp://10.0.0.1:8786
    slurm:partition=cpu,time=60    jobs of Slurm, by submitit
    submitit:local      the same jobs as processes of this machine

Workers and the process that gives them work share a folder. What they need is written there once, as a file. What they
do is written there by themselves. So a worker that is lost loses nothing but its last moments: `Jobs` gives its work to
another one, a limited number of times.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from mipset.errors import ArtifactError, LostWorkerError, MipsetError, SettingError, brief, did_you_mean, missing
from mipset.io.files import write_whole
from mipset.io.processes import end_with_starter

TRIES = 3  # of work whose worker is lost
CONNECT_SECONDS = 10
POLL_SECONDS = 0.2  # between two looks at jobs of this machine
SLURM_POLL_SECONDS = 2.0
END_SECONDS = 5  # that a job of this machine has to end after SIGTERM
NO_LIMIT_MINUTES = 60 * 24 * 365
PROCESSES = "processes"
KINDS = (PROCESSES, "dask:ADDRESS", "slurm", "slurm:SETTING=VALUE,...", "submitit:local")
SLURM_SETTINGS = {  # by the name in `executor`: the name in submitit, and its type
    "partition": ("slurm_partition", str),
    "account": ("slurm_account", str),
    "time": ("timeout_min", int),  # minutes of a job
    "cpus": ("cpus_per_task", int),
    "memory": ("mem_gb", int),
    "gpus": ("gpus_per_node", int),
}

Key = TypeVar("Key")


@dataclass(frozen=True)
class Place:
    """Where work runs, as a user names it."""

    kind: str = PROCESSES  # processes, dask, slurm or submitit
    address: str = ""  # of a dask scheduler
    settings: dict[str, Any] = field(default_factory=dict)  # of Slurm, by their names in `SLURM_SETTINGS`

    @classmethod
    def named(cls, text: str) -> Place:
        """The place with this name. An error if there is no such place, or if its library is not installed."""
        kind, _, rest = text.partition(":")
        if text == PROCESSES:
            return cls()
        if kind == "dask":
            if not rest:
                raise SettingError(
                    f"`executor` is {brief(text)}: the address of the scheduler is missing. Start one with `dask "
                    f"scheduler`, and write the address that it prints, as in dask:tcp://10.0.0.1:8786."
                )
            _check_installed("distributed", "`executor` dask")
            return cls(kind, address=rest)
        if kind == "slurm":
            settings = _slurm_settings(text, rest)
            _check_installed("submitit", "`executor` slurm")
            return cls(kind, settings=settings)
        if text == "submitit:local":
            _check_installed("submitit", "`executor` submitit:local")
            return cls("submitit")
        names = ("processes", "dask:", "slurm", "submitit:local")
        raise SettingError(f"`executor` is {brief(text)}. {did_you_mean(text, names)}Choose {', '.join(KINDS)}.")

    @property
    def is_this_process(self) -> bool:
        """Whether there is no executor: this process does the work."""
        return self.kind == PROCESSES

    @property
    def threads(self) -> int:
        """How many threads a worker has if nobody says so: the CPUs of its job."""
        return int(self.settings.get("cpus", 1))

    @contextmanager
    def opened(self, folder: Path) -> Iterator[Executor | None]:
        """The executor, for this block; None for this process. Jobs of Slurm leave their logs in `folder`.

        At the end, what waits is cancelled, and so are jobs of Slurm that run. Workers of dask finish what they have
        begun.
        """
        if self.is_this_process:
            yield None
            return
        executor = DaskExecutor(self.address) if self.kind == "dask" else SubmititExecutor(self, folder)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)


def _check_installed(package: str, purpose: str) -> None:
    if find_spec(package) is None:
        raise missing(package, purpose)


def _slurm_settings(text: str, rest: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = part.partition("=")
        if name not in SLURM_SETTINGS or not value:
            known = ", ".join(SLURM_SETTINGS)
            raise SettingError(
                f"`executor` is {brief(text)}: {brief(part)} is no setting. {did_you_mean(name, SLURM_SETTINGS)}"
                f"Write settings as in slurm:partition=cpu,time=60; they are {known}."
            )
        kind = SLURM_SETTINGS[name][1]
        if kind is int and not (value.isascii() and value.isdigit() and int(value) > 0):
            raise SettingError(f"`executor` is {brief(text)}: {name} must be a whole number above 0. Change it.")
        settings[name] = kind(value)
    return settings


class WorkerEndedError(BrokenExecutor):
    """The worker of one piece of work has ended. `final` if the executor has tried it several times already."""

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


class ThisProcess(Executor):
    """Does work at once, before `submit` returns."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def _outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """What a worker gives back: a result or an error, as a value. Executors change errors that are raised."""
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error


def _outcome_of(pickled: bytes) -> tuple[Any, Exception | None]:
    """The same for work that only a worker unpickles: the scheduler of dask need not have torch."""
    return _outcome(*pickle.loads(pickled))


def _outcome_here(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """The same in a job of this machine, which ends with the process that controls it, and at SIGTERM.

    submitit lets jobs go on at SIGTERM.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_starter()
    return _outcome(function, arguments)


def _settle(future: Future[Any], outcome: tuple[Any, Exception | None]) -> None:
    value, error = outcome
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


class DaskExecutor(Executor):
    """The workers of a dask scheduler. dask itself gives the work of a lost worker to another one, some times."""

    def __init__(self, address: str) -> None:
        from cloudpickle import dumps  # of which dask is made: it knows functions of a script, too
        from distributed import Client
        from distributed.scheduler import KilledWorker

        self._killed, self._pickled = KilledWorker, dumps
        try:
            self._client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError, ImportError) as error:
            raise SettingError(
                f"`executor` dask:{address}: there is no dask scheduler at {brief(address, str)}. Start one with "
                f"`dask scheduler`, and write the address that it prints."
            ) from error
        self._inner = self._client.get_executor(pure=False)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        inner: Future[Any] = self._inner.submit(_outcome_of, self._pickled((function, arguments)))
        outer: Future[Any] = Future()

        def settle(done: Future[Any]) -> None:
            if outer.cancelled():
                return
            if done.cancelled():
                outer.set_exception(WorkerEndedError("dask has lost it"))
                return
            error = done.exception()
            if isinstance(error, self._killed):
                outer.set_exception(WorkerEndedError("dask has given it to several workers", final=True))
            elif isinstance(error, ModuleNotFoundError):
                outer.set_exception(MipsetError(f"A worker of dask cannot do this work: {error}. Install it there."))
            elif error is not None:
                outer.set_exception(error)
            else:
                _settle(outer, done.result())

        inner.add_done_callback(settle)
        outer.add_done_callback(lambda future: inner.cancel() if future.cancelled() else None)
        return outer

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            self._inner.shutdown(wait=False)
        self._client.close()


class SubmititExecutor(Executor):
    """Jobs of Slurm, or processes of this machine that are started in the same way. Their logs are in `folder`."""

    def __init__(self, place: Place, folder: Path) -> None:
        import submitit

        self._lost, self._failed = submitit.core.utils.UncompletedJobError, submitit.core.utils.FailedJobError
        self._folder, self._is_local = folder.absolute(), place.kind == "submitit"
        self._most = (os.cpu_count() or 1) if self._is_local else 10**6  # jobs at once; Slurm has a queue of its own
        try:
            self._jobs = submitit.AutoExecutor(self._folder, cluster="local" if self._is_local else "slurm")
        except RuntimeError as error:
            raise SettingError(
                "`executor` is slurm, but this machine cannot submit jobs to Slurm: there is no srun. Run this where "
                "srun is."
            ) from error
        named = {SLURM_SETTINGS[name][0]: value for name, value in place.settings.items()}
        self._jobs.update_parameters(name="mipset", **({"timeout_min": NO_LIMIT_MINUTES} if self._is_local else named))
        self._waiting: deque[tuple[Future[Any], Callable[..., Any], tuple[Any, ...]]] = deque()
        self._running: dict[Future[Any], Any] = {}
        self._closed, self._failures = threading.Event(), 0
        self._thread = threading.Thread(target=self._serve, daemon=True, name="submitit")
        self._thread.start()

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, function, arguments))
        return future

    def _serve(self) -> None:
        if self._is_local and sys.platform != "win32":  # Ctrl-C is for this process alone; jobs inherit this
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while not self._closed.wait(POLL_SECONDS if self._is_local else SLURM_POLL_SECONDS):
            while self._waiting and len(self._running) < self._most and not self._closed.is_set():
                future, function, arguments = self._waiting.popleft()
                run = _outcome_here if self._is_local else _outcome
                if future.set_running_or_notify_cancel():
                    try:
                        self._running[future] = self._jobs.submit(run, function, arguments)
                    except Exception as error:  # such as a partition that does not exist
                        future.set_exception(MipsetError(f"A job was not accepted: {_last_line(error)}."))
            for future, job in list(self._running.items()):
                if job.done():
                    del self._running[future]
                    self._settle(future, job)

    def _settle(self, future: Future[Any], job: Any) -> None:
        log = job.paths.stderr
        try:
            value, error = job.result()
            if not isinstance(error, self._lost):
                _settle(future, (value, error))
                return
            # at its time limit, submitit raises this within the work
            future.set_exception(WorkerEndedError(f"{_last_line(error)}; its log is {log}"))
        except self._failed as error:
            future.set_exception(MipsetError(f"A job cannot do this work: {_last_line(error)}. Its log is {log}."))
        except self._lost:
            future.set_exception(WorkerEndedError(f"its log is {log}"))
        except Exception as error:  # a result that cannot be read
            future.set_exception(error)
        self._failures += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for future, _, _ in list(self._waiting):
                future.cancel()
        self._closed.set()
        self._thread.join()
        if self._is_local:
            self._end_running()
        else:
            for job in self._running.values():
                with suppress(Exception):  # it may have ended
                    job.cancel(check=False)
        if not self._running and not self._failures:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _end_running(self) -> None:
        """End the jobs of this machine. A job that has just been started may miss a signal, so it gets several."""
        deadline = time.monotonic() + END_SECONDS
        while running := [job for job in self._running.values() if not job.done()]:
            late = time.monotonic() > deadline
            for job in running:
                with suppress(OSError):  # it may have ended
                    os.kill(int(job.job_id), signal.SIGKILL if late else signal.SIGTERM)  # of the controlling process
            if late:
                return
            time.sleep(POLL_SECONDS)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    return brief(lines[-1] if lines else type(error).__name__, str).rstrip(".")


class Jobs(Generic[Key]):
    """Pieces of work on an executor. The work of a lost worker is done again, a limited number of times."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._running: dict[Future[Any], tuple[Key, Callable[..., Any], tuple[Any, ...]]] = {}
        self._losses: Counter[Key] = Counter()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def keys(self) -> list[Key]:
        """What is queued or running."""
        return [key for key, _, _ in self._running.values()]

    def submit(self, key: Key, function: Callable[..., Any], *arguments: Any) -> None:
        """Give a piece of work to the executor. `key` names it."""
        try:
            future = self._executor.submit(function, *arguments)
        except BrokenExecutor as error:
            future = Future()
            future.set_exception(WorkerEndedError(_last_line(error), final=True))
        self._running[future] = key, function, arguments

    def finished(self, seconds: float | None = None) -> list[tuple[Key, Future[Any]]]:
        """What is finished, as soon as something is, or after some seconds. A result may be an error.

        A LostWorkerError is the error of work whose workers were lost too often.
        """
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        finished: list[tuple[Key, Future[Any]]] = []
        for future in done:
            key, function, arguments = self._running.pop(future)
            ended = _ended(future)
            self._losses[key] += ended is not None
            if ended is None:
                finished.append((key, future))
            elif self._losses[key] < TRIES and not ended.final:
                self.submit(key, function, *arguments)
            else:
                lost: Future[Any] = Future()
                lost.set_exception(
                    LostWorkerError(
                        f"Its worker ended before the work was done, {self._losses[key]} of {TRIES} times, perhaps "
                        f"because memory ran out ({ended}). The same command tries again."
                    )
                )
                finished.append((key, lost))
        return finished

    def cancel(self) -> None:
        """Cancel what has not begun."""
        for future in self._running:
            future.cancel()


def _ended(future: Future[Any]) -> WorkerEndedError | None:
    """Why the worker of a future ended before its work was done; None if it did the work."""
    if future.cancelled():
        return WorkerEndedError("it was cancelled")
    error = future.exception()
    if isinstance(error, BrokenExecutor) and not isinstance(error, WorkerEndedError):
        return WorkerEndedError(_last_line(error))
    return error if isinstance(error, WorkerEndedError) else None


@dataclass(frozen=True)
class Sent:
    """A value in a file that all workers can read. Each worker process reads it once."""

    path: Path
    sha256: str

    @property
    def value(self) -> Any:
        """The value, in a worker."""
        return _read(self)


@contextmanager
def sent(value: object, folder: Path) -> Iterator[Sent]:
    """Write a value into a folder that workers share with this process, for this block."""
    content = pickle.dumps(value)
    path = folder.absolute() / f".{os.urandom(8).hex()}.work"
    write_whole(path, lambda stream: stream.write(content))
    try:
        yield Sent(path, hashlib.sha256(content).hexdigest())
    finally:
        path.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _read(sent: Sent) -> Any:
    try:
        content = sent.path.read_bytes()
    except OSError as error:
        raise ArtifactError(
            f"A worker cannot read {sent.path}: {error.strerror}. Choose a folder on a disk that all machines share."
        ) from error
    if hashlib.sha256(content).hexdigest() != sent.sha256:
        raise ArtifactError(f"{sent.path} is damaged: a worker read other bytes than were written. Run it again.")
    return pickle.load(io.BytesIO(content))
