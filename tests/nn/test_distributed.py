"""Several processes for one run: real processes, over the loopback, at toy size.

Two processes give the same bits as one process that adds up the gradients of both halves of every training batch. One
process that computes a batch as a whole rounds differently: by 2e-7 of a pixel's range in most cases, after ten outer
iterations too. If an activation is at the kink of ReLU, rounding decides its sign, and some pixels differ by more. The
tests allow one grey level (`LEVEL`), and a hundredth of it in the mean. Selections must be the same.
"""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import mipset
from commands import in_new_session
from mipset import cli
from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.states import from_bytes
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.file.run_log import read_run_log
from mipset.nn.distributed import ALONE, ENDED, Alone, Team, joined, timeout_of
from mipset.settings.recipe import Recipe

SOURCE = str(Path(mipset.__file__).parents[1])
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
SECONDS = 120  # no test waits longer than this, whatever hangs
LEVEL = 1 / 255
SMALL = [
    *("--ipc", "4", "--policy", "mdc", "--period", "1", "--width", "8", "--depth", "2", "--outer", "5", "--inner", "2"),
    *("--real-batch", "8", "--train-images", "30", "--train-batch", "15", "--pixel-lr", "0.05", "--threads", "1"),
    *("--objective", "gradient", "--learner", "trained", "--pixel-optimiser", "sgd", "--init", "mix"),
]
WITH_EXPERTS = [
    *("--ipc", "2", "--policy", "every-prefix", "--width", "8", "--depth", "2", "--outer", "3", "--inner", "2"),
    *("--real-batch", "8", "--train-batch", "15", "--pixel-lr", "0.05", "--threads", "1", "--init", "herding"),
    *("--objective", "feature+2*confidence", "--learner", "experts", "--experts", "3", "--expert-steps", "4"),
    *("--pixel-optimiser", "adam"),
]
# Networks that learn from S, and a sampler that remembers what it has chosen.
ON_SYNTHETIC = [
    *("--ipc", "4", "--policy", "mdc", "--period", "1", "--width", "8", "--depth", "2", "--outer", "4", "--inner", "3"),
    *("--objective", "gradient", "--distance", "row-cosine", "--matched-layers", "all", "--pixel-optimiser", "sgd"),
    *("--learner", "trained-on-synthetic", "--train-epochs", "4", "--train-batch", "20", "--network-lr", "0.1"),
    *("--sampler", "k-means", "--cluster-every", "2", "--real-batch", "8", "--pixel-lr", "0.5", "--init", "mix"),
    *("--pixel-space", "normalised", "--step-after", "all-classes", "--composition", "dsa", "--threads", "1"),
]

# Writes a checkpoint after every inner iteration and keeps a copy after every outer one. In the fourth, the process
# DIES is killed, the process STOPS is stopped, or the process FAILS runs out of memory. If ASKS is set, all of them get
# a SIGTERM in the third, as from torchrun when it gets one.
DRIVER = """
import faulthandler, os, shutil, signal, sys
faulthandler.dump_traceback_later(110)  # where it hangs, if it does
from mipset import cli
from mipset.condensing import checkpoint, learners
process = os.environ.get("RANK")
checkpoint.SECONDS = -1
save, start = checkpoint.save, learners.Trained.start
def save_and_keep(path, step, *rest):
    save(path, step, *rest)
    if step.outer_done:
        shutil.copy(path, f"{path}-{step.t}")
def start_or_end(self, t):
    if t == 3 and "ASKS" in os.environ:
        os.kill(os.getpid(), signal.SIGTERM)
    if t == 4 and process == os.environ.get("STOPS"):
        os.kill(os.getpid(), signal.SIGSTOP)
    if t == 4 and process == os.environ.get("DIES"):
        os.kill(os.getpid(), signal.SIGKILL)
    if t == 4 and process == os.environ.get("FAILS"):
        raise MemoryError
    return start(self, t)
checkpoint.save, learners.Trained.start = save_and_keep, start_or_end
cli.main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Ended:
    """Exit code and output of a process."""

    code: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        """The messages of mipset, without those of torchrun."""
        return [line for line in self.err.splitlines() if line.startswith("mipset: ")]


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a command in a new session; it is ended after the test at the latest."""
    started: list[subprocess.Popen[str]] = []

    def start_one(command: Sequence[object], cwd: Path = tmp_path, **environment: str) -> subprocess.Popen[str]:
        return in_new_session(command, cwd, started, **{"PYTHONWARNINGS": "error", **environment})

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=SECONDS)
    assert SOURCE not in err, err  # a traceback of ours
    return Ended(process.returncode, out, err)


