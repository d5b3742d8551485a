"""The command line: the real command, made small; and what it says when something is wrong."""

from __future__ import annotations

import argparse
import csv
import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import mipset
import web
from mipset import Accuracy, Artifact, checkpoint, cli, errors, evaluate, read
from mipset.cli import condensing, evaluating, machine, shared
from mipset.native import Kernels
from mipset.recipes import RECIPES
from mipset.tables import byte_count

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
SOURCE = str(Path(mipset.__file__).parents[1])

# A run of a moment on any data.
TINY = [
    *("--ipc", "2", "--width", "4", "--depth", "2", "--outer", "2", "--inner", "2", "--real-batch", "8"),
    *("--train-images", "16", "--train-batch", "8", "--threads", "1"),
]
REORDER = ["--first", "2", "--best", "1", "--threads", "1"]
TO_NPZ = ["--to", "npz", "--out", "y"]
IMPORT = ["import", str(GOLDEN), "--kind", "mdc", "--dataset", "cifar10", "--out", "x"]
BRIEF = ["--networks", "1", "--epochs", "1", "--threads", "1", "--workers", "1"]


def save_npz(path: Path, classes: int = 3, per_class: int = 20, size: int = 8, seed: int = 0) -> Path:
    """A dataset of grey noise."""
    rng = np.random.default_rng(seed)
    arrays: dict[str, Any] = {}
    for split in ("train", "test"):
        arrays[f"{split}_labels"] = np.arange(classes * per_class) % classes
        arrays[f"{split}_images"] = rng.integers(0, 256, (classes * per_class, 1, size, size), dtype=np.uint8)
    np.savez(path, **arrays)
    return path


def save_pictures(folder: Path, count: int = 12, size: int = 8) -> Path:
    """A dataset of grey pictures, in one sub-folder per class."""
    rng = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            pixels = rng.integers(0, 256, (size, size), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def run(
    *arguments: object, cwd: Path, preexec: Callable[[], None] | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The real command, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "mipset", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=preexec,
    )


def done(process: subprocess.CompletedProcess[str]) -> str:
    """What a command printed that went well."""
    assert process.returncode == 0, process.stderr
    assert "Traceback" not in process.stderr
    return process.stdout


def sentence(text: str) -> str:
    """What standard error holds, which must be one line, beside a progress bar where a slow machine shows one."""
    text = "".join(line for line in text.splitlines(keepends=True) if " spent, " not in line)
    assert text.startswith("mipset: "), text
    assert text.endswith((".\n", "?\n")), text
    assert text.count("\n") == 1, text
    return text


def is_refused(process: subprocess.CompletedProcess[str]) -> str:
    """What a command said that could not be done."""
    assert process.returncode == 2
    assert process.stdout == ""
    return sentence(process.stderr)


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


Here = Callable[..., str]


@pytest.fixture
def here(capfd: pytest.CaptureFixture[str]) -> Here:
    """A command run in this process, which saves the seconds that importing torch takes; gives what it printed."""

    def run_here(*arguments: object) -> str:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        assert ended.value.code == 0, shown.err
        return shown.out

    return run_here


@pytest.fixture
def refusal(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Here:
    """The same for a command that must be refused with one sentence, and must not write anything."""

    def refuse(*arguments: object) -> str:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        assert ended.value.code == 2
        assert shown.out == ""
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        return sentence(shown.err)

    return refuse


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    return save_npz(tmp_path / "pets.npz")


@pytest.fixture
def condensed(tmp_path: Path) -> Path:
    """A file that says it was condensed from fashion-mini, and need not be good."""
    pixels = np.random.default_rng(0).integers(0, 256, (3, 10, 1, 28, 28), dtype=np.uint8)
    data = mipset.load("fashion-mini")
    path = tmp_path / "set.safetensors"
    Artifact(
        images=pixels,
        factor=1,
        mean=data.mean,
        std=data.std,
        class_names=data.class_names,
        recipe={"network": "convnet", "width": 4, "depth": 2},
        provenance={"dataset": "fashion-mini", "sha256": data.sha256, "size": None, "split_seed": 0},
    ).write(path)
    return path


class TestVerbs:
    """Every verb as it is typed."""

    def test_from_condensing_to_a_slice(self, tmp_path: Path) -> None:
        printed = done(run("condense", "fashion-mini", "--out", "a.safetensors", *TINY, cwd=tmp_path))
        assert printed.startswith("a.safetensors: 2 images for each of 10 classes, ")
        assert printed.endswith("next: mipset evaluate a.safetensors\n")
        assert names(tmp_path) == {"a.safetensors"}
        whole = read(tmp_path / "a.safetensors")
        assert whole.images.shape == (2, 10, 1, 28, 28)
        assert whole.recipe["width"] == 4
        assert whole.recipe["cutmix"] == RECIPES["demo"].recipe.cutmix  # the recipe for this dataset
        assert whole.provenance["dataset"] == "fashion-mini"

        printed = done(run("evaluate", "a.safetensors", "--save", *BRIEF, cwd=tmp_path))
        head, sizes, row = printed.splitlines()
        assert head.startswith("accuracy in % on test images, mean ± deviation over 1 network (convnet-2, width 4; ")
        assert sizes.split() == ["images", "per", "class", "1", "2", "mean"]
        assert row.startswith("a ")
        measured = read(tmp_path / "a.safetensors")
        np.testing.assert_array_equal(measured.images, whole.images)
        assert [p.size for p in measured.accuracy] == [1, 2]
        assert [f"{p.mean:.1f}" for p in measured.accuracy] == row.split()[1:3]
        assert {p.protocol for p in measured.accuracy} == {"quick, 1 epochs, at least 100 steps"}

        shown = done(run("show", "a.safetensors", cwd=tmp_path))
        assert "2 per class, 10 classes, 1 x 28 x 28 pixels" in shown
        assert "protocol quick, 1 epochs, at least 100 steps; convnet-2, width 4; seed 0)" in shown
        assert done(run("show", "a.safetensors", "--png", "a.png", cwd=tmp_path)).startswith("a.png: one row per class")
        with Image.open(tmp_path / "a.png") as sheet:
            assert sheet.format == "PNG"
            assert sheet.height == 16 + 10 * (3 * 28 + 2)
            assert sheet.width > 2 * (3 * 28 + 2)

        assert done(run("slice", "a.safetensors", 1, "--out", "b.safetensors", cwd=tmp_path)).startswith(
            "b.safetensors: 1 images per class, "
        )
        part = read(tmp_path / "b.safetensors")
        np.testing.assert_array_equal(part.images, whole.images[:1])
        assert part.accuracy == measured.accuracy[:1]

        # The slice is as good as the size it was cut from, and several processes give what one gives.
        printed = done(run("evaluate", "b.safetensors", "a.safetensors", *BRIEF[:-2], "--workers", 2, cwd=tmp_path))
        _, sizes, slice_row, whole_row = printed.splitlines()
        assert slice_row.split() == ["b", row.split()[1], "-", "-"]
        assert whole_row == row
        assert names(tmp_path) == {"a.safetensors", "b.safetensors", "a.png"}

    def test_evaluating_with_another_network(self, tmp_path: Path, condensed: Path) -> None:
        """As wide as asked for, and as deep as it is by default: the file's depth of 2 is that of a convnet."""
        other = ("--network", "resnet", "--width", 2, "--sizes", 1, "--save")
        printed = done(run("evaluate", condensed.name, *other, *BRIEF, cwd=tmp_path))
        assert printed.startswith("accuracy in % on test images, mean ± deviation over 1 network (resnet-10, width 2; ")
        assert [p.network for p in read(condensed).accuracy] == ["resnet-10, width 2"]

    def test_condensing_with_another_network(self, tmp_path: Path, here: Here) -> None:
        data = f"npz:{save_npz(tmp_path / 'larger.npz', size=16)}"
        out = tmp_path / "set"
        here("condense", data, "--out", out, *TINY, "--network", "resnet-ap", "--depth", 10)
        assert read(out).recipe["network"] == "resnet-ap"
        assert "(resnet-ap-10, width 4; " in here("evaluate", out, "--data", data, "--sizes", 1, *BRIEF)

    def test_starting_from_the_images_of_a_file(self, tmp_path: Path, pets: Path, here: Here, refusal: Here) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        here("condense", f"npz:{pets}", "--out", second, *TINY, "--start", first, "--pixel-lr", 0)
        np.testing.assert_array_equal(read(second).images, read(first).images)
        assert read(second).provenance["start"] == hashlib.sha256(read(first).images.tobytes()).hexdigest()
        third = ("condense", f"npz:{pets}", "--out", tmp_path / "third", *TINY)
        assert "leave one out" in refusal(*third, "--start", first, "--init", "noise")
        assert "has --factor 2, not 1" in refusal(*third, "--start", first, "--factor", 1)
        assert "has other classes" in refusal(*third, "--start", GOLDEN)
        assert "images to start from are" in refusal(*third, "--start", first, "--ipc", 1)
        assert "there is no file" in refusal(*third, "--start", tmp_path / "none")

    def test_reordering(self, tmp_path: Path, condensed: Path, here: Here) -> None:
        old, new = read(condensed), tmp_path / "new.safetensors"
        printed = here("reorder", condensed, "--out", new, *REORDER)
        assert printed.startswith(f"{new}: the images of {condensed}, easiest first, ")
        assert printed.endswith(f"; next: mipset evaluate {condensed} {new}\n")
        assert printed.count("\n") == 1
        found = read(new)
        for c in range(10):
            before, after = ([image.tobytes() for image in artifact.images[:, c]] for artifact in (old, found))
            assert sorted(after) == sorted(before)
        assert not np.array_equal(found.images, old.images)
        assert found.recipe == old.recipe
        assert found.provenance["reordered"] == "yoco"
        assert found.provenance["reordered_with"].endswith("; seed 0; best 1 of the first 2 epochs")
        assert [line.split()[0] for line in here("evaluate", condensed, new, *BRIEF).splitlines()[2:]] == ["set", "new"]
        content = new.read_bytes()
        here("reorder", condensed, "--out", new, *REORDER, "--force", "--seed", 1)
        assert new.read_bytes() != content

    def test_what_it_would_cost(self, tmp_path: Path) -> None:
        printed = done(run("condense", "fashion-mini", "--dry-run", *TINY, cwd=tmp_path))
        rows = dict(line.split(maxsplit=1) for line in printed.splitlines())
        assert list(rows) == ["data", "recipe", "work", "time", "max_memory", "file", "nothing"]
        assert rows["data"] == "fashion-mini: 5,000 training images of 1 x 28 x 28 pixels, 10 classes"
        assert rows["recipe"] == "2 images per class, policy mdc, convnet-2 of width 4, 2 x 2 iterations"
        assert re.fullmatch(r"[\d.]+ MFLOP: 40 matches of .*FLOP, 4 training steps of .*FLOP", rows["work"])
        assert re.fullmatch(
            r"about .* on this machine \(cpu, 1 thread, plain torch\): a match takes .* s, .*", rows["time"]
        )
        assert re.fullmatch(r"about [\d.]+ MB", rows["max_memory"])
        assert names(tmp_path) == set()
        done(run("condense", "fashion-mini", "--out", "a", *TINY, cwd=tmp_path))
        written = (tmp_path / "a").stat().st_size
        assert rows["file"] in {byte_count(written + off) for off in range(-8, 9)}  # a header is padded to 8 bytes

    def test_what_it_would_cost_is_refused_where_the_run_would_be(
        self, tmp_path: Path, pets: Path, here: Here, refusal: Here
    ) -> None:
        dry = ("condense", f"npz:{pets}", "--dry-run", *TINY)
        assert "fewer than --real-batch 21" in refusal(*dry, "--real-batch", 21)
        assert "choose a smaller --depth" in refusal(*dry, "--depth", 9)
        assert "pets.npz exists already" in refusal(*dry, "--out", pets)
        assert "leave out --resume" in refusal(*dry, "--resume")
        first = tmp_path / "first"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        assert "max_memory" in here(*dry, "--start", first)
        assert "images to start from are" in refusal(*dry, "--start", first, "--ipc", 1)

    def test_recipes(self, tmp_path: Path) -> None:
        printed = done(run("recipes", cwd=tmp_path))
        for name, named in RECIPES.items():
            assert f"{name}\n    {named.dataset}: " in printed
        printed = done(run("recipes", "demo", cwd=tmp_path))
        assert "--width 32 " in printed
        assert len(printed.splitlines()) == len(vars(RECIPES["demo"].recipe))
        assert "choose demo, " in is_refused(run("recipes", "dem", cwd=tmp_path))

    def test_data(self, tmp_path: Path) -> None:
        printed = done(run("data", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "cache")))
        assert "fashion-mini\n" in printed
        assert "cifar10\n" in printed
        assert "not here: " in printed
        said = is_refused(run("data", "fetch", "cifar11", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "cache")))
        assert "'cifar11' cannot be fetched" in said
        assert names(tmp_path) == set()

    def test_what_is_here_already_is_not_fetched(self, here: Here) -> None:
        assert here("data", "fetch", "fashion-mini").startswith("fashion-mini is in ")

    def test_version(self, here: Here) -> None:
        assert here("--version") == f"mipset {mipset.__version__}\n"


