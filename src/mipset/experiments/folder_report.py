"""What the folder of a comparison gives to a report: sets, curves with spreads, accuracy against time, costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from mipset.display.report.content import Cost, Curve, CurvePoint, MomentPoint, Progression, Report, ShownSet
from mipset.errors import ArtifactError
from mipset.experiments.results import LOG, Result, read_results
from mipset.experiments.summary import Row, by_architecture, moments, one_per_run, rows
from mipset.file import audit_file
from mipset.file.artifact import Artifact, read
from mipset.file.description import Accuracy
from mipset.file.run_log import read_run_log

RESULTS = "results.jsonl"


def folder_report(folder: Path) -> Report:
    """The report of a comparison: of the table to which the last result belongs."""
    if not (folder / RESULTS).is_file():
        raise ArtifactError(
            f"There is no {RESULTS} in {folder}. Give a file, or a folder that `mipset compare` has written."
        )
    everything = read_results(folder / RESULTS)
    if not everything:
        raise ArtifactError(f"{folder / RESULTS} has no results yet. Run `mipset compare` until it has one.")
    latest = {result.cell: result for result in everything if result.table == everything[-1].table}
    results = list(latest.values())
    notes = []
    tables = len({result.table for result in everything})
    if tables > 1:
        notes.append(f"{folder.name} has results of {tables} tables, with other settings: the last one is shown.")
    sets = []
    for row in rows(results):
        first = row.results[0]
        if len(first.files) != 1:
            notes.append(f"{first.method} has a file for each size, so its images are not shown.")
            continue
        if len(row.results) > 1:
            notes.append(f"Of {first.method}, the images of seed {first.seed} are shown.")
        sets.append(_shown(folder, first, results))
    return Report(folder.name, sets, _curves(sets, results), _progressions(results), _costs(results), notes)


def _shown(folder: Path, result: Result, results: Sequence[Result]) -> ShownSet:
    path = _within(folder, result.files[0])
    artifact = read(path)
    same = [r for r in results if (r.method, r.seed, r.final) == (result.method, result.seed, True)]
    measured = artifact.with_accuracy([point for each in same for point in _points(each, artifact)])
    log = path.parent / LOG
    audit = audit_file.read_audit(audit_file.path_of(path), artifact)
    return ShownSet(result.method, measured, log=read_run_log(log) if log.is_file() else None, audit=audit)


def _within(folder: Path, name: str) -> Path:
    """A file of the folder. A name in a result must not lead out of it."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ArtifactError(f"{folder / RESULTS} names {name}, which is not in the folder. Remove that line.")
    return path


def _points(result: Result, artifact: Artifact) -> list[Accuracy]:
    """The scores of a result as the points of a curve."""
    return [
        Accuracy(
            size=size,
            mean=statistics.fmean(scores),
            std=statistics.stdev(scores) if len(scores) > 1 else 0.0,
            networks=len(scores),
            network=result.network,
            protocol=result.protocol,
            seed=0,
            data=str(artifact.provenance.get("sha256", "")),
        )
        for size, scores in result.scores.items()
        if size <= artifact.ipc
    ]


def _group(sets: Sequence[ShownSet], network: str, protocol: str) -> str:
    dataset = next((str(shown.artifact.provenance.get("dataset")) for shown in sets), "")
    return "; ".join(text for text in (dataset, network, protocol) if text)


def _curves(sets: Sequence[ShownSet], results: Sequence[Result]) -> list[Curve]:
    """A curve for each method and architecture: spreads over runs, if there are several, else over networks."""
    curves = []
    for network, group in by_architecture(results).items():
        for row in rows(group):
            runs = len(row.results)
            spreads = row.spreads if runs > 1 else _network_spreads(row)
            count = runs if runs > 1 else len(row.results[0].by_network)
            points = [CurvePoint(size, mean, spreads.get(size), count) for size, mean in sorted(row.means.items())]
            name = _group(sets, network, group[0].protocol)
            curves.append(Curve(row.method, name, points, "runs" if runs > 1 else "networks"))
    return curves


def _network_spreads(row: Row) -> dict[int, float]:
    scores = row.results[0].scores
    return {size: statistics.stdev(values) for size, values in scores.items() if len(values) > 1}


def _progressions(results: Sequence[Result]) -> list[Progression]:
    """Accuracy against time of the methods that were evaluated during their runs."""
    return [
        Progression(
            method,
            network,
            [MomentPoint(m.outer, m.row.seconds, m.row.mean, m.row.spread_over_runs) for m in curve],
        )
        for network, group in by_architecture(results).items()
        for method, curve in moments(group).items()
    ]


def _costs(results: Sequence[Result]) -> list[Cost]:
    return [
        Cost(
            row.method,
            row.seconds,
            condensations=row.mean_of(lambda r: r.condensations),
            images=row.mean_of(lambda r: r.images),
            bytes=row.mean_of(lambda r: r.bytes),
            forward=row.mean_of(lambda r: r.forward),
            backward=row.mean_of(lambda r: r.backward),
        )
        for row in rows(one_per_run(results))
    ]
