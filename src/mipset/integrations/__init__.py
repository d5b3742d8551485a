"""Condensed sets inside the libraries of others: one module for each library, which only that module imports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mipset.errors import missing


@contextmanager
def needing(module: str, package: str, purpose: str) -> Iterator[None]:
    """Import names of a library in this block. If the library is not installed, the error tells how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:  # then it is installed, and its own message tells what it lacks
            raise
        raise missing(package, purpose) from error
