"""Grids: what is compared. A grid has one cell for each method and seed.

A result is identified by the hash of everything that it depends on, so results of an earlier process are recognised.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from mipset import __version__
from mipset.condensing.checks import check_fit, fitted_to_data
from mipset.condensing.own_parts import own_code
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.experiments.builders import BUILDERS, Condensation, SetBuilder
from mipset.experiments.results import Result
from mipset.io.names import portable_name
from mipset.settings.architecture import Architecture
from mipset.settings.choices import POLICIES, policies_reading
from mipset.settings.methods import Method
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe


@dataclass(frozen=True)
class EvaluationPlan:
    """How the sets of a grid are evaluated."""

    sizes: Sequence[int]
    protocol: Protocol
    networks: int = 3  # for each size
    architectures: Sequence[str] = ()  # names; empty for the architecture of the condensation
    seed: int = 0

    def architectures_for(self, recipe: Recipe) -> list[Architecture]:
        """The architectures that sets of this recipe are evaluated with."""
        own = Architecture(recipe.network, recipe.width, recipe.depth)
        names = dict.fromkeys(self.architectures or [own.name])
        return [own if name == own.name else Architecture.named(name) for name in names]


@dataclass(frozen=True)
class EvaluationTarget:
    """One result of a cell: its sets after an outer iteration, evaluated with an architecture."""

    outer: int
    architecture: Architecture


@dataclass(frozen=True)
class Cell:
    """One method with one seed."""

    method: Method
    recipe: Recipe
    condensations: tuple[Condensation, ...]
    targets: tuple[EvaluationTarget, ...]

    def __str__(self) -> str:
        return f"{self.method.name}, seed {self.recipe.seed}"

    def name_of(self, run: Condensation) -> str:
        """The name of one of the condensations."""
        count = len(self.condensations)
        return f"{self} ({self.condensations.index(run) + 1} of {count})" if count > 1 else str(self)

    @property
    def builder(self) -> SetBuilder:
        """Turns the condensations into a set for each size."""
        return BUILDERS[self.method.builder]

    @property
    def outers(self) -> tuple[int, ...]:
        """Outer iterations after which sets are evaluated; the last one is the end of the run."""
        return tuple(dict.fromkeys(target.outer for target in self.targets))


@dataclass(frozen=True)
class Grid:
    """Methods and seeds. Every cell is evaluated at every size with every architecture."""

    recipe: str  # a name in the catalogue
    data: Dataset
    methods: Sequence[Method]
    seeds: Sequence[int]
    plan: EvaluationPlan
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the recipe, for all methods that read them
    at: Sequence[int] = ()  # outer iterations after which sets are evaluated, beside the last one
    fits: bool = False  # whether settings that nobody chose are fitted to small data, for each method

    def __post_init__(self) -> None:
        self._check_methods()
        for cell in self.cells:
            for run in cell.condensations or (Condensation(cell.recipe.replace(init="mix")),):
                check_fit(run.recipe.replace(ipc=run.first_rank + run.recipe.ipc), self.data)
        longest = max(cell.recipe.outer for cell in self.cells)
        for outer in self.at:
            if not 1 <= outer <= longest:
                raise SettingError(f"`at` contains {outer}: choose outer iterations from 1 to {longest}.")

    def recipe_of(self, method: Method, **changes: Any) -> Recipe:
        """The recipe of a method, with more `changes`."""
        wanted = method.recipe(self.recipe, {**self.changes, **changes})
        return fitted_to_data(wanted, self.data, {**self.changes, **method.settings}) if self.fits else wanted

    def _check_methods(self) -> None:
        names: dict[str, str] = {}
        for method in self.methods:
            recipe = self.recipe_of(method).identity
            name = names.setdefault(_hash([method.kind, recipe]), method.name)
            if name != method.name:
                raise SettingError(f"`methods`: {name} and {method.name} are the same method. Leave one of them out.")
        settled = [(method, self.recipe_of(method)) for method in self.methods]
        for setting in self.changes:
            if not any(method.reads(setting) and chosen.reads(setting) for method, chosen in settled):
                raise SettingError(f"`{setting}` has no effect: none of the methods reads it. Leave it out.")
        for method, chosen in settled:
            for setting in method.settings:
                if not chosen.reads(setting):
                    raise SettingError(
                        f"`methods`: {method.name} sets `{setting}`, which has no effect in the recipe {self.recipe}. "
                        f"Leave it out."
                    )

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells, seed by seed, so that the first rows of a table soon have all methods."""
        return [self._cell(method, seed) for seed in self.seeds for method in self.methods]

    def _cell(self, method: Method, seed: int) -> Cell:
        recipe = self.recipe_of(method, seed=seed)
        largest = max(self.plan.sizes)
        if largest > recipe.ipc:
            raise SettingError(f"`sizes` contains {largest}: {method.name} has sizes 1 to {recipe.ipc}. Choose these.")
        condensations = tuple(BUILDERS[method.builder].condensations(recipe, self.plan.sizes))
        early = sorted({outer for outer in self.at if outer < recipe.outer}) if condensations else []
        targets = tuple(
            EvaluationTarget(outer, architecture)
            for outer in (*early, recipe.outer)
            for architecture in self.plan.architectures_for(recipe)
        )
        return Cell(method, recipe, condensations, targets)

    @property
    def table_key(self) -> str:
        """Hash of what all cells of one table share."""
        shared = {
            name: value
            for name, value in self.changes.items()
            if name != "seed" and policies_reading(name) == tuple(POLICIES)
        }
        return _hash({"recipe": self.recipe, "given": shared, **self._shared})

    @property
    def _shared(self) -> dict[str, Any]:
        return {
            "data": self.data.identity,
            "version": __version__,
            "sizes": list(self.plan.sizes),
            "protocol": self.plan.protocol.identity,
            "networks": self.plan.networks,
            "seed": self.plan.seed,
        }

    def result_key(self, cell: Cell, target: EvaluationTarget) -> str:
        """Hash of everything that a result depends on."""
        own = {"kind": cell.method.kind, "recipe": identity_of(cell.recipe), "outer": target.outer}
        return _hash({**own, **self._shared, "architecture": asdict(target.architecture)})

    def run_key(self, run: Condensation) -> str:
        """Hash of everything that a condensation depends on."""
        source = {} if run.of is None else {"of": self.run_key(run.of)}
        own = {"recipe": identity_of(run.recipe), "rank": run.first_rank, **source}
        return _hash({**own, "data": self.data.identity, "version": __version__})

    def sets_name(self, cell: Cell, outer: int) -> str:
        """The name of the sets of a cell after an outer iteration."""
        own = {"recipe": identity_of(cell.recipe), "kind": cell.method.kind, "outer": outer}
        return f"{portable_name(cell.method.kind)}-{cell.recipe.seed}-{outer}-{_hash({**own, **self._shared})[:8]}"

    def table(self, results: Iterable[Result]) -> list[Result]:
        """Those results that belong to the table of this grid: the methods of the grid first, in their order.

        Each row has one recipe. Results of the same method with other settings are left out. A result gets the name
        under which its method is compared now.
        """
        names = {self.result_key(cell, target): cell.method.name for cell in self.cells for target in cell.targets}
        latest = {result.cell: result for result in results if result.table == self.table_key}
        named = [replace(result, method=names.get(result.cell, result.method)) for result in latest.values()]
        recipes = {result.method: _without_seed(result.recipe) for result in named}  # the last one of each name
        for method in self.methods:
            recipes[method.name] = _without_seed(identity_of(self.recipe_of(method)))
        order = list(dict.fromkeys([*(method.name for method in self.methods), *recipes]))
        return sorted(
            (result for result in named if _without_seed(result.recipe) == recipes[result.method]),
            key=lambda result: order.index(result.method),
        )


def identity_of(recipe: Recipe) -> dict[str, Any]:
    """All settings of a recipe that its results depend on, and digests of classes of somebody's own that it names."""
    code = own_code(recipe)
    return {**recipe.identity, "code": code} if code else recipe.identity


def _without_seed(recipe: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in recipe.items() if name != "seed"}


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
