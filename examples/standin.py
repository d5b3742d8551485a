"""A stand-in for torchvision, where it is not installed or does not fit the torch that is.

Avalanche and DD-Ranking import names from it that the examples do not use. Where torchvision can be imported, it does
nothing. One that does not fit fails with `RuntimeError: operator torchvision::nms does not exist`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "torchvision"


class AnyAttribute(type):
    """A stand-in class has every attribute, such as the members of an enumeration, each another one."""

    def __getattr__(cls, name: str) -> Any:
        return _new_attribute(cls, name, cls.__module__)


class Placeholder(metaclass=AnyAttribute):
    """What stands for a class or function of torchvision. It can be made and derived from, and not be used."""

    def __init__(self, *args: object, **settings: object) -> None:
        pass

    def __call__(self, *args: object, **settings: object) -> Any:
        raise NotImplementedError(f"{type(self).__name__} is of torchvision, which cannot be imported here.")


class StandIn(ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> Any:
        return _new_attribute(self, name, self.__name__)


def _new_attribute(owner: object, name: str, module: str) -> Any:
    """Give the owner a stand-in class of this name."""
    if name.startswith("_"):
        raise AttributeError(name)
    value = AnyAttribute(name, (Placeholder,), {"__module__": module})
    setattr(owner, name, value)
    return value


class Finder(MetaPathFinder, Loader):
    """Finds torchvision and all its modules."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self, is_package=True) if fullname.split(".")[0] == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def stand_in_for_torchvision() -> bool:
    """Let modules import names of torchvision if it cannot be imported. Returns whether there is a stand-in now."""
    try:
        import_module(NAME)
    except Exception:  # what a torchvision for another torch raises depends on both
        for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
            del sys.modules[name]  # half imported
        sys.meta_path.insert(0, Finder())  # before the one that finds the files of torchvision
    return any(isinstance(finder, Finder) for finder in sys.meta_path)
