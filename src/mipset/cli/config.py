"""`--config FILE`: flags of a verb in a TOML file. What is typed counts more than what the file says.

The file becomes words in front of those that were typed, so its values are read and checked as flags are.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mipset.cli.parser import Parser, flag_of, name_of
from mipset.errors import SettingError, brief, did_you_mean

CONFIG = "--config"


def with_config(words: Sequence[str], verb: Parser) -> tuple[list[str], dict[str, Any]]:
    """The words of a command, with those of its file in front, and what the file says, by Python names."""
    path = _path(words, verb.prog)
    if path is None:
        return list(words), {}
    table = _read(path)
    actions = {name_of(flag): action for action in verb._actions for flag in action.option_strings if flag[:2] == "--"}
    from_file: list[str] = []
    for name, value in table.items():
        action = actions.get(name)
        if action is None or name in ("help", "config"):
            meant = did_you_mean(name, actions)
            raise SettingError(
                f"{path} sets {brief(name)}, but `{verb.prog}` has no such flag. {meant}Correct it or remove it."
            )
        from_file += _words(path, name, value, action)
    return [*from_file, *words], table


def unchanged_settings(arguments: argparse.Namespace, table: dict[str, Any]) -> frozenset[str]:
    """Settings that a file has in common with the recipe that it names: they are part of it, and no choice of the user.

    So a file with all settings of a recipe can be used with a budget, with small data or with another policy. Settings
    that were tuned for another policy do not count: what the file says replaces them.
    """
    from mipset.settings.catalogue import RECIPES

    named = RECIPES.get(str(table.get("recipe")))
    if named is None or getattr(arguments, "recipe", None) != table["recipe"]:
        return frozenset()
    tuned = {name for settings in named.tuned.values() for name in settings}
    same = (name for name in table if name != "recipe" and getattr(named.recipe, name, None) == table[name])
    return frozenset(name for name in same if name not in tuned and getattr(arguments, name) == table[name])


def _path(words: Sequence[str], prog: str) -> Path | None:
    """The file that `--config`, or an abbreviation of it, names."""
    parser = Parser(prog, add_help=False)
    parser.add_argument(CONFIG, type=Path, action="append")
    paths: list[Path] = parser.parse_known_args(list(words))[0].config or []
    if len(paths) > 1:
        raise SettingError("`config` is given twice. Leave one of them out.")
    return paths[0] if paths else None


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return {name.replace("-", "_"): value for name, value in tomllib.loads(text).items()}
    except OSError as error:
        raise SettingError(f"`config` {path} cannot be read: {error.strerror or error}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingError(
            f"`config` {path} is no TOML: {error}. `mipset recipes NAME --toml` prints such a file."
        ) from error


def _words(path: Path, name: str, value: object, action: argparse.Action) -> list[str]:
    """A value of the file as words of the command line."""
    is_switch = action.nargs == 0
    if is_switch and isinstance(value, bool):
        return [flag_of(name)] if value else []
    if is_switch or isinstance(value, bool) or not isinstance(value, str | int | float):
        allowed = "true or false" if is_switch else "a number or a text in quotes"
        raise SettingError(f"{path} sets `{name}` to {brief(value)}: it must be {allowed}.")
    return [f"{flag_of(name)}={value}"]
