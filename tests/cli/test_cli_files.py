"""`show`, `slice` and `audit`; `export` and `import` have files of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from commands import GOLDEN, TINY, Here, is_refused, limit_files_to, names, run, save_pictures
from mipset import read

URL = "https://example.org/set.safetensors"


class TestRefusals:
    def test_slice_refuses_impossible_commands(self, refusal: Here, tmp_path: Path) -> None:
        (tmp_path / "old").write_bytes(b"precious")
        for size in ("0", "4"):
            assert "Choose a size from 1 to 3" in refusal("slice", GOLDEN, size, "--out", tmp_path / "new")
        assert "Unrecognized" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "new", "-1")
        assert "old exists already" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "old")
        assert "There is no folder" in refusal("slice", GOLDEN, "1", "--out", tmp_path / "nowhere" / "new")
        assert "`mipset fetch` downloads a file from an address" in refusal(
            "slice", URL, "1", "--out", tmp_path / "new"
        )

    @pytest.mark.parametrize("verb", [["slice", "1"], ["grow", "--ipc", "4"], ["reorder"]])
    def test_input_file_is_never_overwritten(self, refusal: Here, condensed: Path, verb: list[str]) -> None:
        name, *arguments = verb
        message = refusal(name, condensed, *arguments, "--out", condensed, "--force")
        assert "would overwrite the file itself. Choose another name" in message

    def test_show_refuses_impossible_commands(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        assert "There is no folder" in refusal("show", condensed, "--sheet", tmp_path / "nowhere" / "x.png")
        assert "would overwrite the file itself" in refusal("show", condensed, "--sheet", condensed, "--force")
        (tmp_path / "old").write_bytes(b"precious")
        assert "old exists already. Choose another --sheet" in refusal("show", condensed, "--sheet", tmp_path / "old")
        assert "`mipset fetch` downloads a file from an address" in refusal("show", URL)
        assert "would overwrite the file itself" in refusal("show", condensed, "--chart", condensed, "--force")
        assert "has no accuracy curve. Measure one with `mipset evaluate" in refusal(
            "show", condensed, "--chart", tmp_path / "x.svg"
        )
        assert "x.pdf: the name must end in .svg or .png. Choose another name." in refusal(
            "show", GOLDEN, "--chart", tmp_path / "x.pdf"
        )

    def test_show_draws_the_curve(self, here: Here, tmp_path: Path) -> None:
        picture = tmp_path / "x.svg"
        assert here("show", GOLDEN, "--chart", picture) == f"{picture}: accuracy against images per class\n"
        points = read(GOLDEN).accuracy
        drawn = ElementTree.parse(picture).getroot()
        texts = {text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")}
        assert {f"{point.network}; {point.protocol}" for point in points} <= texts


class TestSlice:
    def test_slice_reads_no_more_than_it_writes(self, here: Here, tmp_path: Path) -> None:
        damaged = bytearray(GOLDEN.read_bytes())
        damaged[-1] ^= 1
        (tmp_path / "set").write_bytes(damaged)
        assert here("slice", tmp_path / "set", 2, "--out", tmp_path / "part").startswith(f"{tmp_path}/part: 2 images ")
        assert (tmp_path / "part").read_bytes() == read(GOLDEN).prefix(2).to_bytes()


class TestFullDisk:
    def test_full_disk_leaves_no_file(self, tmp_path: Path, condensed: Path) -> None:
        process = run("slice", condensed, 2, "--out", "part", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "part cannot be written: File too large." in is_refused(process)
        process = run("show", condensed, "--sheet", "x.png", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "x.png cannot be written: File too large." in is_refused(process)
        (tmp_path / "old").write_bytes(b"precious")
        process = run("slice", condensed, 1, "--out", "old", "--force", cwd=tmp_path, preexec=limit_files_to(4000))
        assert "cannot be written" in is_refused(process)
        assert (tmp_path / "old").read_bytes() == b"precious"
        assert names(tmp_path) == {condensed.name, "old"}


class TestAudit:
    def test_audit_lists_the_closest_real_images(self, here: Here, refusal: Here, tmp_path: Path, pets: Path) -> None:
        file, picture = tmp_path / "set", tmp_path / "pairs.png"
        here("condense", f"npz:{pets}", "--out", file, *TINY, "--pixel-lr", "0")
        lines = here("audit", file, "--data", f"npz:{pets}", "--top", 3, "--png", picture).splitlines()
        assert lines[0] == "the 3 of 24 images that are closest to a real one; distances in grey levels"
        assert lines[1].split()[:4] == ["image", "rank", "tile", "distance"]
        assert len(lines) == 7
        assert lines[5].startswith("24 of 24 are closer to a training image than half of the training images are")
        assert lines[6] == f"{picture}: each of them beside the real image"
        with Image.open(picture) as shown:
            assert shown.format == "PNG"
        assert "--top is 0: it must be at least 1" in refusal("audit", file, "--data", f"npz:{pets}", "--top", 0)
        assert "would overwrite the file itself" in refusal("audit", file, "--data", f"npz:{pets}", "--png", file)
        assert "exists already. Choose another --png" in refusal(
            "audit", file, "--data", f"npz:{pets}", "--png", picture
        )

    def test_audit_names_the_files_of_a_folder_in_an_aligned_table(
        self, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also with class names of different length and of wide letters."""
        pictures = save_pictures(tmp_path / "pets", names=("cat", "白い犬", "a very long class name"))
        file, small = tmp_path / "set", ["--factor", "1", "--real-batch", "4", "--pixel-lr", "0"]
        monkeypatch.chdir(tmp_path)
        here("condense", "folder:pets", "--out", file, *TINY, *small)
        printed = here("audit", file, "--data", "folder:pets", "--top", 6)
        _, titles, *rows, _ = printed.splitlines()
        start = titles.index("closest real image")
        for row in rows:
            place = start - 3 * row.startswith("白い犬")  # each of these letters takes two columns
            assert row[place - 2 : place] == "  "
            assert row[place] != " "
            assert (
                pictures / row[place:]
            ).is_file()  # nothing but the path of a picture, which is what the image shows
            assert row[place:].startswith(row.split("  ")[0] + "/")

    def test_audit_without_its_dataset_is_refused(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        file = tmp_path / "moved"
        for dataset, reason in (
            (None, "does not name its dataset: add --data DATASET."),
            ("npz:far.npz", "was condensed from npz:far.npz, and data that are named in a file are not opened by"),
            (
                "fashion-mini",
                "from another version of fashion-mini: add --data fashion-mini to use the present one.",
            ),
        ):
            replace(read(condensed), provenance={} if dataset is None else {"dataset": dataset}).write(file)
            assert reason in refusal("audit", file)
