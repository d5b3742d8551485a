"""`report` and `watch`: what they write and serve, and what they refuse."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mipset
from browser import started, why_there_is_none
from commands import SOURCE, TINY, Here
from mipset.cli.repeating import command_of
from mipset.condensing import checkpoint
from mipset.file.audit_file import path_of
from mipset.file.run_log import SUFFIX
from mipset.settings.catalogue import RECIPES, recipe
from mipset.settings.recipe import Recipe
from report_sets import made_up_set, write_comparison, write_file, write_log


def content_of(page: Path) -> Any:
    found = re.search(r'id="report" type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


class TestReport:
    def test_report_of_a_run_shows_its_log_and_its_start(self, here: Here, tmp_path: Path, pets: Path) -> None:
        out, page = tmp_path / "x", tmp_path / "x.html"
        here("condense", f"npz:{pets}", "--out", out, *TINY, "--policy", "mdc", "--period", 1)
        here("audit", out, "--data", f"npz:{pets}", "--save")
        printed = here("report", out, "--out", page, "--data", f"npz:{pets}")
        assert printed.startswith(f"{page}: 1 set, ")
        (shown,) = content_of(page)["sets"]
        assert shown["log"]["outer"] == [1, 2]
        assert shown["start"] == "start-0"
        assert shown["pairs"] == "pairs-0"
        assert shown["command"].startswith("mipset condense npz:pets.npz --recipe own-cpu --policy mdc ")

    def test_start_is_the_one_that_the_run_had(self, tmp_path: Path, pets: Path) -> None:
        from mipset.condensing.first_images import first_images
        from mipset.nn.pixels import to_uint8

        data = mipset.load(f"npz:{pets}")
        for init in ("mix", "noise", "herding"):
            chosen = mipset.Recipe(
                ipc=2, init=init, width=4, depth=2, outer=1, inner=1, real_batch=6, train_batch=8, pixel_lr=100.0
            )
            parts = mipset.assemble(chosen, data)
            first = to_uint8(parts.S.pixels).numpy().copy()
            *_, last = mipset.condense(parts)
            artifact = mipset.pack(last, chosen, data, {"engine": "plain torch"})
            assert (artifact.images != first).any()
            np.testing.assert_array_equal(first_images(artifact, data), first)

    def test_reason_is_told_if_the_data_are_not_at_hand(self, here: Here, tmp_path: Path) -> None:
        artifact = made_up_set(provenance={"dataset": "folder:pets", "sha256": "d" * 64})
        artifact.write(tmp_path / "x")
        here("report", tmp_path / "x", "--out", tmp_path / "x.html")
        (shown,) = content_of(tmp_path / "x.html")["sets"]
        assert shown["start"] == ""
        assert "The initialisation of x is not shown: the real images are not at hand" in shown["no_start"]
        assert "add --data folder:PATH" in shown["no_start"]

    def test_files_and_folders_make_one_page(self, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "empty"))  # there is no CIFAR-10
        file, folder = write_file(tmp_path), write_comparison(tmp_path / "cmp")
        here("report", file, folder, "--out", tmp_path / "x.html")
        content = content_of(tmp_path / "x.html")
        assert [shown["name"] for shown in content["sets"]] == ["set", "mdc", "every-prefix"]
        assert [cost["name"] for cost in content["costs"]] == ["set", "mdc", "every-prefix", "baseline-a"]
        (mdc,) = [curve for curve in content["curves"] if curve["name"] == "mdc"]
        assert mdc["spread_over"] == "runs"
        assert mdc["points"][0]["count"] == 2

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["missing"], "There is no file {}missing: `mipset condense` makes one."),
            (["text"], "{}text is not a complete safetensors file"),
            (["empty"], "There is no results.jsonl in {}empty. Give a file, or a folder that `mipset compare`"),
            (["half"], "{}half/results.jsonl has no results yet."),
            (["set", "taken"], "{}taken exists already. Choose another --out, or set --force to overwrite it."),
            (["badlog"], "Line 3 of {}badlog.log.jsonl is damaged."),
            (["badaudit"], "{}badaudit.audit.json is damaged. Remove it"),
            (["outside"], "names ../../set, which is not in the folder."),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_bad_input_is_one_sentence(self, refusal: Here, tmp_path: Path, arguments: list[str], message: str) -> None:
        (tmp_path / "text").write_text("no set")
        (tmp_path / "taken").write_text("")
        for name in ("empty", "half"):
            (tmp_path / name).mkdir()
        (tmp_path / "half" / "results.jsonl").write_text("")
        for name in ("set", "badlog", "badaudit"):
            made_up_set().write(tmp_path / name)
        write_log(tmp_path / f"badlog{SUFFIX}", made_up_set(), 1)
        with (tmp_path / f"badlog{SUFFIX}").open("a") as log:
            log.write("{}\n")
        path_of(tmp_path / "badaudit").write_text("{}")
        folder = write_comparison(tmp_path / "outside")
        lines = (folder / "results.jsonl").read_text().splitlines()
        changed = [{**json.loads(line), "files": ["../../set"], "sha256": None} for line in lines]
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in changed))
        out = arguments[1] if len(arguments) > 1 else "x.html"
        assert message.format(f"{tmp_path}/") in refusal("report", tmp_path / arguments[0], "--out", tmp_path / out)


class TestCommand:
    @pytest.mark.parametrize("name", ["cifar10-cpu", "cifar10-gradient-cpu", "paper-cifar10-ipc10"])
    @pytest.mark.parametrize("policy", ["mdc", "every-prefix", "baseline-c"])
    def test_command_gives_the_same_recipe(self, name: str, policy: str) -> None:
        from mipset import cli
        from mipset.cli.condensing import recipe_of

        made = recipe(name, policy=policy, width=32, seed=4)
        words = command_of(made_up_set(recipe=vars(made))).split()
        again = recipe_of(cli.parser().parse_args(words[1:]))
        read = [setting for setting in vars(made) if made.reads(setting)]
        assert {key: getattr(again, key) for key in read} == {key: getattr(made, key) for key in read}
        assert again.policy == policy

    def test_texts_of_a_file_cannot_become_commands(self) -> None:
        artifact = made_up_set(provenance={"dataset": "folder:x; rm -rf ~", "sha256": ""})
        assert "mipset condense 'folder:x; rm -rf ~' --recipe own-cpu" in command_of(artifact)

    @pytest.mark.parametrize("name", ["stripes", "arrays", "torch", "hf"])
    def test_set_of_data_in_memory_has_no_command(self, name: str) -> None:
        assert command_of(made_up_set(provenance={"dataset": name, "sha256": ""})) == ""

    def test_set_of_several_steps_has_no_command(self) -> None:
        assert command_of(made_up_set(provenance={"dataset": "cifar10", "grown_from": 3})) == ""
        assert command_of(made_up_set(recipe={"ipc": 4, "width": "no"})) == ""
        assert "cifar10-cpu" in RECIPES


class TestWatch:
    def test_growing_report_is_served_on_this_machine_until_ctrl_c(
        self, tmp_path: Path, processes: list[subprocess.Popen[str]], toy: mipset.Dataset, recipe: Recipe
    ) -> None:
        """A run that has a checkpoint and goes on; the browser, if there is one, loads the page again by itself."""
        out, artifact = tmp_path / "x", made_up_set()
        parts = mipset.assemble(recipe, toy)
        step = next(iter(mipset.condense(parts)))
        named = made_up_set(class_names=toy.class_names, recipe=vars(recipe))
        write_log(tmp_path / f"x{SUFFIX}", named, 1)
        checkpoint.save(tmp_path / "x.checkpoint", step, checkpoint.Identity(recipe, ""))
        process = subprocess.Popen(
            [sys.executable, "-m", "mipset", "watch", str(out), "--port", "0"],
            env={"PYTHONPATH": SOURCE, "PATH": "/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert re.fullmatch(rf"http://127\.0\.0\.1:\d+/ shows {out}; Ctrl-C ends it\n", line)
        url = line.split()[0]
        first = urllib.request.urlopen(url, timeout=60).read().decode()
        assert "outer iteration 0 of 2 and 1 of 2 inner iterations" in first
        version = urllib.request.urlopen(url + "version", timeout=60).read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(url, headers={"Host": "example.org"}), timeout=60)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "x.checkpoint", timeout=60)
        if why_there_is_none():
            artifact.write(out)
        else:
            with started(tmp_path) as browser:
                browser.open(url)
                browser.press("#size", "home")
                artifact.write(out)
                (tmp_path / "x.checkpoint").unlink()
                write_log(tmp_path / f"x{SUFFIX}", artifact, 3)
                browser.wait_for("return document.body.dataset.drawn && document.title === 'mipset: x'")
                browser.wait_for("return document.querySelector('#size-text')?.textContent.startsWith('S_[1] of x')")
                assert [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"] == []
        assert urllib.request.urlopen(url + "version", timeout=60).read() != version
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=30)
        assert process.returncode == 130
        assert messages == f"mipset: {out} is no longer served.\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["x", "--port", "70000"], "--port is 70000: it must be from 0 to 65535."),
            (["missing/x"], "There is no folder"),
        ],
        ids=["port", "folder"],
    )
    def test_impossible_arguments_are_refused(
        self, refusal: Here, tmp_path: Path, arguments: list[str], message: str
    ) -> None:
        assert message in refusal("watch", tmp_path / arguments[0], *arguments[1:])
