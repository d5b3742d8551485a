"""The verbs for what a file holds (`show`, `audit`, `slice`) and for other programs (`export`, `import`)."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mipset.cli.inputs import (
    check_not_input,
    check_output,
    dataset_of_file,
    how_to_evaluate,
    load_with_progress,
    loading_of,
    refuse_to_save,
)
from mipset.cli.parser import (
    Verbs,
    add_data_flags,
    add_json_flag,
    add_source_flags,
    add_verb,
    check_at_least,
    explained,
    given_once,
)
from mipset.cli.wording import bytes_of, counted, file_facts, print_message, print_result
from mipset.display.progress import Progress
from mipset.errors import SettingError, choices, printable

CHART_SUFFIXES = (".svg", ".png")


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    from mipset.settings.exchange_choices import EXPORT_FORMATS, IMPORT_KINDS, IMPORT_ORDERS

    verb = add_verb(verbs, "show", run_show, "show what a file holds, as text or pictures")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument(
        "--sheet",
        metavar="FILE",
        type=Path,
        help="write all images as one picture, a contact sheet; the name ends in .png or .svg (default: none)",
    )
    verb.add_argument(
        "--chart",
        metavar="FILE",
        type=Path,
        help="write a chart of the accuracy curve; the name ends in .svg or .png (default: none)",
    )
    verb.add_argument("--force", action="store_true", help="overwrite the files of --sheet and --chart")

    verb = add_verb(verbs, "audit", run_audit, "find images that are close to real training images")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    add_source_flags(verb, "the training images")
    verb.add_argument("--top", metavar="K", type=int, default=10, help="list the K closest images (default: 10)")
    verb.add_argument(
        "--png", metavar="PNG", type=Path, help="write a picture of them beside the real images (default: none)"
    )
    verb.add_argument("--save", action="store_true", help="write the result to FILE.audit.json, for `mipset report`")
    verb.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the sample of real images (default: 0)")
    verb.add_argument("--force", action="store_true", help="overwrite PNG")

    verb = add_verb(verbs, "slice", run_slice, "write the first images of each class to a new file")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument("size", metavar="N", nargs="?", type=int, help="images per class to keep")
    verb.add_argument("--ipc", metavar="N", type=int, help="the same, with a flag (default: N)")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")

    verb = add_verb(verbs, "export", run_export, "write a file for other programs")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument(
        "--to", choices=EXPORT_FORMATS, required=True, help=explained("the format to write", EXPORT_FORMATS)
    )
    verb.add_argument(
        "--out", metavar="PATH", type=Path, required=True, help="the file to write (png: the folder to write)"
    )
    verb.add_argument("--ipc", metavar="N", type=int, help="export the first N images of each class (default: all)")
    images = verb.add_mutually_exclusive_group()
    images.add_argument(
        "--decoded",
        dest="stored",
        action="store_false",
        default=None,
        help="export training images (default, but not for c)",
    )
    images.add_argument(
        "--stored",
        action="store_true",
        default=None,
        help="export stored images, each of which is a mosaic of training images (default for c)",
    )
    verb.add_argument("--force", action="store_true", help="replace PATH")

    verb = add_verb(verbs, "import", run_import, "convert a set that the authors of another method published")
    add_json_flag(verb)
    verb.add_argument("file", metavar="FILE", type=Path, help="a torch file of images and labels")
    verb.add_argument(
        "--kind",
        choices=IMPORT_KINDS,
        required=True,
        help=explained("the kind of FILE", IMPORT_KINDS),
    )
    verb.add_argument(
        "--data",
        dest="dataset",
        metavar="DATASET",
        required=True,
        help="the dataset that was condensed, as for `mipset condense`",
    )
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument(
        "--factor", metavar="F", type=int, help="mdc: tiles along each side of a stored image (needed for mdc)"
    )
    verb.add_argument(
        "--order",
        choices=IMPORT_ORDERS,
        help=explained("mdc: how to order the images (default: tiles)", IMPORT_ORDERS),
    )
    verb.add_argument(
        "--labels", metavar="FILE", type=Path, help="MTT: the file of labels (default: the one next to FILE)"
    )
    verb.add_argument("--experiment", metavar="E", type=int, help="DC, DSA or DM: which experiment (default: 0)")
    add_data_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")


def run_show(arguments: argparse.Namespace) -> None:
    """Print what FILE holds, where it comes from, and the accuracy of each size."""
    from mipset.display.tables import description
    from mipset.file.artifact import read
    from mipset.file.gallery import is_listed

    _check_pictures(arguments, "sheet", "chart")
    if arguments.chart is not None and arguments.chart.suffix.lower() not in CHART_SUFFIXES:
        raise SettingError(
            f"`chart` is {arguments.chart}: the name must end in {choices(CHART_SUFFIXES)}. Choose another name."
        )
    artifact = read(arguments.file)
    if arguments.chart is not None and not artifact.accuracy:
        raise SettingError(
            f"{arguments.file} has no accuracy curve. Measure one with `mipset evaluate {arguments.file} --save`."
        )
    lines: list[str] = []
    if arguments.sheet is None and arguments.chart is None:
        lines.append(description(artifact))
        if not artifact.accuracy:
            lines.append(f"next: mipset evaluate {arguments.file}{'' if is_listed(arguments.file) else ' --save'}")
    if arguments.sheet is not None:
        from mipset.display.pictures import write_contact_sheet

        write_contact_sheet(artifact, arguments.sheet)
        if arguments.sheet.suffix.lower() != ".svg":
            _tell_of_letters(artifact.class_names, "write the sheet as FILE.svg, which keeps them as text")
        lines.append(f"{arguments.sheet}: one row per class, one column per rank")
    if arguments.chart is not None:
        from mipset.display.charts import accuracy_curve

        accuracy_curve(f"{arguments.file.stem}: accuracy against images per class", artifact.accuracy).write(
            arguments.chart
        )
        lines.append(f"{arguments.chart}: accuracy against images per class")
    about = asdict(artifact.description)
    written = {name: getattr(arguments, name) for name in ("sheet", "chart") if getattr(arguments, name) is not None}
    print_result(arguments, {"file": arguments.file, "ipc": artifact.ipc, **about, **written}, "\n".join(lines))


def _tell_of_letters(names: Iterable[str], advice: str) -> None:
    """Say which names were drawn with `?`, because no font of this machine has their letters."""
    from mipset.display.pictures import without_font

    if undrawn := without_font(names):
        print_message(f"No font of this machine has all letters of {undrawn[0]!r}, so `?` is drawn for them: {advice}.")


def _check_pictures(arguments: argparse.Namespace, *names: str) -> None:
    """Refuse pictures that cannot be written, before any work is done. `names` are their arguments."""
    for name in names:
        if getattr(arguments, name) is not None:
            check_output(arguments, name)


def run_audit(arguments: argparse.Namespace) -> None:
    """Find the closest real training image for every image of FILE. Run it before you publish FILE.

    Real images are compared with each other too. This shows which distances are small.
    """
    from mipset.file.artifact import read

    check_at_least(1, top=arguments.top)
    check_at_least(0, seed=arguments.seed)
    _check_pictures(arguments, "png")
    if arguments.save:
        refuse_to_save(arguments.file)
    artifact = read(arguments.file)
    data = dataset_of_file(arguments, arguments.file, artifact)
    from mipset.display.tables import in_columns
    from mipset.evaluation.audit import audit, pairs

    with Progress() as bar:
        report = audit(artifact, data, arguments.seed, bar.report)
    listed = report.neighbours[: arguments.top]
    rows = [["image", "rank", "tile", "distance", "real images with a closer neighbour", "closest real image"]]
    for neighbour in listed:
        class_name = printable(artifact.class_names[neighbour.label])
        real_image = neighbour.file or f"{neighbour.row} ({data.class_names[neighbour.real_label]})"
        rows.append(
            [
                class_name,
                str(neighbour.rank),
                str(neighbour.tile),
                f"{neighbour.distance:.1f}",
                f"{neighbour.share:.0%}",
                printable(real_image),
            ]
        )
    total = len(report.neighbours)
    lines = [
        f"the {len(listed)} of {total} images that are closest to a real one; distances in grey levels",
        in_columns(rows, left=(0, 5)),
        f"{len(report.suspicious)} of {total} are closer to a training image than half of the training "
        f"images are to each other ({report.usual:.1f})",
    ]
    if arguments.save:
        from mipset.file.audit_file import path_of, write_audit

        write_audit(path_of(arguments.file), report.as_file(artifact, data))
        lines.append(f"{path_of(arguments.file)}: the nearest real image of each")
    if arguments.png is not None:
        from mipset.display.pictures import side_by_side, write_picture

        captions = [f"{row[0]} {row[1]}.{row[2]}: {row[3]}" for row in rows[1:]]
        write_picture(side_by_side(pairs(artifact, data, listed), captions), arguments.png)
        _tell_of_letters(captions, "install one, such as Noto")
        lines.append(f"{arguments.png}: each of them beside the real image")
    facts: dict[str, Any] = {
        "file": arguments.file,
        "images": total,
        "suspicious": len(report.suspicious),
        "usual": report.usual,
        "png": arguments.png,
        "closest": [
            {
                **asdict(neighbour),
                "class": artifact.class_names[neighbour.label],
                "real_class": data.class_names[neighbour.real_label],
            }
            for neighbour in listed
        ],
    }
    print_result(arguments, facts, "\n".join(lines))


def run_slice(arguments: argparse.Namespace) -> None:
    """Write the first N images of each class of FILE to a file of their own."""
    from mipset import device

    check_output(arguments)
    size = given_once(arguments, "size", "ipc")
    source = device.open(arguments.file)
    source.prefix(size).write(arguments.out)
    print_result(
        arguments,
        file_facts(arguments.out, size, source.about.class_names),
        f"{arguments.out}: {counted(size, 'image')} per class, {bytes_of(arguments.out)}",
    )


def run_export(arguments: argparse.Namespace) -> None:
    """Write the training images of FILE for other programs, or its stored images.

    In all formats the images are ordered by rank, so the first images of each class are the subset of size n.
    """
    from mipset.exchange.exports import PNG, export
    from mipset.file.artifact import read

    check_not_input(arguments.out, arguments.file)
    artifact = read(arguments.file)
    if arguments.ipc is not None:
        artifact = artifact.prefix(arguments.ipc)
    written = export(artifact, arguments.to, arguments.out, stored=arguments.stored, force=arguments.force)
    kind, classes = "stored" if written.factor > 1 else "training", len(written.class_names)
    per_size = written.ipc // artifact.ipc * (1 if arguments.to == PNG else classes)
    text = (
        f"{arguments.out}: {counted(written.ipc, f'{kind} image')} for each of {classes} classes, "
        f"{bytes_of(arguments.out)}; the subset of size n is the first n x {per_size} images"
        + (" of each class" if arguments.to == PNG else "")
    )
    if written.factor > 1:
        f = written.factor
        text += (
            f"\nEach stored image is a mosaic of {f} x {f} training images (`factor` {f} in the data): decode it "
            "before you train, as FORMAT.md says, or use --decoded."
        )
    facts = file_facts(arguments.out, artifact.ipc, written.class_names, to=arguments.to)
    images = {"images_per_class": written.ipc, "factor": written.factor, "images_per_size": per_size}
    print_result(arguments, {**facts, **images}, text)


def run_import(arguments: argparse.Namespace) -> None:
    """Convert a file that the authors of another method published into a condensed set of mipset.

    Nothing in FILE is executed. The result can be evaluated, sliced, exported and compared like every other set. Its
    values are rounded to bytes.
    """
    check_output(arguments)
    from mipset.data import spec_of
    from mipset.exchange.published import as_artifact, open_published

    published = open_published(arguments.file, arguments.labels, arguments.experiment)
    for labels in published.files[1:]:
        check_not_input(arguments.out, labels)
    loaded_with = loading_of(arguments)
    spec = (spec_of(arguments.dataset) if arguments.resolution is None else None) or load_with_progress(
        arguments.dataset, loaded_with
    )
    converted = as_artifact(
        published, arguments.kind, spec, factor=arguments.factor, order=arguments.order, origin=loaded_with
    )
    converted.artifact.write(arguments.out)
    print_result(
        arguments,
        file_facts(arguments.out, converted.artifact.ipc, spec.class_names, clipped_share=converted.clipped_share),
        f"{arguments.out}: {counted(converted.artifact.ipc, 'image')} for each of {len(spec.class_names)} classes, "
        f"{bytes_of(arguments.out)}; {100 * converted.clipped_share:.2g} % of the values did not fit into a byte and "
        f"were clipped\nnext: {how_to_evaluate(arguments.out, arguments.dataset)}",
    )
