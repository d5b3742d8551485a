"""`compare` and `methods`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, done, names, run, sentence
from mipset import read
from mipset.settings.methods import GROUPS

GRID = (*TINY, *BRIEF, "--methods", "baseline-c,mdc", "--sizes", "1-2")


class TestTables:
    def test_table_and_files_are_written(self, here: Here, tmp_path: Path, pets: Path) -> None:
        out = tmp_path / "grid"
        command = ("compare", f"npz:{pets}", "--out", out, *GRID, "--seeds", 2, "--at", 1)
        printed = here(*command)
        lines = printed.splitlines()
        assert lines[0].startswith("accuracy in % on test images (convnet-2, width 4; protocol quick, 1 epochs")
        assert lines[1].split()[:5] == ["method", "1", "2", "mean", "minus"]
        assert [line.split()[0] for line in lines[2:4]] == ["baseline-c", "mdc"]
        assert lines[2].split()[-3:] == ["2", "x", "1"]
        assert lines[4].startswith("mdc ")
        assert " the final mean of baseline-c (" in lines[4]
        assert lines[-1] == f"{out}: results.md, results.svg, during.svg, results.csv and results.jsonl"
        assert names(out) == {"results.md", "results.svg", "during.svg", "results.csv", "results.jsonl", "runs", "sets"}
        rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
        assert [(row["method"], row["outer"], row["runs"]) for row in rows] == [
            ("baseline-c", "1", "2"),
            ("baseline-c", "2", "2"),
            ("mdc", "1", "2"),
            ("mdc", "2", "2"),
        ]
        assert here(*command) == printed

    def test_recipe_or_dataset_can_be_named(self, here: Here, tmp_path: Path, pets: Path) -> None:
        grid = (*GRID, "--methods", "random")
        by_recipe = here("compare", "demo", "--data", f"npz:{pets}", "--out", tmp_path / "1", *grid)
        assert "recipe demo" in (tmp_path / "1" / "results.md").read_text()
        by_dataset = here("compare", f"npz:{pets}", "--out", tmp_path / "2", *grid)
        assert "recipe own-cpu" in (tmp_path / "2" / "results.md").read_text()
        assert by_recipe.splitlines()[0] == by_dataset.splitlines()[0]

    def test_methods_of_the_field_are_compared_in_one_table(self, here: Here, tmp_path: Path, pets: Path) -> None:
        """Each by its own recipe, at a size that all of them share."""
        tiny = ("--ipc", 2, "--width", 4, "--depth", 2, "--outer", 2, "--inner", 2, "--real-batch", 8, "--threads", 1)
        small = (*tiny, "--train-batch", 8, "--expert-steps", 2, "--train-epochs", 2, "--train-images", 16)
        grid = (
            "compare",
            "cifar10-cpu",
            "--data",
            f"npz:{pets}",
            "--out",
            tmp_path / "x",
            *small,
            *BRIEF,
            "--sizes",
            1,
        )
        planned = [line.split()[0] for line in here(*grid, "--methods", "field", "--dry-run").splitlines()]
        assert planned[1:22] == list(GROUPS["field"])
        chosen = ["dsa", "dm-mdc", "dream-every-prefix", "baseline-c"]
        table = here(*grid, "--methods", ",".join(chosen)).splitlines()
        assert [line.split()[0] for line in table[2:6]] == chosen
        recipes = [read(path).recipe for path in (tmp_path / "x" / "runs").rglob("*.safetensors")]
        assert sorted((r["learner"], r["sampler"], r["factor"]) for r in recipes) == [
            ("experts", "shuffled-epochs", 2),
            ("trained", "k-means", 2),
            ("trained-on-synthetic", "uniform", 1),
            ("untrained", "uniform", 1),
        ]

    def test_held_out_images_replace_the_test_images(self, here: Here, tmp_path: Path, pets: Path) -> None:
        here("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, "--methods", "random", "--held-out", "0.4")
        text = (tmp_path / "x" / "results.md").read_text()
        assert "36 training images and 24 test images" in text
        assert "The test images are a held-out share of 0.4 of the training images." in text

    def test_results_of_other_settings_are_counted(
        self, here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        monkeypatch.setattr("mipset.cli.comparing.print_message", told.append)
        command = ("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, "--methods", "random")
        first = here(*command, "--seeds", 2)
        assert told == []
        here(*command, "--outer", 1)
        (message,) = told
        assert message.startswith(f"{tmp_path / 'x'} has 2 more results of other settings, which are not in this table")
        assert json.loads(here(*command, "--outer", 1, "--json"))["others"] == 2
        assert here(*command, "--seeds", 2).splitlines()[:3] == first.splitlines()[:3]
        assert told[-1].startswith(f"{tmp_path / 'x'} has 1 more result of other settings")

    def test_without_matplotlib_tables_are_written_and_a_message_says_so(
        self,
        here: Here,
        tmp_path: Path,
        pets: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        messages: list[str] = []
        monkeypatch.setattr("mipset.cli.comparing.print_message", messages.append)
        printed = here("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, "--methods", "random")
        assert printed.endswith("x: results.md, results.csv and results.jsonl\n")
        (message,) = messages
        assert message.startswith("Charts were not drawn: matplotlib is not installed. Run pip install ")
        assert message.endswith('[charts]".')
        assert "![" not in (tmp_path / "x" / "results.md").read_text()


def test_recipe_for_any_data_needs_data(refusal: Here) -> None:
    assert "The recipe own-cpu is for any data. Name yours with --data." in refusal("compare", "own-cpu", "--dry-run")


class TestDryRun:
    def test_dry_run_lists_what_is_missing(self, here: Here, tmp_path: Path, pets: Path) -> None:
        grid = ("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, "--methods", "baseline-a,baseline-c,random")
        printed = here(*grid, "--dry-run").splitlines()
        assert printed[0].split()[:2] == ["method", "seed"]
        assert printed[1].split()[:5] == ["baseline-a", "0", "2", "of", "2,"]
        assert printed[2].split()[:5] == ["baseline-c", "0", "1", "of", "1,"]
        assert printed[3].split()[:4] == ["random", "0", "none", "2"]
        assert printed[4].startswith("about ")
        assert "of memory" in printed[4]
        assert printed[5] == f"Nothing was run. Leave out --dry-run to run it in {tmp_path / 'x'}."
        assert names(tmp_path) == {"pets.npz"}
        here(*grid)
        assert [line.split()[-1] for line in here(*grid, "--dry-run").splitlines()[1:4]] == ["done"] * 3

    def test_seeds_count_up_from_the_first(self, here: Here, tmp_path: Path, pets: Path) -> None:
        grid = ("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, "--methods", "random")
        printed = here(*grid, "--seed", 3, "--seeds", 2, "--dry-run").splitlines()
        assert [line.split()[:2] for line in printed[1:3]] == [["random", "3"], ["random", "4"]]


class TestMethods:
    def test_methods_and_groups_are_listed(self, here: Here) -> None:
        printed = here("methods")
        for name in ("every-prefix", "mdc-smallest", "k-center", "ablation"):
            assert f"\n{name}\n    " in printed


class TestRefusals:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--methods", "bd"], "--methods: there is no method 'bd'. Choose baseline-a, baseline-b"),
            (["--methods", "dc"], "--methods: dc has no recipe for folder:PATH. Leave it out"),
            (["--methods", "mdc:pixel-lr=fast"], "'pixel-lr=fast' in 'mdc:pixel-lr=fast' is not possible: --pixel-lr"),
            (["--sizes", "1-3"], "--sizes is '1-3'. The sizes are 1 to 2"),
            (["--at", "3"], "--at contains 3: choose outer iterations from 1 to 2"),
            (["--at", "0"], "--at is '0'. Outer iterations go from 1"),
            (["--at", "soon"], "--at is 'soon'. Write numbers such as"),
            (["--seeds", "0"], "--seeds is 0: it must be at least 1"),
            (["--seed", "-1"], "--seed is -1: it must be at least 0"),
            (["--networks", "0"], "--networks is 0: it must be at least 1"),
            (["--evaluation-seed", "-1"], "--evaluation-seed is -1: it must be at least 0"),
            (["--evaluate-with", "vgg"], "'vgg'"),
            (["--held-out", "1.5"], "1.5"),
            (["--policy", "baseline-c"], "nrecognized arguments: --policy baseline-c"),
            (["--ipc", "30", "--init", "mix"], "120"),
            (["--dry-run", "--ipc", "30", "--init", "mix"], "120"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_wrong_flags_are_refused(
        self, refusal: Here, tmp_path: Path, pets: Path, flags: list[str], message: str
    ) -> None:
        assert message in refusal("compare", f"npz:{pets}", "--out", tmp_path / "x", *GRID, *flags)

    def test_file_in_place_of_the_folder_is_refused(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        (tmp_path / "file").write_text("precious")
        message = refusal("compare", f"npz:{pets}", "--out", tmp_path / "file", *GRID)
        assert f"--out {tmp_path / 'file'} is a file. Name a folder" in message


class TestContinuing:
    def test_killed_process_continues_with_the_same_table(self, tmp_path: Path, pets: Path) -> None:
        """A real process that is killed after two of three cells."""
        code = """