class TestHelp:
    def test_needs_no_torch(self, tmp_path: Path) -> None:
        """Nor anything else that takes long to import."""
        code = (
            "import sys; sys.modules.update(torch=None, numpy=None, PIL=None); "
            "from mipset.cli import main; main(sys.argv[1:])"
        )
        verbs = [
            ["condense"],
            ["evaluate"],
            ["compare"],
            ["reorder"],
            ["export"],
            ["import"],
            ["plan"],
            ["fetch"],
            ["data", "fetch"],
        ]
        for verb in ([], *verbs):
            process = subprocess.run(
                [sys.executable, "-c", code, *verb, "--help"],
                env={**os.environ, "PYTHONPATH": SOURCE},
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
            assert process.returncode == 0, process.stderr
            assert process.stdout.startswith(f"usage: mipset {' '.join(verb)}".rstrip())

    def test_flags_are_these(self) -> None:
        """A flag that someone types in a script stays."""
        machine = {"--device", "--threads", "--compile"}
        protocol = {"--protocol", "--epochs"}
        settings = {
            *("--ipc", "--period", "--freeze", "--subset-weight", "--metric", "--metric-epochs", "--round-distances"),
            "--steps",
            *("--factor", "--init", "--distance", "--network", "--width", "--depth", "--outer", "--inner"),
            *("--real-batch", "--pixel-lr", "--pixel-momentum", "--match-augment", "--train-images", "--train-batch"),
            *("--train-augment", "--pool", "--life", "--train-precision", "--cutmix", "--network-lr"),
            *("--network-momentum", "--network-decay", "--seed"),
        }
        data = {"--size", "--split-seed"}
        limits = {"--bytes", "--memory", "--seconds", "--throughput", "--epochs", "--batch"}
        assert flags(cli.parser()) == {
            (): {"--help", "--version"},
            ("condense",): {
                *("DATASET", "--help", "--out", "--recipe", "--start", "--resume", "--force", "--dry-run"),
                *("--policy", "--prefix-weights"),
                *settings,
                *data,
                *machine,
            },
            ("evaluate",): {
                *("FILE", "--help", "--sizes", "--networks", "--network", "--width"),
                *("--depth", "--seed", "--data", "--workers", "--save"),
                *protocol,
                *machine,
            },
            ("compare",): {
                *("RECIPE", "--help", "--methods", "--seeds", "--out", "--data", "--held-out", "--sizes", "--at"),
                *("--networks", "--evaluation-seed", "--evaluate-with", "--workers", "--dry-run"),
                *settings,
                *protocol,
                *data,
                *machine,
            },
            ("methods",): {"--help"},
            ("reorder",): {
                *("FILE", "--help", "--out", "--first", "--best", "--seed", "--force"),
                *protocol,
                *machine,
            },
            ("grow",): {
                "FILE",
                "--help",
                "--out",
                "--data",
                "--force",
                "--policy",
                "--prefix-weights",
                *settings,
                *machine,
            },
            ("audit",): {"FILE", "DATASET", "--help", "--top", "--png", "--seed"},
            ("show",): {"FILE", "--help", "--png"},
            ("slice",): {"FILE", "N", "--help", "--out", "--force"},
            ("export",): {"FILE", "--help", "--to", "--out", "--ipc", "--decoded", "--force"},
            ("import",): {
                *("FILE", "--help", "--kind", "--dataset", "--out", "--factor", "--order", "--labels", "--experiment"),
                "--force",
                *data,
            },
            ("plan",): {"FILE_OR_URL", "--help", *limits},
            ("fetch",): {"URL", "--help", "--out", "--ipc", "--force", *limits},
            ("data",): {"--help"},
            ("data", "fetch"): {"NAME", "--help"},
            ("recipes",): {"NAME", "--help"},
        }

    def test_every_flag_has_help(self) -> None:
        for parser in parsers(cli.parser()).values():
            for action in parser._actions:
                assert action.help or not action.option_strings, action

    def test_protocols_are_those_of_evaluate(self) -> None:
        assert set(shared.PROTOCOLS) == set(evaluate.PROTOCOLS)


def parsers(top: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """A parser and all below it, by the words that lead to them."""
    found = {path: top}
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                found |= parsers(parser, (*path, name))
    return found


def flags(top: argparse.ArgumentParser) -> dict[tuple[str, ...], set[str]]:
    return {
        path: {
            action.option_strings[-1] if action.option_strings else str(action.metavar)
            for action in parser._actions
            if not isinstance(action, argparse._SubParsersAction)
        }
        for path, parser in parsers(top).items()
    }


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            (None, [1, 2, 3, 4, 5]),
            ("1", [1]),
            ("1-3", [1, 2, 3]),
            ("5,1", [1, 5]),
            ("1-2,2-3,5", [1, 2, 3, 5]),
            ("3-3", [3]),
            (" 1 , 2 - 3 ", [1, 2, 3]),
        ],
    )
    def test_that_can_be(self, text: str | None, sizes: list[int]) -> None:
        assert shared.asked_sizes(text, 5) == sizes

    @pytest.mark.parametrize("text", ["", ",", "1,", "a", "1-", "-3", "1-2-3", "1.5", "1;2", "all", "1\u20133"])
    def test_that_cannot_be_read(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="write numbers such as 1-10 or 1,2,5"):
            shared.asked_sizes(text, 5)

    @pytest.mark.parametrize("text", ["0", "6", "1-6", "3-2", "0-2", "1,99999999999999999999"])
    def test_that_are_not_there(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="there are sizes 1 to 5"):
            shared.asked_sizes(text, 5)


