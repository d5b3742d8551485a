"""The verbs for what a file holds (`show`, `audit`, `slice`) and for other programs (`export`, `import`)."""

from __future__ import annotations

import argparse
from pathlib import Path

from mipset.cli.inputs import (
    check_not_input,
    check_output,
    dataset_of_file,
    how_to_evaluate,
    load_with_progress,
    loading_of,
)
from mipset.cli.parser import Verbs, add_data_flags, add_source_flags, add_verb, check_at_least, explained
from mipset.cli.wording import bytes_of, counted
from mipset.display.progress import Progress
from mipset.errors import SettingError, choices, printable

CHART_SUFFIXES = (".svg", ".png")


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    from mipset.settings.exchange_choices import EXPORT_FORMATS, IMPORT_KINDS, IMPORT_ORDERS

    verb = add_verb(verbs, "show", run_show, "show what a file holds, as text or pictures")
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument("--sheet", metavar="FILE", type=Path, help="write all images as one PNG, a contact sheet")
    verb.add_argument(
        "--chart", metavar="FILE", type=Path, help="write a chart of the accuracy curve; the name ends in .svg or .png"
    )
    verb.add_argument("--force", action="store_true", help="overwrite the files of --sheet and --chart")

    verb = add_verb(verbs, "audit", run_audit, "find images that are close to real training images")
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    add_source_flags(verb, "the training images")
    verb.add_argument("--top", metavar="K", type=int, default=10, help="list the K closest images (default: 10)")
    verb.add_argument("--png", metavar="PNG", type=Path, help="write a picture of them beside the real images")
    verb.add_argument("--save", action="store_true", help="write the result to FILE.audit.json, for `mipset report`")
    verb.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the sample of real images (default: 0)")
    verb.add_argument("--force", action="store_true", help="overwrite PNG")

    verb = add_verb(verbs, "slice", run_slice, "write the first images of each class to a new file")
    verb.add_argument("file", metavar="FILE", type=Path, help="a condensed set")
    verb.add_argument("size", metavar="N", type=int, help="images per class to keep")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")

    verb = add_verb(verbs, "export", run_export, "write a file for other programs")
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
    verb.add_argument("--factor", metavar="F", type=int, help="mdc: tiles along each side of a stored image")
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
    if arguments.sheet is None and arguments.chart is None:
        print(description(artifact))
        if not artifact.accuracy:
            print(f"next: mipset evaluate {arguments.file} --save")
    if arguments.sheet is not None:
        from mipset.display.pictures import write_contact_sheet

        write_contact_sheet(artifact, arguments.sheet)
        print(f"{arguments.sheet}: one row per class, one column per rank")
    if arguments.chart is not None:
        from mipset.display.charts import accuracy_curve

        accuracy_curve(f"{arguments.file.stem}: accuracy against images per class", artifact.accuracy).write(
            arguments.chart
        )
        print(f"{arguments.chart}: accuracy against images per class")


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
    print(f"the {len(listed)} of {total} images that are closest to a real one; distances in grey levels")
    print(in_columns(rows, left=(0, 5)))
    print(
        f"{len(report.suspicious)} of {total} are closer to a training image than half of the training "
        f"images are to each other ({report.usual:.1f})"
    )
    if arguments.save:
        from mipset.file.audit_file import path_of, write_audit

        write_audit(path_of(arguments.file), report.as_file(artifact, data))
        print(f"{path_of(arguments.file)}: the nearest real image of each")
    if arguments.png is not None:
        from mipset.display.pictures import side_by_side, write_picture

        captions = [f"{row[0]} {row[1]}.{row[2]}: {row[3]}" for row in rows[1:]]
        write_picture(side_by_side(pairs(artifact, data, listed), captions), arguments.png)
        print(f"{arguments.png}: each of them beside the real image")


def run_slice(arguments: argparse.Namespace) -> None:
    """Write the first N images of each class of FILE to a file of their own."""
    from mipset import device

    check_output(arguments)
    device.open(arguments.file).prefix(arguments.size).write(arguments.out)
    print(f"{arguments.out}: {counted(arguments.size, 'image')} per class, {bytes_of(arguments.out)}")


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
    print(
        f"{arguments.out}: {counted(written.ipc, f'{kind} image')} for each of {classes} classes, "
        f"{bytes_of(arguments.out)}; the subset of size n is the first n x {per_size} images"
        + (" of each class" if arguments.to == PNG else "")
    )
    if written.factor > 1:
        f = written.factor
        print(
            f"Each stored image is a mosaic of {f} x {f} training images (`factor` {f} in the data): decode it before "
            "you train, as FORMAT.md says, or use --decoded."
        )


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
    print(
        f"{arguments.out}: {counted(converted.artifact.ipc, 'image')} for each of {len(spec.class_names)} classes, "
        f"{bytes_of(arguments.out)}; {100 * converted.clipped_share:.2g} % of the values did not fit into a byte and "
        f"were clipped\nnext: {how_to_evaluate(arguments.out, arguments.dataset)}"
    )
