"""Runs what is missing of a cell. Finished parts stay, whenever the process is stopped."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import torch

from mipset.condensing.assembly import assemble
from mipset.condensing.checkpoint import CheckpointedRun, Identity, find, remove
from mipset.condensing.checks import AUGMENTATIONS, fitted_to_data
from mipset.condensing.costs import passes
from mipset.condensing.packing import pack
from mipset.condensing.run_logging import LogFile, logged
from mipset.data import Dataset
from mipset.errors import ArtifactError, SettingError
from mipset.evaluation.evaluate import Evaluation, scores
from mipset.experiments.builders import BuildContext, Condensation
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import Cell, EvaluationTarget, identity_of
from mipset.experiments.report import write_tables
from mipset.experiments.results import Result
from mipset.experiments.slimming import as_dataset
from mipset.experiments.store import BuiltSets
from mipset.experiments.workload import Workload
from mipset.file.provenance import Provenance
from mipset.io.claims import Claim, claimed
from mipset.nn.engines import Engine
from mipset.nn.memory import keep_freed_memory
from mipset.reporting import Report
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class Machine:
    """What computes."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    engine: Engine = field(default_factory=Engine)
    workers: int = 1  # processes that evaluate
    threads: int | None = None  # None: as many as torch has

    def __str__(self) -> str:
        return f"{processor()}, {self.engine}"

    def prepare(self) -> None:
        """Let this process, which another one gives work to, compute in the same way as that one."""
        keep_freed_memory()
        if self.threads is not None:
            torch.set_num_threads(self.threads)


class FlopProgress:
    """Adds up FLOPs and reports the sum. FLOPs that an earlier process spent reduce the total."""

    def __init__(self, total: float, report: Report) -> None:
        self.done, self.total, self._report = 0.0, total, report

    def add(self, flops: float, stage: str) -> None:
        """This process has spent these FLOPs."""
        self.done += flops
        self._report(stage, self.done, self.total)

    def skip(self, flops: float, stage: str) -> None:
        """An earlier process spent these FLOPs."""
        self.total -= flops
        self._report(stage, self.done, self.total)

    def part(self, flops: float, stage: str) -> Report:
        """A callback for a piece of work of so many FLOPs, which counts in units of its own."""
        start = self.done

        def report(_: str, done: float, total: float) -> None:
            if total > 0:
                self.add(start + flops * done / total - self.done, stage)

        return report

    @contextmanager
    def rest_skipped(self, flops: float, stage: str) -> Iterator[Report]:
        """A callback for work of so many FLOPs, of which an earlier process may have spent a part, or all."""
        start = self.done
        yield self.part(flops, stage)
        if self.done < start + flops:
            self.skip(start + flops - self.done, stage)


@dataclass(frozen=True)
class Source:
    """What a condensation is made from."""

    recipe: Recipe
    data: Dataset
    first: torch.Tensor | None = None  # the first pixels, if they are not those of the recipe
    origin: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True)
