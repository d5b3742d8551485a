"""Notes of a comparison: a change is noticed, also one that leaves good JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from mipset.condensing.passes import Passes
from mipset.errors import ArtifactError
from mipset.experiments.store import BuiltSets, Store


@pytest.mark.parametrize(
    ("old", "new"), [('"forward": 3', '"forward": 7'), ('"paths"', '"qaths"'), ('"seconds": 2.5', '"seconds": 2.4')]
)
def test_changed_note_is_refused(tmp_path: Path, old: str, new: str) -> None:
    store, note = Store(tmp_path), tmp_path / "sets" / "cell.json"
    store.write_sets_note("cell", BuiltSets({}, 2.5, Passes(3, 4)))
    assert store.read_sets_note("cell") == BuiltSets({}, 2.5, Passes(3, 4))
    text = note.read_text("utf-8")
    note.write_text(text.replace(old, new), "utf-8")
    assert note.read_text("utf-8") != text
    with pytest.raises(ArtifactError, match=r"cell\.json is damaged\. Remove "):
        store.read_sets_note("cell")
