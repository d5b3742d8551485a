"""The pages of README and docs: their blocks in order, and a small world in which the blocks run.

In this world every recipe takes a moment, every dataset has a few images, and the web server that the pages name
delivers a small set. A command of a page runs in this process, with smaller numbers where the page has large ones.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributed.run import get_args_parser

import mipset
from commands import save_pictures
from mipset.cli import parser
from mipset.condensing.costs import cost
from mipset.condensing.packing import as_artifact
from mipset.data import Dataset, load, spec_of
from mipset.data.specs import DatasetSpec
from mipset.settings import catalogue, protocol
from mipset.settings.methods import parse_methods
from mipset.settings.recipe import Recipe
from tiny_data import make_split

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "FORMAT.md", "CHANGELOG.md", "CONTRIBUTING.md")),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / folder / "README.md" for folder in ("examples", "benchmarks")),
    ]
)
ADDRESS = "https://example.org/c10.safetensors"

# What every recipe has in this world.
TINY: dict[str, Any] = {
    "outer": 1,
    "inner": 2,
    "width": 4,
    "real_batch": 8,
    "experts": 1,
    "expert_steps": 2,
    "train_images": 8,
    "train_batch": 8,
    "pool": 1,
    "life": 1,
}
# The values that flags of a command have instead of those of the page.
SMALL = {
    "--outer": "1",
    "--at": "1",
    "--expert-steps": "2",
    "--experts": "1",
    "--width": "4",
    "--networks": "2",
    "--seeds": "1",
    "--workers": "1",
}
# Flags that a command gets if it does not have them. Without compilation nobody needs to know how much work it is,
# which takes longer than the work itself.
PLAIN = {"--threads": "1", "--compile": "off"}
BRIEF = {**PLAIN, "--workers": "1", "--networks": "2", "--sizes": "1,2"}
ADDED = {"condense": PLAIN, "grow": PLAIN, "evaluate": {**BRIEF, "--width": "4"}, "compare": BRIEF}
# The page whose first comparison is run: it has a class of one's own. Those of other pages take longer, and differ in
# names and flags only; tests/cli runs comparisons.
COMPARING = "docs/how-to/own-method.md"
# Commands that a page may have and that are not run here: they install, or their own tests run them.
ELSEWHERE = (
    r"python3 -m venv \S+",
    r"\. \S+/bin/activate",
    r"(cd|mkdir) [\w/-]+",
    r"python scripts/make_gallery\.py .*",  # changes the source tree; test_shipped_gallery.py runs it elsewhere
    r"(PYTHONPATH=scripts )?\.venv/bin/\w+( .*)?",
    r"mipset data fetch \w+",  # downloads
    r"mipset condense .* --resolution 224 .*",  # takes a minute
    r"mipset (condense|evaluate) .*imagenet:PATH .*",  # the same
    r"mipset evaluate .* --network (resnet|densenet) .*",  # takes minutes; tests/cli evaluates with other networks
    r"dask (scheduler|worker) ?.*",  # tests/cli/test_cli_executors.py has real ones
    r"mipset watch \S+",  # serves until it is stopped
    r"cc -O2 -I\. examples/c/train\.c -o train -lm",  # tests/test_c_training.py
    r"\./train test\.bin \d+( \d+)+",
    r"MIPSET_KERNELS=1 python -m build --wheel",  # tests/test_release.py
    r"pipx run cibuildwheel --output-dir \w+",  # needs containers
    r"mipset report .* compare-\w+ .*",  # needs the folder of a comparison that is not run here
)


counted_once = cache(cost)  # counting takes longer than what is counted


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    kind: str  # "python", "text" for output, "" for commands
    text: str
    file: str | None  # the file that it is: if it is Python, and the line before it ends with "`FILE`:"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in their order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    named = re.compile(r"`(\w+\.py)`:\s*$")
    return [
        Block(block[1], block[2], name[1] if (name := named.search(text, 0, block.start())) and block[1] else None)
        for block in found
    ]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(block: Block) -> list[str]:
    """The commands of a block, without comments and without lines that a command printed."""
    lines = block.text.replace("\\\n", " ").splitlines()
    commands = [line.partition("  #")[0].strip() for line in lines]
    return [command.removesuffix(",...") for command in commands if command and not command.startswith("mipset: ")]


def shape_of(line: str) -> str:
    """A printed line without what depends on the run: numbers, times, spreads, digests, engines."""
    line = re.sub(r" ?± ?\d[\d.]*", "", line).replace("networks", "network")
    line = re.sub(r"\b[0-9a-f]{64}\b", "#", line)
    line = re.sub(r"(compiled kernels|plain torch)", "ENGINE", line)
    line = re.sub(r"\d([\d.,:]*\d)?( (s|kB|MB|GB|B)\b)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def is_printed(shown: str, printed: str) -> bool:
    """Whether the lines that a page shows were printed, in this order; "..." in a line stands for anything."""
    lines = iter([shape_of(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        pattern = ".*".join(map(re.escape, shape_of(line).split("...")))
        if not any(re.fullmatch(pattern, other) for other in lines):
            return False
    return True


def check_settings(words: list[str]) -> None:
    """Check the flags of a command, and the recipes of a condensation or a comparison, without running it."""
    arguments = vars(parser().parse_args(words))
    if words[0] == "condense":
        given = {f.name: arguments[f.name] for f in fields(Recipe) if arguments[f.name] is not None}
        catalogue.recipe(arguments["recipe"] or catalogue.name_for(arguments["dataset"]), **given)
    elif words[0] == "compare":
        compared = arguments["recipe"]
        for method in parse_methods(arguments["methods"]):
            method.recipe(compared if compared in catalogue.RECIPES else catalogue.name_for(compared), {})


class World:
    """A folder in which the blocks of a page run one after the other."""

    def __init__(self, page: Path, folder: Path, address: str, small_set: bytes, run: Callable[..., str]) -> None:
        self.page, self.folder, self.address, self.small_set, self.run = page, folder, address, small_set, run
        self.names: dict[str, Any] = {"__name__": "page"}
        self.modules: list[str] = []
        self.printed = ""
        self.compares = page_name(page) == COMPARING
        images = torch.rand(100, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        torch.save([images, torch.arange(10).repeat_interleave(10)], folder / "data_2000.pt")

    def play(self, block: Block) -> None:
        """Run a block, or check that what it shows was printed."""
        if block.kind == "text":
            assert not self.printed or is_printed(block.text, self.printed), f"printed is:\n{self.printed}"
        elif block.file is not None:
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
            self.modules.append(Path(block.file).stem)
        elif block.kind == "python":
            exec(compile(block.text.replace(ADDRESS, self.address), str(self.page), "exec"), self.names)
        else:
            assert block.kind == "", f"a block of {block.kind!r} is not run by this test"
            self.printed = "".join(self.run_command(command) for command in commands_of(block))

    def run_command(self, command: str) -> str:
        """Run one command and return what it printed. What cannot be run is checked."""
        command, _, target = re.sub(r'^eval "\$\((.*)\)"$', r"\1", command).partition(" > ")
        if target:
            (self.folder / Path(target).name).write_text(self.run_command(command), encoding="utf-8")
            return ""
        words = shlex.split(command)
        if any(re.fullmatch(pattern, command) for pattern in ELSEWHERE):
            return ""
        if words[0] == "torchrun":
            launched = get_args_parser().parse_args(words[1:])
            assert launched.module
            assert launched.training_script == "mipset"
            return self.run_command(shlex.join(["mipset", *launched.training_script_args]))
        if words[:2] == ["pip", "install"]:
            project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            for extra in re.findall(r"\[(.*?)\]", command):
                assert {*extra.split(",")} <= {*project["optional-dependencies"]}
            return ""
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            return ""
        if words[0] == "python":
            if (self.folder / words[1]).exists():
                return self.run("python", words[1])
            assert (ROOT / words[1]).exists(), f"{words[1]} does not exist"  # test_examples and test_benchmarks run it
            return ""
        assert words[0] == "mipset", f"{command!r} is neither run nor named in ELSEWHERE of tests/pages.py"
        if words[1] == "compare" and not self.is_to_run(words[1:]):
            return ""
        return self.run(*self.at_toy_size(words[1:]))

    def is_to_run(self, words: list[str]) -> bool:
        """Whether a comparison is run; see COMPARING. The names and flags of the others are checked."""
        check_settings(words)
        first, self.compares = self.compares, False
        return first

    def at_toy_size(self, words: list[str]) -> list[str]:
        """The words of a command with smaller numbers, the address of our server, and files that must be there."""
        words = [self.address if word.startswith("https://example.org/") else word for word in words]
        for flag, value in ADDED.get(words[0], {}).items():
            words += [] if flag in words else [flag, value]
        words += ["--force-memory"] if words[0] in ADDED else []
        for name in re.findall(r"folder:([\w-]+)", " ".join(words)):
            if not (self.folder / name).exists():
                save_pictures(self.folder / name, count=30, size=40)
        for name in re.findall(r"npz:([\w-]+\.npz)", " ".join(words)):
            if not (self.folder / name).exists():
                save_arrays(self.folder / name)
        for place, (flag, value) in enumerate(pairwise(words), 1):
            file = self.folder / value
            if flag in SMALL:
                words[place] = SMALL[flag]
            elif flag == "--sizes" and words[0] == "compare":
                words[place] = "1,2"
            elif flag == "--ipc" and words[0] == "grow":
                words[place] = "11"
            elif flag == "--out":
                words += ["--force"] if file.is_file() else []
            elif value.endswith(".safetensors") and "://" not in value and ("--chart" in words or not file.exists()):
                file.write_bytes(self.small_set)
        return words


def save_arrays(path: Path) -> None:
    """Write an .npz file with the names of Keras: colour images of noise in ten classes."""
    train, test = make_split(400, (3, 32, 32), 10), make_split(100, (3, 32, 32), 10, 1)
    x_train, x_test = (split.images.transpose(0, 2, 3, 1) for split in (train, test))
    np.savez(path, x_train=x_train, y_train=train.labels, x_test=x_test, y_test=test.labels)


def few(data: Dataset, train: int, test: int) -> Dataset:
    """The first images of each class of a dataset."""

    def first(labels: Any, count: int) -> Any:
        return np.sort(np.concatenate([np.flatnonzero(labels == c)[:count] for c in range(data.classes)]))

    return replace(
        data, train=data.train.at(first(data.train.labels, train)), test=data.test.at(first(data.test.labels, test))
    )


def small_datasets() -> Iterator[tuple[str, Dataset]]:
    """A few real images of the embedded dataset, and noise under the names of the others."""
    yield "fashion-mini", few(load("fashion-mini"), 40, 10)
    for name in ("cifar10", "fashion-mnist", "mnist"):
        spec = spec_of(name)
        assert spec is not None
        splits = make_split(450, spec.shape, 10), make_split(30, spec.shape, 10, 1)
        yield name, Dataset(name, *splits, spec.class_names, spec.mean, spec.std)


def make_small(patch: pytest.MonkeyPatch) -> dict[str, Dataset]:
    """Make recipes, protocols and datasets so small that pages run in seconds. Returns the datasets."""
    for name, named in catalogue.RECIPES.items():
        patch.setitem(catalogue.RECIPES, name, replace(named, recipe=named.recipe.replace(**TINY), tuned={}))
    for name, named_protocol in protocol.PROTOCOLS.items():
        patch.setitem(protocol.PROTOCOLS, name, replace(named_protocol, epochs=2, least_steps=1))
    patch.setattr("mipset.condensing.costs.PROBE_SECONDS", 0.0)
    for module in ("condensing.costs", "condensing.budget", "experiments.workload"):
        patch.setattr(f"mipset.{module}.cost", counted_once)
    patch.setattr("mipset.condensing.budget.within", lambda chosen, *_: chosen.replace(**TINY))  # after its measurement
    datasets = dict(small_datasets())

    def small_load(name: str, **settings: Any) -> Dataset:
        return datasets[name] if name in datasets else load(name, **settings)

    def small_spec(name: str) -> DatasetSpec | None:
        spec = spec_of(name)
        return replace(spec, sha256=datasets[name].sha256) if spec and name in datasets else spec

    patch.setattr("mipset.data.load", small_load)
    patch.setattr("mipset.data.spec_of", small_spec)
    return datasets


def set_of(data: Dataset) -> mipset.Artifact:
    """A condensed set of noise that says it comes from these data, and how accurate it is."""
    recipe = catalogue.RECIPES["cifar10-cpu"].recipe
    pixels = np.random.default_rng(0).integers(0, 256, (recipe.ipc, data.classes, *data.shape), dtype=np.uint8)
    points = [mipset.Accuracy(size, 40.0 + size, 1.0, 2, "convnet-3", "quick", 0, data.sha256) for size in (1, 10)]
    return as_artifact(pixels, recipe, data).with_accuracy(points)
