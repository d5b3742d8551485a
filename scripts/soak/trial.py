"""One fault: its folder, its random draws, and what it finds."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from mipset.io.files import home
from soak.children import NO_HARM, Ended, Harm, Nursery
from soak.settings import SETTINGS, Setting

GOOD_ENDS = {0, 124}  # 124: the time of --max-time is over
STOPPED = {130, 143, -2, -9, -15, -25}  # Ctrl-C, SIGTERM, and the signals that end a process
NEVER = ("wrong artifacts", "tracebacks", "hangs", "errors without a sentence", "runs that cannot be finished")


@dataclass
class Tally:
    """What was counted."""

    faults: Counter[str] = field(default_factory=Counter)
    stopped: int = 0  # commands that a signal or a full disk ended; the others were faster
    commands: int = 0
    finished: Counter[str] = field(default_factory=Counter)  # runs, by their setting
    noticed: int = 0  # commands that refused what was damaged, hostile or absurd
    found: Counter[str] = field(default_factory=Counter)  # what must never happen
    reports: list[str] = field(default_factory=list)  # how to repeat it
    interrupted: bool = False  # by Ctrl-C, before the time was over


@dataclass(frozen=True)
class Reference:
    """A run that nothing disturbed."""

    content: bytes  # of its file
    seconds: float


@dataclass
class Lab:
    """What all faults share: the nursery, the counts, and the runs that nothing disturbed."""

    folder: Path
    nursery: Nursery
    seed: int
    settings: Sequence[Setting] = tuple(SETTINGS)  # to choose from
    tally: Tally = field(default_factory=Tally)
    references: dict[Setting, Reference] = field(default_factory=dict)
    harmless: dict[str, str] = field(default_factory=dict)  # what commands do with a file that is not damaged


class Trial:
    """The folder of one fault, and its random draws: they depend on the seed and the number of the fault only."""

    def __init__(self, lab: Lab, number: int, kind: str) -> None:
        self.lab, self.number, self.kind = lab, number, kind
        self.random = Random(f"{lab.seed}:{number}")
        self.folder = lab.folder / f"fault-{number}"
        self.home, self.work = self.folder / "home", self.folder / "work"
        self.home.mkdir(parents=True)
        self.work.mkdir()
        kernels = home() / "kernels"  # compiled once, for all
        kernels.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self.home / "kernels").symlink_to(kernels)
        self.failed = False

    def run(
        self,
        *words: object,
        harm: Harm = NO_HARM,
        during: Callable[[int], None] | None = None,
        anew: bool = False,
    ) -> Ended:
        """Run a command, and look for what no command may do."""
        ended = self.lab.nursery.run(words, self.work, self.home, harm, during or (lambda _: None), anew)
        disturbed = harm != NO_HARM or during is not None  # only then may a signal end it
        self.lab.tally.commands += 1
        self.lab.tally.stopped += disturbed and ended.code != 0
        if "Traceback" in ended.err:
            self.fail("tracebacks", ended, ended.err)
        elif ended.code is None:
            self.fail("hangs", ended, f"It did not end within {self.lab.nursery.patience:.0f} s.")
        elif ended.code not in GOOD_ENDS | (STOPPED if disturbed else set()) and not (
            ended.code == 2 and ended.refusal.startswith("mipset: ") and ended.refusal.endswith((".", "?"))
        ):
            self.fail("errors without a sentence", ended, f"Exit code {ended.code}: {ended.err}")
        elif ended.code == 2:
            self.lab.tally.noticed += 1
        return ended

    def run_well(self, *words: object) -> Ended:
        """Run a command that nothing disturbs."""
        ended = self.run(*words)
        if ended.code:
            raise RuntimeError(f"A command without a fault failed: mipset {' '.join(ended.words)}\n{ended.err}")
        return ended

    def fail(self, what: str, ended: Ended, why: str) -> None:
        """Count what must never happen, and say how to repeat it."""
        self.failed = True
        self.lab.tally.found[what] += 1
        self.lab.tally.reports.append(
            f"{what}, fault {self.number} ({self.kind}): mipset {' '.join(ended.words)}\n{why.rstrip()}\n"
            f"files: {self.folder}\nrepeat: python -m soak --seed {self.lab.seed} --only {self.number}"
        )

    def words(self, setting: Setting) -> list[object]:
        """The command that condenses into the file `x`."""
        return ["condense", "fashion-mini", "--out", "x", *setting.flags]

    def reference(self, setting: Setting) -> Reference:
        """The same run without a fault, computed once."""
        if setting not in self.lab.references:
            start = time.monotonic()
            self.run_well(*self.words(setting))
            seconds = time.monotonic() - start
            self.lab.references[setting] = Reference((self.work / "x").read_bytes(), seconds)
            (self.work / "x").unlink()
            shutil.rmtree(self.home / "experts", ignore_errors=True)  # the disturbed run trains its own
        return self.lab.references[setting]

    def finish(self, setting: Setting) -> None:
        """Give the same command until it ends well. The file must be that of the undisturbed run."""
        words: Sequence[object] = self.words(setting)
        for _ in range(3):
            if (self.work / "x").exists():
                break
            ended = self.run(*words)
            if ended.code == 2 and "--fresh" in ended.refusal:  # both checkpoints are damaged, which it says
                words = [*words, "--fresh"]
        ended = Ended([str(word) for word in words], 0, "", "")
        left = sorted(path.name for path in self.work.iterdir())
        if "x" not in left:
            self.fail("runs that cannot be finished", ended, f"There is no file after three commands, only {left}.")
            return
        self.lab.tally.finished[str(setting)] += 1
        if (self.work / "x").read_bytes() != self.reference(setting).content:
            self.fail("wrong artifacts", ended, "The file differs from that of an undisturbed run.")

    def close(self) -> None:
        """Remove the folder, unless something was found."""
        if not self.failed:
            shutil.rmtree(self.folder, ignore_errors=True)
