"""`condense`, `grow` and `recipes`: small runs, refusals, interrupts and resumed runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mipset
from commands import (
    BRIEF,
    EAGER,
    GOLDEN,
    SLOW,
    TINY,
    Here,
    done,
    is_refused,
    limit_files_to,
    names,
    run,
    save_npz,
    save_pictures,
    sentence,
    start,
)
from mipset import Accuracy, cli, read
from mipset.cli import condensing
from mipset.cli.stopping import Stopping
from mipset.condensing import checkpoint
from mipset.data.official import OFFICIAL
from mipset.data.specs import SVHN
from mipset.file.run_log import read_run_log
from mipset.io.locks import only_writer
from mipset.nn.native import Kernels
from mipset.settings.catalogue import OWN_DATA, RECIPES
from mipset.units import byte_count
from official_files import write_svhn
from tiny_data import shrink

FIRST_INNER = " and 1 of 2 inner iterations of the next"


class TestRecipeChoice:
    def recipe_for(self, *arguments: str) -> mipset.Recipe:
        return condensing.recipe_of(cli.parser().parse_args(["condense", *arguments, "--out", "x"]))

    def test_recipe_is_chosen_by_dataset(self) -> None:
        assert self.recipe_for("fashion-mini") == RECIPES["fashion-mini-cpu"].recipe
        assert self.recipe_for("cifar10") == RECIPES["cifar10-cpu"].recipe
        assert self.recipe_for("fashion-mnist") == RECIPES["fashion-mnist-cpu"].recipe
        for name in OFFICIAL:
            assert self.recipe_for(name) == self.recipe_for(f"{name}:somewhere") == RECIPES[f"{name}-cpu"].recipe

    def test_recipe_for_own_data_is_the_default(self) -> None:
        for name in ("folder:pets", "npz:pets.npz", "imagenet:photos", "hf:pets"):
            assert self.recipe_for(name) == RECIPES[OWN_DATA].recipe

    def test_recipe_is_chosen_by_name(self) -> None:
        assert self.recipe_for("cifar10", "--recipe", "paper-cifar10-ipc10") == RECIPES["paper-cifar10-ipc10"].recipe

    def test_flags_replace_settings_of_the_recipe(self) -> None:
        assert self.recipe_for("cifar10", "--ipc", "7", "--policy", "baseline-c", "--pixel-lr", "0") == RECIPES[
            "cifar10-cpu"
        ].recipe.replace(ipc=7, policy="baseline-c", pixel_lr=0.0)


class TestOfficialFiles:
    def test_dataset_in_its_official_files_is_condensed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here
    ) -> None:
        spec, train, test = shrink(SVHN, 100, 20)
        monkeypatch.setitem(OFFICIAL, "svhn", replace(OFFICIAL["svhn"], spec=spec))
        write_svhn(tmp_path, train, test)
        out = tmp_path / "set"
        printed = here("condense", f"svhn:{tmp_path}", "--out", out, *TINY)
        assert f"mipset evaluate {out} --data svhn:{tmp_path}" in printed
        condensed = read(out)
        assert (condensed.images.shape, condensed.class_names[0]) == ((2, 10, 3, 32, 32), "0")
        assert condensed.mean == spec.mean


class TestBudget:
    FAST = ("--ipc", 2, "--width", 4, "--threads", 1)

    def test_budget_chooses_a_run_for_any_data(self, tmp_path: Path, pets: Path, capfd: Any) -> None:
        out = tmp_path / "set"
        arguments = ["condense", f"npz:{pets}", "--budget", "2s", "--out", out, *self.FAST]
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        shown = capfd.readouterr()
        assert ended.value.code == 0, shown.err
        assert "mipset: A budget of 2s of processor time gives --experts " in shown.err
        chosen = read(out).recipe
        assert (chosen["learner"], chosen["depth"], chosen["real_batch"], chosen["train_batch"]) == (
            "experts",
            1,
            20,
            60,
        )
        assert chosen["outer"] * chosen["inner"] >= 20
        assert chosen["experts"] >= 2

    @pytest.mark.parametrize("unit", [False, True], ids=["vectors", "matrix unit"])
    def test_resumed_run_keeps_what_was_chosen(
        self, tmp_path: Path, pets: Path, here: Here, refusal: Here, unit: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On every processor, as on one with a matrix unit for bfloat16 and as on one without."""
        monkeypatch.setattr("mipset.condensing.budget.matrix_unit", lambda: unit)
        data, out, whole = f"npz:{pets}", tmp_path / "set", tmp_path / "whole"
        budget = (data, "--budget", "1s", *self.FAST)
        here("condense", *budget, "--out", whole)
        r = mipset.Recipe(**read(whole).recipe)
        assert r.match_precision == r.train_precision == ("bfloat16" if unit else "float32")
        steps = mipset.condense(mipset.assemble(r, mipset.load(data)))
        first = next(step for step in steps if step.outer_done)
        identity = checkpoint.Identity(r, mipset.load(data).identity, "compiled kernels", "1s")
        checkpoint.save(out.with_name("set.checkpoint"), first, identity)
        assert "--budget is 1s there and 2s here." in refusal(
            "condense", data, "--budget", "2s", *self.FAST, "--out", out, "--compile", "on"
        )
        here("condense", *budget, "--out", out, "--compile", "on")
        assert read(out).recipe == read(whole).recipe

    def test_choice_is_kept_if_the_run_is_stopped_before_its_first_iteration(
        self, tmp_path: Path, pets: Path, here: Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        out = tmp_path / "set"
        command = ["condense", f"npz:{pets}", "--budget", "1s", *self.FAST, "--out", out]
        with monkeypatch.context() as patch:
            patch.setattr("mipset.condensing.assembly.assemble", stop)
            with pytest.raises(SystemExit) as ended:
                cli.main([str(word) for word in command])
        assert ended.value.code == 130
        found = checkpoint.find(out.with_name("set.checkpoint"))
        assert found is not None
        here(*command)
        assert read(out).recipe == found.recipe

    def test_choice_of_a_refused_run_is_not_kept(
        self, tmp_path: Path, pets: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        command = ("condense", f"npz:{pets}", "--budget", "1h", *self.FAST, "--out", tmp_path / "set")
        assert "Choose a smaller --ipc" in stopped(capfd, *command, "--ipc", 21, "--init", "herding", code=2)
        assert names(tmp_path) == {"pets.npz"}

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--budget", "soon"], "--budget is 'soon'. Write a time such as 90s, 3min or 2h"),
            (["--budget", "1min", "--outer", "3"], "--budget chooses --outer. Leave one of the two out"),
            (["--budget", "1min", "--experts", "3"], "--budget chooses --experts. Leave one of the two out"),
            (["--budget", "100000000000h"], "--budget is 100000000000h: it must be at most 1000000h. Choose less time"),
            (
                ["--budget", "0.001s"],
                "--budget is 0.001s of processor time, which is too little for these data on this machine. Choose ",
            ),
            (["--train-images", "3"], "--train-images needs --learner trained, not experts. Leave it out"),
            (
                ["--objective", "gradient", "--match-precision", "bfloat16"],
                "--match-precision needs --objective feature, characteristic, layered or confidence, not gradient",
            ),
        ],
    )
    def test_impossible_budget_is_refused(
        self, tmp_path: Path, pets: Path, refusal: Here, flags: list[str], message: str
    ) -> None:
        assert message in refusal("condense", f"npz:{pets}", "--out", tmp_path / "set", *self.FAST, *flags)


