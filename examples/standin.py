"""A stand-in for torchvision, where it is not installed.

Avalanche and DD-Ranking import names from it that the examples do not use. With torchvision installed, it does nothing.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
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
        raise NotImplementedError(f"{type(self).__name__} is of torchvision, which is not installed here.")


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
    """Let modules import names of torchvision if it is not installed. Returns whether there is a stand-in now."""
    if find_spec(NAME) is None:
        sys.meta_path.append(Finder())
    return isinstance(sys.meta_path[-1], Finder)
