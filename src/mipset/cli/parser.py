"""The parser, the groups of flags that several verbs share, and the functions that read these flags."""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from mipset.errors import SettingError, choose, did_you_mean

if TYPE_CHECKING:
    from mipset.settings.protocol import Protocol


# The groups of flags in `--help`, in this order. Settings of a recipe that are not listed are about the method.
METHOD = "which method and network"
GROUPS = {
    "which images": (
        "data",
        "resolution",
        "split_seed",
        "skip_bad",
        "held_out",
        "sizes",
        "ipc",
        "factor",
        "init",
        "start",
    ),
    METHOD: (
        *("recipe", "config", "methods", "policy", "network", "width", "depth", "networks", "evaluate_with"),
        *("protocol", "no_flip", "seeds", "seed", "evaluation_seed", "evaluation_precision"),
    ),
    "how long": (
        *("budget", "max_time", "fresh", "resume", "outer", "inner", "at", "experts", "expert_steps", "train_images"),
        *("pool", "life", "epochs", "metric_epochs", "first", "best"),
    ),
    "which machine": ("executor", "device", "threads", "compile", "workers", "force_memory"),
    "what to write and print": (
        *(
            "out",
            "to",
            "name",
            "licence",
            "time",
            "no_parquet",
            "save",
            "sheet",
            "chart",
            "png",
            "top",
            "cache",
            "log",
            "tensorboard",
            "dry_run",
            "force",
        ),
        *("json", "quiet"),
    ),
}