class Runner:
    """Runs single cells."""

    comparison: Comparison
    machine: Machine
    progress: FlopProgress

    def run_cell(self, cell: Cell) -> None:
        """Condense, build sets and evaluate them, as far as that is missing.

        A HeldError if another process computes the cell, or one of its condensations, at the moment.
        """
        with claimed(self.comparison.claim(cell)) as claim:
            missing = self.comparison.missing(cell)
            if not missing:
                return
            for run in cell.condensations:
                self.condense(run, cell)
            sets = {
                outer: self.comparison.built_sets(cell, outer) or self._build_sets(cell, outer)
                for outer in dict.fromkeys(target.outer for target in missing)
            }
            self._evaluate(cell, missing, sets, claim)

    def condense(self, run: Condensation, cell: Cell) -> None:
        """Run one condensation of a cell, unless it is finished. A HeldError if another process runs it."""
        folder = self.comparison.run_folder(run)
        if not folder.holds(cell.outers):
            with claimed(folder.claim):
                if not folder.holds(cell.outers):  # another process may have run it just now
                    self._condense(run, cell)

    def _condense(self, run: Condensation, cell: Cell) -> None:
        """Run one condensation, from its checkpoint if there is one, and store its sets."""
        folder, stage = self.comparison.run_folder(run), cell.name_of(run)
        source = self._source(run)
        origin: Provenance = {
            **self.comparison.origin,
            "rank": run.first_rank or None,
            "engine": str(self.machine.engine),
            **source.origin,
        }
        workload = Workload(self.comparison)
        expert_flops = workload.expert_flops(run)
        flops = workload.run_flops(run) - expert_flops
        with self.progress.rest_skipped(expert_flops, stage) as report:  # experts may be in the cache folder
            checkpointed = self._resumed(run, source, cell, report)
        share = checkpointed.share
        self.progress.skip(share * flops, stage)
        pack_step = partial(pack, r=source.recipe, data=source.data, origin=origin)
        log = LogFile(folder.log, pack_step, checkpointed.place.t, force=True)
        for step in logged(checkpointed.steps(), log, lambda: checkpointed.spent):
            if step.outer_done and step.t in cell.outers:
                artifact = pack_step(step)
                about = {"recipe": asdict(source.recipe), "rank": run.first_rank}
                folder.write(step.t, artifact, checkpointed.seconds, about)
            self.progress.add((step.share - share) * flops, f"{stage}: outer {step.t}/{run.recipe.outer}")
            share = step.share
        remove(folder.checkpoint)

    def _source(self, run: Condensation) -> Source:
        """The real images of a condensation, or the condensed ones that stand for them, and its first pixels."""
        data = self.comparison.grid.data
        if run.of is None:
            return Source(run.recipe, data)
        artifact, _ = self.comparison.run_folder(run.of).read(run.of.recipe.outer)
        images = as_dataset(artifact, data)
        first = torch.from_numpy(artifact.images[: run.recipe.ipc].copy())
        recipe = fitted_to_data(run.recipe, images, ("init", *AUGMENTATIONS))
        return Source(recipe, images, first, {"recondensed_from": artifact.ipc})

    def _resumed(self, run: Condensation, source: Source, cell: Cell, report: Report) -> CheckpointedRun:
        """The condensation, resumed from its checkpoint if that can be used. Experts are trained if there are any."""
        folder = self.comparison.run_folder(run)
        checkpointed = self._started(run, source, report)
        try:
            found = find(folder.checkpoint)
            if found is not None:
                checkpointed.resume(found)
        except (ArtifactError, SettingError):  # the checkpoints are damaged, or another engine wrote them
            return self._started(run, source, report)
        if folder.holds(outer for outer in cell.outers if outer <= checkpointed.place.t):
            return checkpointed
        return self._started(run, source, report)

    def _started(self, run: Condensation, source: Source, report: Report) -> CheckpointedRun:
        recipe, data, engine = source.recipe, source.data, self.machine.engine
        parts = assemble(
            recipe, data, self.machine.device, source.first, engine, first_rank=run.first_rank, report=report
        )
        path = self.comparison.run_folder(run).checkpoint
        return CheckpointedRun(path, parts, Identity(recipe, data.identity, str(engine)))

    def _build_sets(self, cell: Cell, outer: int) -> BuiltSets:
        """Build the sets of a cell after an outer iteration from files, and store them in files."""
        comparison, machine = self.comparison, self.machine
        grid, store = comparison.grid, comparison.store
        stage = f"{cell}: building sets"
        report = self.progress.part(Workload(comparison).build_flops(cell), stage)
        report(stage, 0, 1)
        condensed, seconds = [], 0.0
        spent = cell.builder.passes(cell.recipe, grid.data)
        for run in cell.condensations:
            artifact, run_seconds = comparison.run_folder(run).read(outer)
            condensed.append(artifact)
            seconds += run_seconds
            shorter = run.recipe.replace(outer=outer)
            spent += passes(shorter, grid.data.shape, grid.data.classes, len(grid.data.train))
        start = time.monotonic()
        context = BuildContext(grid.data, machine.device, machine.engine, comparison.origin, report)
        built = cell.builder.build(cell.recipe, grid.plan.sizes, condensed, context)
        seconds += time.monotonic() - start
        files = {
            id(artifact): comparison.run_folder(run).set_file(outer)
            for artifact, run in zip(condensed, cell.condensations, strict=True)
        }
        name = grid.sets_name(cell, outer)
        own = {id(artifact): size for size, artifact in built.items() if id(artifact) not in files}
        for number, size in own.items():
            files[number] = store.write_set(name if len(own) == 1 else f"{name}-{size}", built[size])
        sets = BuiltSets({size: files[id(artifact)] for size, artifact in built.items()}, seconds, spent)
        store.write_sets_note(name, sets)
        report(stage, 1, 1)
        return sets

    def _evaluate(self, cell: Cell, targets: list[EvaluationTarget], sets: dict[int, BuiltSets], claim: Claim) -> None:
        """Evaluate all sizes, and store each result once it is complete."""
        grid = self.comparison.grid
        plan = grid.plan
        tasks, task_targets = [], []
        sizes_by_length = []  # of each task; the length is how many images of each class a size is trained on
        for target in targets:
            for artifact, sizes in sets[target.outer].by_file():
                evaluation = Evaluation(
                    artifact,
                    grid.data,
                    plan.protocol,
                    target.architecture,
                    plan.seed,
                    str(self.machine.device),
                    self.machine.engine,
                )
                lengths = {cell.builder.length(cell.recipe, size): size for size in sizes}
                tasks.append((evaluation, list(lengths)))
                task_targets.append(target)
                sizes_by_length.append(lengths)
        accuracies: dict[EvaluationTarget, dict[int, dict[int, float]]] = {target: {} for target in targets}
        for index, score in scores(tasks, plan.networks, self.machine.workers):
            target, size = task_targets[index], sizes_by_length[index][score.size]
            accuracies[target].setdefault(size, {})[score.network] = score.accuracy
            if sum(map(len, accuracies[target].values())) == len(plan.sizes) * plan.networks:
                result = self._result(cell, target, sets[target.outer], accuracies[target])
                claim.check()
                self.comparison.store.add_result(result)
                write_tables(self.comparison)
            flops = tasks[index][0].flops(score.size)
            self.progress.add(flops, f"{cell}: size {size} {score.accuracy:.1f} %")

    def _result(
        self, cell: Cell, target: EvaluationTarget, sets: BuiltSets, accuracies: dict[int, dict[int, float]]
    ) -> Result:
        grid, store = self.comparison.grid, self.comparison.store
        stored = [artifact for artifact, _ in sets.by_file()]
        images, stored_bytes = cell.builder.storage(cell.recipe, grid.plan.sizes, stored)
        return Result(
            cell=grid.result_key(cell, target),
            table=grid.table_key,
            method=cell.method.name,
            seed=cell.recipe.seed,
            outer=target.outer,
            final=target.outer == cell.recipe.outer,
            network=str(target.architecture),
            protocol=str(grid.plan.protocol),
            scores={
                size: [accuracies[size][network] for network in sorted(accuracies[size])] for size in sorted(accuracies)
            },
            condensations=len(cell.condensations),
            images=images,
            bytes=stored_bytes,
            seconds=round(sets.seconds, 3),
            forward=sets.passes.forward,
            backward=sets.passes.backward,
            files=[store.relative(path) for path in sets.files],
            recipe=identity_of(cell.recipe),
            machine=str(self.machine),
        )


def processor() -> str:
    """The processor of this machine, its threads, and the version of torch."""
    model = platform.processor() or platform.machine()
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        names = [line.partition(":")[2].strip() for line in listed.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    threads = torch.get_num_threads()
    return f"{model}, {threads} {'thread' if threads == 1 else 'threads'}, torch {torch.__version__}"
