"""What to say when a package that only a part of mipset needs is not installed."""

from __future__ import annotations

from mipset.errors import MissingExtraError


def missing(package: str, purpose: str, extra: str = "condense") -> MissingExtraError:
    """The error for a `package` that could not be imported while it was needed for `purpose`."""
    return MissingExtraError(f'{purpose} needs {package}, which is not installed: run pip install "mipset[{extra}]".')
