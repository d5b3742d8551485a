"""Experiments: a grid of methods and seeds, run cell by cell, of which nothing finished is run again.

A folder holds everything about it:

    runs/KEY/      one condensation: the sets after chosen outer iterations and at the end, and how long they took
    sets/          sets that were put together of several condensations, selected or reordered
    results.jsonl  a line for each finished cell, of which results.md, results.csv and pictures are made

KEY is the hash of the recipe, the data and the version, so a condensation that two methods need is run once. What is
evaluated was read from these files, never from memory.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from mipset import __version__
from mipset.artifact import Artifact, read
from mipset.checkpoint import Kept
from mipset.costs import Cost, cost, passes, timed
from mipset.data import Dataset
from mipset.engines import Engine
from mipset.errors import ArtifactError, DivergedError, MipsetError, SettingError
from mipset.evaluate import Architecture, Evaluation, Protocol, evaluation_flops, scores
from mipset.files import write_whole
from mipset.methods import Bench, Method, Run
from mipset.metrics import Passes
from mipset.recipes import Recipe, assemble, check_fit, flag_of, pack
from mipset.results import PICTURES, Result, add_result, comma_separated, document, pictures, read_results

Advance = tuple[float, str]  # FLOPs that are done, and what is going on


@dataclass(frozen=True)
class Cell:
    """One method with one seed."""

    method: Method
    recipe: Recipe
    runs: tuple[Run, ...]
    moments: tuple[int, ...]  # outer iterations after which it is evaluated, the last of them at the end

    def __str__(self) -> str:
        return f"{self.method.name}, seed {self.recipe.seed}"


@dataclass(frozen=True)
class Experiment:
    """A grid: methods x seeds, each evaluated at every size with every architecture."""

    folder: Path
    name: str  # of the recipe
    data: Dataset
    methods: Sequence[Method]
    seeds: Sequence[int]
    sizes: Sequence[int]
    protocol: Protocol
    networks: int = 3
    architectures: Sequence[str] = ()  # in place of the one that was condensed with
    given: dict[str, Any] = field(default_factory=dict)  # settings in place of the recipe's, for all methods
    at: Sequence[int] = ()  # outer iterations after which sets are evaluated too, beside the last
    evaluation_seed: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    engine: Engine = field(default_factory=Engine)
    workers: int = 1
    remark: str = ""  # what else has to be known to read the tables

    def __post_init__(self) -> None:
        for cell in self.cells:
            for run in cell.runs or (Run(cell.recipe),):
                check_fit(run.recipe.replace(ipc=run.rank + run.recipe.ipc), self.data)
        longest = max(cell.recipe.outer for cell in self.cells)
        for t in self.at:
            if not 1 <= t <= longest:
                raise SettingError(f"--at cannot be {t}: the runs have outer iterations 1 to {longest}.")

    @cached_property
    def cells(self) -> list[Cell]:
        """Seed by seed, so that an early look at the table sees all methods."""
        return [self._cell(method, seed) for seed in self.seeds for method in self.methods]

    def _cell(self, method: Method, seed: int) -> Cell:
        recipe = method.recipe(self.name, {**self.given, "seed": seed})
        if max(self.sizes) > recipe.ipc:
            raise SettingError(f"--sizes cannot hold {max(self.sizes)}: {method.name} has sizes 1 to {recipe.ipc}.")
        runs = tuple(method.way.runs(recipe, self.sizes))
        early = [t for t in self.at if t < recipe.outer] if runs else []
        return Cell(method, recipe, runs, (*sorted(set(early)), recipe.outer))

    @property
    def bench(self) -> Bench:
        """What methods make sets with."""
        return Bench(self.data, self.device, self.engine)

    @property
    def table(self) -> str:
        """Identifies what all cells share that can stand in one table."""
        shared = {key: value for key, value in self.given.items() if key != "seed"}
        return _hash({"recipe": self.name, "given": shared, **self._measured})

    @property
    def _measured(self) -> dict[str, Any]:
        return {
            "data": self.data.sha256,
            "version": __version__,
            "sizes": list(self.sizes),
            "protocol": asdict(self.protocol),
            "networks": self.networks,
            "seed": self.evaluation_seed,
        }

    def key(self, cell: Cell, outer: int, architecture: Architecture) -> str:
        """Identifies everything that a result depends on."""
        made = {"kind": cell.method.kind, "recipe": asdict(cell.recipe), "outer": outer}
        return _hash({**made, **self._measured, "architecture": asdict(architecture)})

    def results(self) -> list[Result]:
        """Everything that the folder holds for this table, methods asked for first, in their order."""
        order = {method.name: index for index, method in enumerate(self.methods)}
        found = {r.cell: r for r in read_results(self._results_file) if r.table == self.table}
        return sorted(found.values(), key=lambda r: order.get(r.method, len(order)))

    def write_tables(self) -> None:
        """results.md, results.csv and their pictures, of what there is by now."""
        results = self.results()
        if not results:
            return
        texts = {"results.md": document(self.title, self.notes, results), "results.csv": comma_separated(results)}
        drawn = pictures(results)
        for name in PICTURES - drawn.keys():  # of another table in the same folder
            (self.folder / name).unlink(missing_ok=True)
        for name, text in {**drawn, **texts}.items():
            write_whole(self.folder / name, lambda stream, text=text: stream.write(text.encode()))  # type: ignore[misc]

    @property
    def title(self) -> str:
        """What is compared."""
        return f"{self.data.name}, recipe {self.name}"

    @property
    def notes(self) -> list[str]:
        """What has to be known to read the tables."""
        given = "".join(f" {flag_of(key)} {value}" for key, value in self.given.items() if key != "seed")
        return [
            f"{len(self.data.train):,} training and {len(self.data.test):,} test images, {self.data.classes} classes; "
            f"settings{given or ' as in the recipe'}.{' ' if self.remark else ''}{self.remark}",
            "Accuracy on test images after the last epoch. `± runs` is the deviation of the mean over sizes from one "
            "condensation to another (other seeds), `± networks` from one network to another on the same set.",
            f"Machine: {machine()}.",
        ]

    @property
    def _results_file(self) -> Path:
        return self.folder / "results.jsonl"

    # what is left to do, and what it costs

    def architectures_for(self, r: Recipe) -> list[Architecture]:
        """Those that a set is evaluated with."""
        names = dict.fromkeys(self.architectures or [r.network])
        return [Architecture(r.network, r.width, r.depth) if n == r.network else Architecture.named(n) for n in names]

    def missing(self, cell: Cell) -> list[tuple[int, Architecture]]:
        """The results of a cell that the folder does not hold."""
        have = {result.cell for result in self.results()}
        return [
            (t, architecture)
            for t in cell.moments
            for architecture in self.architectures_for(cell.recipe)
            if self.key(cell, t, architecture) not in have
        ]

    def runs_left(self, cells: Sequence[Cell]) -> list[Run]:
        """The condensations that have to be run for what is missing of some cells, each once."""
        runs = dict.fromkeys(run for cell in cells if self.missing(cell) for run in cell.runs)
        wanted: dict[Run, set[int]] = {}
        for cell in cells:
            for run in cell.runs:
                wanted.setdefault(run, set()).update(cell.moments)
        return [run for run in runs if not self._has(run, wanted[run])]

    def work(self, cells: Sequence[Cell]) -> float:
        """FLOPs of what is missing of some cells."""
        condensing = sum(self.cost(run.recipe).run_flops for run in self.runs_left(cells))
        return condensing + sum(self._score_flops(cell) for cell in cells)

    def _score_flops(self, cell: Cell) -> float:
        return self.networks * sum(
            evaluation_flops(self.data, architecture, self.protocol, cell.recipe.factor, size)
            for _, architecture in self.missing(cell)
            for size in self.sizes
        )

    def cost(self, r: Recipe) -> Cost:
        """What one condensation costs."""
        return _cost(r.replace(seed=0), self.data.shape, self.data.classes, len(self.data.train), len(self.data.test))

    def seconds(self, cells: Sequence[Cell]) -> Callable[[Sequence[Cell]], float]:
        """Tells how long some of these cells will take on this machine, from about a second of timing."""
        reference = max((run.recipe for cell in cells for run in cell.runs), key=lambda r: r.ipc, default=None)
        reference = reference or cells[0].recipe
        known = self.cost(reference)
        match, step = timed(reference, self.data.shape, self.data.classes, self.device, self.engine)

        def estimate(some: Sequence[Cell]) -> float:
            found = 0.0
            for run in self.runs_left(some):
                c = self.cost(run.recipe)
                found += c.seconds(match * c.match_flops / known.match_flops, step * c.step_flops / known.step_flops)
            return found + sum(map(self._score_flops, some)) * step / known.step_flops

        return estimate

    @property
    def max_memory(self) -> int:
        """The most bytes that a condensation needs, by estimate."""
        recipes = {run.recipe.replace(seed=0) for cell in self.cells for run in cell.runs}
        return max((self.cost(r).max_memory for r in recipes), default=0)

    # doing it

    def run(self) -> Iterator[Advance]:
        """Do what is missing, and yield as it goes on. What is finished stays, whenever it is stopped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for cell in self.cells:
            try:
                yield from self._run_cell(cell)
            except DivergedError as error:
                raise DivergedError(f"{cell}: {error}") from error

    def _run_cell(self, cell: Cell) -> Iterator[Advance]:
        left = self.missing(cell)
        if not left:
            return
        for run in cell.runs:
            if not self._has(run, cell.moments):
                yield from self._condense(run, cell)
        yield 0.0, f"{cell}: putting its sets together"
        made = {t: self._sets(cell, t) for t in dict.fromkeys(t for t, _ in left)}
        tasks, places = [], []
        for t, architecture in left:
            for artifact, its_sizes in made[t].by_artifact():
                evaluation = Evaluation(
                    artifact,
                    self.data,
                    self.protocol,
                    architecture,
                    self.evaluation_seed,
                    str(self.device),
                    self.engine,
                )
                tasks.append((evaluation, its_sizes))
                places.append((t, architecture))
        found: dict[tuple[int, Architecture], dict[int, dict[int, float]]] = {place: {} for place in left}
        for index, score in scores(tasks, self.networks, self.workers):
            of_place = found[places[index]]
            of_place.setdefault(score.size, {})[score.network] = score.accuracy
            if sum(map(len, of_place.values())) == len(self.sizes) * self.networks:
                t, architecture = places[index]
                add_result(self._results_file, self._result(cell, t, architecture, made[t], of_place))
                self.write_tables()
            yield tasks[index][0].flops(score.size), f"{cell}: size {score.size} {score.accuracy:.1f} %"

    def _condense(self, run: Run, cell: Cell) -> Iterator[Advance]:
        """Run one condensation, from its checkpoint if there is one, and write its sets."""
        self._folder(run).mkdir(parents=True, exist_ok=True)
        flops = self.cost(run.recipe).run_flops
        which = f" ({cell.runs.index(run) + 1} of {len(cell.runs)})" if len(cell.runs) > 1 else ""
        origin = {"rank": run.rank or None, "engine": str(self.engine)}
        kept = self._kept(run, cell.moments)
        done = 0.0
        for step in kept.steps():
            if step.outer_done and step.t in cell.moments:
                self._keep(run, step.t, pack(step, run.recipe, self.data, origin), kept.seconds)
            yield (step.share - done) * flops, f"{cell}{which}: outer {step.t}/{run.recipe.outer}"
            done = step.share
        kept.path.unlink(missing_ok=True)

    def _kept(self, run: Run, moments: Sequence[int]) -> Kept:
        """The run, where its checkpoint left it if that can be used."""

        def new() -> Kept:
            parts = assemble(run.recipe, self.data, self.device, run.start(self.data), self.engine)
            path = self._folder(run) / "checkpoint"
            return Kept(path, parts, run.recipe, self.data.sha256, str(self.engine))

        kept = new()
        if not kept.path.exists():
            return kept
        try:
            kept.resume()
        except (ArtifactError, SettingError):  # damaged, or of another engine
            return new()
        return kept if self._has(run, [t for t in moments if t <= kept.done]) else new()

    def _folder(self, run: Run) -> Path:
        made = {"recipe": asdict(run.recipe), "rank": run.rank, "data": self.data.sha256, "version": __version__}
        return self.folder / "runs" / _hash(made)

    def _has(self, run: Run, moments: Iterable[int]) -> bool:
        return all((self._folder(run) / f"{t}.json").exists() for t in moments)

    def _keep(self, run: Run, t: int, artifact: Artifact, seconds: float) -> None:
        artifact.write(self._folder(run) / f"{t}.safetensors")
        note = json.dumps({"seconds": round(seconds, 3), "recipe": asdict(run.recipe), "rank": run.rank})
        write_whole(self._folder(run) / f"{t}.json", lambda stream: stream.write(note.encode()))

    def _sets(self, cell: Cell, t: int) -> Made:
        """The sets of a cell after outer iteration `t`, read from their files."""
        made, seconds = [], 0.0
        spent = cell.method.way.passes(cell.recipe, self.bench)
        files = [self._folder(run) / f"{t}.safetensors" for run in cell.runs]
        for run, path in zip(cell.runs, files, strict=True):
            made.append(read(path))
            seconds += _seconds(path.with_suffix(".json"))
            r = run.recipe.replace(outer=t)
            spent += passes(r, self.data.shape, self.data.classes, len(self.data.train))
        start = time.monotonic()
        sets = cell.method.way.sets(cell.recipe, self.sizes, made, self.bench)
        seconds += time.monotonic() - start
        known = {id(artifact): path for artifact, path in zip(made, files, strict=True)}
        paths: dict[int, Path] = {}
        for size, artifact in sets.items():
            if id(artifact) not in known:
                known[id(artifact)] = self._write_set(cell, t, artifact)
            paths[size] = known[id(artifact)]
        return Made(paths, seconds, spent)

    def _write_set(self, cell: Cell, t: int, artifact: Artifact) -> Path:
        (self.folder / "sets").mkdir(exist_ok=True)
        address = _hash({"recipe": asdict(cell.recipe), "kind": cell.method.kind, "outer": t, **self._measured})
        path = self.folder / "sets" / f"{cell.method.kind}-{cell.recipe.seed}-{t}-{address[:8]}.safetensors"
        artifact.write(path)
        return path

    def _result(
        self, cell: Cell, t: int, architecture: Architecture, made: Made, found: dict[int, dict[int, float]]
    ) -> Result:
        stored = [read(path) for path in dict.fromkeys(made.paths.values())]
        return Result(
            cell=self.key(cell, t, architecture),
            table=self.table,
            method=cell.method.name,
            seed=cell.recipe.seed,
            outer=t,
            final=t == cell.recipe.outer,
            network=str(architecture),
            protocol=str(self.protocol),
            scores={n: [found[n][number] for number in sorted(found[n])] for n in sorted(found)},
            condensations=len(cell.runs),
            images=sum(artifact.ipc * len(artifact.class_names) for artifact in stored),
            bytes=sum(artifact.images.nbytes for artifact in stored),
            seconds=round(made.seconds, 3),
            forward=made.passes.forward,
            backward=made.passes.backward,
            files=[path.relative_to(self.folder).as_posix() for path in dict.fromkeys(made.paths.values())],
            recipe=asdict(cell.recipe),
            machine=machine(),
        )


@dataclass(frozen=True)
class Made:
    """The sets of a cell: where each size is, and what making them took."""

    paths: dict[int, Path]
    seconds: float
    passes: Passes

    def by_artifact(self) -> Iterator[tuple[Artifact, list[int]]]:
        """Each file with the sizes that are prefixes of it."""
        for path in dict.fromkeys(self.paths.values()):
            yield read(path), [size for size, where in self.paths.items() if where == path]


def _seconds(path: Path) -> float:
    try:
        return float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MipsetError(f"{path} cannot be read: remove its folder, and the run will be done again.") from error


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@cache
def _cost(r: Recipe, shape: tuple[int, int, int], classes: int, images: int, test_images: int) -> Cost:
    return cost(r, shape, classes, images, test_images)


def machine() -> str:
    """What a time was measured on."""
    model = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        names = [line.partition(":")[2].strip() for line in listed.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return f"{model}, {torch.get_num_threads()} threads, torch {torch.__version__}"
