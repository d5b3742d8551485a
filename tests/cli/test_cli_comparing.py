"""`compare` and `methods`."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, done, names, run, sentence


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
        assert names(out) == {"results.md", "results.svg", "during.svg", "results.csv", "results.jsonl", "runs", "sets"}
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
            (["--held-out", "1.5"], "--held-out is 1.5: it must be between 0 and 1"),
            (["--policy", "baseline-c"], "unrecognized arguments: --policy none"),
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
from mipset import cli
from mipset.experiments import experiment as experiments
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
        assert run(*grid, "--out", "killed", code=code, cwd=tmp_path).returncode == -9
        before = (tmp_path / "killed" / "results.jsonl").read_text()
        assert before.count("\n") == 2
        again = done(run(*grid, "--out", "killed", cwd=tmp_path))
        whole = done(run(*grid, "--out", "whole", cwd=tmp_path))
        assert again.splitlines()[:5] == whole.splitlines()[:5]
        assert (tmp_path / "killed" / "results.jsonl").read_text().startswith(before), "what was finished stays"

    def test_interrupted_it_says_what_is_finished(self, tmp_path: Path, pets: Path) -> None:
        code = """
import os, signal, sys
from mipset import cli
from mipset.experiments import experiment as experiments
add = experiments.add_result
def add_and_interrupt(*arguments):
    add(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
experiments.add_result = add_and_interrupt
cli.main(sys.argv[1:])
"""
        process = run("compare", f"npz:{pets}", "--out", "x", *self.GRID, code=code, cwd=tmp_path)
        assert process.returncode == 2
        said = sentence(process.stderr)
        assert said == "mipset: interrupted; 1 of 2 cells finished: the same command goes on from there.\n"
