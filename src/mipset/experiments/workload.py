"""The workload of a comparison: FLOPs, time and memory of what is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch

from mipset.condensing.assembly import settings_of_experts
from mipset.condensing.costs import Cost, cost, measuring_passes, timed
from mipset.condensing.passes import Passes
from mipset.evaluation.evaluate import evaluation_flops, evaluation_memory
from mipset.experiments.builders import Condensation
from mipset.experiments.comparison import Comparison
from mipset.experiments.grid import Cell, EvaluationTarget
from mipset.nn.engines import Engine
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class Workload:
    """Counts the work of a comparison before it is done."""

    comparison: Comparison

    def flops(self, cells: Sequence[Cell]) -> float:
        """FLOPs of what is missing of some cells."""
        runs = self.comparison.missing_runs(cells)
        evaluations, sets = map(self._missing_evaluation_flops, cells), map(self._missing_build_flops, cells)
        return sum(map(self.run_flops, runs)) + sum(evaluations) + sum(sets)

    def flops_from_scratch(self, cells: Sequence[Cell]) -> float:
        """FLOPs of some cells as if nothing were finished."""
        runs = dict.fromkeys(run for cell in cells for run in cell.condensations)
        sets = sum(len(cell.outers) * self.build_flops(cell) for cell in cells)
        evaluations = sum(self._evaluation_flops(cell, cell.targets) for cell in cells)
        return sum(map(self.run_flops, runs)) + sets + evaluations

    def run_flops(self, run: Condensation) -> float:
        """FLOPs of one condensation, with the measurements of its policy."""
        recipe, data = run.recipe, self.comparison.grid.data
        measuring = measuring_passes(recipe, data.shape, data.classes, len(data.train))
        return self._cost(recipe).run_flops + self._pass_flops(recipe, measuring)

    def expert_flops(self, run: Condensation) -> float:
        """FLOPs of training the experts of a condensation, if it has any; they are a part of `run_flops`."""
        if not settings_of_experts(run.recipe):
            return 0.0
        return run.recipe.training_steps(self.comparison.grid.data.classes) * self._cost(run.recipe).step_flops

    def build_flops(self, cell: Cell) -> float:
        """FLOPs of building the sets of a cell from its condensations, once."""
        return self._pass_flops(cell.recipe, cell.builder.passes(cell.recipe, self.comparison.grid.data))

    def _pass_flops(self, recipe: Recipe, passes: Passes) -> float:
        """FLOPs of passes over training batches: a training step is three forward passes."""
        return self._cost(recipe).step_flops * (passes.backward + (passes.forward - passes.backward) / 3)

    def _missing_build_flops(self, cell: Cell) -> float:
        """FLOPs of the missing sets of a cell."""
        outers = {target.outer for target in self.comparison.missing(cell)}
        return self.build_flops(cell) * sum(self.comparison.built_sets(cell, outer) is None for outer in outers)

    def _missing_evaluation_flops(self, cell: Cell) -> float:
        """FLOPs of the missing evaluations of a cell."""
        return self._evaluation_flops(cell, self.comparison.missing(cell))

    def _evaluation_flops(self, cell: Cell, targets: Sequence[EvaluationTarget]) -> float:
        grid = self.comparison.grid
        return grid.plan.networks * sum(
            evaluation_flops(
                *(grid.data, target.architecture, grid.plan.protocol, cell.recipe.factor),
                cell.builder.length(cell.recipe, size),
            )
            for target in targets
            for size in grid.plan.sizes
        )

    def _cost(self, recipe: Recipe) -> Cost:
        data = self.comparison.grid.data
        return _cached_cost(recipe.replace(seed=0), data.shape, data.classes, len(data.train), len(data.test))

    def time_estimate(self, device: torch.device, engine: Engine) -> Callable[[Sequence[Cell]], float]:
        """A function that estimates the seconds that some cells will take.

        Timing takes about a second, once for each objective and precision: their FLOPs take different times.
        """
        grid = self.comparison.grid
        recipes = [run.recipe for cell in grid.cells for run in cell.condensations] or [grid.cells[0].recipe]
        per_match_flop: dict[tuple[str, str], float] = {}
        per_step_flop: dict[str, float] = {}
        condensing = sorted(recipes, key=lambda recipe: recipe.ipc, reverse=True)
        evaluating = recipes[0].replace(train_precision=grid.plan.protocol.precision)
        for reference in [*condensing, *(cell.recipe for cell in grid.cells), evaluating]:
            compared, learned = _compared(reference), reference.train_precision
            if compared not in per_match_flop or learned not in per_step_flop:
                match_seconds, step_seconds = timed(reference, grid.data.shape, grid.data.classes, device, engine)
                per_match_flop.setdefault(compared, match_seconds / self._cost(reference).compared_flops)
                per_step_flop.setdefault(learned, step_seconds / self._cost(reference).step_flops)

        def seconds(cells: Sequence[Cell]) -> float:
            total = 0.0
            trained = set()  # experts that several condensations share
            for run in self.comparison.missing_runs(cells):
                cost, per_flop = self._cost(run.recipe), per_step_flop[run.recipe.train_precision]
                total += cost.seconds(
                    cost.compared_flops * per_match_flop[_compared(run.recipe)], cost.step_flops * per_flop
                )
                total += (self.run_flops(run) - cost.run_flops) * per_flop
                experts = (run.of, run.recipe.experts, *settings_of_experts(run.recipe).items())
                total -= self.expert_flops(run) * per_flop * (experts in trained)
                trained.add(experts)
            for cell in cells:
                total += self._missing_build_flops(cell) * per_step_flop[cell.recipe.train_precision]
                total += self._missing_evaluation_flops(cell) * per_step_flop[grid.plan.protocol.precision]
            return total

        return seconds

    def max_memory(self, workers: int = 1) -> int:
        """Estimate of the bytes that the largest condensation needs, or the evaluation in so many processes."""
        grid = self.comparison.grid
        recipes = [
            recipe for cell in grid.cells for recipe in (cell.recipe, *(run.recipe for run in cell.condensations))
        ]
        architectures = {target.architecture for cell in grid.cells for target in cell.targets}
        return max(
            *(self._cost(recipe).max_memory for recipe in recipes),
            *(evaluation_memory(grid.data, each, grid.plan.protocol, workers) for each in architectures),
        )


def _compared(recipe: Recipe) -> tuple[str, str]:
    """What the time of a match depends on, beside its FLOPs."""
    return recipe.objective, recipe.match_precision


@cache
def _cached_cost(recipe: Recipe, shape: tuple[int, int, int], classes: int, images: int, test_images: int) -> Cost:
    return cost(recipe, shape, classes, images, test_images)
