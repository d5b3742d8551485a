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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from mipset import __version__
from mipset.condensing.assembly import assemble
from mipset.condensing.checkpoint import CheckpointedRun
from mipset.condensing.checks import check_fit
from mipset.condensing.costs import Cost, cost, measuring_passes, passes, timed
from mipset.condensing.metrics import Passes
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.errors import ArtifactError, DivergedError, SettingError
from mipset.evaluation.evaluate import Evaluation, evaluation_flops, scores
from mipset.experiments.methods import Bench, Method, Run
from mipset.experiments.results import PICTURES, Result, add_result, comma_separated, document, pictures, read_results
from mipset.file.artifact import Artifact, read
from mipset.io.files import write_whole
from mipset.nn.engines import Engine
from mipset.settings.architecture import Architecture
from mipset.settings.protocol import Protocol
from mipset.settings.choices import ONLY_FOR
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class Advance:
    """What a moment of work has brought."""

    flops: float  # that are done
    note: str  # what is going on
    earlier: bool = False  # whether another process had done it


class Told:
    """Tells somebody how far a piece of work is, if anybody watches, and knows what was told."""

    def __init__(self, watch: Callable[[Advance], None] | None, flops: float, note: str) -> None:
        self.watch, self.whole, self.note = watch, flops, note
        self.flops = 0.0

    def of(self, share: float) -> None:
        """This share of the work is done."""
        if self.watch is not None:
            self.watch(Advance(share * self.whole - self.flops, self.note))
            self.flops = share * self.whole


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
    origin: Mapping[str, Any] = field(default_factory=dict)  # what else has to be known to load the data again
    watch: Callable[[Advance], None] | None = None  # is told of work that yields nothing before it ends

    def __post_init__(self) -> None:
        names: dict[str, str] = {}
        for method in self.methods:
            same = names.setdefault(_hash([method.kind, asdict(method.recipe(self.name, self.given))]), method.name)
            if same != method.name:
                raise SettingError(f"--methods {same} and {method.name} are the same: leave one out.")
        for name in self.given:
            if not any(method.reads(name) for method in self.methods):
                raise SettingError(f"none of the methods reads `{name}` from the command line: leave it out.")
        for cell in self.cells:
            for run in cell.runs or (Run(cell.recipe.replace(init="mix")),):
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
    def table(self) -> str:
        """Identifies what all cells share that can stand in one table."""
        shared = {key: value for key, value in self.given.items() if key != "seed" and key not in ONLY_FOR}
        return _hash({"recipe": self.name, "given": shared, **self._measured})

    @property
    def _measured(self) -> dict[str, Any]:
        return {
            "data": self.data.identity,
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
        """Everything that the folder holds for this table, methods asked for first, in their order.

        A row is of one recipe: what a method gave with other settings is not shown.
        """
        names = {
            self.key(cell, t, architecture): cell.method.name
            for cell in self.cells
            for t, architecture in self._wanted(cell)
        }
        found = {r.cell: r for r in read_results(self._results_file) if r.table == self.table}
        results = [replace(r, method=names.get(r.cell, r.method)) for r in found.values()]
        rows = {r.method: _but_seed(r.recipe) for r in results}  # the last one of each name
        rows |= {method.name: _but_seed(asdict(method.recipe(self.name, self.given))) for method in self.methods}
        order = list(rows)
        asked = [method.name for method in self.methods]
        return sorted(
            (r for r in results if _but_seed(r.recipe) == rows[r.method]),
            key=lambda r: asked.index(r.method) if r.method in asked else len(asked) + order.index(r.method),
        )

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
        given = "".join(f" {key} {value}" for key, value in self.given.items() if key != "seed")
        return [
            f"{len(self.data.train):,} training and {len(self.data.test):,} test images, {self.data.classes} classes; "
            f"settings{given or ' as in the recipe'}.{' ' if self.remark else ''}{self.remark}",
            "Accuracy on test images after the last epoch. `± runs` is the deviation of the mean over sizes from one "
            "condensation to another (other seeds), `± networks` from one network to another on the same set.",
            "Timed on " + "; ".join(dict.fromkeys(r.machine for r in self.results())) + ".",
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
            (t, architecture) for t, architecture in self._wanted(cell) if self.key(cell, t, architecture) not in have
        ]

    def _wanted(self, cell: Cell) -> list[tuple[int, Architecture]]:
        return [(t, architecture) for t in cell.moments for architecture in self.architectures_for(cell.recipe)]

    def runs_left(self, cells: Sequence[Cell]) -> list[Run]:
        """The condensations that have to be run for what is missing of some cells, each once."""
        runs = dict.fromkeys(run for cell in cells if self.missing(cell) for run in cell.runs)
        wanted: dict[Run, set[int]] = {}
        for cell in cells:
            for run in cell.runs:
                wanted.setdefault(run, set()).update(cell.moments)
        return [run for run in runs if not self._has(run, wanted[run])]

    def work(self, cells: Sequence[Cell], anew: bool = False) -> float:
        """FLOPs of what is missing of some cells, or of all if they were done anew."""
        runs = dict.fromkeys(run for cell in cells for run in cell.runs) if anew else self.runs_left(cells)
        return sum(map(self._run_flops, runs)) + sum(self._other_flops(cell, anew) for cell in cells)

    def _run_flops(self, run: Run) -> float:
        """Of one condensation, with what its policy measures."""
        r, d = run.recipe, self.data
        extra = measuring_passes(r, d.shape, d.classes, len(d.train))
        return self.cost(r).run_flops + self._pass_flops(r, extra)

    def _pass_flops(self, r: Recipe, spent: Passes) -> float:
        """Of passes over batches as large as those that the network learns from: learning is three looks."""
        return self.cost(r).step_flops * (spent.backward + (spent.forward - spent.backward) / 3)

    def _set_flops(self, cell: Cell) -> float:
        """Of what is done once a cell's condensations are there, to make its sets."""
        return self._pass_flops(cell.recipe, cell.method.way.passes(cell.recipe, self.data))

    def _other_flops(self, cell: Cell, anew: bool) -> float:
        """Of making sets and of evaluating them."""
        left = self._wanted(cell) if anew else self.missing(cell)
        scores = sum(
            evaluation_flops(self.data, architecture, self.protocol, cell.recipe.factor, size)
            for _, architecture in left
            for size in self.sizes
        )
        moments = {t for t, _ in left if anew or self._made(cell, t) is None}
        return len(moments) * self._set_flops(cell) + self.networks * scores

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
                found += (self._run_flops(run) - c.run_flops) * step / known.step_flops
            return found + sum(self._other_flops(cell, False) for cell in some) * step / known.step_flops

        return estimate

    @property
    def max_memory(self) -> int:
        """The most bytes that a condensation needs, by estimate."""
        return max(
            self.cost(r).max_memory for cell in self.cells for r in (cell.recipe, *(x.recipe for x in cell.runs))
        )

    # doing it

    def run(self) -> Iterator[Advance]:
        """Do what is missing, and yield as it goes on. What is finished stays, whenever it is stopped."""
        self.folder.mkdir(parents=True, exist_ok=True)
        failed = []
        for cell in self.cells:
            try:
                yield from self._run_cell(cell)
            except DivergedError as error:  # the others can still be compared
                failed.append(f"{cell}: {error}")
        if failed:
            raise DivergedError(" ".join(failed))

    def _run_cell(self, cell: Cell) -> Iterator[Advance]:
        left = self.missing(cell)
        if not left:
            return
        for run in cell.runs:
            if not self._has(run, cell.moments):
                yield from self._condense(run, cell)
        made = {}
        for t in dict.fromkeys(t for t, _ in left):
            known = self._made(cell, t)
            yield Advance(0.0, f"{cell}: putting its sets together")
            flops = 0.0 if known else self._set_flops(cell)
            told = Told(self.watch, flops, f"{cell}: putting its sets together")
            made[t] = known or self._sets(cell, t, told.of)
            yield Advance(flops - told.flops, f"{cell}: its sets are there")
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
            yield Advance(tasks[index][0].flops(score.size), f"{cell}: size {score.size} {score.accuracy:.1f} %")

    def _condense(self, run: Run, cell: Cell) -> Iterator[Advance]:
        """Run one condensation, from its checkpoint if there is one, and write its sets."""
        self._folder(run).mkdir(parents=True, exist_ok=True)
        flops = self._run_flops(run)
        which = f" ({cell.runs.index(run) + 1} of {len(cell.runs)})" if len(cell.runs) > 1 else ""
        origin = {**self.origin, "rank": run.rank or None, "engine": str(self.engine)}
        kept = self._kept(run, cell.moments)
        done = kept.done / run.recipe.outer
        yield Advance(done * flops, f"{cell}{which}", earlier=True)
        for step in kept.steps():
            if step.outer_done and step.t in cell.moments:
                self._keep(run, step.t, pack(step, run.recipe, self.data, origin), kept.seconds)
            yield Advance((step.share - done) * flops, f"{cell}{which}: outer {step.t}/{run.recipe.outer}")
            done = step.share
        kept.path.unlink(missing_ok=True)

    def _kept(self, run: Run, moments: Sequence[int]) -> CheckpointedRun:
        """The run, where its checkpoint left it if that can be used."""

        def new() -> CheckpointedRun:
            parts = assemble(run.recipe, self.data, self.device, run.start(self.data), self.engine)
            path = self._folder(run) / "checkpoint"
            return CheckpointedRun(path, parts, run.recipe, self.data.identity, str(self.engine))

        kept = new()
        if not kept.path.exists():
            return kept
        try:
            kept.resume()
        except (ArtifactError, SettingError):  # damaged, or of another engine
            return new()
        return kept if self._has(run, [t for t in moments if t <= kept.done]) else new()

    def _folder(self, run: Run) -> Path:
        made = {"recipe": asdict(run.recipe), "rank": run.rank, "data": self.data.identity, "version": __version__}
        return self.folder / "runs" / _hash(made)

    def _has(self, run: Run, moments: Iterable[int]) -> bool:
        names = [f"{t}.{ending}" for t in moments for ending in ("safetensors", "json")]
        return all((self._folder(run) / name).exists() for name in names)

    def _keep(self, run: Run, t: int, artifact: Artifact, seconds: float) -> None:
        artifact.write(self._folder(run) / f"{t}.safetensors")
        note = json.dumps({"seconds": round(seconds, 3), "recipe": asdict(run.recipe), "rank": run.rank})
        write_whole(self._folder(run) / f"{t}.json", lambda stream: stream.write(note.encode()))

    def _sets(self, cell: Cell, t: int, report: Callable[[float], None]) -> Made:
        """Make the sets of a cell after outer iteration `t`, of files and into files."""
        made, seconds = [], 0.0
        spent = cell.method.way.passes(cell.recipe, self.data)
        files = [self._folder(run) / f"{t}.safetensors" for run in cell.runs]
        for run, path in zip(cell.runs, files, strict=True):
            made.append(_read(path, path.parent))
            seconds += float(_note(path.with_suffix(".json"), path.parent)["seconds"])
            r = run.recipe.replace(outer=t)
            spent += passes(r, self.data.shape, self.data.classes, len(self.data.train))
        start = time.monotonic()
        bench = Bench(self.data, self.device, self.engine, self.origin, report)
        sets = cell.method.way.sets(cell.recipe, self.sizes, made, bench)
        seconds += time.monotonic() - start
        known = {id(artifact): path for artifact, path in zip(made, files, strict=True)}
        paths: dict[int, Path] = {}
        for size, artifact in sets.items():
            if id(artifact) not in known:
                known[id(artifact)] = self._note_of_sets(cell, t).with_suffix(".safetensors")
                known[id(artifact)].parent.mkdir(exist_ok=True)
                artifact.write(known[id(artifact)])
            paths[size] = known[id(artifact)]
        found = Made(paths, seconds, spent)
        found.write(self._note_of_sets(cell, t), self.folder)
        return found

    def _made(self, cell: Cell, t: int) -> Made | None:
        """The sets of a cell, if they were made before and all are there."""
        note = self._note_of_sets(cell, t)
        return Made.read(note, self.folder) if note.exists() else None

    def _note_of_sets(self, cell: Cell, t: int) -> Path:
        address = {"recipe": asdict(cell.recipe), "kind": cell.method.kind, "outer": t, **self._measured}
        return self.folder / "sets" / f"{cell.method.kind}-{cell.recipe.seed}-{t}-{_hash(address)[:8]}.json"

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
            machine=f"{machine()}, {self.engine}",
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
            where = path.parent if path.parent.parent.name == "runs" else path
            yield _read(path, where), [size for size, its in self.paths.items() if its == path]

    def write(self, note: Path, folder: Path) -> None:
        """Remember it for another time."""
        note.parent.mkdir(exist_ok=True)
        paths = {size: path.relative_to(folder).as_posix() for size, path in self.paths.items()}
        text = json.dumps({"paths": paths, "seconds": round(self.seconds, 3), **asdict(self.passes)})
        write_whole(note, lambda stream: stream.write(text.encode()))

    @classmethod
    def read(cls, note: Path, folder: Path) -> Made | None:
        """What `write` has remembered, if all files are still there."""
        said = _note(note, note)
        paths = {int(size): folder / path for size, path in said["paths"].items()}
        if not all(path.exists() for path in paths.values()):
            return None
        return cls(paths, float(said["seconds"]), Passes(int(said["forward"]), int(said["backward"])))


def _read(path: Path, what: Path) -> Artifact:
    """A file that this folder should hold; `what` has to go for it to be made again."""
    try:
        return read(path)
    except ArtifactError as error:
        raise ArtifactError(f"{path} cannot be used any more: remove {what}, and it will be made again.") from error


def _note(path: Path, what: Path) -> dict[str, Any]:
    """What was written beside a set."""
    try:
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        float(said["seconds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactError(f"{path} cannot be used any more: remove {what}, and it will be made again.") from error
    return said


def _but_seed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if name != "seed"}


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
