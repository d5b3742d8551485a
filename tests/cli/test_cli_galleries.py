"""`gallery` and `publish`, and `gallery:NAME` in other verbs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from commands import Here
from gallery_sets import make_gallery
from mipset import Accuracy, read
from mipset.file.audit_file import AuditFile, Neighbour, path_of, write_audit
from mipset.file.run_log import SUFFIX, Entry, add, begin
from noise_sets import noise_set


@pytest.fixture
def gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gallery of a set called `noise`, and a working folder beside it."""
    folder = make_gallery(tmp_path / "sets")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("MIPSET_GALLERY", str(folder))
    return folder


class TestGallery:
    def test_sets_are_listed_as_a_table(self, gallery: Path, here: Here) -> None:
        titles, row = here("gallery").splitlines()
        assert titles.split("  ")[0] == "name"
        assert row.split() == [
            *("noise", "noise", "6", "5.7", "kB", "40.0", "(1),", "50.0", "(2),", "60.0", "(4)", "quick", "cc0-1.0")
        ]

    def test_sets_are_listed_as_json(self, gallery: Path, here: Here) -> None:
        (entry,) = json.loads(here("gallery", "--json"))
        assert entry["file"] == "noise.safetensors"
        assert [point["size"] for point in entry["accuracy"]] == [1, 2, 4]
        one = json.loads(here("gallery", "noise", "--json"))
        assert one["text"] == (gallery / "README.md").read_text("utf-8")
        assert one["where"] == str(gallery / "noise.safetensors")

    def test_card_is_printed_without_what_only_programs_read(self, gallery: Path, here: Here) -> None:
        (gallery / "README.md").write_text("---\nlicense: mit\n---\n\n# Noise\x1b[2J\n\ntext\n", "utf-8")
        assert here("gallery", "noise") == "# Noise?[2J\n\ntext\n"
        assert here("gallery", "gallery:noise") == here("gallery", "noise")

    def test_empty_gallery_and_unknown_names(self, gallery: Path, here: Here, refusal: Here) -> None:
        assert "has no set 'nose'. Did you mean noise? It has noise." in refusal("gallery", "nose")
        (gallery / "index.json").write_text('{"mipset_gallery": 1, "sets": []}', "utf-8")
        assert here("gallery") == "The gallery is empty.\n"
        assert "has no set 'noise'. It is empty." in refusal("gallery", "noise")

    def test_fields_of_an_index_are_not_taken_for_flags(self, gallery: Path, refusal: Here) -> None:
        index = json.loads((gallery / "index.json").read_bytes())
        index["sets"][0]["bytes"] = 0
        (gallery / "index.json").write_text(json.dumps(index), "utf-8")
        assert "in its set 1, 'bytes' is 0" in refusal("fetch", "gallery:noise", "--out", "x")


class TestVerbs:
    def test_verbs_take_a_set_of_the_gallery(self, gallery: Path, here: Here, tmp_path: Path) -> None:
        assert "6 per class, 4 classes" in here("show", "gallery:noise")
        assert "size      6 of 6 images per class" in here("plan", "gallery:noise")
        here("fetch", "gallery:noise", "--ipc", 3, "--out", "three")
        here("slice", "gallery:noise", 2, "--out", "two")
        assert read("three").to_bytes() == noise_set().prefix(3).to_bytes()
        assert read("two").ipc == 2
        printed = here("export", "gallery:noise", "--to", "npz", "--out", "x.npz")
        assert printed.startswith("x.npz: 24 training images for each of 4 classes, ")
        assert "1 set" in here("report", "gallery:noise", "--out", "x.html")

    def test_evaluate_and_audit_take_a_set_of_the_gallery(
        self, condensed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here, refusal: Here
    ) -> None:
        here("publish", condensed, "--to", tmp_path / "sets", "--no-parquet")
        monkeypatch.setenv("MIPSET_GALLERY", str(tmp_path / "sets"))
        brief = ("--sizes", 1, "--networks", 1, "--epochs", 1, "--protocol", "quick", "--workers", 1, "--threads", 1)
        assert "gallery:set" in here("evaluate", "gallery:set", "--compile", "off", *brief)
        assert "the 1 of 30 images that are closest" in here("audit", "gallery:set", "--top", 1)
        for verb in ("evaluate", "audit"):
            assert "--save cannot change gallery:set" in refusal(verb, "gallery:set", "--save")

    def test_file_of_the_gallery_is_never_overwritten(self, gallery: Path, refusal: Here) -> None:
        file = gallery / "noise.safetensors"
        for verb in (["fetch", "gallery:noise", "--ipc", 1], ["slice", "gallery:noise", 1]):
            assert "would overwrite the file itself" in refusal(*verb, "--out", file, "--force")


