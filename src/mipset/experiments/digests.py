"""JSON objects in one line, with a SHA-256 digest of what they hold: a change of any bit is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def with_digest(content: Mapping[str, Any]) -> str:
    """The content as JSON, with its digest under `sha256`."""
    return json.dumps({**content, "sha256": _digest(content)})


def without_digest(text: str | bytes) -> dict[str, Any]:
    """The content of a line that `with_digest` made; a ValueError if it was changed. Older lines have no digest."""
    content = json.loads(text)
    if not isinstance(content, dict):
        raise ValueError("This is no object.")
    digest = content.pop("sha256", None)
    if digest not in (None, _digest(content)):
        raise ValueError("The digest is another.")
    return content


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
