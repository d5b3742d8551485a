"""Helpers for tests of the command line: they run commands, and make small datasets for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

import mipset

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
SOURCE = str(Path(mipset.__file__).parents[1])
Here = Callable[..., str]

# Settings for a run that takes a moment on any data.
TINY = [
    *("--ipc", "2", "--width", "4", "--depth", "2", "--outer", "2", "--inner", "2", "--real-batch", "8"),
    *("--train-images", "16", "--train-batch", "8", "--threads", "1"),
    *("--objective", "gradient", "--learner", "trained", "--pixel-optimiser", "sgd"),
]
BRIEF = ["--networks", "1", "--protocol", "quick", "--epochs", "1", "--threads", "1", "--workers", "1"]

# A driver that has no torch.
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None; from mipset.cli import main; main(sys.argv[1:])"

# A driver that keeps a checkpoint after every inner iteration, and after the second one waits to be killed.
EAGER = """
import sys, time
from mipset import cli
from mipset.condensing import checkpoint
checkpoint.SECONDS = -1
save, saved = checkpoint.save, []
def save_and_wait(*arguments):
    save(*arguments)
    saved.append(arguments)
    if len(saved) == 2:
        print("saved", flush=True)
        time.sleep(100)
checkpoint.save = save_and_wait
cli.main(sys.argv[1:])
"""

# A driver that prints a line when work has begun.
TELLING = """
import sys
from mipset import cli
from mipset.display import progress
advance = progress.Progress.advance
def advance_and_say(*arguments):
    advance(*arguments)
    print("working", flush=True)
progress.Progress.advance = advance_and_say
if __name__ == "__main__":
    cli.main(sys.argv[1:])
"""

# The same, with iterations that take a second.
SLOW = TELLING.replace("flush=True)", "flush=True)\n    time.sleep(1)").replace("import sys", "import sys, time")

# Trains a classifier on three images per class of the file at an address; prints whether it has learned them.
SOFTMAX = """
import sys
sys.modules["torch"] = None
import numpy as np
from mipset import device

source = device.open(sys.argv[1])
subset = source.prefix(3)
weights = np.zeros((int(np.prod(source.about.shape[2:])), len(source.about.class_names)))
for images, labels in subset.batches(16, epochs=60):
    x = images.reshape(len(images), -1)
    scores = x @ weights
    chances = np.exp(scores - scores.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    chances[np.arange(len(x)), labels] -= 1
    weights -= 0.05 * x.T @ chances / len(x)
images, labels = subset.arrays()
print((images.reshape(len(images), -1) @ weights).argmax(1).tolist() == labels.tolist())
print([name for name in sys.modules if name.partition(".")[0] in ("torch", "safetensors", "PIL") and sys.modules[name]])
"""


def save_npz(path: Path, classes: int = 3, per_class: int = 20, size: int = 8, seed: int = 0) -> Path:
    """A dataset of grey noise."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        arrays[f"{split}_labels"] = np.arange(classes * per_class) % classes
        arrays[f"{split}_images"] = rng.integers(0, 256, (classes * per_class, 1, size, size), dtype=np.uint8)
    np.savez(path, **arrays)
    return path


def save_pictures(folder: Path, count: int = 12, size: int = 8, names: tuple[str, ...] = ("cat", "dog")) -> Path:
    """A dataset of grey pictures, in one sub-folder per class."""
    rng = np.random.default_rng(1)
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (size, size), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def run(
    *arguments: object,
    cwd: Path,
    code: str | None = None,
    stdout: int | IO[bytes] = subprocess.PIPE,
    preexec: Callable[[], None] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """The real command, or code that drives it, in a process of its own."""
    command = ["-m", "mipset"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, "-W", "error", *command, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=preexec,
    )


def done(process: subprocess.CompletedProcess[str]) -> str:
    """The output of a command that succeeded."""
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout


def sentence(text: str) -> str:
    """The one line on standard error. Progress bars, which a slow machine may show, do not count."""
    text = "".join(line for line in text.splitlines(keepends=True) if " spent, " not in line)
    assert text.startswith("mipset: "), text
    assert text.endswith((".\n", "?\n")), text
    assert text.count("\n") == 1, text
    return text


def is_refused(process: subprocess.CompletedProcess[str]) -> str:
    """The message of a command that was refused."""
    assert process.returncode == 2
    assert process.stdout == ""
    return sentence(process.stderr)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def in_new_session(
    command: Sequence[object], cwd: Path, processes: list[subprocess.Popen[str]], **environment: str
) -> subprocess.Popen[str]:
    """A process in a group of its own, which is added to `processes`: whoever has that list ends them."""
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    processes.append(process)
    return process


def start(
    code: str, *arguments: object, cwd: Path, until: str, processes: list[subprocess.Popen[str]]
) -> subprocess.Popen[str]:
    """Start a driver in a process group of its own, and return when it has printed a line."""
    script = cwd.parent / f"{cwd.name}-driver.py"
    script.write_text(code, encoding="utf-8")
    process = in_new_session([sys.executable, script, *arguments], cwd, processes)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == until + "\n", line + (process.stderr.read() if process.stderr and process.poll() else "")
    return process


def interrupt(process: subprocess.Popen[str]) -> None:
    """Press Ctrl-C. The command must say that it wrote nothing, and nothing else."""
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=20)
    assert process.returncode == 130
    assert messages.splitlines()[-1] == "mipset: Interrupted. Nothing was written."
    assert "Traceback" not in messages


def limit_files_to(size: int) -> Callable[[], None]:
    """A function for a new process that limits the length of its files, like a disk that is almost full."""
    import resource  # which not every system has

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit
