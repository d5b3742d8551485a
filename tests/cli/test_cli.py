"""The command line as a whole: verbs as a user types them, their flags, and their errors."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mipset
from commands import BRIEF, GOLDEN, TINY, WITHOUT_TORCH, Here, done, names, run, sentence
from mipset import Accuracy, cli, read
from mipset.settings.catalogue import RECIPES

TO_NPZ = ["--to", "npz", "--out", "y"]
IMPORT = ["import", str(GOLDEN), "--kind", "mdc", "--data", "cifar10", "--out", "x"]


class TestVerbs:
    """As a user types them, one after the other."""

    def test_condense_evaluate_show_and_slice(self, tmp_path: Path) -> None:
        printed = done(run("condense", "fashion-mini", "--out", "a.safetensors", *TINY, cwd=tmp_path))
        assert printed.startswith("a.safetensors: 2 images for each of 10 classes, ")
        assert printed.endswith("next: mipset evaluate a.safetensors\n")
        assert names(tmp_path) == {"a.safetensors", "a.safetensors.log.jsonl"}
        whole = read(tmp_path / "a.safetensors")
        assert whole.images.shape == (2, 10, 1, 28, 28)
        assert whole.recipe["width"] == 4
        assert whole.recipe["cutmix"] == RECIPES["fashion-mini-cpu"].recipe.cutmix  # the recipe for this dataset
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
        assert done(run("show", "a.safetensors", "--sheet", "a.png", cwd=tmp_path)).startswith(
            "a.png: one row per class"
        )
        with Image.open(tmp_path / "a.png") as sheet:
            assert sheet.format == "PNG"
            assert sheet.height == 16 + 10 * (3 * 28 + 2)
            assert sheet.width > 2 * (3 * 28 + 2)

        assert done(run("slice", "a.safetensors", 1, "--out", "b.safetensors", cwd=tmp_path)).startswith(
            "b.safetensors: 1 image per class, "
        )
        part = read(tmp_path / "b.safetensors")
        np.testing.assert_array_equal(part.images, whole.images[:1])
        assert part.accuracy == measured.accuracy[:1]

        # The slice is as good as the size it was cut from, and several processes give what one gives.
        printed = done(run("evaluate", "b.safetensors", "a.safetensors", *BRIEF[:-2], "--workers", 2, cwd=tmp_path))
        _, sizes, slice_row, whole_row = printed.splitlines()
        assert slice_row.split() == ["b", row.split()[1], "-", "-"]
        assert whole_row == row
        assert names(tmp_path) == {"a.safetensors", "a.safetensors.log.jsonl", "b.safetensors", "a.png"}

    def test_version_is_printed(self, here: Here) -> None:
        assert here("--version") == f"mipset {mipset.__version__}\n"

    def test_force_overwrites_a_file(self, here: Here, tmp_path: Path, pets: Path) -> None:
        out = tmp_path / "set.safetensors"
        out.write_bytes(b"old")
        here("condense", f"npz:{pets}", "--out", out, "--force", *TINY)
        assert read(out).ipc == 2
        other = tmp_path / "part.safetensors"
        other.write_bytes(b"old")
        here("slice", out, 1, "--out", other, "--force")
        assert read(other).ipc == 1


class TestHelp:
    def test_help_of_every_verb_needs_no_torch(self, tmp_path: Path) -> None:
        """Nor anything else that takes long to import."""
        code = (
            "import sys; sys.modules.update(torch=None, numpy=None, PIL=None); "
            "from mipset.cli import main; main(sys.argv[1:])"
        )
        for verb in parsers(cli.parser()):
            printed = done(run(*verb, "--help", code=code, cwd=tmp_path))
            assert printed.startswith(f"usage: mipset {' '.join(verb)}".rstrip())

    def test_flags_of_every_verb(self) -> None:
        """A flag that a script uses must not disappear."""
        machine = {"--device", "--threads", "--compile"}
        protocol = {"--protocol", "--epochs", "--no-flip"}
        settings = {
            *("--ipc", "--period", "--freeze", "--subset-weight", "--metric", "--metric-epochs", "--round-distances"),
            "--steps",
            *("--objective", "--learner", "--experts", "--expert-steps", "--pixel-optimiser"),
            *("--factor", "--init", "--distance", "--network", "--width", "--depth", "--outer", "--inner"),
            *("--real-batch", "--pixel-lr", "--pixel-momentum", "--match-augment", "--train-images", "--train-batch"),
            *("--train-augment", "--pool", "--life", "--train-precision", "--match-precision", "--cutmix"),
            *("--network-lr", "--network-momentum", "--network-decay", "--seed"),
            *("--sampler", "--cluster-every", "--cluster-images", "--cluster-steps", "--matched-layers"),
            *("--pixel-space", "--step-after", "--composition", "--resampling", "--train-epochs", "--early-epochs"),
            *("--snapshot-steps", "--expert-starts", "--expert-ahead", "--student-steps", "--student-batch"),
            *("--student-sizes", "--student-lr", "--student-lr-lr", "--student-lr-momentum"),
        }
        data = {"--resolution", "--split-seed", "--skip-bad"}
        runs = {"--resume", "--fresh", "--max-time", "--log", "--tensorboard"}
        limits = {"--bytes", "--memory", "--seconds", "--throughput", "--epochs", "--batch", "--protocol"}
        shown = flags(cli.parser())
        assert all("--quiet" in verb for path, verb in shown.items() if path)
        assert {path: verb - {"--quiet", "--json"} for path, verb in shown.items()} == {
            (): {"--help", "--version"},
            ("condense",): {
                *("DATASET", "--help", "--out", "--recipe", "--start", "--force", "--force-memory", "--dry-run"),
                *("--budget", "--policy", "--prefix-weights", "--data", "--config"),
                *runs,
                *settings,
                *data,
                *machine,
            },
            ("evaluate",): {
                *("FILE", "--help", "--sizes", "--networks", "--network", "--width"),
                *("--depth", "--seed", "--data", "--skip-bad", "--workers", "--save", "--force-memory", "--config"),
                *("--executor", "--precision"),
                *protocol,
                *machine,
            },
            ("compare",): {
                *("RECIPE", "--help", "--methods", "--seeds", "--out", "--data", "--held-out", "--sizes", "--at"),
                *("--networks", "--evaluation-seed", "--evaluate-with", "--workers", "--dry-run", "--force-memory"),
                *("--executor", "--config", "--evaluation-precision"),
                *(settings - {"--steps"}),
                *protocol,
                *data,
                *machine,
            },
            ("methods",): {"--help"},
            ("reorder",): {
                *("FILE", "--help", "--out", "--first", "--best", "--seed", "--precision", "--force"),
                *protocol,
                *machine,
            },
            ("grow",): {
                *(
                    "FILE",
                    "--help",
                    "--out",
                    "--data",
                    "--skip-bad",
                    "--recipe",
                    "--force",
                    "--force-memory",
                    "--policy",
                ),
                *("--prefix-weights", "--config"),
                *runs,
                *settings,
                *machine,
            },
            ("audit",): {"FILE", "--data", "--skip-bad", "--help", "--top", "--png", "--save", "--seed", "--force"},
            ("report",): {"PATH", "--help", "--out", "--data", "--skip-bad", "--force"},
            ("watch",): {"OUT", "--help", "--port"},
            ("show",): {"FILE", "--help", "--sheet", "--chart", "--force"},
            ("slice",): {"FILE", "N", "--help", "--ipc", "--out", "--force"},
            ("export",): {"FILE", "--help", "--to", "--out", "--ipc", "--decoded", "--stored", "--force"},
            ("import",): {
                *("FILE", "--help", "--kind", "--data", "--out", "--factor", "--order", "--labels", "--experiment"),
                "--force",
                *data,
            },
            ("plan",): {"FILE_OR_URL", "--help", *limits},
            ("fetch",): {"FILE_OR_URL", "--help", "--out", "--ipc", "--cache", "--force", *limits},
            ("gallery",): {"NAME", "--help"},
            ("publish",): {
                *("FILE", "--help", "--to", "--name", "--licence", "--time", "--data", "--skip-bad", "--no-parquet"),
                "--force",
            },
            ("data",): {"--help"},
            ("data", "fetch"): {"NAME", "--help"},
            ("recipes",): {"NAME", "--help", "--toml"},
            ("completion",): {"SHELL", "--help"},
        }

    def test_every_flag_tells_its_default(self) -> None:
        for path, parser in parsers(cli.parser()).items():
            for action in parser._actions:
                if action.option_strings and action.nargs != 0 and not action.required:
                    assert re.search("default|needed", action.help or ""), (path, action.option_strings)

    def test_flags_are_in_groups_by_what_they_choose(self, here: Here) -> None:
        shown = here("condense", "--help")
        titles = ["which images", "which method and network", "how long", "which machine", "what to write and print"]
        parts = re.split(f"^({'|'.join(titles)}):$", shown, flags=re.MULTILINE)
        assert parts[1::2] == titles
        images, method, long, machine, output = parts[2::2]
        for part, wanted in (
            (images, ["--ipc", "--resolution", "--init", "--data"]),
            (method, ["--recipe", "--policy", "--objective", "--pixel-lr", "--config"]),
            (long, ["--budget", "--outer", "--max-time"]),
            (machine, ["--threads", "--device", "--force-memory"]),
            (output, ["--out", "--json", "--quiet"]),
        ):
            assert all(f"  {flag}" in part for flag in wanted)
        assert "(default of own-cpu: 64)" in " ".join(method.split())

    def test_mipset_alone_says_what_to_do_first(self, here: Here) -> None:
        """Its commands are complete: each can be parsed."""
        commands = [line.split() for line in here().splitlines() if line.startswith("    mipset ")]
        assert [command[1] for command in commands] == ["condense", "evaluate", "show", "condense"]
        for _, *words in commands:
            assert cli.parser().parse_args(words).parser is not None

    def test_every_flag_has_help(self) -> None:
        for parser in parsers(cli.parser()).values():
            for action in parser._actions:
                assert action.help or not action.option_strings, action


def parsers(top: argparse.ArgumentParser, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], argparse.ArgumentParser]:
    """A parser and the parsers of its verbs, by the words that a user types."""
    by_words = {path: top}
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, parser in action.choices.items():
                by_words |= parsers(parser, (*path, name))
    return by_words


def flags(top: argparse.ArgumentParser) -> dict[tuple[str, ...], set[str]]:
    return {
        path: {
            action.option_strings[-1] if action.option_strings else str(action.metavar)
            for action in parser._actions
            if not isinstance(action, argparse._SubParsersAction)
        }
        for path, parser in parsers(top).items()
    }


class TestRefusals:
    """One line, exit code 2, and nothing written."""

    @pytest.mark.parametrize("arguments", [["condens"], ["--shiny"], ["condense", "fashion-mini"], ["slice", "x"]])
    def test_incomplete_commands_point_to_help(self, refusal: Here, arguments: list[str]) -> None:
        assert "--help`." in refusal(*arguments)

    @pytest.mark.parametrize(
        "verb",
        [["evaluate"], ["reorder", "--out", "y"], ["show"], ["slice", "--out", "y", "1"], ["export", *TO_NPZ]],
        ids=lambda verb: verb[0],
    )
    def test_unreadable_files_are_refused(
        self, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        command, *more = verb
        (tmp_path / "cut").write_bytes(GOLDEN.read_bytes()[:-1])
        (tmp_path / "empty").touch()
        for name, reason in (
            ("nothing", "There is no file nothing"),
            ("cut", "cut is not a complete safetensors file"),
            ("empty", "empty is not a complete safetensors file"),
            (".", ". is a folder"),
        ):
            arguments = [name, *more] if command != "slice" else [name, more[2], *more[:2]]
            assert reason in refusal(command, *arguments)


class TestOutput:
    """Where the text goes may be closed, full, or unable to show it."""

    def test_closed_output_is_no_error(self, tmp_path: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        process = run("methods", cwd=tmp_path, stdout=writing)
        os.close(writing)
        assert (process.returncode, process.stderr) == (0, "")

    def test_output_on_a_full_disk_is_refused(self, tmp_path: Path) -> None:
        if not Path("/dev/full").exists():
            pytest.skip("this system has no /dev/full")
        with Path("/dev/full").open("wb") as full:
            process = run("methods", cwd=tmp_path, stdout=full)
        assert process.returncode == 2
        assert "No space left on device" in sentence(process.stderr)

    def test_output_in_ascii_replaces_other_characters(self, tmp_path: Path) -> None:
        path = tmp_path / "set.safetensors"
        measured = Accuracy(1, 50.0, 1.0, 2, "convnet", "quick", 0, "00" * 32)
        read(GOLDEN).with_accuracy([measured]).write(path)
        assert "? 1.0 over 2 networks" in done(run("show", path, cwd=tmp_path, PYTHONIOENCODING="ascii"))


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
    def test_verbs_without_torch_say_how_to_install_it(self, tmp_path: Path, arguments: list[str]) -> None:
        process = run(*arguments, code=WITHOUT_TORCH, cwd=tmp_path)
        assert process.returncode == 2
        hint = f'run pip install -e "{Path(mipset.__file__).parents[2]}[condense]".'
        assert f"needs torch, which is not installed: {hint}" in sentence(process.stderr)
        assert names(tmp_path) == set()
