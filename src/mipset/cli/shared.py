"""What verbs share: the parser, groups of flags and what they mean, real images, and words for people."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mipset.display.progress import Progress
from mipset.errors import ArtifactError, MipsetError, SettingError, printable

if TYPE_CHECKING:
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact
    from mipset.settings.protocol import Protocol


PROTOCOLS = ("quick", "paper")  # of evaluate.py, which needs torch; a test keeps the two alike
DEFAULT_RECIPE = "cifar10-cpu"  # for data of one's own: made for two cores


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like all others."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message}: see `{self.prog} --help`.")


Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_verb(verbs: Verbs, name: str, run: Callable[[argparse.Namespace], None], summary: str) -> Parser:
    """A verb without flags yet; what its function says of itself is its description."""
    verb = verbs.add_parser(name, help=summary, description=run.__doc__)
    verb.set_defaults(run=run)
    return verb


def add_recipe_flags(verb: Parser, without: tuple[str, ...] = ()) -> None:
    """A flag for every setting of a recipe, of which `given_settings` tells those that were typed."""
    from mipset.cli.parser import flag_of
    from mipset.settings.recipe import Recipe

    group = verb.add_argument_group("settings", "each in place of what the recipe says")
    for f in fields(Recipe):
        if f.name in without:
            continue
        kind = {"int": int, "float": float, "str": str}[str(f.type)]
        among = f.metadata["choices"]
        text = f.metadata["help"] + (f" ({', '.join(among)})" if among else "")
        group.add_argument(flag_of(f.name), metavar=str(f.type).upper(), type=kind, help=text)


def add_data_flags(verb: Parser) -> None:
    """How `load` reads pictures."""
    verb.add_argument("--resolution", metavar="PIXELS", type=int, help="scale and crop the pictures of folder:PATH")
    verb.add_argument(
        "--split-seed",
        metavar="S",
        type=int,
        default=0,
        help="draws the test split of a folder that has none",
    )


def add_protocol_flags(verb: Parser, default: str = "quick", seed: str = "--seed") -> None:
    """How to train on a condensed set, which `chosen_protocol` reads."""
    verb.add_argument("--protocol", choices=PROTOCOLS, default=default, help=f"how to train (default: {default})")
    verb.add_argument("--epochs", metavar="E", type=int, help="epochs (default: the protocol's)")
    verb.add_argument(seed, metavar="S", type=int, default=0, help="of networks and batches (default: 0)")


def recipe_for(dataset: str) -> str:
    """The name of the first recipe that was made for a dataset, or of the one for all others."""
    from mipset.settings.catalogue import RECIPES

    fitting = [name for name, named in RECIPES.items() if named.dataset == dataset]
    return fitting[0] if fitting else DEFAULT_RECIPE


def given_settings(chosen: argparse.Namespace, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a recipe that have a flag on the command line."""
    from mipset.settings.recipe import Recipe

    names = [f.name for f in fields(Recipe) if f.name not in without]
    return {name: getattr(chosen, name) for name in names if getattr(chosen, name) is not None}


def chosen_protocol(chosen: argparse.Namespace) -> Protocol:
    """The protocol asked for, with as many epochs as asked for."""
    from mipset.settings.protocol import protocol

    return protocol(chosen.protocol, **({} if chosen.epochs is None else {"epochs": chosen.epochs}))


def at_least(least: int, **values: int | None) -> None:
    """Refuse numbers that are too small, by the names of their flags; None is one that was not given."""
    from mipset.cli.parser import flag_of

    for name, value in values.items():
        if value is not None and value < least:
            raise SettingError(f"{flag_of(name)} cannot be {value}: it must be at least {least}.")


def asked_sizes(text: str | None, ipc: int) -> list[int]:
    """What --sizes means for a file of so many images per class."""
    if text is None:
        return list(range(1, ipc + 1))
    return numbers("--sizes", text, ipc, f"there are sizes 1 to {ipc}")