class TestCondense:
    def test_default_recipe_condenses_with_experts(self, tmp_path: Path, pets: Path, here: Here) -> None:
        out = tmp_path / "set"
        small = ("--depth", 1, "--real-batch", 8, "--train-batch", 8, "--expert-steps", 2, "--outer", 2, "--inner", 2)
        told = here("condense", f"npz:{pets}", "--out", out, "--ipc", 2, "--width", 4, "--threads", 1, *small)
        assert re.search(r"kB, in \d+ s, of which \d+ s for experts\n", told)
        chosen = read(out).recipe
        assert (chosen["policy"], chosen["learner"], chosen["init"]) == ("every-prefix", "experts", "herding")

    def test_condense_with_another_network(self, tmp_path: Path, here: Here) -> None:
        data = f"npz:{save_npz(tmp_path / 'larger.npz', size=16)}"
        out = tmp_path / "set"
        here("condense", data, "--out", out, *TINY, "--network", "resnet-ap", "--depth", 10)
        assert read(out).recipe["network"] == "resnet-ap"
        assert "(resnet-ap-10, width 4; " in here("evaluate", out, "--data", data, "--sizes", 1, *BRIEF)

    def test_start_from_the_images_of_a_file(self, tmp_path: Path, pets: Path, here: Here, refusal: Here) -> None:
        first, second = tmp_path / "first", tmp_path / "second"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        here("condense", f"npz:{pets}", "--out", second, *TINY, "--start", first, "--pixel-lr", 0)
        np.testing.assert_array_equal(read(second).images, read(first).images)
        assert read(second).provenance["start"] == hashlib.sha256(read(first).images.tobytes()).hexdigest()
        third = ("condense", f"npz:{pets}", "--out", tmp_path / "third", *TINY)
        assert "--init and --start both choose the first images. Leave one of them out." in refusal(
            *third, "--start", first, "--init", "noise"
        )
        assert "has --factor 2, not 1" in refusal(*third, "--start", first, "--factor", 1)
        assert "has other classes" in refusal(*third, "--start", GOLDEN)
        assert "--start has the shape [2, 3, 1, 8, 8], but the condensed set has [1, 3, 1, 8, 8]." in refusal(
            *third, "--start", first, "--ipc", 1
        )
        assert "There is no file" in refusal(*third, "--start", tmp_path / "none")


