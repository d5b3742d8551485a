"""The verbs for devices: `plan` the size that fits, and `fetch` only that part of a file."""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mipset.cli.inputs import check_output
from mipset.cli.parser import Parser, Verbs, add_json_flag, add_verb, check_at_least
from mipset.cli.wording import bytes_of, counted, file_facts, print_result, titled_lines
from mipset.display.progress import Progress
from mipset.errors import SettingError, printable
from mipset.units import byte_count, duration

if TYPE_CHECKING:
    from mipset.device.planning import Expected
    from mipset.device.source import Source

LIMITS = ("bytes", "memory", "seconds", "throughput", "epochs", "batch", "protocol")
MOST_OTHERS = 3  # accuracies of other trainings that are printed


def add(verbs: Verbs) -> None:
    """Add the verbs of this module and their flags."""
    verb = add_verb(verbs, "plan", run_plan, "find the size of a file that fits a device")
    _add_source(verb)
    _add_limit_flags(verb)

    verb = add_verb(verbs, "fetch", run_fetch, "download the part of a file that fits")
    _add_source(verb)
    verb.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        help="the file to write (default: NAME.safetensors for gallery:NAME; otherwise needed)",
    )
    verb.add_argument("--ipc", metavar="N", type=int, help="images per class (default: as many as fit)")
    _add_limit_flags(verb)
    verb.add_argument(
        "--cache",
        metavar="DIR",
        type=Path,
        help="keep downloaded images in this folder and reuse them next time (default: none)",
    )
    verb.add_argument("--force", action="store_true", help="overwrite FILE")


def _add_source(verb: Parser) -> None:
    add_json_flag(verb)
    verb.add_argument(
        "file", metavar="FILE_OR_URL", help="a path, an address that begins with http or https, or gallery:NAME"
    )


def _add_limit_flags(verb: Parser) -> None:
    group = verb.add_argument_group("limits", "Limits of the device. The largest size within all of them is chosen.")
    group.add_argument(
        "--bytes", metavar="B", type=_byte_number, help="storage for the file, such as 200kB (default: no limit)"
    )
    group.add_argument(
        "--memory",
        metavar="B",
        type=_byte_number,
        help="memory for training without the network, such as 8MB (default: no limit)",
    )
    group.add_argument(
        "--seconds",
        metavar="S",
        type=float,
        help="time for training, in seconds; needs --throughput (default: no limit)",
    )
    group.add_argument(
        "--throughput", metavar="X", type=float, help="images per second that the device trains on (default: unknown)"
    )
    group.add_argument(
        "--epochs", metavar="E", type=int, help="epochs of training (default: those that the file was evaluated with)"
    )
    group.add_argument(
        "--protocol",
        metavar="NAME",
        help="epochs and accuracies of this protocol in the file, such as standard (default: those of the longest "
        "training)",
    )
    group.add_argument("--batch", metavar="K", type=int, default=64, help="images per batch (default: 64)")


def _byte_number(text: str) -> int:
    """`512`, `30.5kB`, `3 MB` or `1GB` as a number of bytes."""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*(B|kB|MB|GB)?", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of bytes such as 512, 30kB or 3MB")
    return int(float(match[1]) * {None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[match[2]])


def run_plan(arguments: argparse.Namespace) -> None:
    """Print the largest size of a file that fits a device, what training on it costs, and the expected accuracy.

    This reads only the header of the file.
    """
    from mipset import device

    source = device.open(arguments.file)
    plan = device.plan(source, **_limits(arguments))
    training, accuracy = "unknown: the file does not say for how many epochs", "unknown: not measured at this size"
    if plan.epochs is not None:
        pace = "" if plan.seconds is None else f", {duration(plan.seconds)} at {arguments.throughput:g} images/s"
        training = f"{counted(plan.epochs, 'epoch')} of {counted(plan.images, 'image')}{pace}"
    if plan.expected is not None:
        accuracy = _expected_text(plan.expected)
    elif arguments.epochs is not None:
        accuracy = f"unknown: not measured at this size after {counted(arguments.epochs, 'epoch')}"
    rows = {
        "size": f"{plan.size} of {source.about.ipc} images per class",
        "file": byte_count(plan.file_bytes),
        "memory": f"about {byte_count(plan.memory)} with batches of {arguments.batch}, without the network",
        "training": training,
        "accuracy": accuracy,
    }
    if plan.others:
        listed = [_expected_text(each) for each in plan.others[:MOST_OTHERS]]
        more = [f"{len(plan.others) - len(listed)} more"] if len(plan.others) > len(listed) else []
        rows["others"] = f"{'; '.join([*listed, *more])}: choose with --protocol"
    print_result(arguments, {"file": source.name, "of": source.about.ipc, **asdict(plan)}, titled_lines(rows))


def _expected_text(expected: Expected) -> str:
    """`60.0 % (one network; convnet-3, width 64; protocol quick)`."""
    interpolated = "" if expected.measured else ", from the sizes next to it"
    networks = "" if expected.networks > 1 else "one network; "
    return printable(f"{expected.percent} ({networks}{expected.network}; protocol {expected.protocol}{interpolated})")


def run_fetch(arguments: argparse.Namespace) -> None:
    """Download the first images of each class of a published file: as many as `--ipc` says, or as many as fit.

    Only their bytes are transferred. All of them are verified before FILE is written.
    """
    from mipset import device
    from mipset.file.gallery import PREFIX, is_listed

    if arguments.out is None:
        if not is_listed(arguments.file):
            raise SettingError(f"`out` is missing: the file to write. See `{arguments.parser.prog} --help`.")
        arguments.out = Path(f"{arguments.file.removeprefix(PREFIX)}.safetensors")
    check_output(arguments)
    limits = _limits(arguments)
    given = [name for name in LIMITS if name != "batch" and limits[name] is not None]
    if arguments.ipc is not None and given:
        raise SettingError(f"`ipc` and `{given[0]}` both limit how much to fetch. Leave one of them out.")
    with Progress() as bar:
        source = device.open(arguments.file, cache=arguments.cache, report=bar.report)
        subset = source.prefix(device.plan(source, **limits).size if arguments.ipc is None else arguments.ipc)
    subset.write(arguments.out)
    size, about = subset.sizes[0], source.about
    facts = file_facts(arguments.out, size, about.class_names, of=about.ipc, moved=source.moved, ranges=source.ranges)
    print_result(
        arguments,
        facts,
        f"{arguments.out}: {size} of {about.ipc} images per class, {bytes_of(arguments.out)}\n{_moved(source)}",
    )


def _moved(source: Source) -> str:
    """How many bytes were downloaded, and whether that was more than needed."""
    whole = byte_count(source.file_bytes(source.about.ipc))
    server = {
        None: "",
        True: "; the server has byte ranges",
        False: "; the server has no byte ranges, so it sends the file from its beginning each time",
    }[source.ranges]
    verb = "read" if source.ranges is None else "moved"
    return f"{verb} {byte_count(source.moved)} of a file of {whole}{server}"


def _limits(arguments: argparse.Namespace) -> dict[str, Any]:
    check_at_least(1, epochs=arguments.epochs, batch=arguments.batch)
    if arguments.seconds is not None and arguments.throughput is None:
        raise SettingError("`seconds` needs `throughput`: the images per second that the device trains on.")
    return {name: getattr(arguments, name) for name in LIMITS}
