"""The folder gallery/ of the source tree: its files are those of its index, and a script makes it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mipset
from commands import SOURCE
from mipset.cli.repeating import command_of
from mipset.exchange.card import Publication, card
from mipset.file.gallery import entries_of, find
from mipset.file.gallery_index import INDEX, Entry

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "gallery"
SCRIPT = ROOT / "scripts" / "make_gallery.py"
MOST_BYTES = 5_000_000
ENTRIES = entries_of(GALLERY / INDEX)


def run_script(*arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_gallery_has_a_set_and_is_small() -> None:
    assert ENTRIES
    assert sum(path.stat().st_size for path in GALLERY.rglob("*") if path.is_file()) <= MOST_BYTES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_shipped_file_is_the_one_of_the_index(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIPSET_GALLERY", raising=False)
    content = (GALLERY / entry.file).read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (entry.sha256, entry.bytes)
    condensed = mipset.read(f"gallery:{entry.name}")
    assert condensed.to_bytes() == content
    assert condensed.accuracy == entry.accuracy
    assert {1, condensed.ipc} <= {point.size for point in entry.accuracy}
    assert (condensed.ipc, condensed.provenance["dataset"]) == (entry.ipc, entry.dataset)
    text = find(f"gallery:{entry.name}").card()
    for point in entry.accuracy:
        assert f"{point.mean:.1f}" in text
        assert point.protocol in text
    assert entry.licence_note.split(".")[0] in text
    assert "training images are nearer to a real training image" in text
    assert "not recorded" not in text
    assert str(ROOT) not in text


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_shipped_card_is_what_publishing_writes_now(entry: Entry) -> None:
    """All of it but the audit, which needs the real images, and the time, which is that of a log."""
    shipped, artifact = (GALLERY / entry.card).read_text("utf-8"), mipset.read(GALLERY / entry.file)
    written = card(
        Publication(
            entry.name,
            artifact,
            entry.licence,
            entry.licence_note,
            command=command_of(artifact),
            fetch=f"mipset fetch gallery:{entry.name} --ipc 3 --out small.safetensors",
        ),
        {},
        "accuracy.png",
    )
    varying = re.compile(r"(?<=- time: )[^\n]*|(?<=## Nearest real images\n\n).*?(?=\n\n## )", re.DOTALL)
    assert varying.sub("", shipped) == varying.sub("", written)


def test_index_lists_every_set_of_the_folder() -> None:
    folders = [index.parent for index in sorted(GALLERY.glob(f"*/{INDEX}"))]
    assert [folder.name for folder in folders] == [entry.name for entry in ENTRIES]
    listed = {GALLERY / entry.file for entry in ENTRIES}
    assert {*GALLERY.rglob("*.safetensors")} == listed


def test_script_adds_a_set_and_keeps_the_others(condensed: Path, tmp_path: Path) -> None:
    gallery = tmp_path / "gallery"
    run_script(f"one={condensed}", "--to", gallery, "--time", "2h")
    printed = run_script(f"two={condensed}", "--to", gallery)
    assert printed.splitlines()[-1].startswith(f"{gallery}: one, two; ")
    index = json.loads((gallery / INDEX).read_bytes())
    assert [entry["file"] for entry in index["sets"]] == ["one/one.safetensors", "two/two.safetensors"]
    assert "2h of processor time" in (gallery / "one" / "README.md").read_text("utf-8")
    before = (gallery / INDEX).read_bytes()
    (gallery / "large").write_bytes(bytes(MOST_BYTES))
    run_script("--to", gallery, code=1)
    assert (gallery / INDEX).read_bytes() == before
