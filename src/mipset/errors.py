"""What can go wrong, as one small tree.

MipsetError             anything below; the command line prints it as one sentence and exits with 2
├── SettingError        a recipe value or an argument that cannot be, or contradicts another
├── DataError           a dataset that is missing, incomplete, or not what it says it is
├── ArtifactError       a condensed-set file that is missing, truncated, altered, or from elsewhere
├── RemoteError         a server that cannot be reached, breaks off, or answers something else than was asked for
├── ChangedError        a file that is no longer the one that was opened
├── BudgetError         not even one image per class fits into what there is
├── MissingExtraError   a part of mipset that needs a package which is not installed
├── NoCompilerError     the kernels cannot be compiled here
├── DivergedError       a value stopped being finite during condensation or evaluation
└── TeamError           a process of a run of several has ended, or could not be reached
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_NAME = re.compile(r"`([a-z_][a-z0-9_]*)`")


class MipsetError(Exception):
    """Base of every error that mipset raises on purpose. The message is a sentence with a next step.

    A message writes the name of a setting or an argument in backticks, as Python knows it: "`pixel_lr` cannot be -1".
    `settings` lists these names, and `naming` writes them in another way: the command line as "--pixel-lr".
    """

    @property
    def settings(self) -> tuple[str, ...]:
        """The names in backticks, in the order in which the message mentions them first."""
        return tuple(dict.fromkeys(_NAME.findall(str(self))))

    def naming(self, write: Callable[[str], str | None]) -> str:
        """The message, with every name in backticks as `write` gives it; None leaves it as it is."""
        return _NAME.sub(lambda match: write(match[1]) or match[0], str(self))


class SettingError(MipsetError):
    """A recipe value or an argument that cannot be, or contradicts another."""


class DataError(MipsetError):
    """A dataset that is missing, incomplete, or not what it says it is."""


class ArtifactError(MipsetError):
    """A condensed-set file that is missing, truncated, altered, or from elsewhere."""


class RemoteError(MipsetError):
    """A server that cannot be reached, breaks off, or answers something else than was asked for."""


class ChangedError(MipsetError):
    """A file that is no longer the one that was opened."""


class BudgetError(MipsetError):
    """Not even one image per class fits into what there is."""


class MissingExtraError(MipsetError):
    """A part of mipset that needs a package which is not installed."""


class NoCompilerError(MipsetError):
    """The kernels cannot be compiled here."""


class DivergedError(MipsetError):
    """A value stopped being finite during condensation or evaluation."""


class TeamError(MipsetError):
    """A process of a run of several has ended, or could not be reached."""


def choices(names: Iterable[str]) -> str:
    """`a, b or c`: how every message lists what may be chosen."""
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"


def printable(text: str) -> str:
    """What somebody else wrote, with nothing in it that a terminal obeys."""
    return "".join(c if c.isprintable() else "?" for c in text)


def brief(value: object, text: Callable[[object], str] = repr) -> str:
    """What somebody else's file says, in a message: printable, and no longer than one wants to read."""
    written = text(value)
    return printable(written if len(written) <= 200 else f"{written[:200]}...")


def missing(package: str, purpose: str, extra: str = "condense") -> MissingExtraError:
    """The error for a `package` that could not be imported while it was needed for `purpose`."""
    return MissingExtraError(f'{purpose} needs {package}, which is not installed: run pip install "mipset[{extra}]".')
