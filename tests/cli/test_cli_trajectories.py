"""Trajectory matching from the command line: what it says first, a run that lowers its loss, and refusals."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path

import pytest
import torch

import mipset
from commands import Here, done, is_refused, names, run, save_npz
from mipset.cli.machine import tell_disk
from mipset.condensing import experts
from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.growing import recipe_of
from mipset.nn.distributed import ALONE
from mipset.nn.engines import Engine

MTT = [
    *(
        "--recipe",
        "cifar10-mtt-cpu",
        "--ipc",
        "2",
        "--width",
        "4",
        "--depth",
        "2",
        "--threads",
        "1",
        "--real-batch",
        "4",
    ),
    *("--experts", "2", "--snapshot-steps", "5", "--expert-starts", "2", "--train-batch", "20", "--student-batch", "0"),
    *("--network-lr", "0.1", "--student-steps", "4", "--student-lr", "0.2", "--student-lr-lr", "0.0001"),
    *("--train-augment", "none", "--outer", "4", "--inner", "4", "--pixel-lr", "300"),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return save_npz(tmp_path / "noise.npz", size=12)


def mean_loss(artifact: mipset.Artifact, data: mipset.Dataset, first: torch.Tensor | None) -> float:
    """The mean loss of a few students, before the pixels move far, at the experts that the command has trained."""
    settings = {"pixel_lr": 0.0, "student_lr_lr": 0.0, "outer": 1, "inner": 8, "policy": "baseline-c"}
    steps = condense(assemble(recipe_of(artifact).replace(**settings), data, start=first))
    return sum(step.loss for step in steps) / 8


def test_command_says_how_much_disk_it_needs_and_lowers_its_loss(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
    process = run("condense", f"npz:{data}", *MTT, "--policy", "mdc", "--out", "set.safetensors", cwd=tmp_path)
    done(process)
    said = re.search(r"mipset: The trajectories of 2 experts will take ([\d.]+) kB in (\S+), where", process.stderr)
    assert said is not None, process.stderr
    files = sorted(Path(said[2]).iterdir())
    assert [file.name for file in files] == ["0.safetensors", "1.safetensors"]
    assert float(said[1]) == pytest.approx(sum(file.stat().st_size for file in files) / 1000, rel=0.3)
    artifact = mipset.read(tmp_path / "set.safetensors")
    assert all(rate != 0.2 for rate in artifact.provenance["student_rates"])
    loaded = mipset.load(f"npz:{data}")
    before, after = (mean_loss(artifact, loaded, first) for first in (None, torch.from_numpy(artifact.images)))
    assert after < 0.9 * before


@pytest.mark.slow
def test_compare_says_once_how_much_disk_its_methods_need(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
    flags = ("--methods", "baseline-c,mdc", "--sizes", "1", "--networks", "1", "--epochs", "1", "--workers", "1")
    process = run("compare", MTT[1], "--data", f"npz:{data}", *MTT[2:], *flags, "--out", "cmp", cwd=tmp_path)
    done(process)
    assert process.stderr.count("mipset: The trajectories of 2 experts will take ") == 1, process.stderr


def test_recipes_that_share_experts_are_told_their_disk_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
    few = mipset.recipe("cifar10-mtt-cpu", ipc=2, width=4, depth=2, experts=2)
    recipes = [few, few.replace(policy="mdc"), few.replace(width=8), mipset.recipe("cifar10-cpu")]
    tell_disk(Namespace(team=ALONE), recipes, mipset.load(f"npz:{data}"), torch.device("cpu"), Engine())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, "two folders: that of width 4, and that of width 8"
    assert all(line.startswith("mipset: The trajectories of 2 experts will take ") for line in lines)


def test_dry_run_tells_the_cost_of_each_size_and_of_the_disk(data: Path, here: Here) -> None:
    every = ("condense", f"npz:{data}", *MTT, "--policy", "every-prefix", "--dry-run")
    printed = here(*every, "--student-sizes", "0")
    assert re.search(r"students +size 1 [\d.]+ \w+, size 2 [\d.]+ \w+ in an inner iteration\n", printed)
    assert re.search(r"disk +[\d.]+ kB for the trajectories of 2 experts\n", printed)
    assert "in an inner iteration; 1 of these at random\n" in here(*every), "as the recipe has it for every-prefix"


def test_disk_that_is_too_full_is_refused_before_training(
    data: Path, tmp_path: Path, refusal: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(experts, "free_bytes", lambda _: 1000)
    monkeypatch.setattr("mipset.cli.machine.print_message", lambda _: None)
    message = refusal("condense", f"npz:{data}", *MTT, "--out", tmp_path / "x.safetensors")
    assert re.search(r"need [\d.]+ kB in .*fewer --experts or --expert-starts", message)
    assert names(tmp_path) == {"noise.npz"}


def test_mdc_per_class_is_refused(data: Path, tmp_path: Path) -> None:
    message = is_refused(
        run("condense", f"npz:{data}", *MTT, "--policy", "mdc-per-class", "--out", "x.safetensors", cwd=tmp_path)
    )
    assert "--policy mdc-per-class chooses a size for each class" in message