class Parser(argparse.ArgumentParser):
    """A parser that raises a SettingError where argparse would print a message and exit."""

    def error(self, message: str) -> NoReturn:
        raise SettingError(f"{message[:1].upper()}{message[1:]}. See `{self.prog} --help`.")

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """Refuse words that no flag takes, with the flag that was meant."""
        names = [name_of(flag) for action in self._actions for flag in action.option_strings if flag[:2] == "--"]
        meant = did_you_mean(name_of(words[0].partition("=")[0]), names)  # without the hyphens that all flags share
        meant = re.sub(r"(?<=mean )\w+", lambda match: flag_of(match[0]), meant) if words[0].startswith("-") else ""
        raise SettingError(f"Unrecognized arguments: {' '.join(words)}. {meant}See `{self.prog} --help`.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is not among the choices, with the one that was meant."""
        if action.choices is not None and value not in action.choices:
            title = action.option_strings[-1] if action.option_strings else action.metavar
            raise SettingError(f"{title} is {value!r}. {choose(value, action.choices)}. See `{self.prog} --help`.")

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an argument to its group of the help."""
        dest = options.get("dest", name_of(names[-1]))
        title = next((title for title, dests in GROUPS.items() if dest in dests), None)
        if title is None or not names[-1].startswith("--"):
            return super().add_argument(*names, **options)
        return self.group(title).add_argument(*names, **options)

    def group(self, title: str) -> argparse._ArgumentGroup:
        """The group of arguments with this title."""
        found = (group for group in self._action_groups if group.title == title)
        return next(found, None) or self.add_argument_group(title)

    def verbs(self) -> dict[str, Parser]:
        """The verbs of this parser, by name."""
        actions = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        return {name: verb for action in actions for name, verb in action.choices.items()}

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
    for title in GROUPS:
        verb.add_argument_group(title)
    verb.add_argument(
        "--quiet", action="store_true", default=argparse.SUPPRESS, help="show no progress and no remarks, only results"
    )
    return verb


def add_config_flag(verb: Parser) -> None:
    """Add the flag that `mipset.cli.config` reads."""
    verb.set_defaults(unchanged=frozenset())  # settings of the file that are those of its recipe
    verb.add_argument(
        "--config",
        metavar="FILE",
        help="flags of this verb in a TOML file; what you type counts more. `mipset recipes NAME --toml` prints one "
        "(default: none)",
    )


def add_json_flag(verb: Parser) -> None:
    """Add the flag that `print_result` reads."""
    verb.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print the result as JSON, for programs"
    )


def _paragraphs(docstring: str) -> str:
    """The paragraphs of a docstring, in lines that fit a terminal."""
    return "\n\n".join(textwrap.fill(paragraph, 79) for paragraph in inspect.cleandoc(docstring).split("\n\n"))


def flag_of(name: str) -> str:
    """How a setting is written on the command line: `--pixel-lr` for `pixel_lr`."""
    return "--" + name.replace("_", "-")


def name_of(flag: str) -> str:
    """The Python name of a flag: `pixel_lr` for `--pixel-lr`."""
    return flag.removeprefix("--").replace("-", "_")


def with_flags(text: str) -> str:
    """The help of a setting, with flags in place of the names of other settings in backticks."""
    from mipset.settings.recipe import Recipe

    for f in fields(Recipe):
        text = text.replace(f"`{f.name}`", flag_of(f.name))
    return text


def explained(text: str, choices: Mapping[str, str]) -> str:
    """The help of a flag, with every name that can be chosen and the line that explains it."""
    return ". ".join([text, *(f"{name}: {line}" for name, line in choices.items())])


def add_recipe_flags(verb: Parser, without: tuple[str, ...] = (), default: str | None = None) -> None:
    """Add a flag for every setting of a recipe. `given_settings` returns those that the user typed.

    `default` says where the value comes from if a setting is not typed; otherwise the help shows that of own-cpu.
    """
    from mipset.settings.catalogue import OWN_DATA, RECIPES
    from mipset.settings.recipe import Recipe

    listed = [name for names in GROUPS.values() for name in names]
    usual = RECIPES[OWN_DATA].recipe
    for f in fields(Recipe):
        if f.name in without:
            continue
        kind = {"int": int, "float": float, "str": str}[str(f.type)]
        help_text = with_flags(explained(f.metadata["help"], f.metadata["choices"]))
        help_text += f" ({default or f'default of {OWN_DATA}: {getattr(usual, f.name)}'})"
        group = verb if f.name in listed else verb.group(METHOD)
        group.add_argument(flag_of(f.name), metavar=str(f.type).upper(), type=kind, help=help_text.replace("%", "%%"))


def given_settings(arguments: argparse.Namespace, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a recipe that the user typed, or wrote into the file of `--config`."""
    from mipset.settings.recipe import Recipe

    names = [f.name for f in fields(Recipe) if f.name not in (*without, *arguments.unchanged)]
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def add_data_flags(verb: Parser) -> None:
    """Add the flags that say how a folder of pictures becomes a dataset."""
    verb.add_argument(
        "--resolution",
        metavar="PIXELS",
        type=int,
        help="scale and crop pictures to this height and width (default: 224 for ImageNet, else keep them as they are)",
    )
    verb.add_argument(
        "--split-seed",
        metavar="S",
        type=int,
        default=0,
        help="seed that draws the test images of a folder without a test split (default: 0)",
    )
    add_skip_bad(verb)


def add_skip_bad(verb: Parser) -> None:
    """Add the flag that leaves out pictures which cannot be read."""
    verb.add_argument(
        "--skip-bad", action="store_true", help="leave out pictures of your own that cannot be read, and count them"
    )


NAMED_BY_FILE = "default: the dataset that FILE names; needed if that is a folder or file of your own"


def add_source_flags(verb: Parser, what: str, default: str = NAMED_BY_FILE) -> None:
    """Add the flags that say where the dataset is that a file was condensed from. `what` is needed of it."""
    verb.add_argument(
        "--data",
        metavar="DATASET",
        help=f"{what} ({default})",
    )
    add_skip_bad(verb)


def add_protocol_flags(
    verb: Parser, default: str | None = None, own: str = "", epochs: str = "epochs of training"
) -> None:
    """Add the flags that say how networks are trained on a condensed set. `protocol_of` reads them.

    `default` is the protocol, and `epochs` is the help of `--epochs`. Where a recipe has a flag of the same name, `own`
    is what the flag of the evaluation begins with.
    """
    from mipset.settings.choices import FULL_PRECISION, PRECISIONS
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
    verb.add_argument(
        f"--{own}precision",
        dest="evaluation_precision",
        choices=list(PRECISIONS),
        default=FULL_PRECISION,
        help="precision in which networks are trained; they are tested in float32. bfloat16 takes half of the time on "
        f"processors with AMX, and gains little on others (default: {FULL_PRECISION})",
    )
    verb.add_argument(
        f"--{own}seed", metavar="S", type=int, default=0, help="seed of networks and batches (default: 0)"
    )


def protocol_of(arguments: argparse.Namespace) -> Protocol:
    """The protocol that the flags of `add_protocol_flags` describe."""
    from mipset.settings.protocol import protocol

    epochs = {} if arguments.epochs is None else {"epochs": arguments.epochs}
    chosen = protocol(arguments.protocol, precision=arguments.evaluation_precision, **epochs)
    return chosen.without_flips() if arguments.no_flip else chosen


def given_once(arguments: argparse.Namespace, place: str, flag: str) -> Any:
    """A value that may be typed in its place or with a flag, but must be typed once."""
    values = [getattr(arguments, name) for name in (place, flag) if getattr(arguments, name) is not None]
    if not values:
        raise SettingError(f"`{place}` is missing. See `{arguments.parser.prog} --help`.")
    if len(values) > 1:
        raise SettingError(f"`{place}` is {values[0]}, and `{flag}` is {values[1]}. Leave one of them out.")
    return values[0]


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
