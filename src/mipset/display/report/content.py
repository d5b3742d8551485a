"""What a report holds. The page and every program read it from one block of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mipset import __version__
from mipset.device.planning import Plan, plans
from mipset.errors import brief
from mipset.file.artifact import Artifact
from mipset.file.audit_file import AuditFile
from mipset.file.description import Accuracy
from mipset.file.pixels import Pixels
from mipset.file.run_log import RunLog
from mipset.settings.paper import ACCURACIES

FORMAT = 1
MOST_ENTRIES = 2000  # of a log; a longer one is thinned out


@dataclass(frozen=True)
class ShownSet:
    """A set in a report."""

    name: str
    artifact: Artifact
    log: RunLog | None = None
    start: Pixels | None = None  # the images that the condensation started from
    no_start: str = ""  # why there are none
    audit: AuditFile | None = None
    pairs: Pixels | None = None  # [k, 2, ch, h, w]: images of the audit, each beside the real one
    command: str = ""  # that makes the set again; empty if it is not known
    state: str = ""  # such as "outer iteration 3 of 20"; empty for a set that is complete


@dataclass(frozen=True)
class CurvePoint:
    """The accuracy of a size, in percent."""

    size: int
    mean: float
    spread: float | None = None  # standard deviation; None if there is only one value
    count: int = 1  # values


@dataclass(frozen=True)
class Curve:
    """Accuracy against size. Curves of one group can be compared: they have the same data, network and protocol."""

    name: str
    group: str
    points: Sequence[CurvePoint]
    spread_over: str = "networks"  # what `spread` and `count` are about: "networks" or "runs"
    paper: bool = False


@dataclass(frozen=True)
class MomentPoint:
    """The mean accuracy over all sizes after some outer iterations."""

    outer: int
    seconds: float
    mean: float
    spread: float | None = None


@dataclass(frozen=True)
class Progression:
    """Accuracy against time."""

    name: str
    group: str
    points: Sequence[MomentPoint]


@dataclass(frozen=True)
class Cost:
    """What a method took."""

    name: str
    seconds: float
    processor_seconds: float | None = None
    preparing_seconds: float | None = None
    preparing_processor_seconds: float | None = None
    memory: int | None = None
    condensations: float = 1
    images: float = 0
    bytes: float = 0
    forward: float | None = None
    backward: float | None = None


@dataclass(frozen=True)
class Report:
    """Everything that a page shows."""

    title: str
    sets: Sequence[ShownSet]
    curves: Sequence[Curve] = ()
    progressions: Sequence[Progression] = ()
    costs: Sequence[Cost] = ()
    notes: Sequence[str] = field(default_factory=list)

    def joined(self, other: Report) -> Report:
        """Both as one report."""
        return replace(
            self,
            sets=[*self.sets, *other.sets],
            curves=[*self.curves, *other.curves],
            progressions=[*self.progressions, *other.progressions],
            costs=[*self.costs, *other.costs],
            notes=[*self.notes, *other.notes],
        )

    def named_after(self, place: str) -> Report:
        """The same report, with the name of a place before all names: for several folders."""
        return replace(
            self,
            sets=[replace(each, name=f"{place}: {each.name}") for each in self.sets],
            curves=[replace(each, name=f"{place}: {each.name}") for each in self.curves],
            progressions=[replace(each, name=f"{place}: {each.name}") for each in self.progressions],
            costs=[replace(each, name=f"{place}: {each.name}") for each in self.costs],
        )


def curves_of(name: str, artifact: Artifact) -> list[Curve]:
    """The accuracy curves in a file: one for each network, protocol, seed and dataset."""
    curves: dict[str, list[Accuracy]] = {}
    for point in sorted(artifact.accuracy, key=lambda point: point.size):
        dataset = artifact.provenance.get("dataset") or ""
        other = "" if point.data == artifact.provenance.get("sha256") else f"; tested with data {point.data[:12]}"
        seed = f"; seed {point.seed}" if point.seed else ""
        group = f"{brief(dataset, str)}; {point.network}; {point.protocol}{seed}{other}"
        curves.setdefault(group, []).append(point)
    return [
        Curve(name, group, [CurvePoint(p.size, p.mean, p.std if p.networks > 1 else None, p.networks) for p in points])
        for group, points in curves.items()
    ]


def cost_of(shown: ShownSet) -> Cost | None:
    """What a set took, from the log of its run."""
    if shown.log is None or not shown.log.entries:
        return None
    last, preparing = shown.log.entries[-1], shown.log.about.get("preparing_seconds")
    preparing = preparing if isinstance(preparing, int | float) else 0.0
    of_processors = shown.log.about.get("preparing_processor_seconds", None if preparing else 0.0)
    return Cost(
        name=shown.name,
        seconds=last.seconds + preparing,
        processor_seconds=last.processor_seconds,
        preparing_seconds=preparing,
        preparing_processor_seconds=of_processors if isinstance(of_processors, int | float) else None,
        memory=max((entry.memory for entry in shown.log.entries if entry.memory is not None), default=None),
        images=shown.artifact.ipc * len(shown.artifact.class_names),
        bytes=shown.artifact.images.nbytes,
    )


def as_json(report: Report, sheets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of the block of JSON; `sheets` tells for each set which pictures of it the page has."""
    return {
        "format": FORMAT,
        "mipset": __version__,
        "title": report.title,
        "notes": list(report.notes),
        "sets": [{**_set(shown), **pictures} for shown, pictures in zip(report.sets, sheets, strict=True)],
        "curves": [asdict(curve) for curve in (*report.curves, *_paper_curves(report.sets))],
        "progressions": [asdict(progression) for progression in report.progressions],
        "costs": [asdict(cost) for cost in report.costs],
    }


