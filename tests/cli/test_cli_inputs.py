"""Datasets that verbs read: arrays and folders of the user, found again by `evaluate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from commands import BRIEF, TINY, Here, save_npz, save_pictures
from mipset import Dataset, cli, read
from mipset import load as load_dataset
from mipset.cli.inputs import fitted_with_note
from mipset.settings.catalogue import recipe


class TestOwnData:
    def test_own_data_are_named_by_the_user_and_never_by_the_file(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        out = tmp_path / "set.safetensors"
        printed = here("condense", "npz:pets.npz", "--out", out, *TINY)
        assert printed.splitlines()[1] == f"next: mipset evaluate {out} --data npz:pets.npz"
        assert read(out).provenance["dataset"] == "npz:pets.npz"
        here("evaluate", out, "--data", "npz:pets.npz", *BRIEF)

        opened: list[str] = []
        monkeypatch.setattr("mipset.data.load", lambda name, **_: opened.append(name))
        for verb in (["evaluate", out, *BRIEF], ["audit", out], ["grow", out, "--ipc", 3, "--out", tmp_path / "more"]):
            for dataset in (
                "npz:pets.npz",
                "folder:/etc",
                f"npz:{pets}",
                "folder:../../secret",
                "pets.npz",  # as data in memory may be called
                "hf",
                "x\0" * 300,
            ):
                replace(read(out), provenance={"dataset": dataset}).write(tmp_path / "hostile")
                verb[1] = tmp_path / "hostile"
                message = refusal(*verb)
                in_memory = "which mipset cannot load, such as data in memory in Python: add --data DATASET if "
                reason = "data that are named in a file are not opened by themselves: add --data "
                assert (reason if ":" in dataset else in_memory) in message
                assert len(message) < 500
        assert opened == []

    def test_path_of_a_published_dataset_is_not_opened_either(
        self, refusal: Here, tmp_path: Path, condensed: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The dataset is loaded by its name."""
        opened: list[str] = []

        def load(name: str, **_: object) -> Dataset:
            opened.append(name)
            return load_dataset("fashion-mini")

        monkeypatch.setattr("mipset.data.load", load)
        replace(read(condensed), provenance={"dataset": "mnist:/etc"}).write(tmp_path / "hostile")
        assert "from another version of mnist: add --data mnist" in refusal("evaluate", tmp_path / "hostile", *BRIEF)
        assert opened == ["mnist"]

    def test_other_data_than_those_of_the_file_are_mentioned(
        self, capfd: pytest.CaptureFixture[str], here: Here, tmp_path: Path, pets: Path
    ) -> None:
        out = tmp_path / "set.safetensors"
        here("condense", f"npz:{pets}", "--out", out, *TINY)
        other = save_npz(tmp_path / "other.npz", seed=5)
        for path, note in ((pets, ""), (other, f"npz:{other} is not the dataset that {out} was condensed from")):
            with pytest.raises(SystemExit):
                cli.main(["evaluate", str(out), "--data", f"npz:{path}", *BRIEF])
            messages = capfd.readouterr().err
            assert note in messages
            assert bool(note) == ("mipset: " in messages)

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
        assert "add --data folder:PATH" in refusal("evaluate", out, *BRIEF)
        here("evaluate", out, "--data", "folder:my pictures", *BRIEF)

    def test_default_recipe_takes_a_dozen_images_of_each_class(
        self, capfd: pytest.CaptureFixture[str], refusal: Here, tmp_path: Path
    ) -> None:
        """What does not fit is fitted and said in one line; what the user typed is refused in one line."""
        pictures, out = save_pictures(tmp_path / "pets", size=16), tmp_path / "set.safetensors"
        brief = ["--width", "4", "--outer", "1", "--inner", "1", "--experts", "1", "--expert-steps", "1"]
        command = ["condense", f"folder:{pictures}", "--out", str(out), *brief, "--threads", "1"]
        with pytest.raises(SystemExit) as ended:
            cli.main(command)
        assert ended.value.code == 0
        (note,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mipset: ")]
        assert note == (
            "mipset: Class 'cat' has 10 of 20 training images, which gives --real-batch 10, not 64; "
            "--train-batch 20, not 64; --init noise, not herding."
        )
        assert (read(out).ipc, read(out).recipe["init"]) == (10, "noise")
        out.unlink()
        typed = ["--real-batch", "11", "--train-batch", "21", "--init", "mix"]
        message = refusal(*command, *typed)
        for flag in ("--real-batch 11", "--train-batch 21", "--init noise"):
            assert flag in message

    def test_compare_takes_a_dozen_images_of_each_class_too(
        self, capfd: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        pictures, out = save_pictures(tmp_path / "pets", size=16), tmp_path / "table"
        brief = ["--width", "4", "--outer", "1", "--inner", "1", "--experts", "1", "--expert-steps", "1"]
        grid = ["--methods", "baseline-c,mdc", "--sizes", "1", "--networks", "1", "--epochs", "1", "--workers", "1"]
        command = ["compare", f"folder:{pictures}", "--out", str(out), *brief, *grid, "--threads", "1"]
        with pytest.raises(SystemExit) as ended:
            cli.main([*command, "--real-batch", "8"])
        assert ended.value.code == 0
        (note,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mipset: ")]
        assert note == (
            "mipset: Class 'cat' has 10 of 20 training images, which gives --train-batch 20, not 64; "
            "--init noise, not herding."
        )
        recipes = [read(file).recipe for file in out.glob("runs/*/1.safetensors")]
        assert [(r["real_batch"], r["train_batch"], r["init"]) for r in recipes] == [(8, 20, "noise")] * 2

    def test_digits_are_condensed_without_flips_and_one_line_says_so(
        self, toy: Dataset, capfd: pytest.CaptureFixture[str]
    ) -> None:
        dsa = recipe("dsa-cifar10-ipc10", real_batch=8, train_batch=8)
        fitted = fitted_with_note(dsa, replace(toy, flips=False), ("train_augment",))
        without = "color_crop_cutout_scale_rotate"
        assert fitted == dsa.replace(match_augment=without)
        assert capfd.readouterr().err == (
            f"mipset: A mirrored image of toy can be of another class, which gives --match-augment {without}, not "
            f"{dsa.match_augment}.\n"
        )

    def test_compare_fits_each_method_for_itself(self, here: Here, tmp_path: Path) -> None:
        """IDC starts from four images for each of its own, DM from one: the data suffice for DM."""
        pets, out = save_npz(tmp_path / "pets.npz", per_class=8), tmp_path / "table"
        brief = ["--ipc", "4", "--width", "4", "--depth", "2", "--outer", "1", "--inner", "1", "--train-images", "8"]
        grid = ["--methods", "idc,dm", "--sizes", "1", "--networks", "1", "--epochs", "1", "--workers", "1"]
        here("compare", "cifar10-cpu", "--data", f"npz:{pets}", "--out", out, *brief, *grid, "--threads", "1")
        recipes = [read(file).recipe for file in out.glob("runs/*/1.safetensors")]
        assert {(r["factor"], r["init"]) for r in recipes} == {(2, "noise"), (1, "random")}

    def test_bad_pictures_are_left_out_again_by_evaluate(
        self, capfd: pytest.CaptureFixture[str], refusal: Here, tmp_path: Path
    ) -> None:
        pictures = save_pictures(tmp_path / "pets")
        for name in ("cat/3.png", "dog/0.png"):
            (pictures / name).write_bytes(b"broken")
        (pictures / "cat" / "notes.txt").touch()
        out, small = tmp_path / "set.safetensors", ["--factor", "1", "--real-batch", "4"]
        command = ["condense", f"folder:{pictures}", "--out", str(out), *TINY, *small]
        assert "2 of 24 pictures could not be read: cat/3.png (not a PNG, " in (message := refusal(*command))
        assert "set --skip-bad to leave them out." in message
        for arguments in ([*command, "--skip-bad"], ["evaluate", str(out), "--data", f"folder:{pictures}", *BRIEF]):
            with pytest.raises(SystemExit) as ended:
                cli.main(arguments)
            assert ended.value.code == 0
            ignored, left_out = [line for line in capfd.readouterr().err.splitlines() if line.startswith("mipset: ")]
            assert ignored.endswith(": 1 entry was ignored: 1 .txt.")
            assert ": 2 of 24 pictures could not be read and were left out: cat/3.png (" in left_out
        assert read(out).provenance["skip_bad"] is True
