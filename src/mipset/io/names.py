"""Names of files that every system allows. Windows is the strictest."""

from __future__ import annotations

import re

FORBIDDEN = re.compile(r'[<>:"/\\|?*\x00-\x1f]+')
DEVICES = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(?=\.|$)", re.IGNORECASE)  # of Windows


def portable_name(text: str) -> str:
    """The text as the name of a file: `folder:pets` is `folder-pets`. What every system allows stays as it is."""
    name = FORBIDDEN.sub("-", text).rstrip(". ")
    return f"_{name}" if not name or DEVICES.match(name) else name