@pytest.fixture
def torchrun(start: Start) -> Callable[..., Ended]:
    """Run a command with torchrun."""

    def run(processes: int, *arguments: object, **environment: str) -> Ended:
        # torchrun itself may warn
        return end(start([*TORCHRUN, processes, *arguments], **environment, PYTHONWARNINGS="default"))

    return run


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.fixture
def run_team(start: Start) -> Callable[..., list[Ended]]:
    """Start the processes of a team without torchrun, so that the output of each is known."""

    def run(commands: Sequence[Sequence[object]], folders: Sequence[Path] = (), **environment: str) -> list[Ended]:
        count = str(len(commands))
        team = {"WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count, "GROUP_RANK": "0"}
        team |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), **environment}
        started = [
            start([sys.executable, *command], *folders[i : i + 1], RANK=str(i), LOCAL_RANK=str(i), **team)
            for i, command in enumerate(commands)
        ]
        return [end(process) for process in started]

    return run


@pytest.fixture
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "driver.py"
    path.write_text(DRIVER, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def pets(toy: Dataset, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three classes: two processes cannot share them evenly."""
    path = tmp_path_factory.mktemp("data") / "pets.npz"
    arrays: dict[str, Any] = {"train_images": toy.train.images, "train_labels": toy.train.labels}
    np.savez(path, **arrays, test_images=toy.test.images, test_labels=toy.test.labels)
    return f"npz:{path}"


class Parted(Alone):
    """One process that adds up the gradients of `parts` shares of a batch."""

    parts = 2

    def backward(
        self, loss: Callable[[slice], Tensor], count: int, parameters: Iterable[Parameter], at_once: int | None = None
    ) -> None:
        del at_once
        learning, total = list(parameters), torch.zeros(())
        edges = [count * k // self.parts for k in range(self.parts + 1)]
        for first, last in itertools.pairwise(edges):
            gradients = torch.autograd.grad(loss(slice(first, last)) * ((last - first) / count), learning)
            total = total + torch.cat([gradient.flatten() for gradient in gradients])
        torch.nn.utils.vector_to_parameters(total, (grads := [torch.zeros_like(p) for p in learning]))
        for parameter, gradient in zip(learning, grads, strict=True):
            parameter.grad = gradient


def content(path: Path) -> dict[str, Any]:
    """The recipe and the state in a checkpoint."""
    loaded = from_bytes(path.read_bytes())
    return {"recipe": loaded["recipe"], **loaded["state"]}


def alone(saved: dict[str, Any], data: Dataset, team: Team = ALONE) -> dict[str, Any]:
    """The state of one process after as many outer iterations as in the checkpoint of several."""
    parts = assemble(Recipe(**saved["recipe"]), data, torch.device("cpu"), team=team)
    for step in condense(parts):
        if step.outer_done and step.t == saved["t"]:
            break
    return {"pixels": parts.S.pixels, "optimiser": parts.optimiser.state, "policy": parts.policy.state()}


def selections(policy: dict[str, Any]) -> list[list[int]]:
    return [state["chosen"] for state in policy.get("classes", [policy])]


def assert_close(pixels: Tensor, expected: Tensor) -> None:
    difference = (pixels - expected).abs()
    assert float(difference.max()) < LEVEL
    assert float(difference.mean()) < LEVEL / 100


def assert_images_close(file: Path, expected: Path) -> None:
    ours, theirs = (mipset.read(path).images.astype(int) for path in (file, expected))
    assert np.abs(ours - theirs).max() <= 1
    assert (ours != theirs).mean() < 0.01


# A process of a team of three that checks the functions of a team.
TEAM_CHECKS = """
import argparse, os, torch
from pathlib import Path
from mipset.nn.augment import IDC, Operation
from mipset.cli import machine
from mipset.nn.distributed import joined
from mipset.nn.networks import ConvNet, fresh
from mipset.nn.training import TrainingRule

CPU = torch.device("cpu")
rule = TrainingRule(0.1, 0.9, 5e-4, IDC((Operation.COLOR, Operation.CROP)), mix=1.0)

def trained(batch, *team):
    theta = fresh(lambda: ConvNet(3, 4, (8, 8), 6, 2), 1, CPU)
    optimiser = rule.optimiser(theta)
    for step in range(3):
        draws = torch.Generator().manual_seed(step)
        images, labels = torch.randn(batch, 3, 8, 8, generator=draws), torch.arange(batch) % 4
        rule.step(theta, optimiser, images, labels, draws, *team)
    gradients = torch.cat([p.grad.flatten() for p in theta.parameters()])
    return torch.cat([p.detach().flatten() for p in theta.parameters()]), gradients

with joined() as team:
    assert team.processes == 3 and team.leads == (team.process == 0)
    for batch in (9, 7, 2, 1):  # even and uneven shares, and empty ones
        shared, expected = trained(batch, team), trained(batch)
        torch.testing.assert_close(shared, expected, rtol=1e-4, atol=1e-6)
        assert team.first(lambda: shared[0].numpy().tobytes()) == shared[0].numpy().tobytes()  # the same in all
    whole = torch.full((2, 5), float(team.process))
    team.complete(whole, team.share(range(5)), dim=1)
    assert whole.tolist() == [[0, 1, 1, 2, 2]] * 2
    odd = torch.tensor([0.1, float("nan"), 1e-40])
    team.complete(odd, [team.process])
    assert odd[0] == torch.tensor(0.1) and odd[1].isnan() and odd[2] == torch.tensor(1e-40)
    for content in (b"", b"x", bytes(range(256)) * 5000):
        assert team.first(lambda: content if team.process == 0 else 1 / 0) == content
    team.agree({"--seed": "0"})
    machine.device_of(argparse.Namespace(team=team, device="auto", threads=None))
    assert torch.get_num_threads() == max(1, len(os.sched_getaffinity(0)) // 3)
    optimiser = rule.optimiser(fresh(lambda: ConvNet(3, 4, (8, 8), 6, 2), 1, CPU))  # brings in the last of torch
left = [Path(task, "comm").read_text() for task in Path("/proc/self/task").glob("*")]
assert not any("gloo" in name for name in left), left  # a thread that is left may end the process in its own way
print("passed")
"""


def test_functions_of_a_team_of_three(run_team: Callable[..., list[Ended]]) -> None:
    """Gradients and steps are those of the whole batch; tensors are merged; one process reads a file for all."""
    for process in run_team([["-c", TEAM_CHECKS]] * 3):
        assert (process.code, process.out) == (0, "passed\n"), process.err


def test_shares_are_complete_and_of_equal_length() -> None:
    for count, processes in [(10, 3), (3, 2), (2, 3), (0, 2), (5, 5)]:
        parts = [list(Alone(process, processes).share(range(count))) for process in range(processes)]
        assert [item for part in parts for item in part] == list(range(count))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_one_process_needs_no_team(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in ([], ["WORLD_SIZE"], ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]):
        with monkeypatch.context() as patch:
            for name in names:
                patch.setenv(name, "1")
            with joined() as team:
                assert team is ALONE
    assert (ALONE.process, ALONE.processes, ALONE.threads(8), ALONE.device("cuda:1")) == (0, 1, None, "cuda:1")


def test_more_processes_than_classes_are_refused(toy: Dataset, recipe: Recipe) -> None:
    with pytest.raises(SettingError, match=r"4 processes cannot share 3 classes\. Start 3 or fewer"):
        assemble(recipe, toy, torch.device("cpu"), team=Alone(0, 4))


def exit_code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    return int(ended.value.code or 0)


def test_only_condense_waits_for_other_processes(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert exit_code("recipes") == 0
    assert "cifar10-cpu" in capfd.readouterr().out
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert exit_code("evaluate", "x") == 2
    assert (
        "torchrun works with `mipset condense` only. Start `mipset evaluate` without torchrun."
        in capfd.readouterr().err
    )


@pytest.fixture
def here(pets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Condense in this process."""

    def run(name: str, *arguments: object) -> Path:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            cli.main(["condense", pets, "--out", name, *SMALL, *map(str, arguments)])
        assert ended.value.code == 0
        return tmp_path / name

    return run


class TestTheSameRun:
    def test_one_process_of_torchrun_writes_the_same_bytes(
        self, torchrun: Callable[..., Ended], here: Callable[..., Path], pets: str, tmp_path: Path
    ) -> None:
        ended = torchrun(1, "-m", "mipset", "condense", pets, "--out", "one", *SMALL)
        assert ended.code == 0, ended.err
        assert ended.out.startswith("one: 4 images for each of 3 classes, ")
        assert (tmp_path / "one").read_bytes() == here("none").read_bytes()

    def test_two_processes_share_experts_and_condense_the_same_set(
        self, torchrun: Callable[..., Ended], pets: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every expert is trained by one process, so its bits are those of a run with one process."""
        ended = torchrun(2, "-m", "mipset", "condense", pets, "--out", "two", *WITH_EXPERTS, MIPSET_HOME="cache")
        assert ended.code == 0, ended.err
        assert len(list((tmp_path / "cache" / "experts").glob("*/*.expert"))) == 3
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as stopped:
            cli.main(["condense", pets, "--out", "one", *WITH_EXPERTS])
        assert stopped.value.code == 0
        two, one = (mipset.read(tmp_path / name).images.astype(int) for name in ("two", "one"))
        assert np.abs(two - one).max() <= 1

    def test_two_processes_condense_the_same_set(
        self, torchrun: Callable[..., Ended], driver: Path, pets: str, tmp_path: Path
    ) -> None:
        ended = torchrun(2, driver, "condense", pets, "--out", "two", *SMALL)
        assert ended.code == 0, ended.err
        assert ended.out.count("two: 4 images for each of 3 classes, ") == 1
        assert ended.messages == []
        assert not (tmp_path / "two.checkpoint").exists()
        data, saved = mipset.load(pets), content(tmp_path / "two.checkpoint-4")
        parted, whole = alone(saved, data, Parted()), alone(saved, data)
        assert torch.equal(saved["pixels"], parted["pixels"])
        assert torch.equal(saved["optimiser"]["velocity"], parted["optimiser"]["velocity"])
        assert saved["policy"] == parted["policy"]
        assert_close(saved["pixels"], whole["pixels"])
        assert selections(saved["policy"]) == selections(whole["policy"])
        assert len(set(selections(whole["policy"])[0])) > 1, "only one size was ever selected: the test shows little"

    @pytest.mark.slow  # the functions of a team of three are tested always
    def test_three_processes_condense_the_same_set(
        self, run_team: Callable[..., list[Ended]], driver: Path, tmp_path: Path
    ) -> None:
        flags = [*SMALL, "--policy", "mdc-per-class", "--outer", 4]
        first, *others = run_team([[driver, "condense", "fashion-mini", "--out", "three", *flags]] * 3)
        assert first.code == 0, first.err
        assert first.out.startswith("three: 4 images for each of 10 classes, ")
        assert [(process.code, process.out, process.messages) for process in others] == [(0, "", [])] * 2
        saved = content(tmp_path / "three.checkpoint-3")
        whole = alone(saved, mipset.load("fashion-mini"))
        assert_close(saved["pixels"], whole["pixels"])
        assert selections(saved["policy"]) == selections(whole["policy"])


class TestEnds:
    @pytest.mark.parametrize("dies", ["0", pytest.param("1", marks=pytest.mark.slow)])
    def test_run_with_a_killed_process_can_be_resumed_by_one(
        self,
        torchrun: Callable[..., Ended],
        here: Callable[..., Path],
        driver: Path,
        pets: str,
        tmp_path: Path,
        dies: str,
    ) -> None:
        """If the leading process is killed, the other one prints the message."""
        ended = torchrun(2, driver, "condense", pets, "--out", "x", *SMALL, DIES=dies)
        assert ended.code != 0
        assert ended.messages == [f"mipset: {ENDED}. The same command continues after outer iteration 3 of 5."]
        assert not (tmp_path / "x").exists()
        assert_images_close(here("x"), here("whole"))
        assert not (tmp_path / "x.checkpoint").exists()

    def test_stopped_run_can_be_continued_by_two_processes(
        self, run_team: Callable[..., list[Ended]], here: Callable[..., Path], pets: str, tmp_path: Path
    ) -> None:
        """In the middle of an outer iteration. The second process has not the folder of the first."""
        with pytest.raises(SystemExit):
            cli.main(["condense", pets, "--out", str(tmp_path / "x"), *SMALL, "--max-time", "0.001s"])
        (tmp_path / "elsewhere").mkdir()
        command = ["-m", "mipset", "condense", pets, "--out", "x", *SMALL]
        ended = run_team([command] * 2, [tmp_path, tmp_path / "elsewhere"])
        assert [process.code for process in ended] == [0, 0], ended
        (message,) = ended[0].messages + ended[1].messages
        assert message.startswith("mipset: Continuing from x.checkpoint, after outer iteration 0 of 5 and 1 of 2 inner")
        assert_images_close(tmp_path / "x", here("whole"))
        assert not list((tmp_path / "elsewhere").iterdir())  # the log is written by the first process only
        assert [entry.outer for entry in read_run_log(tmp_path / "x.log.jsonl").entries] == [1, 2, 3, 4, 5]

    def test_two_processes_save_in_the_middle_and_continue_with_the_same_bits(
        self, run_team: Callable[..., list[Ended]], driver: Path, pets: str, tmp_path: Path
    ) -> None:
        """torchrun ends its processes with SIGTERM: they agree, save, and say the same."""
        command = [driver, "condense", pets, "--out"]
        ended = run_team([[*command, "x", *SMALL]] * 2, ASKS="1")
        assert [process.code for process in ended] == [143, 143], ended
        (message,) = ended[0].messages + ended[1].messages
        assert message == (
            "mipset: Terminated. The same command continues after outer iteration 2 of 5 and 1 of 2 inner iterations "
            "of the next."
        )
        for name in ("x", "whole"):
            assert [process.code for process in run_team([[*command, name, *SMALL]] * 2)] == [0, 0]
        assert (tmp_path / "x").read_bytes() == (tmp_path / "whole").read_bytes()

    def test_two_processes_share_learning_from_the_synthetic_set_and_clustering(
        self, run_team: Callable[..., list[Ended]], driver: Path, pets: str, tmp_path: Path
    ) -> None:
        """Inside an outer iteration, every process learns from the classes of all, and the checkpoint has all of it."""
        ended = run_team([[driver, "condense", pets, "--out", "x", *ON_SYNTHETIC]] * 2, ASKS="1")
        assert [process.code for process in ended] == [143, 143], ended
        saved = content(tmp_path / "x.checkpoint")
        parts = assemble(Recipe(**saved["recipe"]), mipset.load(pets), torch.device("cpu"), team=Parted())
        step = next(step for step in condense(parts) if (step.place.t, step.place.e) == (saved["t"], saved["e"]))
        assert (step.t, step.e) == (3, 1)
        assert torch.equal(saved["pixels"], parts.S.pixels)
        assert torch.equal(saved["sampler"]["chosen"], parts.sampler.state["chosen"])

    @pytest.mark.parametrize("stops", ["0", pytest.param("1", marks=pytest.mark.slow)])
    def test_process_that_does_not_answer_is_noticed(self, start: Start, driver: Path, pets: str, stops: str) -> None:
        """After the time that is set, even if it is the leading one, which has what the others exchange."""
        team = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
        team |= {"MASTER_PORT": free_port(), "STOPS": stops, "MIPSET_TEAM_TIMEOUT": "4s"}
        command = [sys.executable, driver, "condense", pets, "--out", "x", *SMALL]
        both = [start(command, RANK=str(i), LOCAL_RANK=str(i), **team) for i in range(2)]
        ended = end(both[1 - int(stops)])
        assert ended.code == 2
        assert ended.messages == [f"mipset: {ENDED}. The same command continues after outer iteration 3 of 5."]

    def test_impossible_time_is_refused(self) -> None:
        with pytest.raises(SettingError, match=r"^MIPSET_TEAM_TIMEOUT is 'soon'\. Write a time such as 90s"):
            timeout_of({"MIPSET_TEAM_TIMEOUT": "soon"})
        assert timeout_of({}).total_seconds() == 600

    def test_error_of_one_process_ends_all(self, run_team: Callable[..., list[Ended]], driver: Path, pets: str) -> None:
        """The first process prints what happened to the second."""
        ended = run_team([[driver, "condense", pets, "--out", "x", *SMALL]] * 2, FAILS="1")
        assert [process.code for process in ended] == [2, 2]
        assert [process.out for process in ended] == ["", ""]
        (message,) = ended[0].messages + ended[1].messages
        assert message.startswith("mipset: There is not enough memory. ")


class TestBadInput:
    """One message, exit code 2 in each process, and nothing is written."""

    def test_bad_setting_under_torchrun_is_one_message(
        self, torchrun: Callable[..., Ended], pets: str, tmp_path: Path
    ) -> None:
        ended = torchrun(2, "-m", "mipset", "condense", pets, "--out", "x", *SMALL, "--ipc", "-1")
        assert ended.code != 0
        assert ended.messages == ["mipset: --ipc is -1: it must be at least 1 and at most 1e+06."]
        assert "exitcode  : 2" in ended.err
        assert not list(tmp_path.iterdir())

    def test_different_settings_of_two_processes_are_refused(
        self, run_team: Callable[..., list[Ended]], pets: str, tmp_path: Path
    ) -> None:
        command = ["-m", "mipset", "condense", pets, "--out", "x", *SMALL, "--seed"]
        ended = run_team([[*command, 4], [*command, 5]])
        assert [process.code for process in ended] == [2, 2]
        assert [process.out for process in ended] == ["", ""]
        (message,) = ended[0].messages + ended[1].messages
        assert "Process 1 has --seed 5, but process 0 has 4. Start all processes of a run with the same" in message
        assert not list(tmp_path.iterdir())