class TestPublish:
    def test_folder_has_everything_and_is_a_gallery(
        self, condensed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
    ) -> None:
        artifact = read(condensed)
        data = str(artifact.provenance.get("sha256"))
        artifact.with_accuracy([Accuracy(2, 55.5, 0.5, 2, "convnet-3", "quick", 0, data)]).write(condensed)
        printed = here("publish", condensed, "--to", tmp_path / "new", "--name", "clothes", "--data", "fashion-mini")
        assert printed.startswith(f"{tmp_path / 'new'}: clothes, 3 images per class, ")
        monkeypatch.setenv("MIPSET_GALLERY", str(tmp_path / "new"))
        assert here("fetch", "gallery:clothes", "--out", tmp_path / "x").startswith(f"{tmp_path / 'x'}: 3 of 3")
        shown = here("gallery", "clothes")
        assert " of 30 training images are nearer to a real training image" in shown
        assert "| 2 | " in shown
        assert "55.5 ± 0.5" in shown
        assert "- time: not recorded\n" in shown
        assert "fashion-mini: MIT, © 2017 Zalando SE." in shown
        assert "mipset fetch gallery:clothes --ipc 3 --out small.safetensors\n" in shown
        assert len(list((tmp_path / "new" / "data").iterdir())) == 3

    @pytest.mark.parametrize(
        ("of_processors", "time"),
        [
            ({"preparing_processor_seconds": 70.0}, "3:00 of processor time, of which 1:10 for experts"),
            ({}, "1:50 of processor time, and 1:00 on the clock for experts"),  # the log of an older version
        ],
    )
    def test_audit_and_log_beside_the_file_are_used(
        self, condensed: Path, tmp_path: Path, here: Here, of_processors: dict[str, float], time: str
    ) -> None:
        artifact = read(condensed)
        nearest = Neighbour(1, 0, 1, 5, 0, 4.0, 0.1)
        write_audit(path_of(condensed), AuditFile(artifact.images_sha256, "d", 8.0, ["shirt"], [nearest]))
        log = condensed.with_name(condensed.name + SUFFIX)
        names = list(artifact.class_names)
        about = {"class_names": names, "recipe": artifact.recipe, "provenance": {}, "outer": 1}
        about |= {"preparing_seconds": 60.0, **of_processors}
        begin(log, about)
        add(log, Entry(1, 0.5, (), (0,) * 10, (0,) * 10, 120.0, 110.0, None))
        here("publish", condensed, "--to", tmp_path / "new", "--no-parquet")
        text = (tmp_path / "new" / "README.md").read_text("utf-8")
        assert "1 of 1 training images are nearer" in text
        assert "| 4.0 | 5 (shirt) |" in text
        assert f"- time: {time}\n" in text

    def test_what_a_set_of_a_gallery_loses_is_told(
        self, gallery: Path, tmp_path: Path, here: Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: list[str] = []
        monkeypatch.setattr("mipset.cli.galleries.print_message", told.append)
        command = ("publish", "gallery:noise", "--to", tmp_path / "new", "--no-parquet", "--licence", "mit")
        here(*command)
        here(*command, "--time", "3min", "--force")
        here("publish", gallery / "noise.safetensors", "--to", tmp_path / "x", "--no-parquet", "--licence", "mit")
        so = "A gallery keeps no audit and no log, so the card does not tell"
        so += " the nearest real images (add --data DATASET)"
        assert told == [f"{so} and the time that it took (add --time TIME).", f"{so}."]

    @pytest.mark.parametrize(
        ("provenance", "line"),
        [
            ({"dataset": "stripes"}, "\n- command: none: it was made in Python, from data in memory\n"),
            ({"dataset": "folder:pets"}, "\n- command: `mipset condense folder:pets "),
            ({"dataset": "stripes", "imported": "mdc"}, ""),
        ],
    )
    def test_set_of_data_in_memory_names_no_command(
        self, condensed: Path, tmp_path: Path, here: Here, provenance: Any, line: str
    ) -> None:
        replace(read(condensed), provenance=provenance).write(condensed)
        here("publish", condensed, "--to", tmp_path / "new", "--no-parquet", "--licence", "mit")
        text = (tmp_path / "new" / "README.md").read_text("utf-8")
        assert line in text
        assert ("- command: " in text) == bool(line)

    @pytest.mark.parametrize(
        ("given", "short"), [("CC-BY-4.0", "cc-by-4.0"), ("Ask the photographers.", "other")]
    )  # fmt: skip
    def test_licence_of_own_data_must_be_given(
        self, condensed: Path, tmp_path: Path, here: Here, refusal: Here, given: str, short: str
    ) -> None:
        noise_set(provenance={"dataset": "folder:pets"}, accuracy=()).write(condensed)
        command = ["publish", condensed, "--to", tmp_path / "new", "--no-parquet"]
        assert "The licence of folder:pets is not known. Give --licence" in refusal(*command)
        entry = json.loads(here(*command, "--licence", given, "--json"))["set"]
        assert (entry["licence"], entry["licence_note"]) == (short, given)

    def test_impossible_commands_are_refused(self, condensed: Path, tmp_path: Path, refusal: Here, here: Here) -> None:
        command = ["publish", condensed, "--to", tmp_path / "new", "--no-parquet"]
        assert "--time is 'long'. Write a time such as 90s, 24min or 2h." in refusal(*command, "--time", "long")
        assert "'A B' is no name of a set" in refusal(*command, "--name", "A B")
        assert "Choose another --name." in refusal(*command, "--name", "A B")
        here(*command)
        assert "exists already. Choose another --to, or set --force" in refusal(*command)
        inside = tmp_path / "new" / "set.safetensors"
        assert "holds " in refusal("publish", inside, "--to", tmp_path / "new", "--force")
