"""What all parts of a method share, also classes of one's own: they describe themselves, and a recipe can name them."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mipset.errors import SettingError, brief

if TYPE_CHECKING:
    from mipset.settings.recipe import Recipe

MACHINERY = ("team", "files")  # fields of learners that do not change what they do
MOST_ITEMS = 20  # of a list that are shown
MOST_LETTERS = 1000  # of a description
_OWN = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


class Part:
    """A part of a method. Its repr is its class and its settings, without images, networks and functions."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__repr__" not in vars(cls):
            setattr(cls, "__repr__", described)  # noqa: B010 (a dataclass would write its own, with every field)

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> Self:  # noqa: ARG003
        """The part for a recipe that names this class. A class that needs arguments replaces this function."""
        return cls()


def is_own(name: str) -> bool:
    """Whether this names a class of somebody's own, as `module:Class`."""
    return _OWN.fullmatch(name) is not None


def imported(name: str, setting: str) -> object:
    """What a setting names as `module:Class`; None if the module has no such name. Modules here are found too."""
    module, _, title = name.partition(":")
    try:
        with _current_folder():
            return getattr(import_module(module), title, None)
    except Exception as error:  # the code of a module can raise anything
        raise SettingError(
            f"`{setting}` is {name!r}, but the module {module} cannot be imported ({brief(error, str)}). Name a module "
            f"that Python finds, such as a file of this folder without its .py."
        ) from error


def code_digest(name: str, setting: str) -> str:
    """A digest of the files with the code of what a setting names, and of the classes that it is derived from.

    Code of mipset, of torch and of Python itself is left out. What has no file, as in a notebook, has no digest.
    """
    found = imported(name, setting)
    classes = found.__mro__ if isinstance(found, type) else (found,)
    modules = sorted({module for kind in classes if (module := getattr(kind, "__module__", "")) and _is_own(module)})
    named = [Path(getattr(sys.modules.get(module), "__file__", None) or "") for module in modules]
    code = b"".join(file.read_bytes() for file in named if file.is_file())
    return hashlib.sha256(code).hexdigest()[:16] if code else ""


def _is_own(module: str) -> bool:
    top = module.partition(".")[0]
    return top not in ("mipset", "torch") and top not in sys.stdlib_module_names


@contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules be imported from the current folder, after all other places."""
    folder = os.getcwd()  # noqa: PTH109 (the text that sys.path holds)
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def own_name(part: object) -> str:
    """The class of a part as `module:Class`; a class of mipset has its name alone in a description."""
    return f"{type(part).__module__}:{type(part).__qualname__}"


def described(part: object) -> str:
    """`EveryPrefix(w=(1.0, 1.0), balanced=True)`: the class and those of its settings that can be read."""
    name = type(part).__qualname__ if type(part).__module__.startswith("mipset.") else own_name(part)
    if is_dataclass(part):
        settings = {f.name: getattr(part, f.name) for f in fields(part) if f.repr}
    else:
        settings = dict(getattr(part, "__dict__", {}))
    texts = {key: _text(value) for key, value in settings.items() if key not in MACHINERY and key[0] != "_"}
    text = f"{name}({', '.join(f'{key}={text}' for key, text in texts.items() if text is not None)})"
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}..."


def _text(value: object) -> str | None:
    """A setting as text; None for what is no setting, such as a tensor."""
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Enum):
        return repr(value.value)
    if isinstance(value, tuple | list):
        items = [_text(item) for item in value[:MOST_ITEMS]]
        shown = [item for item in items if item is not None]
        rest = ["..."] if len(value) > MOST_ITEMS else []
        return f"({', '.join([*shown, *rest])})" if len(shown) == len(items) else None
    if isinstance(value, Part):
        return repr(value)
    if is_dataclass(value) and not isinstance(value, type):
        text = described(value)
        return None if fields(value) and text.endswith("()") else text
    return None
