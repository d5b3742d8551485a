"""The parser, the groups of flags that several verbs share, and the functions that read these flags."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mipset.errors import SettingError

if TYPE_CHECKING:
    from mipset.settings.protocol import Protocol


class Parser(argparse.ArgumentParser):
    """A parser that raises a SettingError where argparse would print a message and exit."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message[:1].upper()}{message[1:]}. See `{self.prog} --help`.")

    def typed_names(self) -> dict[str, str]:
        """How a user types each argument, by its Python name: {"pixel_lr": "--pixel-lr", "file": "FILE"}."""
        names = {}
        for action in self._actions:
            if action.option_strings:
                names[action.dest] = action.option_strings[-1]
            elif isinstance(action.metavar, str):
                names[action.dest] = action.metavar
        return names


Verbs: TypeAlias = "argparse._SubParsersAction[Parser]"


def add_verb(
    verbs: Verbs, name: str, run: Callable[[argparse.Namespace], None], summary: str, usage: str | None = None
) -> Parser:
    """Add a verb, without flags yet. The docstring of `run` is its description in `--help`.

    `usage` is for verbs with very many flags: `--help` shows it at the top instead of all of them.
    """
    verb = verbs.add_parser(
        name,
        help=summary,
        usage=usage and f"%(prog)s {usage}",
        description=_paragraphs(run.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(run=run, parser=verb)
    return verb


def _paragraphs(docstring: str) -> str:
    """The paragraphs of a docstring, in lines that fit a terminal."""
    return "\n\n".join(textwrap.fill(paragraph, 79) for paragraph in inspect.cleandoc(docstring).split("\n\n"))


def flag_of(name: str) -> str:
    """How a setting is written on the command line: `--pixel-lr` for `pixel_lr`."""
    return "--" + name.replace("_", "-")


def with_flags(text: str) -> str:
    """The help of a setting, with flags in place of the names of other settings in backticks."""
    from mipset.settings.recipe import Recipe

    for f in fields(Recipe):
        text = text.replace(f"`{f.name}`", flag_of(f.name))
    return text


def explained(text: str, choices: Mapping[str, str]) -> str:
    """The help of a flag, with every name that can be chosen and the line that explains it."""
    return ". ".join([text, *(f"{name}: {line}" for name, line in choices.items())])


def add_recipe_flags(verb: Parser, without: tuple[str, ...] = ()) -> None:
    """Add a flag for every setting of a recipe. `given_settings` returns those that the user typed."""
    from mipset.settings.recipe import Recipe

    group = verb.add_argument_group(
        "settings", "Each flag replaces one setting of the recipe. `mipset recipes NAME` lists them."
    )
    for f in fields(Recipe):
        if f.name in without:
            continue
        kind = {"int": int, "float": float, "str": str}[str(f.type)]
        help_text = with_flags(explained(f.metadata["help"], f.metadata["choices"]))
        group.add_argument(flag_of(f.name), metavar=str(f.type).upper(), type=kind, help=help_text.replace("%", "%%"))


def given_settings(arguments: argparse.Namespace, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a recipe that the user typed."""
    from mipset.settings.recipe import Recipe

    names = [f.name for f in fields(Recipe) if f.name not in without]
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def add_data_flags(verb: Parser) -> None:
    """Add the flags that say how a folder of pictures becomes a dataset."""
    group = verb.add_argument_group("pictures", "How a folder of pictures becomes a dataset.")
    group.add_argument(
        "--resolution",
        metavar="PIXELS",
        type=int,
        help="scale and crop pictures to this height and width (default: 224 for ImageNet, else keep them as they are)",
    )
    group.add_argument(
        "--split-seed",
        metavar="S",
        type=int,
        default=0,
        help="seed that draws the test images of a folder without a test split (default: 0)",
    )
    add_skip_bad(group)


def add_skip_bad(verb: argparse._ActionsContainer) -> None:
    """Add the flag that leaves out pictures which cannot be read."""
    verb.add_argument(
        "--skip-bad", action="store_true", help="leave out pictures of your own that cannot be read, and count them"
    )


def add_source_flags(verb: Parser, what: str) -> None:
    """Add the flags that say where the dataset is that a file was condensed from. `what` is needed of it."""
    verb.add_argument(
        "--data",
        metavar="DATASET",
        help=f"{what} (default: the dataset that FILE names; needed if that is a folder or file of your own)",
    )
    add_skip_bad(verb)


def add_protocol_flags(
    verb: Parser, default: str | None = None, seed: str = "--seed", epochs: str = "epochs of training"
) -> None:
    """Add the flags that say how networks are trained on a condensed set. `protocol_of` reads them.

    `default` is the protocol, `seed` is the flag of the seed, and `epochs` is the help of `--epochs`.
    """
    from mipset.settings.protocol import DEFAULT, PROTOCOLS

    default = default or DEFAULT
    listed = "; ".join(f"{name}: {protocol.text}" for name, protocol in PROTOCOLS.items())
    verb.add_argument(
        "--protocol",
        choices=list(PROTOCOLS),
        default=default,
        help=f"how to train networks. {listed} (default: {default})",
    )
    verb.add_argument("--epochs", metavar="E", type=int, help=f"{epochs} (default: those of the protocol)")
    verb.add_argument(
        "--no-flip",
        action="store_true",
        help="do not mirror training images: for your own digits, letters or signs (mnist is never mirrored)",
    )
    verb.add_argument(seed, metavar="S", type=int, default=0, help="seed of networks and batches (default: 0)")


def protocol_of(arguments: argparse.Namespace) -> Protocol:
    """The protocol that `--protocol`, `--epochs` and `--no-flip` describe."""
    from mipset.settings.protocol import protocol

    chosen = protocol(arguments.protocol, **({} if arguments.epochs is None else {"epochs": arguments.epochs}))
    return chosen.without_flips() if arguments.no_flip else chosen


def check_at_least(least: int, **values: int | None) -> None:
    """Refuse numbers that are too small. None stands for a flag that was not given."""
    for name, value in values.items():
        if value is not None and value < least:
            raise SettingError(f"`{name}` is {value}: it must be at least {least}. Choose a larger value.")


def parse_sizes(text: str | None, ipc: int) -> list[int]:
    """The sizes that `--sizes` names, for a file of `ipc` images per class."""
    if text is None:
        return list(range(1, ipc + 1))
    return parse_numbers("sizes", text, ipc, f"The sizes are 1 to {ipc}")


def parse_numbers(name: str, text: str, most: int, allowed: str) -> list[int]:
    """`1-3,10` as [1, 2, 3, 10]. `allowed` says in an error which numbers may be chosen."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise SettingError(f"`{name}` is {text!r}. Write numbers such as 1-10 or 1,2,5.") from None
        if not 1 <= low <= high <= most:
            raise SettingError(f"`{name}` is {text!r}. {allowed}.")
        numbers.update(range(low, high + 1))
    return sorted(numbers)