def numbers(flag: str, text: str, most: int, choice: str) -> list[int]:
    """`1-3,10` as [1, 2, 3, 10]."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise SettingError(f"{flag} cannot be {text!r}: write numbers such as 1-10 or 1,2,5.") from None
        if not 1 <= low <= high <= most:
            raise SettingError(f"{flag} cannot be {text!r}: {choice}.")
        found.update(range(low, high + 1))
    return sorted(found)


def refuse_to_overwrite(chosen: argparse.Namespace, name: str = "out") -> None:
    """Say before any work is done that what this flag names cannot be written, or not without --force.

    The FILE of a verb that reads one is not written over, not even with it.
    """
    from mipset.io.files import refuse_to_overwrite
    from mipset.cli.parser import flag_of

    out, flag = getattr(chosen, name), flag_of(name)
    if "file" in chosen:
        refuse_to_destroy(out, Path(chosen.file), flag)
    refuse_to_overwrite(out, chosen.force, flag)


def refuse_to_destroy(out: Path, source: Path, flag: str = "--out") -> None:
    """Not even with --force is the file that is read written over."""
    if out.exists() and source.exists() and out.samefile(source):
        raise SettingError(f"{flag} {out} would overwrite the file itself: choose another name.")


def load(name: str, resolution: int | None, split_seed: int) -> Dataset:
    """A real dataset, with a bar where that takes long."""
    from mipset.data import load

    at_least(0, split_seed=split_seed)
    with Stages() as stages:
        return load(name, resolution=resolution, seed=split_seed, report=stages)


def dataset_of(chosen: argparse.Namespace, path: Path, artifact: Artifact, ask: str = "add --data {}") -> Dataset:
    """The dataset that the file was condensed from; `ask` is how another one is named."""
    origin: Mapping[str, Any] = artifact.provenance
    name = chosen.data or origin.get("dataset")
    if not isinstance(name, str):
        raise SettingError(f"{path} does not say where its real images are: {ask.format('DATASET')}.")
    resolution, split_seed = origin.get("size"), origin.get("split_seed", 0)
    if not isinstance(resolution, int | None) or not isinstance(split_seed, int):
        raise ArtifactError(f"{path} is damaged: its provenance has size {resolution!r}, split_seed {split_seed!r}.")
    try:
        real = load(name, resolution, split_seed)
    except MipsetError as error:
        if chosen.data or ":" not in name:
            raise
        where = ask.format(f"{name.partition(':')[0]}:PATH")
        raise SettingError(f"{path} was condensed from {name}: {where} to say where that is.") from error
    if not chosen.data and real.sha256 != origin.get("sha256"):
        this = ask.format(name)
        raise SettingError(f"{path} was condensed from another {name} than the one here: {this} to use this one.")
    return real


class Stages:
    """Progress bars for work that reports (stage, done, total)."""

    def __init__(self) -> None:
        self._bar: Progress | None = None

    def __enter__(self) -> Stages:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._bar is None or self._bar.title != stage:
            self._close()
            self._bar = Progress(stage, total)
        self._bar.total = total
        self._bar.advance(done - self._bar.done)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def count(number: int, what: str) -> str:
    """`1 image`, `2 images`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def size_of(path: Path) -> str:
    """`30.7 kB`: how large a file is, or all files of a folder."""
    from mipset.units import byte_count

    return byte_count(sum(file.stat().st_size for file in (path.rglob("*.*") if path.is_dir() else [path])))


def titled(rows: Mapping[str, str]) -> str:
    """A line for each text, behind its title; the texts are in one column."""
    width = max(map(len, rows)) + 2
    return "\n".join(f"{title:<{width}}{text}" for title, text in rows.items())


def say(sentence: str) -> None:
    """A sentence for who sits at the terminal, apart from what a command prints."""
    print("mipset:", printable(" ".join(sentence.split())), file=sys.stderr)  # one line, whatever a file name holds
