"""A file where it is used: `plan` the size that fits a device, and `fetch` no more than that."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from mipset.cli.shared import Parser, Stages, Verbs, add_verb, at_least, count, refuse_to_overwrite, size_of, titled
from mipset.errors import SettingError, printable
from mipset.units import duration

LIMITS = ("bytes", "memory", "seconds", "throughput", "epochs", "batch")


def add(verbs: Verbs) -> None:
    """The verbs of this module and their flags."""
    verb = add_verb(verbs, "plan", plan, "the size of a file that fits a device")
    verb.add_argument("file", metavar="FILE_OR_URL", help="a path, or an address that begins with http or https")
    _add_limit_flags(verb)

    verb = add_verb(verbs, "fetch", fetch, "get the part of a published file that fits")
    verb.add_argument("file", metavar="URL", help="an address that begins with http or https, or a path")
    verb.add_argument("--out", metavar="FILE", type=Path, required=True, help="the file to write")
    verb.add_argument("--ipc", metavar="N", type=int, help="images per class (default: as many as fit)")
    _add_limit_flags(verb)
    verb.add_argument("--cache", metavar="DIR", type=Path, help="keep what arrives in a folder, for the next time")
    verb.add_argument("--force", action="store_true", help="overwrite FILE")


def _add_limit_flags(verb: Parser) -> None:
    group = verb.add_argument_group("limits", "of the device; the largest size within all of them is taken")
    group.add_argument("--bytes", metavar="B", type=_byte_number, help="of storage for the file, such as 200kB")
    group.add_argument("--memory", metavar="B", type=_byte_number, help="for training beside the network, such as 8MB")
    group.add_argument("--seconds", metavar="S", type=float, help="of training; needs --throughput")
    group.add_argument("--throughput", metavar="X", type=float, help="images that the device trains on in a second")
    group.add_argument("--epochs", metavar="E", type=int, help="of training (default: those of the file's accuracies)")
    group.add_argument("--batch", metavar="K", type=int, default=64, help="images in a batch (default: 64)")


def _byte_number(text: str) -> int:
    """`512`, `30.5kB`, `3 MB` or `1GB`."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*(B|kB|MB|GB)?", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes such as 512, 30kB or 3MB")
    return int(float(found[1]) * {None: 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}[found[2]])


def plan(chosen: argparse.Namespace) -> None:
    """Print the largest size of a file that fits a device, what training on it takes and what can be expected of it.

    Of the file, only the header is read.
    """
    from mipset import device
    from mipset.units import byte_count

    source = device.open(chosen.file)
    found = device.plan(source, **_limits(chosen))
    training, expected = "unknown: the file does not say for how many epochs", "unknown: not measured at this size"
    if found.epochs is not None:
        pace = "" if found.seconds is None else f", {duration(found.seconds)} at {chosen.throughput:g} images/s"
        training = f"{count(found.epochs, 'epoch')} of {count(found.images, 'image')}{pace}"
    if found.expected is not None:
        e = found.expected
        how = "" if e.measured else ", from the sizes next to it"
        alone = "" if e.networks > 1 else "one network; "
        expected = printable(f"{e.percent} ({alone}{e.network}; protocol {e.protocol}{how})")
    elif chosen.epochs is not None:
        expected = f"unknown: not measured at this size after {count(chosen.epochs, 'epoch')}"
    rows = {
        "size": f"{found.size} of {source.about.ipc} images per class",
        "file": byte_count(found.file_bytes),
        "memory": f"about {byte_count(found.memory)} with batches of {chosen.batch}, and what the network needs",
        "training": training,
        "accuracy": expected,
    }
    print(titled(rows))


def fetch(chosen: argparse.Namespace) -> None:
    """Get the first images of each class of a published file: as many as are asked for, or as many as fit.

    Only their bytes are moved. Each is verified before FILE is written.
    """
    from mipset import device

    refuse_to_overwrite(chosen)
    limits = _limits(chosen)
    given = [name for name in LIMITS if name != "batch" and limits[name] is not None]
    if chosen.ipc is not None and given:
        raise SettingError(f"--ipc and --{given[0]} both say how much to fetch: leave one out.")
    with Stages() as stages:
        source = device.open(chosen.file, cache=chosen.cache, progress=partial(stages, "fetching"))
        subset = source.prefix(device.plan(source, **limits).size if chosen.ipc is None else chosen.ipc)
    subset.write(chosen.out)
    print(f"{chosen.out}: {subset.sizes[0]} of {source.about.ipc} images per class, {size_of(chosen.out)}")


def _limits(chosen: argparse.Namespace) -> dict[str, Any]:
    at_least(1, epochs=chosen.epochs, batch=chosen.batch)
    if chosen.seconds is not None and chosen.throughput is None:
        raise SettingError("--seconds needs --throughput: how many images the device trains on in a second.")
    return {name: getattr(chosen, name) for name in LIMITS}
