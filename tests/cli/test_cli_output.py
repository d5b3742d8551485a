"""What verbs print: JSON for programs, and nothing but results with `--quiet`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import web
from commands import BRIEF, GOLDEN, TINY, Here, done, run, sentence
from mipset import cli, read
from mipset.settings.catalogue import RECIPES
from mipset.settings.methods import METHODS

OWN = ("--data", "npz:pets.npz")
SET = {"file", "ipc", "classes", "bytes"}
COMMANDS: dict[str, tuple[list[object], set[str]]] = {  # what to type, and what the JSON must name
    "recipes": ([], set(RECIPES)),
    "methods": ([], {"methods", "groups"}),
    "show": ([GOLDEN], {"file", "ipc", "shape", "class_names", "recipe", "provenance", "accuracy", "factor"}),
    "plan": ([GOLDEN, "--bytes", "1MB"], {"size", "of", "file_bytes", "memory", "epochs", "expected"}),
    "fetch": ([GOLDEN, "--out", "a", "--ipc", 2], {*SET, "of", "moved", "ranges"}),
    "slice": ([GOLDEN, "--ipc", 2, "--out", "b"], SET),
    "export": ([GOLDEN, "--to", "npz", "--out", "c.npz"], {*SET, "factor", "images_per_size"}),
    "import": (["old.pt", "--kind", "mdc", "--factor", 2, *OWN, "--out", "d"], {*SET, "clipped_share"}),
    "condense": (["npz:pets.npz", "--out", "e", *TINY], {*SET, "seconds", "loss"}),
    "grow": (["e", "--ipc", 3, *OWN, "--out", "f", "--threads", 1], {*SET, "seconds", "loss"}),
    "evaluate": (["e", *OWN, *BRIEF], {"seconds", "files"}),
    "reorder": (["e", "--out", "g", "--first", 1, "--best", 1, "--threads", 1], {*SET, "seconds"}),
    "audit": (["e", *OWN, "--top", 2], {"images", "suspicious", "usual", "closest"}),
    "report": (["e", "--out", "h.html", *OWN], {"file", "sets", "bytes"}),
    "publish": (["e", "--to", "i", "--licence", "mit", "--no-parquet"], {"folder", "bytes", "set"}),
    "compare": (["npz:pets.npz", "--methods", "random", *TINY, *BRIEF], {"folder", "files", "results"}),
}


@pytest.fixture
def folder(tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    images = torch.linspace(0, 1, 3 * 2 * 64).reshape(6, 1, 8, 8)
    torch.save([images, torch.arange(3).repeat_interleave(2)], "old.pt")
    assert pets.name == "pets.npz"
    return tmp_path


class TestJson:
    def test_every_verb_that_prints_facts_prints_them_as_json(self, folder: Path, here: Here) -> None:
        """In the order of the table: some verbs read what others wrote."""
        printed: dict[str, Any] = {}
        for verb, (words, keys) in COMMANDS.items():
            printed[verb] = json.loads(here(verb, *words, "--json"))
            assert keys <= set(printed[verb]), verb
        assert printed["show"]["accuracy"][0]["mean"] == read(GOLDEN).accuracy[0].mean
        assert printed["fetch"] == {**printed["fetch"], "ipc": 2, "of": 3, "classes": 2, "ranges": None}
        assert printed["fetch"]["bytes"] == (folder / "a").stat().st_size
        assert printed["methods"]["methods"].keys() == METHODS.keys()
        assert [point["size"] for point in printed["evaluate"]["files"][0]["accuracy"]] == [1, 2]
        assert printed["audit"]["closest"][0]["distance"] >= 0
        assert printed["compare"]["results"][0]["method"] == "random"
        assert json.loads(here("recipes", "demo", "--json"))["settings"]["policy"] == "every-prefix"
        names = [entry["name"] for entry in json.loads(here("data", "--json"))]
        assert names[0] == "fashion-mini"
        assert "cifar10" in [entry["name"] for entry in json.loads(here("gallery", "--json"))]

    def test_the_table_has_every_verb_with_the_flag(self) -> None:
        verbs = cli.parser().verbs()
        assert {name for name, verb in verbs.items() if "json" in verb.typed_names()} == {*COMMANDS, "data", "gallery"}

    def test_costs_are_json_too(self, folder: Path, here: Here) -> None:
        cost = json.loads(here("condense", "--data", "npz:pets.npz", "--dry-run", "--json", *TINY))
        assert cost["flops"] > 0
        assert cost["settings"]["ipc"] == 2
        missing = json.loads(here("compare", "npz:pets.npz", "--methods", "mdc", "--dry-run", "--json", *TINY, *BRIEF))
        assert [cell["method"] for cell in missing["missing"]] == ["mdc"]

    def test_a_flag_before_the_second_verb_counts(self, here: Here) -> None:
        assert json.loads(here("data", "--json", "fetch", "fashion-mini"))["name"] == "fashion-mini"


class TestQuiet:
    def test_progress_and_remarks_are_not_shown_but_results_and_errors_are(self, folder: Path) -> None:
        driver = "from mipset.display import progress; progress.SILENT_SECONDS = progress.LOG_SECONDS = 0.0\n"
        driver += "import sys; from mipset.cli import main; main(sys.argv[1:])"
        # A start from 40 real images of each class becomes one from noise, and a remark says so.
        command = ("condense", "npz:pets.npz", "--out", "x", "--force", *TINY, "--ipc", 10, "--factor", 2)
        loud = run(*command, cwd=folder, code=driver)
        assert "which gives --init noise" in loud.stderr
        assert "condensing npz" in loud.stderr
        assert " left  outer 2/2  inner 2/2  loss " in loud.stderr
        quiet = run(*command, "--quiet", cwd=folder, code=driver)
        assert quiet.stderr == ""
        assert done(quiet).startswith("x: 10 images for each of 3 classes")
        refused = run("condense", "npz:pets.npz", "--quiet", cwd=folder)
        assert refused.returncode == 2
        assert "--out is required" in sentence(refused.stderr)


class TestBytesMoved:
    @pytest.fixture
    def published(self, folder: Path) -> Iterator[web.Server]:
        with web.serving(GOLDEN.read_bytes()) as server:
            yield server

    @pytest.mark.parametrize(("ranges", "told"), [(True, "the server has byte ranges"), (False, "no byte ranges, so")])
    def test_fetch_tells_how_many_bytes_moved(self, published: web.Server, here: Here, ranges: bool, told: str) -> None:
        published.always = None if ranges else web.without_ranges
        _, line = here("fetch", published.url, "--ipc", 1, "--out", "a").splitlines()
        assert told in line
        facts = json.loads(here("fetch", published.url, "--ipc", 1, "--out", "b", "--json"))
        assert facts["ranges"] is ranges
        if ranges:
            assert 2 * facts["moved"] == published.sent
            assert facts["moved"] < len(published.content)
        else:
            assert facts["moved"] > facts["bytes"]
