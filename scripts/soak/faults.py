"""The faults. Each has a name, and a method that injects one into a trial and looks at what follows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak.children import Harm
from soak.settings import QUICK, SIZES, Setting
from soak.trial import Trial

NEW_PYTHON = 0.1  # the share of signals that hit a new Python, and perhaps its start
INTERVALS = (-1.0, 0.05, 30.0)  # seconds between two checkpoints: after every iteration, some, as users have it
SMALL = Setting("baseline-c", "off", "gradient")  # where the setting makes no difference
SMALL_FLAGS = SMALL.flags


class Fault(ABC):
    """One kind of fault."""

    name: str

    @abstractmethod
    def inject(self, trial: Trial) -> None:
        """Do it once, and look at what follows."""


@dataclass(frozen=True)
class Signals(Fault):
    """Signals at random moments of a run; then the same command until it ends well."""

    name: str
    numbers: tuple[signal.Signals, ...]

    def inject(self, trial: Trial) -> None:
        setting = trial.random.choice(trial.lab.settings)
        seconds = trial.reference(setting).seconds
        for _ in range(trial.random.randint(1, 3)):
            anew = trial.random.random() < NEW_PYTHON
            waits = [trial.random.uniform(0, seconds + 3 * anew), *(trial.random.uniform(0, 0.1) for _ in self.numbers)]
            harm = Harm(interval=trial.random.choice(INTERVALS))
            trial.run(*trial.words(setting), harm=harm, during=self._sender(waits), anew=anew)
            if (trial.work / "x").exists():
                break
        trial.finish(setting)

    def _sender(self, waits: list[float]) -> Callable[[int], None]:
        def send(pid: int) -> None:
            for number, wait in zip(self.numbers, waits, strict=False):
                time.sleep(wait)
                with suppress(ProcessLookupError):  # it has ended already
                    os.kill(pid, number)

        return send


class KillAtWrite(Fault):
    """kill -9 before a file is opened, renamed or removed; or in the middle of a write, after some bytes of a file."""

    name = "kill -9 at a write"

    def inject(self, trial: Trial) -> None:
        setting = trial.random.choice(trial.lab.settings)
        trial.reference(setting)
        for _ in range(trial.random.randint(1, 3)):
            harm = Harm(kill_at=trial.random.randint(1, 60), interval=trial.random.choice(INTERVALS[:2]))
            if trial.random.random() < 0.3:
                harm = Harm(longest_file=_some_bytes(trial.random), dies_of_it=True, interval=-1)
            trial.run(*trial.words(setting), harm=harm)
            if (trial.work / "x").exists():
                break
        trial.finish(setting)


class FullDisk(Fault):
    """A disk that becomes full: a small tmpfs if this user may mount one, else files that cannot grow."""

    name = "full disk"

    def inject(self, trial: Trial) -> None:
        setting = trial.random.choice(trial.lab.settings)
        trial.reference(setting)
        size, interval = _some_bytes(trial.random, 600_000), trial.random.choice(INTERVALS[:2])
        with _small_disk(trial.work, size) as grow:
            limit = 0 if grow else _some_bytes(trial.random)
            trial.run(*trial.words(setting), harm=Harm(longest_file=limit, interval=interval))
            if grow:
                grow()
            trial.finish(setting)


class DamagedRun(Fault):
    """Damage in what a stopped run has left: its checkpoint, the one before it, or the file of an expert."""

    name = "damaged checkpoint or expert"

    def inject(self, trial: Trial) -> None:
        setting = trial.random.choice(trial.lab.settings)
        trial.reference(setting)
        for _ in range(trial.random.randint(1, 2)):
            trial.run(*trial.words(setting), "--max-time", "0.001s")
        left = [*trial.work.iterdir(), *trial.home.glob("experts/*/*")]
        for file in trial.random.sample(sorted(left), trial.random.randint(1, len(left))):
            damage(file, trial.random)
        trial.finish(setting)


class DamagedArtifact(Fault):
    """Damage in a condensed file. A verb refuses it, or does what it does with the good file."""

    name = "damaged artifact"
    VERBS: tuple[list[object], ...] = (
        ["show", "in"],
        ["plan", "in", "--bytes", "12kB"],
        ["slice", "in", 1, "--out", "y"],
        ["fetch", "in", "--ipc", 1, "--out", "y"],
        ["export", "in", "--to", "npz", "--out", "y"],
        ["export", "in", "--to", "c", "--out", "y"],
        ["grow", "in", "--ipc", 3, "--out", "y", *SMALL_FLAGS[2:]],
    )

    def inject(self, trial: Trial) -> None:
        (trial.work / "in").write_bytes(trial.reference(SMALL).content)
        read_damaged(trial, trial.random.choice(self.VERBS))


class DamagedExport(Fault):
    """Damage in an exported npz, from which we condense again, and in a file that we import."""

    name = "damaged export"

    def inject(self, trial: Trial) -> None:
        (trial.work / "set").write_bytes(trial.reference(SMALL).content)
        trial.run_well("export", "set", "--to", "npz", "--out", "in")
        read_damaged(trial, ["condense", "npz:in", "--out", "y", *SMALL_FLAGS, "--ipc", 1, "--train-images", 8])


class DamagedComparison(Fault):
    """Damage in a file of a comparison's folder. The scores stay, or the command names the file."""

    name = "damaged comparison"
    WORDS = (
        *("compare", "fashion-mini", "--methods", "baseline-c", "--out", "table", "--sizes", "1", "--networks", 1),
        *("--protocol", "quick", "--epochs", 1, "--workers", 1, *SIZES, *SMALL_FLAGS[len(SIZES) + 2 :]),
    )

    def inject(self, trial: Trial) -> None:
        kept = trial.lab.folder / "comparison"
        if not kept.exists():
            trial.run_well(*self.WORDS)
            shutil.move(trial.work / "table", kept)
        shutil.copytree(kept, trial.work / "table")
        file = trial.random.choice(sorted(path for path in kept.rglob("*") if path.is_file()))
        damage(trial.work / "table" / file.relative_to(kept), trial.random)
        if trial.random.random() < 0.5:
            with suppress(FileNotFoundError):
                (trial.work / "table" / "results.jsonl").unlink()  # so that the sets are read again
        ended = trial.run(*self.WORDS)
        if ended.code == 0 and self._scores(trial.work / "table") != self._scores(kept):
            trial.fail("wrong artifacts", ended, f"The scores changed after damage in {file.relative_to(kept)}.")

    @staticmethod
    def _scores(folder: Path) -> list[object]:
        lines = (folder / "results.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line)["scores"] for line in lines]


class HostileFile(Fault):
    """Bytes of somebody else where a file of ours should be."""

    name = "hostile file"
    VERBS: tuple[list[object], ...] = (
        ["show", "in"],
        ["slice", "in", 1, "--out", "y"],
        ["evaluate", "in", "--sizes", 1],
        ["import", "in", "--kind", "mdc", "--data", "fashion-mini", "--out", "y"],
        ["condense", "npz:in", "--out", "y", *SMALL_FLAGS],
        ["condense", "fashion-mini", "--out", "y", *SMALL_FLAGS, "--start", "in"],
        ["condense", "fashion-mini", "--out", "z", *SMALL_FLAGS],  # whose checkpoint is hostile
    )

    def inject(self, trial: Trial) -> None:
        content = self._content(trial.random)
        for name in ("in", "z.checkpoint"):
            (trial.work / name).write_bytes(content)
        ended = trial.run(*trial.random.choice(self.VERBS))
        if ended.code != 2:
            trial.fail("wrong artifacts", ended, f"Hostile bytes were taken for a file: exit code {ended.code}.")

    @staticmethod
    def _content(random: Random) -> bytes:
        body = random.randbytes(random.choice((0, 1, 7, 100, 100_000)))
        header = json.dumps({"images": {"dtype": "U8", "shape": [10**9] * 5, "data_offsets": [0, 10**18]}}).encode()
        starts = [b"", b"PK\3\4", b"\x80\2", b"mipset state 2\n", b"{" * 9999, b"\xff" * 8]
        return random.choice([*starts, len(header).to_bytes(8, "little") + header]) + body


class AbsurdSetting(Fault):
    """A setting with a value that nobody means. It is refused, or the run ends with a file that can be read."""

    name = "absurd setting"
    FLAGS = (
        *("--ipc", "--width", "--depth", "--real-batch", "--train-batch", "--train-images", "--pixel-lr", "--factor"),
        *("--network-lr", "--pixel-momentum", "--network-decay", "--cutmix", "--pool", "--life", "--seed", "--policy"),
        *("--objective", "--threads", "--init", "--max-time", "--match-augment", "--network", "--data"),
    )
    VALUES = (
        "-1",
        "0",
        "1e30",
        "-1e30",
        "nan",
        "inf",
        "1e6",
        str(10**12),
        str(2**63),
        "",
        "\u2603",
        "a" * 5000,
        "1e-40",
    )

    def inject(self, trial: Trial) -> None:
        flag, value = trial.random.choice(self.FLAGS), trial.random.choice(self.VALUES)
        setting = trial.random.choice([SMALL, Setting("mdc", "on", "gradient")])
        words = [word for word in trial.words(setting) if word != QUICK]  # the memory must be estimated here
        if trial.run(*words, f"{flag}={value}").code == 0:
            trial.run_well("show", "x")


def damage(file: Path, random: Random) -> None:
    """Flip a bit, cut the end off, overwrite a block, or append something."""
    content = bytearray(file.read_bytes())
    place = random.randrange(len(content)) if content else 0
    match random.choice(("flip", "flip", "flip", "cut", "block", "append")) if content else "append":
        case "flip":
            content[place] ^= 1 << random.randrange(8)
        case "cut":
            del content[place:]
        case "block":
            content[place : place + 512] = bytes(len(content[place : place + 512]))
        case _:
            content += random.randbytes(random.choice((1, 100)))
    file.write_bytes(content)


def read_damaged(trial: Trial, words: list[object]) -> None:
    """A verb that reads the file `in` and perhaps writes `y`: after damage it refuses, or does the same."""
    key = " ".join(map(str, words))
    if key not in trial.lab.harmless:
        good = trial.run_well(*words)
        trial.lab.harmless[key] = _effect(trial.work, good.code, good.out)
    damage(trial.work / "in", trial.random)
    ended = trial.run(*words)
    if ended.code != 2 and _effect(trial.work, ended.code, ended.out) != trial.lab.harmless[key]:
        trial.fail("wrong artifacts", ended, "Damage changed the result, and nothing was said.")


def _effect(folder: Path, code: int | None, out: str) -> str:
    """What a verb did: the file that it wrote, which is removed, or else what it printed."""
    written = folder / "y"
    if not written.exists():
        return f"{code} {out}"
    content = written.read_bytes()
    written.unlink()
    return f"{code} {hashlib.sha256(content).hexdigest()}"


def _some_bytes(random: Random, most: int = 200_000) -> int:
    return random.randrange(4096, most)


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[Callable[[], None] | None]:
    """A disk of `size` bytes at `folder`, and a function that makes it larger; None if this user may not mount one."""
    mount = ["mount", "-t", "tmpfs", "-o"]
    try:
        subprocess.run([*mount, f"size={size}", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield lambda: _run_quietly([*mount, "remount,size=50m", "tmpfs", str(folder)])
    finally:
        _run_quietly(["umount", "--lazy", str(folder)])


def _run_quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


FAULTS: tuple[Fault, ...] = (
    Signals("kill -9 at any moment", (signal.SIGKILL,)),
    KillAtWrite(),
    Signals("SIGTERM", (signal.SIGTERM,)),
    Signals("Ctrl-C", (signal.SIGINT,)),
    Signals("Ctrl-C twice", (signal.SIGINT, signal.SIGINT)),
    FullDisk(),
    DamagedRun(),
    DamagedArtifact(),
    DamagedExport(),
    DamagedComparison(),
    HostileFile(),
    AbsurdSetting(),
)