class TestCosts:
    def test_dry_run_prints_the_cost(self, tmp_path: Path) -> None:
        printed = done(run("condense", "fashion-mini", "--dry-run", *TINY, cwd=tmp_path))
        rows = dict(line.split(maxsplit=1) for line in printed.splitlines())
        assert list(rows) == ["data", "recipe", "work", "time", "memory", "file", "nothing"]
        assert rows["data"] == "fashion-mini: 5,000 training images of 1 x 28 x 28 pixels, 10 classes"
        assert (
            rows["recipe"]
            == "2 images per class, policy every-prefix, objective gradient, convnet-2 of width 4, 2 x 2 iterations"
        )
        assert re.fullmatch(r"[\d.]+ GFLOP: 40 matches of .*FLOP, 4 training steps of .*FLOP", rows["work"])
        assert re.fullmatch(
            r"about .* on this machine \(cpu, 1 thread, plain torch\): a match takes .* s, .*", rows["time"]
        )
        assert re.fullmatch(r"about [\d.]+ MB", rows["memory"])
        assert printed.endswith(" or written: leave out --dry-run and add --out FILE to do it\n")
        assert names(tmp_path) == set()
        done(run("condense", "fashion-mini", "--out", "a", *TINY, cwd=tmp_path))
        written = (tmp_path / "a").stat().st_size
        assert rows["file"] in {byte_count(written + off) for off in range(-8, 9)}  # a header is padded to 8 bytes

    def test_dry_run_does_not_ask_for_a_flag_that_was_given(self, here: Here, tmp_path: Path) -> None:
        printed = here("condense", "fashion-mini", "--out", tmp_path / "a", "--dry-run", *TINY)
        assert printed.endswith("nothing was condensed or written: leave out --dry-run to do it\n")

    def test_dry_run_refuses_what_the_run_would_refuse(
        self, tmp_path: Path, pets: Path, here: Here, refusal: Here
    ) -> None:
        dry = ("condense", f"npz:{pets}", "--dry-run", *TINY)
        assert "fewer than --real-batch 21" in refusal(*dry, "--real-batch", 21)
        assert "Choose a smaller --depth" in refusal(*dry, "--depth", 9)
        assert "pets.npz exists already" in refusal(*dry, "--out", pets)
        assert "Leave out --resume and --fresh" in refusal(*dry, "--resume")
        first = tmp_path / "first"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        assert "memory" in here(*dry, "--start", first)
        assert "--start has the shape [2, 3, 1, 8, 8], but the condensed set has [1, 3, 1, 8, 8]." in refusal(
            *dry, "--start", first, "--ipc", 1
        )


