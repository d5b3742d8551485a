"""What verbs share: sizes, and data of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, save_npz, save_pictures
from mipset import errors, read
from mipset.cli import shared
from mipset.settings import protocol


class TestSizes:
    @pytest.mark.parametrize(
        ("text", "sizes"),
        [
            (None, [1, 2, 3, 4, 5]),
            ("1", [1]),
            ("1-3", [1, 2, 3]),
            ("5,1", [1, 5]),
            ("1-2,2-3,5", [1, 2, 3, 5]),
            ("3-3", [3]),
            (" 1 , 2 - 3 ", [1, 2, 3]),
        ],
    )
    def test_that_can_be(self, text: str | None, sizes: list[int]) -> None:
        assert shared.asked_sizes(text, 5) == sizes

    @pytest.mark.parametrize("text", ["", ",", "1,", "a", "1-", "-3", "1-2-3", "1.5", "1;2", "all", "1\u20133"])
    def test_that_cannot_be_read(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="write numbers such as 1-10 or 1,2,5"):
            shared.asked_sizes(text, 5)

    @pytest.mark.parametrize("text", ["0", "6", "1-6", "3-2", "0-2", "1,99999999999999999999"])
    def test_that_are_not_there(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="there are sizes 1 to 5"):
            shared.asked_sizes(text, 5)


class TestOwnData:
    def test_in_an_npz_file(
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
        assert "condensed from npz:pets.npz: add --data npz:PATH to say" in refusal("evaluate", out, *BRIEF)
        assert here("evaluate", out, "--data", f"npz:{pets}", *BRIEF).splitlines()[1:] == table

        save_npz(tmp_path / "elsewhere" / "pets.npz", seed=5)
        assert "condensed from another npz:pets.npz" in refusal("evaluate", out, *BRIEF)

    def test_in_a_folder(self, here: Here, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """How pictures were scaled and split is in the file, so that the test images are the same again."""
        pictures = save_pictures(tmp_path / "my pictures", size=10)
        out = tmp_path / "set.safetensors"
        small = ["--factor", "1", "--real-batch", "4", "--resolution", "8", "--split-seed", "3"]
        here("condense", f"folder:{pictures}", "--out", out, *TINY, *small)
        found = read(out)
        assert found.images.shape == (2, 2, 1, 8, 8)
        assert found.class_names == ("cat", "dog")
        assert {
            "dataset": "folder:my pictures",
            "size": 8,
            "split_seed": 3,
        }.items() <= found.provenance.items()
        assert str(tmp_path).encode() not in out.read_bytes()
        monkeypatch.chdir(tmp_path)
        here("evaluate", out, *BRIEF)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "add --data folder:PATH" in refusal("evaluate", out, *BRIEF)
        here("evaluate", out, "--data", f"folder:{pictures}", *BRIEF)


class TestProtocols:
    def test_protocols_are_those_of_evaluate(self) -> None:
        assert set(shared.PROTOCOLS) == set(protocol.PROTOCOLS)
