"""`report`, which writes one page about condensed sets, and `watch`, which serves it while a run goes on."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.cli.inputs import check_output, dataset_of_file, short_names
from mipset.cli.parser import Verbs, add_json_flag, add_source_flags, add_verb
from mipset.cli.repeating import command_of
from mipset.cli.wording import bytes_of, counted, length_of, print_message, print_result
from mipset.display.progress import Progress
from mipset.errors import ArtifactError, DataError, MipsetError, MissingExtraError, SettingError, brief

if TYPE_CHECKING:
    from mipset.data import Dataset
    from mipset.display.report.content import Report, ShownSet

PORT = 8377
PAIRS = 20  # images of an audit that are shown beside the real ones


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "report", run_report, "write one HTML page about files or comparisons")
    add_json_flag(verb)
    verb.add_argument(
        "paths", metavar="PATH", type=Path, nargs="+", help="a condensed set, or a folder of `mipset compare`"
    )
    verb.add_argument("--out", metavar="HTML", type=Path, required=True, help="the page to write")
    add_source_flags(verb, "the real images, for the initialisation and for the pictures of an audit")
    verb.add_argument("--force", action="store_true", help="overwrite HTML")

    verb = add_verb(verbs, "watch", run_watch, "serve the report of a run while it goes on")
    verb.add_argument("out", metavar="OUT", type=Path, help="the --out of `mipset condense`, `grow` or `compare`")
    verb.add_argument(
        "--port",
        metavar="P",
        type=int,
        default=PORT,
        help=f"port on this machine; 0 for any free one (default: {PORT})",
    )


def run_report(arguments: argparse.Namespace) -> None:
    """Write one HTML page about files and folders of comparisons. It needs no network and no other file.

    It shows every size of the sets, how they differ, their accuracies, the log of the run, what it cost, an audit that
    was saved, and how to repeat it. The initialisation is computed again if the real images are at hand.
    """
    from mipset.display.report.page import html
    from mipset.io.files import write_whole

    check_output(arguments)
    report = _with_data(_report_of(arguments.paths), arguments)
    page = html(report)
    write_whole(arguments.out, lambda stream: stream.write(page))
    print_result(
        arguments,
        {"file": arguments.out, "sets": [shown.name for shown in report.sets], "bytes": length_of(arguments.out)},
        f"{arguments.out}: {counted(len(report.sets), 'set')}, {bytes_of(arguments.out)}; open it in a browser",
    )


def _report_of(paths: Sequence[Path]) -> Report:
    """One report of all files and folders."""
    from mipset.display.report.content import Report
    from mipset.display.report.files import report_of, shown_file
    from mipset.experiments.folder_report import folder_report

    names = short_names(list(paths))
    folders = sum(path.is_dir() for path in names)
    whole = Report(f"mipset: {', '.join(names.values())}", [])
    for path, name in names.items():
        if path.is_dir():
            one = folder_report(path)
            one = one.named_after(name) if folders > 1 else one
        else:
            one = report_of(shown_file(path, name))
        whole = whole.joined(one)
    return replace(whole, sets=[replace(shown, command=command_of(shown.artifact)) for shown in whole.sets])


def _with_data(report: Report, arguments: argparse.Namespace) -> Report:
    """The report with what needs the real images: the initialisation, and the pictures of audits."""
    datasets: dict[tuple[object, ...], Dataset | str] = {}
    sets = []
    for shown in report.sets:
        source = tuple(shown.artifact.provenance.get(key) for key in ("dataset", "sha256", "size", "split_seed"))
        if source not in datasets:
            datasets[source] = _data_or_reason(arguments, shown)
        data = datasets[source]
        sets.append(_without_start(shown, data) if isinstance(data, str) else _with_pictures(shown, data))
    return replace(report, sets=sets)


def _data_or_reason(arguments: argparse.Namespace, shown: ShownSet) -> Dataset | str:
    """The dataset of a set, or why there is none. Data that the user names must be there."""
    try:
        return dataset_of_file(arguments, Path(shown.name), shown.artifact)
    except (DataError, SettingError, MissingExtraError) as error:
        if arguments.data:
            raise
        return f"the real images are not at hand ({error.naming({'data': '--data'}.get).rstrip('.')})."


def _without_start(shown: ShownSet, reason: str) -> ShownSet:
    return replace(shown, no_start=f"The initialisation of {shown.name} is not shown: {reason}")


def _with_pictures(shown: ShownSet, data: Dataset) -> ShownSet:
    """A set with its initialisation, or why it is not known, and with the pictures of its audit."""
    try:
        from mipset.condensing.first_images import first_images
        from mipset.evaluation.audit import pairs
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        return _without_start(shown, "it needs torch, which is not installed.")
    audit = shown.audit
    if audit is not None and audit.data == data.sha256:
        shown = replace(shown, pairs=pairs(shown.artifact, data, list(audit.neighbours[:PAIRS])))
    threads = shown.log.about.get("threads") if shown.log is not None else None
    threads = threads if isinstance(threads, int) and 0 < threads <= (os.cpu_count() or 1) else None
    try:
        with Progress() as bar:
            start = first_images(shown.artifact, data, threads, bar.report)
    except MipsetError as error:
        return _without_start(shown, str(error))
    return replace(shown, start=start)


def run_watch(arguments: argparse.Namespace) -> None:
    """Serve the report of OUT on this machine, and make it again whenever the run has come further.

    Start it before the run, while it goes on, or after its end. Ctrl-C ends it; the run goes on.
    """
    from mipset.io.serving import LOOPBACK, PageServer

    out: Path = arguments.out
    if not 0 <= arguments.port < 1 << 16:
        raise SettingError(f"`port` is {arguments.port}: it must be from 0 to 65535. Choose such a port.")
    if not out.absolute().parent.is_dir():
        raise ArtifactError(f"There is no folder {out.absolute().parent}. Name the OUT of a run.")
    try:
        server = PageServer(arguments.port, partial(_version, out), partial(_watched_page, out))
    except OSError as error:
        raise SettingError(
            f"`port` {arguments.port} of {LOOPBACK} cannot be used: {error.strerror or error}. Choose another, or 0."
        ) from error
    with server:
        server.page()  # an error, such as a package that is missing, is told now
        if not any(path.exists() for path in _watched(out)):
            print_message(f"There is no run of {out} yet: the page shows it when it has begun.")
        print(f"{server.url} shows {out}; Ctrl-C ends it", flush=True)
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt as stop:
            raise KeyboardInterrupt(f"{out} is no longer served.") from stop


def _watched(out: Path) -> list[Path]:
    """The files whose change makes a new page."""
    from mipset.experiments.results import LOG
    from mipset.file.run_log import SUFFIX

    if out.is_dir():
        return [out / "results.jsonl", *sorted(out.glob(f"runs/*/{LOG}"))]
    return [out, *(out.with_name(out.name + suffix) for suffix in (".checkpoint", SUFFIX))]


def _version(out: Path) -> str:
    """A text that changes with the files of a run."""
    states = []
    for path in _watched(out):
        try:
            found = path.stat()
            states.append(f"{found.st_mtime_ns}.{found.st_size}")
        except OSError:
            states.append("none")
    return "-".join(states)


def _watched_page(out: Path, version: str) -> bytes:
    """The page about what there is now. What cannot be read at this moment is told, and the next version is read."""
    from mipset.display.report.content import Report
    from mipset.display.report.page import html

    try:
        report = _watched_report(out)
    except MissingExtraError:
        raise
    except MipsetError as error:
        report = Report(f"mipset: {out.name}", [], notes=[str(error)])
    return html(report, version)


def _watched_report(out: Path) -> Report:
    from mipset.condensing.checkpoint import running_set
    from mipset.display.report.content import Report, ShownSet
    from mipset.display.report.files import log_path, report_of
    from mipset.file.run_log import read_run_log

    if out.is_dir():
        return _report_of([out])
    log = read_run_log(log_path(out)) if log_path(out).is_file() else None
    running = running_set(out.with_name(out.name + ".checkpoint"), log.about if log is not None else None)
    if running is not None:
        artifact, state = running
        shown = ShownSet(out.stem, artifact, log=log, command=command_of(artifact), state=state)
        return replace(report_of(shown), title=f"mipset: {out.name}, running")
    if out.exists():
        return _report_of([out])
    if log is not None and log.entries:
        last = log.entries[-1]
        note = f"{brief(out.name, str)}: outer iteration {last.outer} of {log.about['outer']}, loss {last.loss:.3g}. "
        return Report(f"mipset: {out.name}", [], notes=[note + "The page has more after the first checkpoint."])
    return Report(f"mipset: {out.name}", [], notes=[f"There is no run of {brief(out.name, str)} yet."])
