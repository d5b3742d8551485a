"""`gallery`, which lists condensed sets that are ready to use, and `publish`, which makes a folder of one."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from mipset.cli.inputs import dataset_of_file
from mipset.cli.parser import Verbs, add_json_flag, add_source_flags, add_verb
from mipset.cli.repeating import command_of
from mipset.cli.wording import bytes_of, counted, length_of, print_message, print_result, time_of_run
from mipset.display.progress import Progress
from mipset.errors import SettingError, printable
from mipset.units import duration, parse_duration

if TYPE_CHECKING:
    from mipset.display.report.content import Cost, ShownSet
    from mipset.file.audit_file import AuditFile

SMALL = 3  # images per class of the example in a card


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "gallery", run_gallery, "list condensed sets that are ready to use")
    add_json_flag(verb)
    verb.add_argument("name", metavar="NAME", nargs="?", help="show the card of this set")

    verb = add_verb(verbs, "publish", run_publish, "write a folder for a web server or Hugging Face")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument("--to", metavar="DIR", type=Path, required=True, help="the folder to write")
    verb.add_argument(
        "--name", metavar="NAME", help="the name of the set in its index and card (default: that of FILE)"
    )
    verb.add_argument(
        "--licence",
        metavar="TEXT",
        help="the licence of the dataset, as a short name such as cc-by-4.0, or as a sentence (default: what is known "
        "of a published dataset)",
    )
    verb.add_argument(
        "--time", metavar="TIME", help="processor time that FILE took, such as 24min (default: that of its log)"
    )
    add_source_flags(
        verb,
        "compare FILE with these real images for the card",
        "default: the audit that `mipset audit --save` has written beside FILE, if any",
    )
    verb.add_argument("--no-parquet", action="store_true", help="write no Parquet files")
    verb.add_argument("--force", action="store_true", help="replace DIR, if it is a published set")


def run_gallery(arguments: argparse.Namespace) -> None:
    """List the sets of the gallery. With NAME, show the card of one: how it was made and how good it is.

    `gallery:NAME` stands for FILE in other verbs. The variable MIPSET_GALLERY names the gallery: a folder, an index, or
    the address of an index. Without it, it is the folder `gallery` of the source tree.
    """
    from mipset.display.tables import gallery_table
    from mipset.file.gallery import PREFIX, find, gallery

    if arguments.name is None:
        entries = gallery()
        text = gallery_table(entries) if entries else "The gallery is empty."
        print_result(arguments, [asdict(entry) for entry in entries], text)
        return
    from mipset.exchange.card import without_front_matter

    listed = find(f"{PREFIX}{arguments.name.removeprefix(PREFIX)}")
    card = listed.card()
    text = "\n".join(printable(line) for line in without_front_matter(card).splitlines())
    print_result(arguments, {**asdict(listed.entry), "where": listed.name, "text": card}, text)


def run_publish(arguments: argparse.Namespace) -> None:
    """Write a folder that can be put on a web server, or into a dataset repository of Hugging Face, as it is.

    It has FILE, its training images as Parquet with a configuration for each size, a card, a picture of the accuracy
    curve, and an index: so it is a gallery. An audit and a log beside FILE are used for the card.
    """
    from mipset.data import is_from_memory
    from mipset.display.report.files import shown_file
    from mipset.exchange.card import Publication
    from mipset.exchange.publishing import check_target, publish
    from mipset.file.gallery import PREFIX, local_file

    name = arguments.name or arguments.file.stem.removeprefix(PREFIX)
    check_target(name, arguments.to, arguments.force)
    if local_file(arguments.file).resolve().is_relative_to(arguments.to.resolve()):
        raise SettingError(f"`to` {arguments.to} holds {arguments.file} itself. Choose another folder.")
    shown = shown_file(arguments.file, name)
    size = min(SMALL, shown.artifact.ipc)
    licence, note = _licence(arguments, shown)
    time, audit = _time(arguments, shown), _audit(arguments, shown)
    _tell_what_is_missing(arguments, bool(time), audit is not None)
    dataset, is_imported = shown.artifact.provenance.get("dataset"), "imported" in shown.artifact.provenance
    publication = Publication(
        name=name,
        artifact=shown.artifact,
        licence=licence,
        licence_note=note,
        command=command_of(shown.artifact),
        fetch=f"mipset fetch {PREFIX}{name} --ipc {size} --out small.safetensors",
        time=time,
        audit=audit,
        in_memory=bool(dataset) and not is_imported and is_from_memory(str(dataset)),
    )
    entry = publish(publication, arguments.to, with_parquet=not arguments.no_parquet, force=arguments.force)
    facts = {"folder": arguments.to, "bytes": length_of(arguments.to), "set": asdict(entry)}
    print_result(
        arguments,
        facts,
        f"{arguments.to}: {name}, {counted(entry.ipc, 'image')} per class, {bytes_of(arguments.to)} in all\n"
        f"next: MIPSET_GALLERY={arguments.to} mipset gallery {name}",
    )


def _tell_what_is_missing(arguments: argparse.Namespace, has_time: bool, has_audit: bool) -> None:
    """A set of a gallery has no log and no audit beside it, so its new card tells less than the one that it has."""
    from mipset.file.gallery import is_listed

    ways = {
        "the nearest real images (add --data DATASET)": has_audit,
        "the time that it took (add --time TIME)": has_time,
    }
    missing = " and ".join(way for way, known in ways.items() if not known)
    if missing and is_listed(arguments.file):
        print_message(f"A gallery keeps no audit and no log, so the card does not tell {missing}.")


def _licence(arguments: argparse.Namespace, shown: ShownSet) -> tuple[str, str]:
    """The short name of the licence of the source data, and a sentence about it."""
    from mipset.data import spec_of
    from mipset.exchange.card import LICENCES

    given: str | None = arguments.licence
    if given is not None:
        return (given.lower() if given.lower() in LICENCES else "other"), given
    dataset = str(shown.artifact.provenance.get("dataset"))
    spec = spec_of(dataset.partition(":")[0])
    if spec is None:
        raise SettingError(
            f"The licence of {printable(dataset)} is not known. Give `licence`: a short name such as cc-by-4.0, or a "
            "sentence."
        )
    return spec.licence, spec.licence_note


def _time(arguments: argparse.Namespace, shown: ShownSet) -> str:
    """The time that the set took, in words; empty if nobody tells it."""
    from mipset.display.report.content import cost_of

    if arguments.time is not None:
        try:
            parse_duration(arguments.time)
        except ValueError:
            raise SettingError(f"`time` is {arguments.time!r}. Write a time such as 90s, 24min or 2h.") from None
        return f"{arguments.time} of processor time"
    cost = cost_of(shown)
    return "" if cost is None else _processor_time(cost)


def _processor_time(cost: Cost) -> str:
    """The time that processors took. Logs of older versions do not have that of experts."""
    kind, spent, of_experts = " of processor time", cost.processor_seconds or 0.0, cost.preparing_processor_seconds
    if of_experts is None:
        return f"{duration(spent)}{kind}, and {duration(cost.preparing_seconds or 0.0)} on the clock for experts"
    return time_of_run(spent + of_experts, of_experts, kind)


def _audit(arguments: argparse.Namespace, shown: ShownSet) -> AuditFile | None:
    """The audit that was saved beside the file, or a new one with the data that the user names."""
    if shown.audit is not None or not arguments.data:
        return shown.audit
    data = dataset_of_file(arguments, arguments.file, shown.artifact)
    from mipset.evaluation.audit import audit

    with Progress() as bar:
        return audit(shown.artifact, data, report=bar.report).as_file(shown.artifact, data)
