"""Commands as processes of their own.

Importing torch takes longer than the small runs of the soak. So one process, the nursery, imports everything once, and
then forks a child for each command. The child is a real process: it has its own files and signals, and can be killed.
`python -m soak.children` is the nursery: it reads one request per line, and answers with the process id and, when the
child has ended, with its exit code.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

WRITING = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"}  # audit events of Python


@dataclass(frozen=True)
class Harm:
    """What happens to a child from within."""

    kill_at: int = 0  # kill -9 before this file operation that changes something, counted from 1
    longest_file: int = 0  # bytes after which a file cannot grow
    dies_of_it: bool = False  # it is killed in the middle of that write; otherwise it gets an error, as of a full disk
    interval: float = 30.0  # seconds between two checkpoints


NO_HARM = Harm()


@dataclass(frozen=True)
class Ended:
    """A child that has ended."""

    words: Sequence[str]
    code: int | None  # minus the signal that ended it; None if it did not end in time and was killed
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The last line on standard error."""
        return (self.err.splitlines() or [""])[-1]


class Nursery:
    """Starts children, one at a time. `folder` has the environment of all: caches, standard output and error."""

    def __init__(self, folder: Path, patience: float) -> None:
        self.folder, self.patience = folder, patience
        here = str(Path(__file__).parents[1])
        path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH", "")]))
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "soak.children"],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._buffered = b""

    def run(
        self,
        words: Sequence[object],
        cwd: Path,
        home: Path,
        harm: Harm = NO_HARM,
        during: Callable[[int], None] = lambda _: None,
        anew: bool = False,
    ) -> Ended:
        """Run a command until it ends. `during` gets its process id while it runs.

        With `anew` it is a new Python, not a child of the nursery: then the fault may also hit its start.
        """
        typed = [str(word) for word in words]
        log = self.folder / "out", self.folder / "err"
        if anew:
            code = self._run_anew(typed, cwd, home, log, during)
        else:
            request = {"words": typed, "cwd": str(cwd), "home": str(home), "log": [str(file) for file in log]}
            code = self._run_forked({**request, "harm": asdict(harm)}, during)
        out, err = (file.read_text("utf-8", errors="replace") for file in log)
        return Ended(typed, code, out, err)

    def _run_forked(self, request: Mapping[str, Any], during: Callable[[int], None]) -> int | None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        pid = self._answer(None)
        assert pid is not None
        during(pid)
        code = self._answer(self.patience)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            self._answer(None)
        return code

    def _run_anew(
        self, words: Sequence[str], cwd: Path, home: Path, log: Sequence[Path], during: Callable[[int], None]
    ) -> int | None:
        environment = {**self._environment, "MIPSET_HOME": str(home)}
        with log[0].open("wb") as out, log[1].open("wb") as err:
            command = [sys.executable, "-m", "mipset", *words]
            process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=out, stderr=err)
            during(process.pid)
            try:
                return process.wait(self.patience)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return None

    def _answer(self, patience: float | None) -> int | None:
        """The next line of the nursery, which is a number; None if there is none in time."""
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        until = None if patience is None else time.monotonic() + patience
        while b"\n" not in self._buffered:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([handle], [], [], left)[0]:
                return None
            content = os.read(handle, 4096)
            if not content:
                raise RuntimeError("The process that starts the commands has ended.")
            self._buffered += content
        line, self._buffered = self._buffered.split(b"\n", 1)
        return int(line)

    def close(self) -> None:
        """End the nursery."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def serve(requests: IO[bytes]) -> None:
    """Be the nursery, until there are no more requests."""
    for line in iter(requests.readline, b""):
        pid = os.fork()
        if not pid:
            _be_child(**json.loads(line))
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be_child(words: Sequence[str], cwd: str, home: str, log: Sequence[str], harm: Mapping[str, Any]) -> None:
    """Be the command `mipset WORDS`."""
    for handle, file in enumerate([os.devnull, *log]):
        flags = os.O_RDONLY if not handle else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(file, flags, 0o600), handle)
    os.chdir(cwd)
    os.environ["MIPSET_HOME"] = home
    sys.argv = ["mipset", *words]
    _apply(Harm(**harm), (cwd, home))
    from mipset.__main__ import main

    code: object = 0
    try:
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


def _apply(harm: Harm, folders: tuple[str, ...]) -> None:
    from mipset.condensing import checkpoint, experts

    checkpoint.SECONDS = experts.SECONDS = harm.interval
    if harm.longest_file:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if harm.dies_of_it else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (harm.longest_file, harm.longest_file))
    if harm.kill_at:
        done = 0

        def count(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal done
            if not (event in WRITING or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))):
                return
            if isinstance(arguments[0], int) or os.path.abspath(os.fsdecode(arguments[0])).startswith(folders):  # noqa: PTH100
                done += 1
                if done == harm.kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)


if __name__ == "__main__":
    import torch._dynamo  # noqa: F401 (torch imports it when a network is trained; that takes longer than our runs)

    import mipset.cli.condensing
    import mipset.condensing.assembly
    import mipset.condensing.checkpoint
    import mipset.condensing.packing
    import mipset.experiments.run  # noqa: F401

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in the terminal is for the soak; `mipset` sets its own
    serve(sys.stdin.buffer)
