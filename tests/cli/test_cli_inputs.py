"""Datasets that verbs read: arrays and folders of the user, found again by `evaluate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, save_npz, save_pictures
from mipset import read


class TestOwnData:
    def test_npz_file_is_found_by_its_name_or_named_by_data(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        out = tmp_path / "set.safetensors"
        here("condense", f"npz:{pets}", "--out", out, *TINY)
        assert read(out).provenance["dataset"] == "npz:pets.npz"
        assert str(tmp_path).encode() not in out.read_bytes()

        monkeypatch.chdir(tmp_path)  # where the file is found by its name alone
        table = here("evaluate", out, *BRIEF).splitlines()[1:]
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "condensed from npz:pets.npz, which cannot be read: add --data npz:PATH." in refusal(
            "evaluate", out, *BRIEF
        )
        assert here("evaluate", out, "--data", f"npz:{pets}", *BRIEF).splitlines()[1:] == table

        save_npz(tmp_path / "elsewhere" / "pets.npz", seed=5)
        assert (
            "condensed from another version of npz:pets.npz: add --data npz:pets.npz to use the present one."
            in refusal("evaluate", out, *BRIEF)
        )

    def test_folder_is_scaled_and_split_again_in_the_same_way(
        self, here: Here, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file says how pictures were scaled and split, so that the test images are the same again."""
        pictures = save_pictures(tmp_path / "my pictures", size=10)
        out = tmp_path / "set.safetensors"
        small = ["--factor", "1", "--real-batch", "4", "--resolution", "8", "--split-seed", "3"]
        here("condense", f"folder:{pictures}", "--out", out, *TINY, *small)
        condensed = read(out)
        assert condensed.images.shape == (2, 2, 1, 8, 8)
        assert condensed.class_names == ("cat", "dog")
        assert {
            "dataset": "folder:my pictures",
            "size": 8,
            "split_seed": 3,
        }.items() <= condensed.provenance.items()
        assert str(tmp_path).encode() not in out.read_bytes()
        monkeypatch.chdir(tmp_path)
        here("evaluate", out, *BRIEF)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "add --data folder:PATH" in refusal("evaluate", out, *BRIEF)
        here("evaluate", out, "--data", f"folder:{pictures}", *BRIEF)
