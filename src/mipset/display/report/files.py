"""What files hold: the set, the log of its run and its audit, which are beside it."""

from __future__ import annotations

from pathlib import Path

from mipset.display.report.content import Report, ShownSet, cost_of, curves_of
from mipset.file import audit_file
from mipset.file.artifact import Artifact, read
from mipset.file.run_log import SUFFIX, RunLog, read_run_log


def shown_file(path: Path, name: str) -> ShownSet:
    """The set of a file, with what is beside it."""
    artifact = read(path)
    return ShownSet(
        name, artifact, log=_log_of(path, artifact), audit=audit_file.read_audit(audit_file.path_of(path), artifact)
    )


def log_path(path: Path) -> Path:
    """Where the log of a file is."""
    return path.with_name(path.name + SUFFIX)


def _log_of(path: Path, artifact: Artifact) -> RunLog | None:
    """The log beside a file, if it is that of its run: a file can be replaced by another one."""
    log = log_path(path)
    if not log.is_file():
        return None
    read_log = read_run_log(log)
    same = read_log.about["recipe"] == dict(artifact.recipe)
    return read_log if same and read_log.about["class_names"] == list(artifact.class_names) else None


def report_of(shown: ShownSet) -> Report:
    """The report of one set: its curves, and what it cost."""
    cost = cost_of(shown)
    return Report(shown.name, [shown], curves_of(shown.name, shown.artifact), costs=[cost] if cost else [])
