"""The command line: verbs, no logic. Nothing heavy is imported before a verb needs it.

Each module of verbs holds their functions, and `add`, which says what flags they have.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path

from mipset import __version__
from mipset.cli import comparing, condensing, datasets, devices, evaluating, files
from mipset.cli.shared import Parser, say
from mipset.errors import MipsetError, TeamError, missing
from mipset.nn.distributed import ALONE, Team, joined

EXTRA = {"torch", "PIL", "platformdirs"}  # what `pip install "mipset[condense]"` brings


def main(arguments: list[str] | None = None) -> None:
    """Run one command; bad input is one sentence on standard error and exit code 2."""
    sys.exit(_main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: list[str]) -> int:
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a bar or a file name that the terminal's encoding lacks
    try:
        with joined() if arguments[:1] == ["condense"] else nullcontext(ALONE) as team:
            return _run(arguments, team)
    except TeamError as error:
        return _complain(str(error))
    except KeyboardInterrupt:  # before the others have come
        return _complain("interrupted; nothing was written.")


def _run(arguments: list[str], team: Team) -> int:
    try:
        with _only_the_leader_is_heard(team):
            chosen = parser().parse_args(arguments, argparse.Namespace(team=team))
            run: Callable[[argparse.Namespace], None] = chosen.run
            run(chosen)
            sys.stdout.flush()
    except (KeyboardInterrupt, TeamError) as stop:
        sentence = str(stop) or "interrupted"
        return _complain(sentence if sentence.endswith(".") else f"{sentence}; nothing was written.", team)
    except MipsetError as error:
        return _complain(str(error), team)
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error) and "memory" not in str(error):
            raise
        return _complain("there is not enough memory for this: try a smaller --width, --real-batch or --ipc.", team)
    except BrokenPipeError:  # whoever read our output has seen enough
        _forget_output()
        return 0
    except OSError as error:  # such as a full disk behind our output
        _forget_output()
        return _complain(f"{error}.", team)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA:
            raise
        return _complain(str(missing(str(error.name), "this")), team)
    return 0


def _complain(sentence: str, team: Team = ALONE) -> int:
    words = team.last_words(sentence)
    if words is not None:
        say(words)
    return 2


@contextmanager
def _only_the_leader_is_heard(team: Team) -> Iterator[None]:
    if team.leads:
        yield
        return
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def _forget_output() -> None:
    """What could not be written must not be tried again when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> Parser:
    """All verbs and flags."""
    top = Parser(prog="mipset", description="Condense a labelled image set once; every prefix of the result is a set.")
    top.add_argument("--version", action="version", version=f"mipset {__version__}")
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    for module in (condensing, evaluating, comparing, files, devices, datasets):
        module.add(verbs)
    return top
