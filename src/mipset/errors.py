"""The errors of mipset, as one small tree.

MipsetError             all of the following; the command line prints the message and exits with code 2
├── SettingError        a setting or an argument that is not allowed, or that contradicts another one
├── DataError           a dataset that is missing, incomplete, or not the expected one
├── ArtifactError       a file that is missing, truncated, altered, or not in the expected format
├── RemoteError         a server that cannot be reached, closes the connection, or sends something unexpected
├── ChangedError        a file that has changed since it was opened
├── BudgetError         a budget that is too small for one image per class
├── MissingExtraError   a package that is needed and not installed
├── NoCompilerError     the C++ kernels cannot be compiled on this machine
├── DivergedError       a value that is no longer finite during condensation or evaluation
├── LostWorkerError     a worker that ended several times before its work was done
└── TeamError           another process of the run has ended, or cannot be reached
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

EXTRAS = {  # by package
    "torch": "condense",
    "Pillow": "pictures",
    "matplotlib": "charts",
    "pyarrow": "export",
    "datasets": "hf",
    "Jinja2": "report",
    "tensorboardX": "tensorboard",
    "distributed": "dask",
    "submitit": "slurm",
    "optuna": "optuna",
    "avalanche-lib": "avalanche",
    "flwr": "flower",
    "ddranking": "ddranking",
}

LONGEST_NAME = 100  # letters; comparing longer ones takes long

_NAME = re.compile(r"`([a-z_][a-z0-9_]*)`")


class MipsetError(Exception):
    """Base of every error that mipset raises on purpose. The message says what is wrong and what to do.

    A message writes the name of a setting or an argument in backticks, with its Python name: "`pixel_lr` is -1: ...".
    `settings` lists these names. `naming` writes them in another way: the command line writes them as flags.
    """

    @property
    def settings(self) -> tuple[str, ...]:
        """The names in backticks, in the order in which the message mentions them first."""
        return tuple(dict.fromkeys(_NAME.findall(str(self))))

    def naming(self, write: Callable[[str], str | None]) -> str:
        """The message, with every name in backticks replaced by what `write` gives; None leaves it as it is."""
        return _NAME.sub(lambda match: write(match[1]) or match[0], str(self))


class SettingError(MipsetError):
    """A setting or an argument that is not allowed, or that contradicts another one."""


class DataError(MipsetError):
    """A dataset that is missing, incomplete, or not the expected one."""


class ArtifactError(MipsetError):
    """A file that is missing, truncated, altered, or not in the expected format."""


class RemoteError(MipsetError):
    """A server that cannot be reached, closes the connection, or sends something unexpected."""


class ChangedError(MipsetError):
    """A file that has changed since it was opened."""


class BudgetError(MipsetError):
    """A budget that is too small for one image per class."""


class MissingExtraError(MipsetError):
    """A package that is needed and not installed."""


class NoCompilerError(MipsetError):
    """The C++ kernels cannot be compiled on this machine."""


class DivergedError(MipsetError):
    """A value that is no longer finite during condensation or evaluation."""


class LostWorkerError(MipsetError):
    """A worker that ended several times before its work was done."""


class TeamError(MipsetError):
    """Another process of the run has ended, or cannot be reached."""


def choices(names: Iterable[str]) -> str:
    """`a, b or c`: how every message lists choices."""
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} or {listed[-1]}"


def together(names: Iterable[str]) -> str:
    """`a, b and c`: how every message lists all of something."""
    listed = list(names)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def choose(value: object, names: Iterable[str]) -> str:
    """`Did you mean mdc? Choose baseline-c, mdc or every-prefix`: advice after a name that does not exist."""
    listed = list(names)
    return f"{did_you_mean(value, listed)}Choose {choices(listed)}"


def did_you_mean(value: object, names: Iterable[str]) -> str:
    """`Did you mean mdc? ` if one of the names is much like the value; otherwise empty."""
    from difflib import get_close_matches  # only here, since it takes long to import

    close = get_close_matches(str(value)[:LONGEST_NAME].lower(), list(names), n=1)
    return f"Did you mean {close[0]}? " if close else ""


def printable(text: str) -> str:
    """Text from a file or a server, without control characters for the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def brief(value: object, text: Callable[[object], str] = repr) -> str:
    """A value from a file or a server, for a message: printable, and 200 characters at most."""
    written = text(value)
    return printable(written if len(written) <= 200 else f"{written[:200]}...")


def missing(package: str, purpose: str) -> MissingExtraError:
    """The error for a `package` that `purpose` needs and that cannot be imported."""
    command = how_to_install(EXTRAS[package])
    return MissingExtraError(f"{purpose} needs {package}, which is not installed: run {command}.")


def source_tree() -> Path | None:
    """The folder of the source tree that this mipset runs from; None if it was installed."""
    tree = Path(__file__).resolve().parents[2]
    return tree if (tree / "pyproject.toml").is_file() else None


def how_to_install(extra: str) -> str:
    """The command that installs an extra, from where this mipset comes: a source tree, an address, or the index."""
    from importlib.metadata import PackageNotFoundError, distribution  # only here, since they take long to import
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    tree = source_tree()
    if tree is not None:
        return f'pip install -e "{tree}[{extra}]"'
    try:
        metadata = distribution("mipset")
        origin = json.loads(metadata.read_text("direct_url.json") or "{}")  # pip writes it, unless an index was used
        url = str(origin.get("url", ""))
    except (PackageNotFoundError, ValueError, AttributeError):
        return f'pip install "mipset[{extra}]"'
    if url.startswith("file:"):
        path = Path(url2pathname(urlsplit(url).path))
        if path.is_dir():
            return f'pip install "{path}[{extra}]"'
        if not path.exists():  # then only the packages themselves can be installed
            wanted = re.compile(rf"""extra == ['"]{extra}['"]""")
            needed = [line.partition(";")[0].strip() for line in metadata.requires or () if wanted.search(line)]
            return " ".join(["pip install", *(f'"{requirement}"' for requirement in needed)])
    elif "vcs_info" in origin:
        url = f"{origin['vcs_info']['vcs']}+{url}"
    return f'pip install "mipset[{extra}]{f" @ {url}" if url else ""}"'