def _set(shown: ShownSet) -> dict[str, Any]:
    artifact = shown.artifact
    return {
        "name": shown.name,
        "state": shown.state,
        "class_names": list(artifact.class_names),
        "shape": list(artifact.images.shape),
        "factor": artifact.factor,
        "sizes": [_size(plan) for plan in plans(artifact.description)],
        "accuracy": [asdict(point) for point in artifact.accuracy],
        "recipe": dict(artifact.recipe),
        "provenance": dict(artifact.provenance),
        "rank_sha256": artifact.rank_sha256,
        "command": shown.command,
        "no_start": shown.no_start,
        "log": None if shown.log is None else _log(shown.log),
        "audit": None if shown.audit is None else asdict(shown.audit),
    }


def _size(plan: Plan) -> dict[str, Any]:
    """What a device gets and needs for one size."""
    return asdict(plan)


def _log(log: RunLog) -> dict[str, Any]:
    """A log in columns."""
    step = -(-len(log.entries) // MOST_ENTRIES)
    entries = [entry for number, entry in enumerate(log.entries, start=1) if number % step == 0] if step else []
    columns: dict[str, list[Any]] = {name: [] for name in ("outer", "loss", "distances", "seconds")}
    columns |= {name: [] for name in ("processor_seconds", "memory", "selected", "frozen")}
    for entry in entries:
        for name in columns:
            value = getattr(entry, name)
            if name in ("selected", "frozen") and len(set(value)) == 1:
                value = value[0]
            columns[name].append(value)
    about = {key: value for key, value in log.about.items() if key not in ("recipe", "provenance", "class_names")}
    return {"about": about, "entries": len(log.entries), "every": step, **columns}


def _paper_curves(sets: Sequence[ShownSet]) -> list[Curve]:
    """The paper's curves for the datasets and the numbers of images per class of these sets."""
    wanted = {(shown.artifact.provenance.get("dataset"), shown.artifact.ipc) for shown in sets}
    return [
        Curve(
            method,
            f"{dataset}, {ipc} images per class; reported in the paper",
            [CurvePoint(size, mean) for size, mean in means.items()],
            paper=True,
        )
        for (dataset, ipc), methods in ACCURACIES.items()
        if (dataset, ipc) in wanted
        for method, means in methods.items()
    ]
