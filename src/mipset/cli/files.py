"""What a file holds, and the same for others: `show`, `audit`, `slice`, `export` and `import`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mipset.cli.shared import (
    Verbs,
    add_data_flags,
    add_verb,
    at_least,
    count,
    dataset_of,
    load,
    refuse_to_destroy,
    refuse_to_overwrite,
    size_of,
)
from mipset.display.progress import Progress
from mipset.errors import SettingError, printable

IMPORTS = ("mdc", "dc")  # of imports, which needs torch; a test keeps the two alike
ORDERS = ("tiles", "images")
EXPORTS = ("png", "npz", "parquet", "webdataset", "pt", "c")  # of exports, which needs numpy; likewise


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "show", show, "what a file holds, as text or picture")
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("--png", metavar="PNG", type=Path, help="write a contact sheet of all images")
    verb.add_argument("--svg", metavar="SVG", type=Path, help="write the accuracy curve as a chart")
    verb.add_argument("--force", action="store_true", help="overwrite PNG and SVG")

    verb = add_verb(verbs, "audit", audit, "how near a file comes to real images")
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("data", metavar="DATASET", nargs="?", help="the training images (default: named in the file)")
    verb.add_argument("--top", metavar="K", type=int, default=10, help="how many to list and to show (default: 10)")
    verb.add_argument("--png", metavar="PNG", type=Path, help="write them beside the real images")
    verb.add_argument("--seed", metavar="S", type=int, default=0, help="of the sample of real images (default: 0)")
    verb.add_argument("--force", action="store_true", help="overwrite PNG")

    verb = add_verb(verbs, "slice", slice_, "write the first n images of each class")
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("size", metavar="N", type=int)
    verb.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file to write")
    verb.add_argument("--force", action="store_true", help="overwrite FILE")

    verb = add_verb(verbs, "export", export, "write a file for other programs")
    verb.add_argument("file", metavar="FILE", type=Path)
    verb.add_argument("--to", choices=EXPORTS, required=True, help="what to write")
    verb.add_argument(
        "--out", metavar="PATH", type=Path, required=True, help="the file to write, or with png the folder"
    )
    verb.add_argument("--ipc", metavar="N", type=int, help="only the first N images of each class")
    verb.add_argument("--decoded", action="store_true", help="training images in place of the stored ones they are in")
    verb.add_argument("--force", action="store_true", help="replace PATH")

    verb = add_verb(verbs, "import", import_, "make a file of what others published")
    verb.add_argument("file", metavar="FILE", type=Path, help="a torch file of images and labels")
    verb.add_argument(
        "--kind",
        choices=IMPORTS,
        required=True,
        help="mdc: of MDC, IDC or DREAM, values in [0, 1]; dc: of DC, DSA, DM or MTT, normalised values",
    )
    verb.add_argument("--dataset", metavar="DATASET", required=True, help="what was condensed, as for `condense`")
    verb.add_argument("--out", metavar="FILE2", type=Path, required=True, help="the file to write")
    verb.add_argument("--factor", metavar="F", type=int, help="of mdc: tiles along each side of an image")
    verb.add_argument(
        "--order",
        choices=ORDERS,
        help="of mdc: tiles, so that a size is what its authors measured, or whole images (default: tiles)",
    )
    verb.add_argument("--labels", metavar="FILE", type=Path, help="of MTT: the labels (default: beside FILE)")
    verb.add_argument("--experiment", metavar="E", type=int, help="of DC, DSA or DM: which one (default: 0)")
    add_data_flags(verb)
    verb.add_argument("--force", action="store_true", help="overwrite FILE2")


def show(chosen: argparse.Namespace) -> None:
    """Print what FILE holds, where it comes from and how good each size is."""
    from mipset.display.tables import description
    from mipset.file.artifact import read

    _refuse_pictures(chosen, "png", "svg")
    artifact = read(chosen.file)
    if chosen.svg is not None and not artifact.accuracy:
        raise SettingError(f"{chosen.file} has no accuracy curve: `mipset evaluate {chosen.file} --save` measures one.")
    if chosen.png is None and chosen.svg is None:
        print(description(artifact))
    if chosen.png is not None:
        from mipset.display.pictures import write_contact_sheet

        write_contact_sheet(artifact, chosen.png)
        print(f"{chosen.png}: one row per class, one column per rank")
    if chosen.svg is not None:
        from mipset.experiments.results import curve_chart
        from mipset.io.files import write_whole

        curve = curve_chart(f"{chosen.file.stem}: accuracy against images per class", artifact.accuracy).encode()
        write_whole(chosen.svg, lambda stream: stream.write(curve))
        print(f"{chosen.svg}: accuracy against images per class")


def _refuse_pictures(chosen: argparse.Namespace, *names: str) -> None:
    """Say before any work is done that the pictures these flags name cannot be written."""
    for name in names:
        if getattr(chosen, name) is not None:
            refuse_to_overwrite(chosen, name)


def audit(chosen: argparse.Namespace) -> None:
    """Find the real training image that is nearest to each image of FILE: to be known before it is published.

    Real images are compared with each other too, so that it can be told what is near.
    """
    from mipset.file.artifact import read

    at_least(1, top=chosen.top)
    at_least(0, seed=chosen.seed)
    _refuse_pictures(chosen, "png")
    artifact = read(chosen.file)
    real = dataset_of(chosen, chosen.file, artifact, "name {} behind the file")
    from mipset.display.tables import in_columns
    from mipset.evaluation.audit import audit, pairs

    with Progress(f"comparing with {real.name}", 1.0) as bar:
        found = audit(artifact, real, chosen.seed, lambda share: bar.advance(share - bar.done))
    listed = found.found[: chosen.top]
    lines = [["image", "rank", "tile", "distance", "nearest real image", "real images that are nearer to another"]]
    for one in listed:
        names = printable(artifact.class_names[one.label]), printable(real.class_names[one.real_label])
        lines.append(
            [
                names[0],
                str(one.rank),
                str(one.tile),
                f"{one.distance:.1f}",
                f"{one.row} ({names[1]})",
                f"{one.share:.0%}",
            ]
        )
    print(f"the {len(listed)} of {len(found.found)} images that are nearest to a real one; distances in grey levels")
    print(in_columns(lines))
    print(
        f"{len(found.suspicious)} of {len(found.found)} are nearer to a training image than half of the training "
        f"images are to each other ({found.usual:.1f})"
    )
    if chosen.png is not None:
        from mipset.display.pictures import side_by_side, write_picture

        captions = [f"{line[0]} {line[1]}.{line[2]}: {line[3]}" for line in lines[1:]]
        write_picture(side_by_side(pairs(artifact, real, listed), captions), chosen.png)
        print(f"{chosen.png}: each of them beside the real image")


def slice_(chosen: argparse.Namespace) -> None:
    """Write the first N images of each class of FILE as a file of its own."""
    from mipset import device

    refuse_to_overwrite(chosen)
    device.open(chosen.file).prefix(chosen.size).write(chosen.out)
    print(f"{chosen.out}: {count(chosen.size, 'image')} per class, {size_of(chosen.out)}")


def export(chosen: argparse.Namespace) -> None:
    """Write the images of FILE for other programs.

    png: a folder with one sub-folder per class, and a contact sheet. npz: arrays for numpy. parquet: for Hugging Face
    datasets. webdataset: a tar file. pt: tensors for torch. c: a header for microcontrollers. In all of them the images
    come rank by rank, so that the first n of each class are the subset of size n.
    """
    from mipset.exchange.exports import export
    from mipset.file.artifact import read
    from mipset.file.decoding import decoded

    refuse_to_destroy(chosen.out, chosen.file)
    artifact = read(chosen.file)
    if chosen.ipc is not None:
        artifact = artifact.prefix(chosen.ipc)
    if chosen.decoded:
        artifact = decoded(artifact)
    export(artifact, chosen.to, chosen.out, force=chosen.force)
    print(
        f"{chosen.out}: {count(artifact.ipc, 'image')} for each of {len(artifact.class_names)} classes, "
        f"{size_of(chosen.out)}"
    )


def import_(chosen: argparse.Namespace) -> None:
    """Make a file of ours from one that the authors of another method published; nothing in it is executed.

    It can then be evaluated, sliced, exported and compared like any other. Values are rounded to bytes.
    """
    refuse_to_overwrite(chosen)
    from mipset.data import spec_of
    from mipset.exchange.published import as_artifact, open_published

    published = open_published(chosen.file, chosen.labels, chosen.experiment)
    for labels in published.files[1:]:
        refuse_to_destroy(chosen.out, labels)
    loaded_with: Provenance = {"size": chosen.resolution, "split_seed": chosen.split_seed}
    about = (spec_of(chosen.dataset) if chosen.resolution is None else None) or load(
        chosen.dataset, chosen.resolution, chosen.split_seed
    )
    found = as_artifact(published, chosen.kind, about, factor=chosen.factor, order=chosen.order, origin=loaded_with)
    found.artifact.write(chosen.out)
    print(
        f"{chosen.out}: {count(found.artifact.ipc, 'image')} for each of {len(about.class_names)} classes, "
        f"{size_of(chosen.out)}; {100 * found.cut_off:.2g} % of their values were outside of what a "
        f"byte can hold, and were cut off\nnext: mipset evaluate {chosen.out}"
    )