import os, sys
from mipset import cli
from mipset.experiments.store import Store
add, added = Store.add_result, []
def add_and_end(*arguments):
    add(*arguments)
    added.append(arguments)
    if len(added) == 2:
        os.kill(os.getpid(), 9)
Store.add_result = add_and_end
cli.main(sys.argv[1:])
"""
        grid = ["compare", f"npz:{pets}", *GRID, "--methods", "baseline-b,baseline-c,mdc"]
        assert run(*grid, "--out", "killed", code=code, cwd=tmp_path).returncode == -9
        before = (tmp_path / "killed" / "results.jsonl").read_text()
        assert before.count("\n") == 2
        continued = done(run(*grid, "--out", "killed", cwd=tmp_path))
        whole = done(run(*grid, "--out", "whole", cwd=tmp_path))
        assert continued.splitlines()[:5] == whole.splitlines()[:5]
        assert (tmp_path / "killed" / "results.jsonl").read_text().startswith(before), "finished results stay"

    def test_interrupted_process_says_what_is_finished(self, tmp_path: Path, pets: Path) -> None:
        code = """
import os, signal, sys
from mipset import cli
from mipset.experiments.store import Store
add = Store.add_result
def add_and_interrupt(*arguments):
    add(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
Store.add_result = add_and_interrupt
cli.main(sys.argv[1:])
"""
        process = run("compare", f"npz:{pets}", "--out", "x", *GRID, code=code, cwd=tmp_path)
        assert process.returncode == 130
        message = sentence(process.stderr)
        assert message == "mipset: Interrupted. 1 of 2 cells finished: the same command continues.\n"
