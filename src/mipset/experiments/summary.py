"""Summaries of results: means and spreads of each method, at the end of its runs and during them.

There are two spreads: over runs (the same method with another seed), and over networks (the same set, other networks
trained on it).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mipset.experiments.results import Result


@dataclass(frozen=True)
class Row:
    """One method: the results of all its seeds."""

    results: Sequence[Result]

    @property
    def method(self) -> str:
        return self.results[0].method

    @property
    def means(self) -> dict[int, float]:
        """For each size the mean over seeds and networks."""
        return {size: statistics.fmean(r.means[size] for r in self.results) for size in self.results[0].means}

    @property
    def mean(self) -> float:
        """The mean over sizes, seeds and networks."""
        return statistics.fmean(r.mean for r in self.results)

    @property
    def spreads(self) -> dict[int, float]:
        """For each size the standard deviation over seeds of the mean over networks; empty for one seed."""
        if len(self.results) == 1:
            return {}
        return {size: statistics.stdev(r.means[size] for r in self.results) for size in self.means}

    @property
    def spread_over_runs(self) -> float | None:
        """The standard deviation over seeds of the mean over sizes and networks; None for one seed."""
        return _deviation([r.mean for r in self.results])

    @property
    def spread_over_networks(self) -> float | None:
        """The standard deviation over networks, on the same set, of the mean over sizes; None for one network."""
        deviations = [_deviation(r.by_network) for r in self.results]
        variances = [deviation**2 for deviation in deviations if deviation is not None]
        return statistics.fmean(variances) ** 0.5 if variances else None

    def mean_of(self, value: Callable[[Result], float]) -> float:
        """The mean over seeds of a value of each result."""
        return statistics.fmean(value(r) for r in self.results)

    @property
    def seconds(self) -> float:
        """The mean time of condensation and selection."""
        return self.mean_of(lambda r: r.seconds)


def _deviation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


def rows(results: Iterable[Result]) -> list[Row]:
    """The final results by method, in the order in which methods first appear."""
    by_method: dict[str, list[Result]] = {}
    for result in results:
        if result.final:
            by_method.setdefault(result.method, []).append(result)
    return [Row(sorted(group, key=lambda r: r.seed)) for group in by_method.values()]


@dataclass(frozen=True)
class Moment:
    """All seeds of a method after the same number of outer iterations."""

    row: Row
    outer: int


def moments(results: Iterable[Result]) -> dict[str, list[Moment]]:
    """For each method that was evaluated during its runs, its moments in order; the end of the run is the last.

    Only seeds that have all moments count, so all moments are means of the same runs.
    """
    by_method: dict[str, dict[int, dict[int, Result]]] = {}
    for result in results:
        by_method.setdefault(result.method, {}).setdefault(result.outer, {})[result.seed] = result
    curves = {}
    for method, by_outer in by_method.items():
        seeds = sorted(set.intersection(*(set(by_seed) for by_seed in by_outer.values())))
        if len(by_outer) > 1 and seeds:
            curves[method] = [Moment(Row([by_outer[t][seed] for seed in seeds]), t) for t in sorted(by_outer)]
    return curves


def by_architecture(results: Iterable[Result]) -> dict[str, list[Result]]:
    """The results of each architecture that sets were evaluated with."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.network, []).append(result)
    return groups


def one_per_run(results: Sequence[Result]) -> list[Result]:
    """One result of each run: results with other architectures repeat its costs."""
    return list({(r.method, r.seed, r.outer): r for r in reversed(results)}.values())[::-1]