class TestRecipeChoice:
    def chosen(self, *arguments: str) -> mipset.Recipe:
        return condensing._recipe(cli.parser().parse_args(["condense", *arguments, "--out", "x"]))

    def test_goes_by_the_dataset(self) -> None:
        assert self.chosen("fashion-mini") == RECIPES["demo"].recipe
        assert self.chosen("cifar10") == RECIPES["cifar10-cpu"].recipe

    def test_for_data_of_ones_own(self) -> None:
        assert self.chosen("folder:pets") == RECIPES[shared.DEFAULT_RECIPE].recipe

    def test_by_name(self) -> None:
        assert self.chosen("cifar10", "--recipe", "paper-cifar10-ipc10") == RECIPES["paper-cifar10-ipc10"].recipe

    def test_flags_stand_above_it(self) -> None:
        assert self.chosen("cifar10", "--ipc", "7", "--policy", "none", "--pixel-lr", "0") == RECIPES[
            "cifar10-cpu"
        ].recipe.replace(ipc=7, policy="none", pixel_lr=0.0)


class TestNetworkChoice:
    @pytest.mark.parametrize(
        ("given", "network"),
        [
            ([], "convnet-2, width 4"),  # of the file
            (["--width", "8"], "convnet-2, width 8"),
            (["--network", "convnet", "--depth", "1"], "convnet-1, width 4"),
            (["--network", "resnet"], "resnet-10, width 32"),
            (["--network", "resnet-ap"], "resnet-ap-10, width 64"),
            (["--network", "densenet"], "densenet-121, width 12"),
            (["--network", "resnet", "--depth", "18"], "resnet-18, width 32"),
            (["--network", "resnet", "--width", "4", "--depth", "18"], "resnet-18, width 4"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_another_network_has_a_size_of_its_own(self, condensed: Path, given: list[str], network: str) -> None:
        chosen = cli.parser().parse_args(["evaluate", str(condensed), *given])
        data = mipset.load("fashion-mini")
        assert str(evaluating._evaluation(chosen, torch.device("cpu"), read(condensed), data).network) == network


class TestOwnData:
    def test_in_an_npz_file(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "set.safetensors"
        here("condense", f"npz:{pets}", "--out", out, *TINY)
        assert read(out).provenance["dataset"] == "npz:pets.npz"
        assert str(tmp_path).encode() not in out.read_bytes()

        monkeypatch.chdir(tmp_path)  # where the file is found by its name alone
        table = here("evaluate", out, *BRIEF).splitlines()[1:]
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "condensed from npz:pets.npz: add --data with its path" in refusal("evaluate", out, *BRIEF)
        assert here("evaluate", out, "--data", f"npz:{pets}", *BRIEF).splitlines()[1:] == table

        save_npz(tmp_path / "elsewhere" / "pets.npz", seed=5)
        assert "condensed from another npz:pets.npz" in refusal("evaluate", out, *BRIEF)

    def test_in_a_folder(self, here: Here, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """How pictures were scaled and split is in the file, so that the test images are the same again."""
        pictures = save_pictures(tmp_path / "my pictures", size=10)
        out = tmp_path / "set.safetensors"
        small = ["--factor", "1", "--real-batch", "4", "--size", "8", "--split-seed", "3"]
        here("condense", f"folder:{pictures}", "--out", out, *TINY, *small)
        found = read(out)
        assert found.images.shape == (2, 2, 1, 8, 8)
        assert found.class_names == ("cat", "dog")
        assert {
            "dataset": "folder:my pictures",
            "size": 8,
            "split_seed": 3,
        }.items() <= found.provenance.items()
        assert str(tmp_path).encode() not in out.read_bytes()
        monkeypatch.chdir(tmp_path)
        here("evaluate", out, *BRIEF)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "add --data with its path" in refusal("evaluate", out, *BRIEF)
        here("evaluate", out, "--data", f"folder:{pictures}", *BRIEF)


class TestBadCondensing:
    """One sentence, exit code 2, and nothing written."""

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["fashion-maxi"], "There is no dataset called 'fashion-maxi'"),
            (["npz:nowhere.npz"], "is not a file"),
            (["folder:nowhere"], "is not a folder"),
            (["npz:"], "lacks a path"),
            (["fashion-mini", "--recipe", "demon"], "there is no recipe 'demon': choose demo, "),
            (["fashion-mini", "--policy", "most"], "--policy cannot be 'most': choose none, mdc, "),
            (["fashion-mini", "--freeze", "always"], "--freeze cannot be 'always'"),
            (["fashion-mini", "--ipc", "0"], "--ipc cannot be 0: it must be at least 1"),
            (["fashion-mini", "--ipc", "-1"], "--ipc cannot be -1"),
            (["fashion-mini", "--ipc", "two"], "argument --ipc: invalid int value: 'two'"),
            (["fashion-mini", "--ipc", "2.5"], "argument --ipc: invalid int value: '2.5'"),
            (["fashion-mini", "--ipc"], "argument --ipc: expected one argument"),
            (["fashion-mini", "--pixel-lr", "nan"], "--pixel-lr cannot be nan"),
            (["fashion-mini", "--pixel-lr", "inf"], "--pixel-lr cannot be inf"),
            (["fashion-mini", "--network-lr", "-0.1"], "--network-lr cannot be -0.1"),
            (["fashion-mini", "--pixel-momentum", "1"], "--pixel-momentum cannot be 1"),
            (["fashion-mini", "--cutmix", "1.5"], "--cutmix cannot be 1.5"),
            (["fashion-mini", "--subset-weight", "nan"], "--subset-weight cannot be nan"),
            (["fashion-mini", "--seed", "-1"], "--seed cannot be -1"),
            (["fashion-mini", "--split-seed", "-1"], "--split-seed cannot be -1"),
            (["fashion-mini", "--size", "8"], "only pictures in a folder are scaled"),
            (["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "1,2,3"], "or 2 numbers"),
            (["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "1;2"], "or 2 numbers"),
            (["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "nan,1"], "finite"),
            (
                ["fashion-mini", "--policy", "mdc", "--prefix-weights", "1,1"],
                "needs --policy every-prefix, not mdc",
            ),
            (["fashion-mini", "--match-augment", "blur"], "there is no augmentation 'blur'"),
            (["fashion-mini", "--network", "vgg"], "--network cannot be 'vgg': choose convnet"),
            (["fashion-mini", "--depth", "9"], "choose a smaller --depth"),
            (["fashion-mini", "--factor", "30"], "--factor"),
            (["fashion-mini", "--real-batch", "100000"], "fewer than --real-batch 100000"),
            (["fashion-mini", "--device", "quantum"], "--device cannot be 'quantum'"),
            (["fashion-mini", "--device", "meta"], "--device cannot be 'meta'"),
            (["fashion-mini", "--device", "hpu"], "--device cannot be 'hpu'"),
            (["fashion-mini", "--device", "mkldnn"], "--device cannot be 'mkldnn'"),
            (["fashion-mini", "--device", "cpu:x"], "--device cannot be 'cpu:x'"),
            (["fashion-mini", "--threads", "0"], "--threads cannot be 0"),
            (["fashion-mini", "--threads", "99999999999999"], "--threads cannot be 99999999999999"),
            (["fashion-mini", "--compile", "maybe"], "argument --compile: invalid choice: 'maybe'"),
            (
                ["fashion-mini", "--network", "resnet"],
                "--network cannot be 'resnet' to condense with, since its batch norm mixes the images of a batch: "
                "choose convnet or resnet-ap.",
            ),
            (["fashion-mini", "--network", "resnet-ap"], "--depth of a ResNet cannot be 2: choose 10 or 18"),
            (["fashion-mini", "--pool", "3"], "--pool 3 needs a --life of 2 or more"),
            (["fashion-mini", "--train-precision", "int4"], "--train-precision cannot be 'int4'"),
            (["fashion-mini", "--shiny"], "unrecognized arguments: --shiny"),
            (["fashion-mini", "mnist"], "unrecognized arguments: mnist"),
            ([], "the following arguments are required: DATASET"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_settings(
        self, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], reason: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert reason in refusal("condense", "--out", tmp_path / "x.safetensors", *TINY, *given)

    def test_in_a_process(self, tmp_path: Path) -> None:
        """Two of them once more as they are typed: before torch is imported, and after."""
        for given, reason in (("--ipc", "--ipc cannot be -1"), ("--threads", "--threads cannot be -1")):
            process = run("condense", "fashion-mini", "--out", "x", given, "-1", cwd=tmp_path)
            assert reason in is_refused(process)
        assert names(tmp_path) == set()

    @pytest.mark.parametrize("arguments", [[], ["condens"], ["--shiny"], ["condense", "fashion-mini"], ["slice", "x"]])
    def test_commands(self, refusal: Here, arguments: list[str]) -> None:
        assert "--help`." in refusal(*arguments)

    def test_output(self, refusal: Here, tmp_path: Path) -> None:
        condense = ["condense", "fashion-mini", *TINY, "--out"]
        (tmp_path / "old").write_bytes(b"precious")
        (tmp_path / "folder").mkdir()
        assert "old exists already: choose another --out, or add --force" in refusal(*condense, tmp_path / "old")
        assert "there is no folder " in refusal(*condense, tmp_path / "nowhere" / "x")
        assert "is a folder" in refusal(*condense, tmp_path / "folder")
        assert "is a folder" in refusal(*condense, tmp_path / "folder", "--force")
        assert "File name too long" in refusal(*condense, tmp_path / ("x" * 300))
        assert "there is no folder /two lines to write" in refusal(*condense, "/two\nlines/x")
        assert (tmp_path / "old").read_bytes() == b"precious"

    def test_pictures(self, refusal: Here, tmp_path: Path) -> None:
        condense = ["condense", f"folder:{tmp_path / 'pictures'}", "--out", tmp_path / "x", *TINY]
        save_pictures(tmp_path / "pictures")
        Image.new("L", (9, 8)).save(tmp_path / "pictures" / "dog" / "wide.png")
        assert "different shapes" in (said := refusal(*condense))
        assert "--size" in said
        (tmp_path / "pictures" / "dog" / "wide.png").write_bytes(b"not a picture")
        assert "wide.png could not be read as a picture" in refusal(*condense)
        for path in (tmp_path / "pictures" / "dog").iterdir():
            if path.name != "0.png":
                path.unlink()
        assert "Class 'dog' has 1 image, but a held-out split needs " in refusal(*condense)

    def test_arrays(self, refusal: Here, tmp_path: Path) -> None:
        path = tmp_path / "odd.npz"
        condense = ["condense", f"npz:{path}", "--out", tmp_path / "x", *TINY]
        images, labels = np.random.default_rng(0).random((40, 1, 8, 8)), np.arange(40) % 2
        images[3, 0, 2, 1] = np.nan
        np.savez(path, images=images, labels=labels)
        assert "images holds NaN or infinite values" in refusal(*condense)
        np.savez(path, images=np.nan_to_num(images), labels=np.where(np.arange(40) == 0, 1, 0))
        assert "Class '1' has 1 image, but a held-out split needs " in refusal(*condense)
        path.write_bytes(path.read_bytes()[:-30])
        assert "could not be read as an .npz file" in refusal(*condense)

    def test_too_few_images(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        condense = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY]
        assert "class '0' has 20 training images, fewer than --real-batch 21" in refusal(*condense, "--real-batch", 21)
        assert "--ipc 6 with --factor 2 starts from 24" in refusal(*condense, "--ipc", 6)
        assert "fewer than --train-batch 61" in refusal(*condense, "--train-batch", 61)


class TestBadFiles:
    @pytest.mark.parametrize(
        "verb",
        [["evaluate"], ["reorder", "--out", "y"], ["show"], ["slice", "--out", "y", "1"], ["export", *TO_NPZ]],
        ids=lambda verb: verb[0],
    )
    def test_that_cannot_be_read(
        self, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        command, *more = verb
        (tmp_path / "cut").write_bytes(GOLDEN.read_bytes()[:-1])
        (tmp_path / "empty").touch()
        for name, reason in (
            ("nothing", "there is no file nothing"),
            ("cut", "cut is not a whole safetensors file"),
            ("empty", "empty is not a whole safetensors file"),
            (".", ". is a folder"),
        ):
            arguments = [name, *more] if command != "slice" else [name, more[2], *more[:2]]
            assert reason in refusal(command, *arguments)

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--sizes", "1-4"], "--sizes cannot be '1-4': there are sizes 1 to 3"),
            (["--sizes", "0"], "there are sizes 1 to 3"),
            (["--sizes", "some"], "write numbers such as"),
            (["--networks", "0"], "--networks cannot be 0"),
            (["--epochs", "0"], "--epochs cannot be 0"),
            (["--epochs", "ten"], "invalid int value: 'ten'"),
            (["--protocol", "fast"], "--protocol: invalid choice: 'fast'"),
            (["--network", "vgg"], "there is no network 'vgg': choose convnet, resnet, resnet-ap or densenet"),
            (["--network", "resnet", "--depth", "3"], "--depth of a ResNet cannot be 3: choose 10 or 18"),
            (["--network", "densenet", "--depth", "40"], "--depth of a DenseNet cannot be 40: choose 121"),
            (["--width", "0"], "--width cannot be 0"),
            (["--depth", "0"], "--depth cannot be 0"),
            (["--depth", "20"], "choose a smaller --depth"),
            (["--seed", "-1"], "--seed cannot be -1"),
            (["--workers", "0"], "--workers cannot be 0"),
            (["--threads", "-2"], "--threads cannot be -2"),
            (["--device", "quantum"], "--device cannot be 'quantum'"),
            (["--data", "cifar11"], "There is no dataset called 'cifar11'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_evaluating(self, refusal: Here, condensed: Path, given: list[str], reason: str) -> None:
        assert reason in refusal("evaluate", condensed, *BRIEF, "--save", *given)

    def test_evaluating_with_other_data(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        other = save_npz(tmp_path / "other.npz")
        said = refusal("evaluate", condensed, "--data", f"npz:{other}", *BRIEF, "--save")
        assert "the file holds 10 classes of images [1, 28, 28], but " in said
        alike = save_npz(tmp_path / "alike.npz", classes=10, size=28)
        said = refusal("evaluate", condensed, "--data", f"npz:{alike}", *BRIEF, "--save")
        assert "has the class 'T-shirt/top', which " in said

    def test_sizes_of_all_files_are_checked_before_work_begins(
        self, refusal: Here, tmp_path: Path, condensed: Path
    ) -> None:
        small = tmp_path / "small.safetensors"
        read(condensed).prefix(1).write(small)
        said = refusal("evaluate", condensed, small, "--sizes", "1,3", *BRIEF, "--save")
        assert "there are sizes 1 to 1" in said

    def test_whose_origin_is_unknown_or_odd(self, refusal: Here, tmp_path: Path) -> None:
        known = read(GOLDEN)
        path = tmp_path / "odd.safetensors"
        for provenance, reason in (
            ({}, "does not say where its test images are: add --data"),
            ({"dataset": 7}, "does not say where its test images are"),
            ({"dataset": "fashion-mini", "size": "big"}, "is damaged"),
            ({"dataset": "fashion-mini", "split_seed": None}, "is damaged"),
            ({"dataset": "fashion-mini", "sha256": "00"}, "from another fashion-mini than the one here"),
        ):
            Artifact(known.images, 1, known.mean, known.std, known.class_names, {}, provenance).write(path)
            assert reason in refusal("evaluate", path, *BRIEF)

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--first", "0"], "--first cannot be 0: it must be at least 1"),
            (["--best", "-1"], "--best cannot be -1: it must be at least 1"),
            (["--epochs", "0"], "--epochs cannot be 0"),
            (["--seed", "-1"], "--seed cannot be -1"),
            (["--protocol", "fast"], "--protocol: invalid choice: 'fast'"),
            (["--device", "quantum"], "--device cannot be 'quantum'"),
            (["--out", "nowhere/new"], "there is no folder"),
            (["--out", str(GOLDEN)], "exists already: choose another --out, or add --force"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_reordering(self, refusal: Here, tmp_path: Path, condensed: Path, given: list[str], reason: str) -> None:
        assert reason in refusal("reorder", condensed, "--out", tmp_path / "new", *REORDER, *given)

    def test_slicing(self, refusal: Here, tmp_path: Path) -> None:
        (tmp_path / "old").write_bytes(b"precious")
        for size in ("0", "4"):
            assert "choose from 1 to 3" in refusal("slice", GOLDEN, size, "--out", tmp_path / "new")
        assert "unrecognized" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "new", "-1")
        assert "old exists already" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "old")
        assert "there is no folder" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "nowhere" / "new")

    def test_showing(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        assert "cannot be written: No such file" in refusal("show", condensed, "--png", tmp_path / "nowhere" / "x.png")
        assert "would overwrite the file itself" in refusal("show", condensed, "--png", condensed)


class TestDevice:
    """`plan` and `fetch`, from a path and from a server."""

    @pytest.fixture
    def published(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[web.Server]:
        """A file of three ranks on a server, of which two sizes were measured."""
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr("mipset.device.remote.PAUSE", 0.0)
        monkeypatch.chdir(tmp_path)
        with web.serving(GOLDEN.read_bytes()) as server:
            yield server

    def test_fetching_in_a_process_without_torch(self, tmp_path: Path, published: web.Server) -> None:
        code = "import sys; sys.modules['torch'] = None; from mipset.cli import main; main(sys.argv[1:])"
        for verb in (
            ["fetch", published.url, "--out", "part", "--ipc", "2"],
            ["plan", published.url, "--bytes", "1MB"],
        ):
            process = subprocess.run(
                [sys.executable, "-W", "error", "-c", code, *verb],
                env={**os.environ, "PYTHONPATH": SOURCE},
                capture_output=True,
                text=True,
                check=False,
                cwd=tmp_path,
            )
            done(process)
            assert process.stderr == ""
        assert (tmp_path / "part").read_bytes() == read(GOLDEN).prefix(2).to_bytes()

    def test_fetching(self, tmp_path: Path, published: web.Server, here: Here) -> None:
        whole = read(GOLDEN)
        header = len(published.content) - whole.images.nbytes
        two = len(whole.prefix(2).to_bytes())
        for given, n in (([], 3), (["--ipc", 1], 1), (["--bytes", two], 2), (["--bytes", "1MB"], 3)):
            published.sent = 0
            printed = here("fetch", published.url, "--out", "part", "--force", *given)
            assert printed == f"part: {n} of 3 images per class, {byte_count((tmp_path / 'part').stat().st_size)}\n"
            assert (tmp_path / "part").read_bytes() == whole.prefix(n).to_bytes()
            assert published.sent == header + n * 2 * 4 * 5
        timed = ("--seconds", 16, "--throughput", 1, "--epochs", 1)  # 8 images in each rank
        assert here("fetch", GOLDEN, "--out", "timed", *timed).startswith("timed: 2 of 3 images per class, ")
        assert names(tmp_path) == {"part", "timed"}

    def test_planning(self, published: web.Server, here: Here) -> None:
        for where in (GOLDEN, published.url):
            printed = here("plan", where, "--memory", "1MB", "--batch", 16)
            assert [line.split()[0] for line in printed.splitlines()] == [
                *("size", "file", "memory", "training", "accuracy")
            ]
            assert "size      3 of 3 images per class\n" in printed
            assert f"file      {byte_count(GOLDEN.stat().st_size)}\n" in printed
            assert " kB with batches of 16, and what the network needs\n" in printed
            assert "training  unknown: the file does not say for how many epochs\n" in printed
            assert "accuracy  62.0 ± 1.2 % (convnet-3, width 4; protocol quick)\n" in printed
        two = len(read(GOLDEN).prefix(2).to_bytes())
        printed = here("plan", GOLDEN, "--bytes", two, "--epochs", 10, "--throughput", 2)
        assert "size      2 of 3 images per class\n" in printed
        assert "training  10 epochs of 16 images, 1:20 at 2 images/s\n" in printed
        assert "accuracy  51.8 ± 1.2 % (convnet-3, width 4; protocol quick, from the sizes next to it)\n" in printed

    def test_planning_for_what_was_not_measured(self, condensed: Path, here: Here) -> None:
        assert "accuracy  unknown: not measured at this size\n" in here("plan", condensed)
        printed = here("plan", condensed, "--epochs", 5)
        assert "accuracy  unknown: not measured at this size after 5 epochs\n" in printed

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--bytes", "100"], "not even one image per class fits: its file has 920 B, and there is room for 100 B"),
            (["--bytes", "many"], "--bytes: 'many' is no number of bytes such as 512, 30kB or 3MB"),
            (["--bytes", "0"], "bytes cannot be 0: it must be a number above 0"),
            (["--memory", "1kB"], "of memory, and there are 1.0 kB"),
            (["--seconds", "1"], "--seconds needs --throughput"),
            (["--seconds", "1", "--throughput", "1"], "does not say for how many epochs to train: give epochs"),
            (["--seconds", "nan", "--throughput", "1"], "seconds cannot be nan"),
            (["--seconds", "1", "--throughput", "1", "--epochs", "1"], "training takes 8 s, and there are 1"),
            (["--epochs", "0"], "epochs cannot be 0"),
            (["--batch", "-1"], "batch cannot be -1"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_limits_that_cannot_be_met(
        self, refusal: Here, published: web.Server, given: list[str], reason: str
    ) -> None:
        for verb in (["plan"], ["fetch", "--out", "new"]):
            assert reason in refusal(verb[0], published.url, *verb[1:], *given)

    def test_fetching_what_is_not_there(self, refusal: Here, tmp_path: Path, published: web.Server) -> None:
        fetch = ["fetch", published.url, "--out", tmp_path / "new"]
        for size in (0, 4):
            assert f"there is no subset of size {size}: choose from 1 to 3" in refusal(*fetch, "--ipc", size)
        assert "--ipc and --bytes both say how much to fetch" in refusal(*fetch, "--ipc", 1, "--bytes", 1)
        (tmp_path / "old").write_bytes(b"precious")
        assert "old exists already" in refusal("fetch", published.url, "--out", tmp_path / "old")
        published.content = published.content[:-1] + b"?"
        assert "image 3 of each class was altered" in refusal(*fetch)
        published.always = lambda handler: handler.start > 100 and web.hanging_up(handler)  # once it has the header
        assert "4 times in a row" in refusal(*fetch)
        published.always = web.with_status(404)
        assert "the server answered 404 Not Found to http://127" in refusal(*fetch)
        assert "there is no file nothing" in refusal("plan", "nothing")
        assert "begins with http or https" in refusal("plan", "ftp://example.org/x")

    def test_a_slow_download_shows_a_bar(
        self, published: web.Server, here: Here, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("mipset.progress.SILENT_SECONDS", 0.0)
        monkeypatch.setattr("mipset.progress.LOG_SECONDS", 0.0)
        said: list[str] = []
        monkeypatch.setattr("mipset.progress.Progress._draw", lambda bar, now: said.append(bar.line(now)))
        published.always = web.at_most(100)
        here("fetch", published.url, "--out", "part")
        assert said[0].startswith("fetching ")
        assert "100%" in said[-1]
        assert capfd.readouterr().err == ""


class TestCompare:
    """Methods side by side: the real command at toy size."""

    GRID = (*TINY, *BRIEF, "--methods", "c,mdc", "--sizes", "1-2")

    def test_a_table_and_its_files(self, here: Here, tmp_path: Path, pets: Path) -> None:
        out = tmp_path / "grid"
        printed = here("compare", f"npz:{pets}", "--out", out, *self.GRID, "--seeds", 2, "--at", 1)
        lines = printed.splitlines()
        assert lines[0].startswith("accuracy in % on test images (convnet-2, width 4; protocol quick, 1 epochs")
        assert lines[1].split()[:5] == ["method", "1", "2", "mean", "minus"]
        assert [line.split()[0] for line in lines[2:4]] == ["c", "mdc"]
        assert lines[2].split()[-3:] == ["2", "x", "1"]
        assert lines[4].startswith("mdc ")
        assert " the final mean of c (" in lines[4]
        assert lines[-1] == f"{out}: results.md, results.svg, results.csv and results.jsonl"
        assert names(out) == {"results.md", "results.svg", "during.svg", "results.csv", "results.jsonl", "runs"}
        listed = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
        assert [(line["method"], line["outer"], line["runs"]) for line in listed] == [
            ("c", "1", "2"),
            ("c", "2", "2"),
            ("mdc", "1", "2"),
            ("mdc", "2", "2"),
        ]
        assert here("compare", f"npz:{pets}", "--out", out, *self.GRID, "--seeds", 2, "--at", 1) == printed

    def test_by_the_name_of_a_recipe_or_of_a_dataset(self, here: Here, tmp_path: Path, pets: Path) -> None:
        first = here("compare", "demo", "--data", f"npz:{pets}", "--out", tmp_path / "1", *self.GRID, "--methods", "c")
        assert "recipe demo" in (tmp_path / "1" / "results.md").read_text()
        second = here("compare", f"npz:{pets}", "--out", tmp_path / "2", *self.GRID, "--methods", "c")
        assert "recipe cifar10-cpu" in (tmp_path / "2" / "results.md").read_text()
        assert first.splitlines()[0] == second.splitlines()[0]

    def test_on_images_held_out_of_the_training_images(self, here: Here, tmp_path: Path, pets: Path) -> None:
        here("compare", f"npz:{pets}", "--out", tmp_path / "x", *self.GRID, "--methods", "c", "--held-out", "0.4")
        text = (tmp_path / "x" / "results.md").read_text()
        assert "36 training and 24 test images" in text
        assert "a share of 0.4 of the training images, which was held out" in text

    def test_what_it_would_cost(self, here: Here, tmp_path: Path, pets: Path) -> None:
        grid = ("compare", f"npz:{pets}", "--out", tmp_path / "x", *self.GRID, "--methods", "a,c,random")
        printed = here(*grid, "--dry-run").splitlines()
        assert printed[0].split()[:2] == ["method", "seed"]
        assert [line.split()[:5] for line in printed[1:3]] == [["a", "0", "2", "of", "2,"], ["c", "0", "1", "of", "1,"]]
        assert printed[3].split()[:4] == ["random", "0", "none", "2"]
        assert printed[4].startswith("about ")
        assert "of memory" in printed[4]
        assert printed[5] == f"nothing was run: leave out --dry-run to do it, in {tmp_path / 'x'}"
        assert names(tmp_path) == {"pets.npz"}
        here(*grid)
        assert [line.split()[-1] for line in here(*grid, "--dry-run").splitlines()[1:4]] == ["done"] * 3

    def test_methods_are_listed(self, here: Here) -> None:
        printed = here("methods")
        for name in ("every-prefix", "mdc-smallest", "k-center", "ablation"):
            assert f"\n{name}\n    " in printed

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--methods", "dc"], "there is no method 'dc': choose from a, b, c"),
            (["--methods", "c:pixel-lr=fast"], "pixel-lr must be float, not 'fast'"),
            (["--sizes", "1-3"], "--sizes cannot be '1-3': there are sizes 1 to 2"),
            (["--at", "3"], "--at cannot be 3: the runs have outer iterations 1 to 2"),
            (["--at", "0"], "--at cannot be '0': outer iterations go from 1"),
            (["--at", "soon"], "--at cannot be 'soon': write numbers such as"),
            (["--seeds", "0"], "--seeds cannot be 0: it must be at least 1"),
            (["--networks", "0"], "--networks cannot be 0"),
            (["--evaluation-seed", "-1"], "--evaluation-seed cannot be -1"),
            (["--evaluate-with", "vgg"], "there is no network 'vgg': choose"),
            (["--held-out", "1.5"], "held-out fraction of 1.5 cannot be"),
            (["--policy", "none"], "unrecognized arguments: --policy none"),
            (["--ipc", "30"], "starts from 120: choose a smaller --ipc or --factor"),
            (["--dry-run", "--ipc", "30"], "starts from 120: choose a smaller --ipc or --factor"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_what_cannot_be(self, refusal: Here, tmp_path: Path, pets: Path, given: list[str], reason: str) -> None:
        assert reason in refusal("compare", f"npz:{pets}", "--out", tmp_path / "x", *self.GRID, *given)

    def test_a_folder_that_cannot_be(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        (tmp_path / "file").write_text("precious")
        said = refusal("compare", f"npz:{pets}", "--out", tmp_path / "file", *self.GRID)
        assert "is a file" in said

    def test_killed_and_started_again_it_gives_the_same_table(self, tmp_path: Path, pets: Path) -> None:
        """A real process that ends without a word after two of three cells."""
        code = """
import os, sys
from mipset import cli, experiments
add, added = experiments.add_result, []
def add_and_end(*arguments):
    add(*arguments)
    added.append(arguments)
    if len(added) == 2:
        os.kill(os.getpid(), 9)
experiments.add_result = add_and_end
cli.main(sys.argv[1:])
"""
        grid = ["compare", f"npz:{pets}", *self.GRID, "--methods", "b,c,mdc"]
        environment = {**os.environ, "PYTHONPATH": SOURCE}
        killed = subprocess.run(
            [sys.executable, "-c", code, *map(str, grid), "--out", "killed"], env=environment, cwd=tmp_path, check=False
        )
        assert killed.returncode == -9
        before = (tmp_path / "killed" / "results.jsonl").read_text()
        assert before.count("\n") == 2
        again = done(run(*grid, "--out", "killed", cwd=tmp_path))
        whole = done(run(*grid, "--out", "whole", cwd=tmp_path))
        assert again.splitlines()[:5] == whole.splitlines()[:5]
        assert (tmp_path / "killed" / "results.jsonl").read_text().startswith(before), "what was finished stays"

    def test_interrupted_it_says_what_is_finished(self, tmp_path: Path, pets: Path) -> None:
        code = """
import os, signal, sys
from mipset import cli, experiments
add = experiments.add_result
def add_and_interrupt(*arguments):
    add(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
experiments.add_result = add_and_interrupt
cli.main(sys.argv[1:])
"""
        process = subprocess.run(
            [sys.executable, "-c", code, "compare", f"npz:{pets}", "--out", "x", *self.GRID],
            env={**os.environ, "PYTHONPATH": SOURCE},
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 2
        said = sentence(process.stderr)
        assert said == "mipset: interrupted; 1 of 2 cells finished: the same command goes on from there.\n"


class TestGrow:
    def test_more_images_and_what_they_cost_a_device(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path
    ) -> None:
        first, more = tmp_path / "first", tmp_path / "more"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        printed = here("grow", first, "--ipc", 4, "--out", more, "--data", f"npz:{pets}", "--threads", 1)
        assert f"{more}: 4 images for each of 3 classes" in printed
        assert f"those of {first} are unchanged" in printed
        small, large = read(first), read(more)
        assert np.array_equal(large.images[:2], small.images)
        assert large.rank_sha256[:2] == small.rank_sha256
        assert (large.recipe["ipc"], large.provenance["grown_from"]) == (4, 2)
        assert "3" in here("evaluate", more, "--sizes", "3", "--data", f"npz:{pets}", *BRIEF)
        assert "is less than the 4 images" in refusal(
            "grow", more, "--ipc", 1, "--out", tmp_path / "x", "--data", f"npz:{pets}"
        )

    def test_a_class_more(self, here: Here, tmp_path: Path) -> None:
        few = save_npz(tmp_path / "few.npz", classes=2)
        many = save_npz(tmp_path / "many.npz", classes=3)
        first, more = tmp_path / "first", tmp_path / "more"
        here("condense", f"npz:{few}", "--out", first, *TINY)
        assert "for each of 3 classes" in here("grow", first, "--out", more, "--data", f"npz:{many}", "--threads", 1)
        assert np.array_equal(read(more).images[:, :2], read(first).images)
        assert read(more).class_names[:2] == read(first).class_names
        assert "mean" in here("evaluate", more, "--sizes", "1", "--data", f"npz:{many}", *BRIEF)


class TestAudit:
    def test_the_nearest_real_images(self, here: Here, refusal: Here, tmp_path: Path, pets: Path) -> None:
        file, picture = tmp_path / "set", tmp_path / "pairs.png"
        here("condense", f"npz:{pets}", "--out", file, *TINY, "--pixel-lr", "0")
        lines = here("audit", file, f"npz:{pets}", "--top", 3, "--png", picture).splitlines()
        assert lines[0] == "the 3 of 24 images that are nearest to a real one; distances in grey levels"
        assert lines[1].split()[:4] == ["image", "rank", "tile", "distance"]
        assert len(lines) == 7
        assert lines[5].startswith("24 of 24 are nearer to a training image than half of the training images are")
        assert lines[6] == f"{picture}: each of them beside the real image"
        with Image.open(picture) as shown:
            assert shown.format == "PNG"
        assert "--top cannot be 0" in refusal("audit", file, f"npz:{pets}", "--top", 0)
        assert "would overwrite the file itself" in refusal("audit", file, f"npz:{pets}", "--png", file)


class TestForce:
    def test_overwrites(self, here: Here, tmp_path: Path, pets: Path) -> None:
        out = tmp_path / "set.safetensors"
        out.write_bytes(b"old")
        here("condense", f"npz:{pets}", "--out", out, "--force", *TINY)
        assert read(out).ipc == 2
        here("slice", out, 1, "--out", out, "--force")
        assert read(out).ipc == 1


class TestOutput:
    """Where the text goes may be closed, full, or unable to show it."""

    def test_that_nobody_reads(self, tmp_path: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.run(
            [sys.executable, "-m", "mipset", "recipes"],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            cwd=tmp_path,
        )
        os.close(writing)
        assert (process.returncode, process.stderr) == (0, b"")

    def test_on_a_full_disk(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("this system has no /dev/full")
        with Path("/dev/full").open("wb") as full:
            process = subprocess.run(
                [sys.executable, "-m", "mipset", "recipes"],
                env={**os.environ, "PYTHONPATH": SOURCE},
                stdout=full,
                stderr=subprocess.PIPE,
                check=False,
                cwd=tmp_path,
                text=True,
            )
        assert process.returncode == 2
        assert "No space left on device" in sentence(process.stderr)

    def test_in_another_encoding(self, tmp_path: Path) -> None:
        path = tmp_path / "set.safetensors"
        measured = Accuracy(1, 50.0, 1.0, 2, "convnet", "quick", 0, "00" * 32)
        read(GOLDEN).with_accuracy([measured]).write(path)
        assert "? 1.0 over 2 networks" in done(run("show", path, cwd=tmp_path, PYTHONIOENCODING="ascii"))


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that a test has started, none of which outlives it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


# A driver that keeps a checkpoint after every outer iteration, and after the second one waits to be killed.
EAGER = """
import sys, time
from mipset import cli, checkpoint
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

# A driver that says when work has begun.
TELLING = """
import sys
from mipset import cli, progress
advance = progress.Progress.advance
def advance_and_say(*arguments):
    advance(*arguments)
    print("working", flush=True)
progress.Progress.advance = advance_and_say
if __name__ == "__main__":
    cli.main(sys.argv[1:])
"""


def start(
    code: str, *arguments: object, cwd: Path, until: str, processes: list[subprocess.Popen[str]]
) -> subprocess.Popen[str]:
    """A driver in a process group of its own, once it has printed a line."""
    script = cwd.parent / f"{cwd.name}-driver.py"
    script.write_text(code, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    processes.append(process)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == until + "\n", line + (process.stderr.read() if process.stderr and process.poll() else "")
    return process


def alive(group: int) -> list[str]:
    """The processes of a group that still run. One that has ended and that nobody has asked about does not count."""
    listed = subprocess.run(["ps", "-e", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [" ".join(row) for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def group_is_gone(group: int, within: float) -> bool:
    """Whether every process of a group has ended."""
    end = time.monotonic() + within
    while alive(group) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive(group)


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C, after which a command that had not written anything says so and nothing else."""
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert said.splitlines()[-1] == "mipset: interrupted; nothing was written."
    assert "Traceback" not in said


class TestInterrupt:
    """Ctrl-C, which a terminal sends to the whole group."""

    def test_of_condensing(self, tmp_path: Path, pets: Path, processes: list[subprocess.Popen[str]]) -> None:
        process = start(
            TELLING,
            *("condense", f"npz:{pets}", "--out", "x", *TINY, "--outer", 100_000),
            cwd=tmp_path,
            until="working",
            processes=processes,
        )
        interrupt(process)
        assert names(tmp_path) == {"pets.npz"}

    def test_of_evaluating_in_processes(
        self, tmp_path: Path, condensed: Path, processes: list[subprocess.Popen[str]]
    ) -> None:
        before = condensed.read_bytes()
        process = start(
            TELLING,
            *(
                "evaluate",
                condensed,
                "--networks",
                500,
                "--epochs",
                1,
                "--workers",
                2,
                "--threads",
                1,
                "--save",
            ),
            cwd=tmp_path,
            until="working",
            processes=processes,
        )
        interrupt(process)
        assert group_is_gone(process.pid, within=10)
        assert condensed.read_bytes() == before
        assert names(tmp_path) == {condensed.name}

    def test_after_one_of_two_files_was_saved(
        self, condensed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        second = tmp_path / "second.safetensors"
        second.write_bytes(condensed.read_bytes())
        score = evaluate.Evaluation.score

        def stop_at_the_second(evaluation: evaluate.Evaluation, size: int, number: int) -> evaluate.Score:
            if read(condensed).accuracy:
                signal.raise_signal(signal.SIGINT)
            return score(evaluation, size, number)

        monkeypatch.setattr(evaluate.Evaluation, "score", stop_at_the_second)
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", str(condensed), str(second), "--save", "--sizes", "1", "--workers", "1", *BRIEF])
        assert ended.value.code == 2
        assert capfd.readouterr().err.splitlines()[-1] == "mipset: interrupted; kept the accuracies of set."
        assert read(condensed).accuracy
        assert not read(second).accuracy


Interrupted = Callable[..., str]


class TestCompile:
    """Kernels of our own: who asks for them gets them, who does not is not kept waiting."""

    WIDE = ("--width", "16", "--train-precision", "bfloat16")

    @pytest.fixture(autouse=True)
    def with_a_compiler(self, kernels: Kernels) -> None:
        """Skip where there is none."""

    def engine(self, path: Path) -> object:
        return read(path).provenance["engine"]

    def test_on_and_off(self, here: Here, tmp_path: Path, pets: Path) -> None:
        found = {}
        for choice in ("on", "off", "auto"):
            out = tmp_path / choice
            here("condense", f"npz:{pets}", "--out", out, *TINY, *self.WIDE, "--compile", choice)
            found[choice] = self.engine(out)
        assert found == {"on": "compiled kernels", "off": "plain torch", "auto": "plain torch"}  # toys are too small
        on, off = (read(tmp_path / choice).images.astype(int) for choice in ("on", "off"))
        assert np.abs(on - off).max() <= 8
        for workers in ("1", "2"):
            here("evaluate", tmp_path / "on", *BRIEF[:-1], workers, "--compile", "on", "--data", f"npz:{pets}")

    def test_longer_work_is_compiled(
        self, here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(machine, "COMPILE_FROM", 1.0)
        here("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY)
        assert self.engine(tmp_path / "x") == "compiled kernels"

    def test_without_a_compiler(
        self,
        refusal: Here,
        tmp_path: Path,
        pets: Path,
        monkeypatch: pytest.MonkeyPatch,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(machine, "COMPILE_FROM", 1.0)
        monkeypatch.setenv("CXX", "no-such-compiler")
        command = ["condense", f"npz:{pets}", "--out", str(tmp_path / "x"), *TINY]
        assert "no C++ compiler (no-such-compiler) here" in refusal(*command, "--compile", "on")
        with pytest.raises(SystemExit) as ended:
            cli.main(command)
        assert ended.value.code == 0
        said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mipset:")]
        assert said == [
            "mipset: there is no C++ compiler (no-such-compiler) here: install g++; "
            "going on without, which is several times slower."
        ]
        assert self.engine(tmp_path / "x") == "plain torch"
        second = tmp_path / "y"
        second.write_bytes((tmp_path / "x").read_bytes())
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", str(tmp_path / "x"), str(second), *BRIEF, "--data", f"npz:{pets}"])
        assert ended.value.code == 0
        assert capfd.readouterr().err.count("no C++ compiler") == 1  # for two files

    def test_dry_run_times_what_would_run(self, here: Here, pets: Path) -> None:
        printed = here("condense", f"npz:{pets}", *TINY, "--dry-run", "--compile", "on")
        assert "(cpu, 1 thread, compiled kernels)" in str(printed)


class TestResume:
    """A run that was ended and resumed is the run that was not, byte for byte."""

    LONG = (*TINY, "--outer", "5", "--policy", "mdc", "--period", "1", "--pool", "2", "--life", "3")

    @pytest.fixture
    def interrupted(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Interrupted:
        """A command whose user presses Ctrl-C right after checkpoint number `after`, or the next step after it."""

        def run_interrupted(*arguments: object, after: int) -> str:
            save, saved = checkpoint.save, []

            def save_and_interrupt(*given: Any) -> None:
                save(*given)
                saved.append(given)
                if len(saved) == after:
                    os.kill(os.getpid(), signal.SIGINT)

            with monkeypatch.context() as patch:
                patch.setattr(checkpoint, "SECONDS", -1)
                patch.setattr(checkpoint, "save", save_and_interrupt)
                with pytest.raises(SystemExit) as ended:
                    cli.main([str(argument) for argument in arguments])
            assert ended.value.code == 2
            return sentence(capfd.readouterr().err)

        return run_interrupted

    @pytest.fixture
    def uninterrupted(self, here: Here, tmp_path: Path, pets: Path) -> bytes:
        here("condense", f"npz:{pets}", "--out", tmp_path / "whole", *self.LONG)
        content = (tmp_path / "whole").read_bytes()
        (tmp_path / "whole").unlink()
        return content

    def test_after_interrupts(
        self, here: Here, interrupted: Interrupted, uninterrupted: bytes, tmp_path: Path, pets: Path
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        assert "add --resume to go on after outer iteration " in interrupted(*command, after=2)
        assert names(tmp_path) == {"pets.npz", "x.checkpoint"}
        assert "add --resume to go on after outer iteration " in interrupted(*command, "--resume", after=1)
        here(*command, "--resume")
        assert names(tmp_path) == {"pets.npz", "x"}
        assert (tmp_path / "x").read_bytes() == uninterrupted

    def test_after_being_killed(
        self,
        here: Here,
        uninterrupted: bytes,
        tmp_path: Path,
        pets: Path,
        processes: list[subprocess.Popen[str]],
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        process = start(EAGER, *command, cwd=tmp_path, until="saved", processes=processes)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
        assert {"x.checkpoint"} <= names(tmp_path)
        assert "x" not in names(tmp_path)
        here(*command, "--resume")
        assert (tmp_path / "x").read_bytes() == uninterrupted

    def test_refusals(
        self, refusal: Here, here: Here, interrupted: Interrupted, tmp_path: Path, pets: Path, kernels: Kernels
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        assert "there is no checkpoint" in refusal(*command, "--resume")
        interrupted(*command, after=1)
        said = refusal(*command, "--resume", "--policy", "mdc-per-class")
        assert "was made with --policy mdc, not mdc-per-class: use the same settings" in said
        assert "made by plain torch, not by compiled kernels" in refusal(*command, "--resume", "--compile", "on")
        other = save_npz(tmp_path / "other.npz", seed=9)
        said = refusal("condense", f"npz:{other}", "--out", tmp_path / "x", *self.LONG, "--resume")
        assert "was made from other data" in said
        waiting = tmp_path / "x.checkpoint"
        content = waiting.read_bytes()
        for damaged in (
            b"",
            b"\x80\x02.",
            content[:100],
            content[: len(content) // 2],
            bytes(500),
            b"P" * 500,
        ):
            waiting.write_bytes(damaged)
            assert "x.checkpoint cannot be read: leave out --resume" in refusal(*command, "--resume")
        here(*command)  # starting anew does not mind, and leaves nothing of it
        assert names(tmp_path) == {"pets.npz", "other.npz", "x"}

    def test_an_old_checkpoint_is_not_promised(
        self, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """What another run left beside the file is not what an interrupt has saved."""
        (tmp_path / "x.checkpoint").write_bytes(b"old")

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("mipset.progress.Progress.advance", interrupt)
        with pytest.raises(SystemExit):
            cli.main(["condense", f"npz:{pets}", "--out", str(tmp_path / "x"), *self.LONG])
        assert capfd.readouterr().err == "mipset: interrupted; nothing was written.\n"


def limit_files_to(size: int) -> Callable[[], None]:
    """What makes a file in a new process as long as a disk lets it be that is almost full."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


class TestFullDisk:
    def test_while_slicing(self, tmp_path: Path, condensed: Path) -> None:
        process = run("slice", condensed, 2, "--out", "part", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "part cannot be written: File too large." in is_refused(process)
        process = run("show", condensed, "--png", "x.png", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "x.png cannot be written: File too large." in is_refused(process)
        process = run("slice", condensed, 1, "--out", condensed, "--force", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "cannot be written" in is_refused(process)
        assert read(condensed).ipc == 3
        assert names(tmp_path) == {condensed.name}

    def test_while_condensing(self, tmp_path: Path, pets: Path) -> None:
        process = run("condense", f"npz:{pets}", "--out", "x", *TINY, cwd=tmp_path, preexec=limit_files_to(500))
        assert process.returncode == 2
        assert "x cannot be written: File too large." in sentence(process.stderr)
        assert names(tmp_path) == {"pets.npz"}

    def test_while_keeping_a_checkpoint(self, tmp_path: Path, pets: Path) -> None:
        process = subprocess.run(
            [sys.executable, "-c", EAGER, "condense", f"npz:{pets}", "--out", "x", *TINY],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit_files_to(500),
        )
        assert process.returncode == 2
        assert "the checkpoint x.checkpoint cannot be written" in sentence(process.stderr)
        assert names(tmp_path) == {"pets.npz"}


class TestWithoutTorch:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["condense", "fashion-mini", "--out", "x"],
            ["evaluate", str(GOLDEN)],
            ["reorder", str(GOLDEN), "--out", "x"],
            IMPORT,
        ],
        ids=lambda a: a[0],
    )
    def test_verbs_that_need_it_say_what_to_type(self, tmp_path: Path, arguments: list[str]) -> None:
        code = "import sys; sys.modules['torch'] = None; from mipset.cli import main; main(sys.argv[1:])"
        process = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, "PYTHONPATH": SOURCE},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert process.returncode == 2
        assert 'needs torch, which is not installed: run pip install "mipset[condense]".' in sentence(process.stderr)
        assert names(tmp_path) == set()
