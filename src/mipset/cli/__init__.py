"""The command line: verbs and flags, no logic. A module of verbs imports torch and numpy only when a verb runs.

Each module of verbs has a function `add`, which adds its verbs and flags, and one function `run_VERB` for each verb.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from mipset import __version__
from mipset.cli import (
    comparing,
    completing,
    condensing,
    datasets,
    devices,
    evaluating,
    files,
    galleries,
    recipes,
    reporting,
)
from mipset.cli.config import unchanged_settings, with_config
from mipset.cli.parser import Parser
from mipset.cli.stopping import Stopping
from mipset.cli.wording import print_message
from mipset.errors import MipsetError, SettingError, TeamError, choices, missing
from mipset.nn.distributed import ALONE, Team, joined

PACKAGES = {"torch": "torch", "PIL": "Pillow"}  # by module: what a verb may need and a device does not have
FIRST_STEPS = """\
mipset condenses a labelled image set once. Every prefix of the result is a training set.

First, with images that come with mipset (half a minute each):
    mipset condense fashion-mini --recipe demo --out demo.safetensors
    mipset evaluate demo.safetensors --protocol quick --save
    mipset show demo.safetensors

Then with your own, in one sub-folder per class:
    mipset condense folder:PATH --resolution 32 --budget 10min --out mine.safetensors

All verbs: mipset --help. All flags of a verb: mipset VERB --help."""
USE_MEMORY = ("width", "real_batch", "ipc", "workers")  # smaller values need less memory


def main(words: list[str] | None = None) -> None:
    """Run one command. An error is one line on standard error, and the exit code is 2.

    A command that was stopped has the exit code of `Stopping`.
    """
    stopping = Stopping()
    try:
        with stopping:
            code = _main(sys.argv[1:] if words is None else words, stopping)
    except KeyboardInterrupt:  # before the command began, or after its end
        code = stopping.code
    sys.exit(code)


def _main(words: list[str], stopping: Stopping) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the encoding of a terminal may lack a bar or a file name
    try:
        with joined() if words[:1] == ["condense"] else nullcontext(ALONE) as team:
            return _run(words, team, stopping)
    except (SettingError, TeamError) as error:
        return _fail(str(error))
    except KeyboardInterrupt as stop:  # while waiting for the other processes
        return _fail(_interrupted(str(stop)), code=stopping.code)


def _run(words: list[str], team: Team, stopping: Stopping) -> int:
    arguments = argparse.Namespace(team=team, stopping=stopping, parser=None, json=False, quiet=False)
    if not words:
        print(FIRST_STEPS)
        return 0
    try:
        with _only_the_leader_prints(team):
            _parse(words, arguments)
            run: Callable[[argparse.Namespace], None] = arguments.run
            with _without_remarks() if arguments.quiet else nullcontext():
                run(arguments)
            sys.stdout.flush()
    except KeyboardInterrupt as stop:
        return _fail(_interrupted(str(stop)), team, stopping.code)
    except TeamError as error:
        return _fail(_interrupted(str(error)), team)
    except MipsetError as error:
        return _fail(error.naming(_typed_names(arguments).get), team)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error) and "memory" not in str(error):
            raise
        return _fail(_out_of_memory(arguments), team)
    except BrokenPipeError:  # the reader of our output has closed it
        _forget_output()
        return 0
    except OSError as error:  # such as a full disk
        _forget_output()
        place = f"{error.filename}: " if error.filename else ""
        return _fail(f"{place}{error.strerror or error}.", team)
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        return _fail(str(missing(PACKAGES[error.name], f"`mipset {words[0]}`")), team)
    return 0


def _parse(words: list[str], arguments: argparse.Namespace) -> None:
    """Read the words into `arguments`. An error for words that no flag takes names the help of the verb."""
    top = parser()
    table: dict[str, Any] = {}
    named = top.verbs().get(words[0]) if words else None
    if named is not None and "config" in named.typed_names():
        arguments.parser = named  # for the names in an error
        more, table = with_config(words[1:], named)
        words = [words[0], *more]
    _, unknown = top.parse_known_args(words, arguments)
    if unknown:
        verb: Parser = arguments.parser or top
        verb.refuse_unknown(unknown)
    arguments.unchanged = unchanged_settings(arguments, table)


def _typed_names(arguments: argparse.Namespace) -> dict[str, str]:
    """How the arguments of the chosen verb are typed, by their Python names."""
    verb: Parser | None = arguments.parser
    return {} if verb is None else verb.typed_names()


def _interrupted(reason: str) -> str:
    """The message for work that was stopped. A verb that has kept something says so in a reason with a full stop."""
    return reason if reason.endswith(".") else f"{reason or 'Interrupted'}. Nothing was written."


def _out_of_memory(arguments: argparse.Namespace) -> str:
    typed = _typed_names(arguments)
    flags = [typed[name] for name in USE_MEMORY if name in typed]
    advice = f"Choose a smaller {choices(flags)}" if flags else "Close other programs and try again"
    return f"There is not enough memory. {advice}."


def _fail(sentence: str, team: Team = ALONE, code: int = 2) -> int:
    message = team.last_words(sentence)
    if message is not None:
        print_message(message)
    return code


@contextmanager
def _only_the_leader_prints(team: Team) -> Iterator[None]:
    if team.leads:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Show nothing on standard error while a verb runs: no progress and no remarks. Its error is printed afterwards."""
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        yield


def _forget_output() -> None:
    """Drop the output that could not be written, so that Python does not try again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    """The parser with all verbs and flags."""
    top = Parser(
        prog="mipset",
        description="Condense a labelled image set once. Every prefix of the result is a training set.",
    )
    top.add_argument("--version", action="version", version=f"mipset {__version__}", help="show the version and exit")
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    for module in (condensing, recipes, evaluating, comparing, reporting, files, devices, galleries, datasets):
        module.add(verbs)
    completing.add(verbs, parser)
    return top