class TestRefusals:
    """One line, exit code 2, and nothing written."""

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["fashion-maxi"], "There is no dataset 'fashion-maxi'"),
            (["npz:nowhere.npz"], "is not a file"),
            (["folder:nowhere"], "is not a folder"),
            (["npz:"], "has no path. Write npz:PATH"),
            (
                ["fashion-mini", "--recipe", "demon"],
                "There is no recipe 'demon'. Did you mean demo? Choose fashion-mini-cpu, demo, ",
            ),
            (["fashion-mini", "--policy", "most"], "--policy is 'most'. Choose baseline-c, mdc, "),
            (["fashion-mini", "--freeze", "always"], "--freeze is 'always'. Choose ratchet"),
            (["fashion-mini", "--ipc", "0"], "--ipc is 0: it must be at least 1"),
            (["fashion-mini", "--ipc", "-1"], "--ipc is -1"),
            (["fashion-mini", "--ipc", "two"], "Argument --ipc: invalid int value: 'two'"),
            (["fashion-mini", "--ipc", "2.5"], "Argument --ipc: invalid int value: '2.5'"),
            (["fashion-mini", "--ipc"], "Argument --ipc: expected one argument"),
            (["fashion-mini", "--pixel-lr", "nan"], "--pixel-lr is nan"),
            (["fashion-mini", "--pixel-lr", "inf"], "--pixel-lr is inf"),
            (["fashion-mini", "--network-lr", "-0.1"], "--network-lr is -0.1"),
            (["fashion-mini", "--pixel-momentum", "1"], "--pixel-momentum is 1"),
            (["fashion-mini", "--cutmix", "1.5"], "--cutmix is 1.5"),
            (["fashion-mini", "--subset-weight", "nan"], "--subset-weight is nan"),
            (["fashion-mini", "--seed", "-1"], "--seed is -1"),
            (["fashion-mini", "--split-seed", "-1"], "--split-seed is -1"),
            (["fashion-mini", "--resolution", "8"], "only pictures are scaled"),
            (
                ["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "1,2,3"],
                "2 numbers separated by commas",
            ),
            (["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "1;2"], "2 numbers separated by commas"),
            (["fashion-mini", "--policy", "every-prefix", "--prefix-weights", "nan,1"], "finite"),
            (
                ["fashion-mini", "--policy", "mdc", "--prefix-weights", "1,1"],
                "needs --policy every-prefix, not mdc",
            ),
            (["fashion-mini", "--match-augment", "blur"], "There is no augmentation 'blur'. Choose from color"),
            (["fashion-mini", "--network", "vgg"], "--network is 'vgg'. Choose convnet"),
            (["fashion-mini", "--depth", "9"], "Choose a smaller --depth"),
            (["fashion-mini", "--factor", "30"], "--factor"),
            (["fashion-mini", "--real-batch", "100000"], "fewer than --real-batch 100000"),
            (["fashion-mini", "--device", "quantum"], "--device is 'quantum'"),
            (["fashion-mini", "--device", "meta"], "--device is 'meta'"),
            (["fashion-mini", "--device", "hpu"], "--device is 'hpu'"),
            (["fashion-mini", "--device", "mkldnn"], "--device is 'mkldnn'"),
            (["fashion-mini", "--device", "cpu:x"], "--device is 'cpu:x'"),
            (["fashion-mini", "--threads", "0"], "--threads is 0: it must be from 1 to 1024"),
            (["fashion-mini", "--threads", "99999999999999"], "--threads is 99999999999999"),
            (["fashion-mini", "--compile", "maybe"], "--compile is 'maybe'. Choose auto, on or off."),
            (
                ["fashion-mini", "--network", "resnet"],
                "--network is 'resnet', whose batch norm mixes the images of a batch. Did you mean resnet-ap? Choose",
            ),
            (["fashion-mini", "--network", "resnet-ap"], "--depth is 2: a ResNet has 10 or 18 layers"),
            (["fashion-mini", "--pool", "3"], "--pool is 3, but --life is 1: "),
            (["fashion-mini", "--train-precision", "int4"], "--train-precision is 'int4'. Choose float32"),
            (["fashion-mini", "--shiny"], "Unrecognized arguments: --shiny"),
            (["fashion-mini", "mnist"], "Unrecognized arguments: mnist"),
            ([], "DATASET is missing. See"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_impossible_settings_are_refused(
        self, refusal: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], reason: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert reason in refusal("condense", "--out", tmp_path / "x.safetensors", *TINY, *given)

    def test_impossible_settings_are_refused_in_a_process(self, tmp_path: Path) -> None:
        """Two of them in a real process: one is refused before torch is imported, one after."""
        for given, reason in (("--ipc", "--ipc is -1"), ("--threads", "--threads is -1")):
            process = run("condense", "fashion-mini", "--out", "x", given, "-1", cwd=tmp_path)
            assert reason in is_refused(process)
        assert names(tmp_path) == set()

    def test_impossible_outputs_are_refused(self, refusal: Here, tmp_path: Path) -> None:
        condense = ["condense", "fashion-mini", *TINY, "--out"]
        (tmp_path / "old").write_bytes(b"precious")
        (tmp_path / "folder").mkdir()
        assert "old exists already. Choose another --out, or set --force" in refusal(*condense, tmp_path / "old")
        assert "There is no folder " in refusal(*condense, tmp_path / "nowhere" / "x")
        assert "is a folder" in refusal(*condense, tmp_path / "folder")
        assert "is a folder" in refusal(*condense, tmp_path / "folder", "--force")
        assert "File name too long" in refusal(*condense, tmp_path / ("x" * 300))
        assert "There is no folder /two lines to write" in refusal(*condense, "/two\nlines/x")
        assert (tmp_path / "old").read_bytes() == b"precious"

    def test_impossible_pictures_are_refused(self, refusal: Here, tmp_path: Path) -> None:
        condense = ["condense", f"folder:{tmp_path / 'pictures'}", "--out", tmp_path / "x", *TINY]
        save_pictures(tmp_path / "pictures")
        Image.new("L", (9, 8)).save(tmp_path / "pictures" / "dog" / "wide.png")
        assert "different shapes" in (message := refusal(*condense))
        assert "--resolution" in message
        (tmp_path / "pictures" / "dog" / "wide.png").write_bytes(b"not a picture")
        assert "1 of 25 pictures could not be read: dog/wide.png (not a PNG" in refusal(*condense)
        for path in (tmp_path / "pictures" / "dog").iterdir():
            if path.name != "0.png":
                path.unlink()
        assert "Class 'dog' has 1 image, but a held-out split needs " in refusal(*condense)

    def test_impossible_arrays_are_refused(self, refusal: Here, tmp_path: Path) -> None:
        path = tmp_path / "odd.npz"
        condense = ["condense", f"npz:{path}", "--out", tmp_path / "x", *TINY]
        images, labels = np.random.default_rng(0).random((40, 1, 8, 8)), np.arange(40) % 2
        images[3, 0, 2, 1] = np.nan
        np.savez(path, images=images, labels=labels)
        assert "images holds NaN or infinite values" in refusal(*condense)
        np.savez(path, images=np.nan_to_num(images), labels=np.where(np.arange(40) == 0, 1, 0))
        assert "Class '1' has 1 image, but a held-out split needs " in refusal(*condense)
        path.write_bytes(path.read_bytes()[:-30])
        assert "could not be read as an .npz file" in refusal(*condense)

    def test_too_few_images_are_refused(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        condense = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY]
        assert "Class '0' has 20 training images, fewer than --real-batch 21" in refusal(*condense, "--real-batch", 21)
        assert "--ipc 6 with --factor 2 starts from 24" in refusal(*condense, "--ipc", 6, "--init", "mix")
        assert "fewer than --train-batch 61" in refusal(*condense, "--train-batch", 61)


class TestStopped:
    """A run that is stopped saves. The same command continues it, and writes the same bytes."""

    LONG = (*TINY, "--outer", "5", "--policy", "mdc", "--period", "1", "--pool", "2", "--life", "3")

    @pytest.fixture
    def uninterrupted(self, here: Here, tmp_path: Path, pets: Path) -> bytes:
        here("condense", f"npz:{pets}", "--out", tmp_path / "whole", *self.LONG, "--log", "none")
        content = (tmp_path / "whole").read_bytes()
        (tmp_path / "whole").unlink()
        return content

    @pytest.mark.parametrize(
        ("number", "code", "word"), [(signal.SIGINT, 130, "Interrupted"), (signal.SIGTERM, 143, "Terminated")]
    )
    def test_signal_saves(
        self,
        here: Here,
        uninterrupted: bytes,
        tmp_path: Path,
        pets: Path,
        processes: list[subprocess.Popen[str]],
        number: signal.Signals,
        code: int,
        word: str,
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        process = start(SLOW, *command, cwd=tmp_path, until="working", processes=processes)
        process.send_signal(number)
        _, messages = process.communicate(timeout=20)
        assert process.returncode == code
        assert messages == f"mipset: {word}. The same command continues after outer iteration 0 of 5{FIRST_INNER}.\n"
        assert names(tmp_path) == {"pets.npz", "x.checkpoint"}
        here(*command)
        assert names(tmp_path) == {"pets.npz", "x", "x.log.jsonl"}
        assert (tmp_path / "x").read_bytes() == uninterrupted

    def test_second_interrupt_ends_at_once(
        self,
        here: Here,
        uninterrupted: bytes,
        tmp_path: Path,
        pets: Path,
        processes: list[subprocess.Popen[str]],
    ) -> None:
        """The driver waits after its second checkpoint. There is no traceback, and the checkpoints are good."""
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        process = start(EAGER, *command, cwd=tmp_path, until="saved", processes=processes)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.3)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=20)
        assert (process.returncode, messages) == (-signal.SIGINT, "")
        here(*command)
        assert names(tmp_path) == {"pets.npz", "x", "x.log.jsonl"}
        assert (tmp_path / "x").read_bytes() == uninterrupted

    def test_time_limit_saves(
        self, here: Here, uninterrupted: bytes, tmp_path: Path, pets: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        for iteration in range(1, 10):
            assert f"continues after outer iteration {iteration // 2} of 5" in stopped(
                capfd, *command, "--max-time", "0.001s", code=124
            )
        here(*command, "--max-time", "1h")
        assert (tmp_path / "x").read_bytes() == uninterrupted

    def test_impossible_time_limit_is_refused(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        for text in ("soon", "5", "-1s", "0s", "infh", "nanmin"):
            assert f"--max-time is '{text}'. Write a time such as 90s, 3min or 2h." in refusal(
                "condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY, f"--max-time={text}"
            )

    def test_time_limit_keeps_experts(
        self, here: Here, tmp_path: Path, pets: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Every command trains an expert by one step."""
        monkeypatch.setenv("MIPSET_HOME", str(tmp_path / "home"))
        small = ("--ipc", 2, "--width", 4, "--depth", 2, "--outer", 1, "--inner", 1, "--real-batch", 8, "--threads", 1)
        experts = ("--recipe", "own-cpu", "--train-batch", 8, "--experts", 1, "--expert-steps", 3)
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *small, *experts]
        for _ in range(3):
            assert "--max-time are over. The same command continues." in stopped(
                capfd, *command, "--max-time", "0.001s", code=124
            )
        here(*command)

    def test_run_continued_after_a_kill_is_the_same(
        self,
        here: Here,
        uninterrupted: bytes,
        tmp_path: Path,
        pets: Path,
        processes: list[subprocess.Popen[str]],
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        process = start(EAGER, *command, cwd=tmp_path, until="saved", processes=processes)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=20)
        left = {"x.checkpoint", "x.checkpoint.previous", "x.log.jsonl", ".x.mipset-lock"}
        assert names(tmp_path) == {"pets.npz", *left}
        here(*command)  # the lock of a dead process is taken over
        assert names(tmp_path) == {"pets.npz", "x", "x.log.jsonl"}
        assert (tmp_path / "x").read_bytes() == uninterrupted
        assert [entry.outer for entry in read_run_log(tmp_path / "x.log.jsonl").entries] == [1, 2, 3, 4, 5]

    def test_log_of_a_stopped_run_goes_on_without_doubled_or_half_lines(
        self, here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """It was killed after the third iteration, within the line of the fourth; its checkpoint is older."""
        log, out = tmp_path / "run.jsonl", tmp_path / "x"
        command = ("condense", f"npz:{pets}", "--out", out, *self.LONG, "--log", log)
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "SECONDS", -1.0)
            patch.setattr(Stopping, "asked", property(lambda _: log.exists() and log.read_text().count("\n") > 2))
            stopped(capfd, *command, code=124)
        whole = log.read_text()
        assert [entry.outer for entry in read_run_log(log).entries] == [1, 2]
        log.write_text(whole + whole.splitlines()[-1].replace('"outer": 2', '"outer": 3') + '\n{"outer": 4, "lo')
        before = read_run_log(log).entries
        assert len(before) == 3
        here(*command)
        entries = read_run_log(log).entries
        assert [entry.outer for entry in entries] == [1, 2, 3, 4, 5]
        assert entries[:2] == before[:2]
        assert entries[2].seconds > entries[1].seconds
        assert names(tmp_path) == {"pets.npz", "x", "run.jsonl"}

    def test_no_log_is_written_if_none_is_wanted(self, here: Here, tmp_path: Path, pets: Path) -> None:
        here("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY, "--log", "none")
        assert names(tmp_path) == {"pets.npz", "x"}

    def test_file_that_is_no_log_is_not_replaced(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        other = tmp_path / "notes.txt"
        other.write_text("mine\n")
        message = refusal("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY, "--log", other, "--force")
        assert message == f"mipset: --log {other} exists already, and is not a log. Choose another name.\n"

    def test_growing_continues(
        self, here: Here, refusal: Here, tmp_path: Path, pets: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        first, other, whole = (tmp_path / name for name in ("first", "other", "whole"))
        here("condense", f"npz:{pets}", "--out", first, *self.LONG)
        grow = ("grow", first, "--ipc", 4, "--data", f"npz:{pets}", "--threads", 1, "--out")
        here(*grow, whole)
        message = stopped(capfd, *grow, tmp_path / "x", "--max-time", "0.001s", code=124)
        assert "The 0.001s of --max-time are over. The same command continues after outer iteration 0 of 5" in message
        images = read(first).images
        replace(read(first), images=255 - images).write(other)
        assert "the data are others" in refusal("grow", other, *grow[2:], tmp_path / "x")
        here(*grow, tmp_path / "x", "--resume")
        assert {name for name in names(tmp_path) if not name.endswith(".log.jsonl")} == {
            *("pets.npz", "first", "other", "whole", "x")
        }
        assert (tmp_path / "x").read_bytes() == whole.read_bytes()
        assert "There is no checkpoint" in refusal(*grow, tmp_path / "y", "--resume")

    def test_checkpoint_of_another_run_is_refused_with_all_differences(
        self, refusal: Here, here: Here, tmp_path: Path, pets: Path, capfd: pytest.CaptureFixture[str], kernels: Kernels
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        assert "There is no checkpoint" in refusal(*command, "--resume")
        stopped(capfd, *command, "--max-time", "0.001s", code=124)
        other = save_npz(tmp_path / "other.npz", seed=9)
        changes = ("--policy", "mdc-per-class", "--seed", 1, "--compile", "on")
        assert (
            "x.checkpoint is of another run: --policy is mdc there and mdc-per-class here; --seed is 0 there and 1 "
            "here; the data are others; --compile: plain torch there and compiled kernels here. Use the same settings "
            "and data to continue it, or set --fresh to start again."
        ) in refusal("condense", f"npz:{other}", *command[2:], *changes)
        assert "Leave one of them out" in refusal(*command, "--fresh", "--resume")
        message = stopped(capfd, *command, "--fresh", "--seed", 1, "--max-time", "0.001s", code=124)
        assert "The same command without --fresh continues after " in message
        here(*command, "--seed", 1)
        here("condense", f"npz:{pets}", "--out", tmp_path / "y", *self.LONG, "--seed", 1)
        assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()

    def test_damaged_checkpoint_is_one_sentence(
        self,
        refusal: Here,
        uninterrupted: bytes,
        tmp_path: Path,
        pets: Path,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG]
        stopped(capfd, *command, "--max-time", "0.001s", code=124)
        stopped(capfd, *command, "--max-time", "0.001s", code=124)
        newest, before = tmp_path / "x.checkpoint", tmp_path / "x.checkpoint.previous"
        kept = before.read_bytes()
        for file in (newest, before):
            file.write_bytes(file.read_bytes()[:-1])
        assert "x.checkpoint is damaged, and there is none before it. Set --fresh to start again." in refusal(*command)
        before.write_bytes(kept)
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in command])
        assert ended.value.code == 0
        assert sentence(capfd.readouterr().err) == (
            f"mipset: {newest} is damaged or missing. Continuing from {before}, after outer iteration 0 of 5"
            f"{FIRST_INNER}. Use --fresh to start again.\n"
        )
        assert (tmp_path / "x").read_bytes() == uninterrupted
        assert names(tmp_path) == {"pets.npz", "x", "x.log.jsonl"}

    def test_interrupt_before_the_first_iteration_writes_nothing(
        self, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(
            "mipset.condensing.assembly.assemble", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
        )
        message = stopped(capfd, "condense", f"npz:{pets}", "--out", tmp_path / "x", *self.LONG, code=143)
        assert message == "mipset: Terminated. Nothing was written."
        assert names(tmp_path) == {"pets.npz"}


def stopped(capfd: pytest.CaptureFixture[str], *words: object, code: int) -> str:
    """The last message of a command that was stopped."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    messages = capfd.readouterr().err
    assert ended.value.code == code, messages
    assert "Traceback" not in messages
    return messages.splitlines()[-1]


class TestTwoRuns:
    def test_second_run_with_the_same_output_is_refused(self, refusal: Here, tmp_path: Path, pets: Path) -> None:
        with only_writer(tmp_path / "x"):
            message = refusal("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY)
            assert f"x is being written by process {os.getpid()} on " in message
            assert "Wait until it has ended, or choose another --out." in message


class TestFullDisk:
    def test_full_disk_leaves_no_file_of_condense(self, tmp_path: Path, pets: Path) -> None:
        (tmp_path / "tmp").mkdir()
        limit = limit_files_to(500)
        command = ["condense", f"npz:{pets}", "--out", "x", *TINY]
        process = run(*command, cwd=tmp_path, preexec=limit, TMPDIR=str(tmp_path / "tmp"))
        assert process.returncode == 2
        assert "x cannot be written: File too large. Nothing could be kept." in sentence(process.stderr)
        assert names(tmp_path) == {"pets.npz", "tmp"}
        assert names(tmp_path / "tmp") == set()

    def test_full_disk_leaves_no_checkpoint(self, tmp_path: Path, pets: Path) -> None:
        command = ["condense", f"npz:{pets}", "--out", "x", *TINY]
        process = run(*command, code=EAGER, cwd=tmp_path, preexec=limit_files_to(500))
        assert process.returncode == 2
        assert "The checkpoint x.checkpoint cannot be written: File too large. Free some" in sentence(process.stderr)
        assert names(tmp_path) == {"pets.npz"}

    def test_result_that_cannot_be_written_is_kept(
        self, here: Here, tmp_path: Path, pets: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """In the checkpoint, from which the same command writes it; or else in a temporary folder."""
        command = ["condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY]
        here(*command[:3], tmp_path / "whole", *TINY)
        whole = (tmp_path / "whole").read_bytes()
        write, save = mipset.Artifact.write, checkpoint.save

        def never_here(artifact: mipset.Artifact, path: Path) -> None:
            if path.parent == tmp_path:
                raise mipset.ArtifactError(f"{path} cannot be written: No space left on device.")
            write(artifact, path)

        with monkeypatch.context() as patch:
            patch.setattr(mipset.Artifact, "write", never_here)
            message = stopped(capfd, *command, code=2)
            kept = tmp_path / "x.checkpoint"
            assert f"{kept} holds the complete run: the same command writes the file." in message
            kept.unlink()
            patch.setattr(checkpoint, "save", lambda *_: save(tmp_path / "none" / "x", *_[1:]))
            message = stopped(capfd, *command, code=2)
            elsewhere = Path(message.rpartition("The result is in ")[2].removesuffix("."))
            assert elsewhere.read_bytes() == whole
            elsewhere.unlink()
            elsewhere.parent.rmdir()
            patch.setattr(checkpoint, "save", save)
            stopped(capfd, *command, code=2)
        monkeypatch.setattr("mipset.condensing.condense.update", None)  # an iteration would fail
        here(*command)
        assert (tmp_path / "x").read_bytes() == whole
        assert names(tmp_path) == {"pets.npz", "whole", "whole.log.jsonl", "x", "x.log.jsonl"}

    def test_disk_that_is_too_full_is_found_before_the_work(
        self, tmp_path: Path, pets: Path, refusal: Here, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10_000, 9_000, 1_000))
        monkeypatch.setattr("mipset.condensing.assembly.assemble", None)
        message = refusal("condense", f"npz:{pets}", "--out", tmp_path / "x", *TINY)
        assert "x has 1.0 kB left, but writing it needs " in message


class TestGrow:
    def test_grow_adds_images_and_keeps_the_others(self, here: Here, refusal: Here, tmp_path: Path, pets: Path) -> None:
        first, more = tmp_path / "first", tmp_path / "more"
        here("condense", f"npz:{pets}", "--out", first, *TINY)
        printed = here("grow", first, "--ipc", 4, "--out", more, "--data", f"npz:{pets}", "--threads", 1)
        assert f"{more}: 4 images for each of 3 classes" in printed
        assert f"those of {first} are unchanged" in printed
        small, large = read(first), read(more)
        assert np.array_equal(large.images[:2], small.images)
        assert large.rank_sha256[:2] == small.rank_sha256
        assert (large.recipe["ipc"], large.provenance["grown_from"]) == (4, 2)
        assert large.provenance["sha256"] == small.provenance["sha256"]
        assert "3" in here("evaluate", more, "--sizes", "3", "--data", f"npz:{pets}", *BRIEF)
        assert "--ipc is 1, less than the 4 images per class of the file. Use `mipset slice`" in refusal(
            "grow", more, "--ipc", 1, "--out", tmp_path / "x", "--data", f"npz:{pets}"
        )

    def test_grow_adds_a_class(self, here: Here, tmp_path: Path) -> None:
        few = save_npz(tmp_path / "few.npz", classes=2)
        many = save_npz(tmp_path / "many.npz", classes=3)
        first, more = tmp_path / "first", tmp_path / "more"
        here("condense", f"npz:{few}", "--out", first, *TINY)
        assert "for each of 3 classes" in here("grow", first, "--out", more, "--data", f"npz:{many}", "--threads", 1)
        assert np.array_equal(read(more).images[:, :2], read(first).images)
        assert read(more).class_names[:2] == read(first).class_names
        assert "mean" in here("evaluate", more, "--sizes", "1", "--data", f"npz:{many}", *BRIEF)

    def test_grow_keeps_accuracies_and_provenance(self, here: Here, tmp_path: Path, pets: Path) -> None:
        """Sizes that have not changed keep their accuracy. The version is that of the program that grew the file."""
        measured_file, more = tmp_path / "measured", tmp_path / "more"
        here("condense", f"npz:{pets}", "--out", measured_file, *TINY)
        measured = (Accuracy(2, 50.0, 1.0, 2, "convnet", "quick", 0, "00" * 32),)
        first = replace(
            read(measured_file).with_accuracy(measured),
            provenance={**read(measured_file).provenance, "mipset": "0.0.1"},
        )
        first.write(measured_file)
        here("grow", measured_file, "--ipc", 3, "--out", more, "--data", f"npz:{pets}", "--threads", 1)
        assert read(more).accuracy == measured
        assert read(more).provenance == {**first.provenance, "mipset": mipset.__version__, "grown_from": 2}
        many = save_npz(tmp_path / "many.npz", classes=4)
        here("grow", measured_file, "--out", more, "--data", f"npz:{many}", "--threads", 1, "--force")
        assert read(more).accuracy == (), "networks that know another class are others"

    def test_grow_a_slice_from_its_own_size(self, here: Here, refusal: Here, tmp_path: Path, pets: Path) -> None:
        """The recipe in a slice has the size of the slice."""
        whole, part, more = (tmp_path / name for name in ("whole", "part", "more"))
        here("condense", f"npz:{pets}", "--out", whole, *TINY)
        here("slice", whole, 1, "--out", part)
        grow = ("grow", part, "--out", more, "--data", f"npz:{pets}", "--threads", 1)
        assert "already has 1 images of all 3 classes. Choose a larger --ipc" in refusal(*grow)
        here(*grow, "--ipc", 2)
        assert (read(more).ipc, read(more).recipe["ipc"]) == (2, 2)

    def test_grow_a_file_without_recipe(self, here: Here, refusal: Here, tmp_path: Path, pets: Path) -> None:
        """For example one that was imported."""
        first, more = tmp_path / "first", tmp_path / "more"
        here("condense", f"npz:{pets}", "--out", first, *TINY, "--factor", 1)
        replace(read(first), recipe={}).write(first)
        grow = ("grow", first, *TINY, "--ipc", 3, "--out", more, "--data", f"npz:{pets}")
        assert "does not say how it was condensed. Choose its settings with --recipe: fashion-mini-cpu, " in refusal(
            *grow
        )
        here(*grow, "--recipe", "demo")
        assert np.array_equal(read(more).images[:2], read(first).images)
        assert (read(more).factor, read(more).recipe["cutmix"]) == (1, RECIPES["fashion-mini-cpu"].recipe.cutmix)


class TestRecipes:
    def test_recipes_are_listed(self, tmp_path: Path) -> None:
        printed = done(run("recipes", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "home")))
        for name, named in RECIPES.items():
            assert f"{name}\n    {named.dataset}: " in printed
        assert re.search(r"paper-cifar10-ipc10\n.*\n    here: about [\d.,]+ (h|days) of processor time\n", printed)
        assert re.search(r"here: counted FLOPs at [\d.]+ GFLOP per second of processor time, which a small", printed)
        assert done(run("recipes", cwd=tmp_path, MIPSET_HOME=str(tmp_path / "home"))) == printed  # the rate is kept
        printed = done(run("recipes", "demo", cwd=tmp_path))
        assert not any(f"`{name}`" in printed for name in vars(RECIPES["demo"].recipe))  # written as flags
        assert "--width 32 " in printed
        assert re.search(r"--outer 8 +ours +T, outer iterations", printed)
        assert re.search(r"--real-batch 64 +release +real images per class", printed)
        assert len(printed.splitlines()) == len(vars(RECIPES["demo"].recipe))
        assert "Choose fashion-mini-cpu, demo, " in is_refused(run("recipes", "dem", cwd=tmp_path))
