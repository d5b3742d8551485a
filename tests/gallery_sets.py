"""A gallery of one small set, as a folder and on a server, for tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mipset import Artifact
from mipset.exchange.card import Publication
from mipset.exchange.publishing import publish
from noise_sets import noise_set

Change = Callable[[dict[str, Any]], object]


def publication(artifact: Artifact | None = None, **changes: Any) -> Publication:
    """The set of noise, ready to be published under the name `noise`."""
    fields: dict[str, Any] = {"licence": "cc0-1.0", "licence_note": "Noise is free.", **changes}
    return Publication("noise", noise_set() if artifact is None else artifact, **fields)


def make_gallery(folder: Path) -> Path:
    """A folder with a set called `noise`, without Parquet."""
    folder.mkdir()
    for name, content in _files().items():
        (folder / name).write_bytes(content)
    return folder


@cache
def _files() -> dict[str, bytes]:
    """The files of the folder. Drawing the accuracy curve takes long, so they are made once."""
    with TemporaryDirectory() as work:
        publish(publication(), Path(work) / "made", with_parquet=False)
        return {path.name: path.read_bytes() for path in (Path(work) / "made").iterdir()}


def change_index(folder: Path, change: Change) -> None:
    """Change the one entry of an index."""
    index = json.loads((folder / "index.json").read_bytes())
    change(index["sets"][0])
    (folder / "index.json").write_text(json.dumps(index), "utf-8")
