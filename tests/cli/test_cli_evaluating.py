"""`evaluate` and `reorder`: with which network, refused, and interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import mipset
from commands import BRIEF, GOLDEN, TELLING, Here, done, interrupt, names, run, save_npz, start
from mipset import Artifact, cli, read
from mipset.cli import evaluating
from mipset.evaluation import evaluate
from mipset.nn.training import fit

REORDER = ["--first", "2", "--best", "1", "--threads", "1"]


def alive(group: int) -> list[str]:
    """The processes of a group that still run. One that has ended and that nobody has asked about does not count."""
    listed = subprocess.run(["ps", "-e", "-o", "pgid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
    return [" ".join(row) for row in rows if row[0] == str(group) and not row[1].startswith("Z")]


def group_is_gone(group: int, within: float) -> bool:
    """Whether every process of a group has ended."""
    end = time.monotonic() + within
    while alive(group) and time.monotonic() < end:
        time.sleep(0.1)
    return not alive(group)


class TestFleet:
    @pytest.mark.parametrize(
        ("recipe", "shares"),
        [
            ({"ipc": 3, "prefix_weights": "1:60,3:40"}, {1: 0.6, 3: 0.4}),
            ({"ipc": 10, "prefix_weights": "1:60,3:40"}, {1: 0.6, 3: 0.4}),  # a slice
            ({"ipc": 10**12, "prefix_weights": "1:1"}, {1: 1.0}),
            ({"ipc": 10, "prefix_weights": "1:60,10:40"}, {}),
            *(({"ipc": 3, "prefix_weights": odd}, {}) for odd in ("1:-60,3:160", "1:nan", "1:0", "1:-1,2:1", 7, None)),
        ],
    )
    def test_fleet_comes_from_the_prefix_weights_of_the_file(
        self, recipe: dict[str, Any], shares: dict[int, float]
    ) -> None:
        assert evaluating.fleet_of(replace(read(GOLDEN), recipe=recipe)) == pytest.approx(shares)


class TestNetworkChoice:
    @pytest.mark.parametrize(
        ("given", "network"),
        [
            ([], "convnet-2, width 4"),  # of the file
            (["--width", "8"], "convnet-2, width 8"),
            (["--network", "convnet", "--depth", "1"], "convnet-1, width 4"),
            (["--network", "resnet"], "resnet-10, width 32"),
            (["--network", "resnet-ap"], "resnet-ap-10, width 64"),
            (["--network", "densenet"], "densenet-121, width 12"),
            (["--network", "resnet", "--depth", "18"], "resnet-18, width 32"),
            (["--network", "resnet", "--width", "4", "--depth", "18"], "resnet-18, width 4"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_width_and_depth_come_from_file_flag_or_network(
        self, condensed: Path, given: list[str], network: str
    ) -> None:
        arguments = cli.parser().parse_args(["evaluate", str(condensed), *given])
        data = mipset.load("fashion-mini")
        assert str(evaluating.evaluation_of(arguments, torch.device("cpu"), read(condensed), data).network) == network

    def test_evaluate_with_another_network(self, tmp_path: Path, condensed: Path) -> None:
        """As wide as asked for, and as deep as it is by default: the file's depth of 2 is that of a convnet."""
        other = ("--network", "resnet", "--width", 2, "--sizes", 1, "--save")
        printed = done(run("evaluate", condensed.name, *other, *BRIEF, cwd=tmp_path))
        assert printed.startswith("accuracy in % on test images, mean ± deviation over 1 network (resnet-10, width 2; ")
        assert [p.network for p in read(condensed).accuracy] == ["resnet-10, width 2"]

    def test_rows_of_files_with_different_networks_say_which(self, here: Here, condensed: Path, tmp_path: Path) -> None:
        other = tmp_path / "other.safetensors"
        replace(read(condensed), recipe={**read(condensed).recipe, "width": 2}).write(other)
        heading, _, first, second = here("evaluate", condensed, other, "--sizes", 1, *BRIEF).splitlines()
        assert heading.startswith("accuracy in % on test images, mean ± deviation over 1 network (protocol quick, 1 ep")
        assert first.startswith(f"{condensed.stem} (convnet-2, width 4)  ")
        assert second.startswith("other (convnet-2, width 2)  ")
        rows = json.loads(here("evaluate", condensed, other, "--sizes", 1, *BRIEF, "--json"))["files"]
        assert [row["accuracy"][0]["network"] for row in rows] == ["convnet-2, width 4", "convnet-2, width 2"]
        assert [row["name"] for row in rows] == [condensed.stem, "other"]

    def test_evaluate_in_bfloat16(self, here: Here, condensed: Path) -> None:
        """The accuracies say so: they are another line of the set's curve."""
        printed = here("evaluate", condensed, "--sizes", 3, "--precision", "bfloat16", "--save", *BRIEF)
        assert ", bfloat16; seed 0" in printed
        here("evaluate", condensed, "--sizes", 3, "--save", *BRIEF)
        full, half = read(condensed).accuracy
        assert half.protocol == f"{full.protocol}, bfloat16"
        assert half.mean == pytest.approx(full.mean, abs=20)


class TestRefusals:
    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--sizes", "1-4"], "--sizes is '1-4'. The sizes are 1 to 3."),
            (["--sizes", "0"], "The sizes are 1 to 3"),
            (["--sizes", "some"], "Write numbers such as"),
            (["--networks", "0"], "--networks is 0: it must be at least 1"),
            (["--epochs", "0"], "--epochs is 0: it must be at least 1"),
            (["--epochs", "ten"], "invalid int value: 'ten'"),
            (["--protocol", "fast"], "--protocol is 'fast'. Choose standard, "),
            (["--precision", "half"], "--precision is 'half'. Choose float32 or bfloat16."),
            (["--network", "vgg"], "There is no network 'vgg'. Choose convnet, resnet, resnet-ap or densenet, or"),
            (["--network", "resnet", "--depth", "3"], "--depth is 3: a ResNet has 10 or 18 layers"),
            (["--network", "densenet", "--depth", "40"], "--depth is 40: a DenseNet has 121 layers"),
            (["--width", "0"], "--width is 0: it must be at least 1"),
            (["--depth", "0"], "--depth is 0: it must be at least 1"),
            (["--depth", "20"], "Choose a smaller --depth"),
            (["--seed", "-1"], "--seed is -1: it must be at least 0"),
            (["--workers", "0"], "--workers is 0: it must be at least 1"),
            (["--threads", "-2"], "--threads is -2: it must be from 1 to 1024"),
            (["--device", "quantum"], "--device is 'quantum', which this machine does not have. Choose cpu or auto."),
            (["--data", "cifar11"], "There is no dataset 'cifar11'"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_evaluate_refuses_impossible_flags(
        self, refusal: Here, condensed: Path, given: list[str], reason: str
    ) -> None:
        assert reason in refusal("evaluate", condensed, *BRIEF, "--save", *given)

    def test_evaluate_refuses_other_data(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        other = save_npz(tmp_path / "other.npz")
        message = refusal("evaluate", condensed, "--data", f"npz:{other}", *BRIEF, "--save")
        assert "The file holds images of 1x28x28, but the images of " in message
        alike = save_npz(tmp_path / "alike.npz", classes=10, size=28)
        message = refusal("evaluate", condensed, "--data", f"npz:{alike}", *BRIEF, "--save")
        assert "The file has the class 'T-shirt/top', but " in message

    def test_evaluate_files_whose_classes_differ_in_order(self, here: Here, tmp_path: Path, condensed: Path) -> None:
        """What one file is tested with is put in its own order, not in that of the file before it."""
        same, other = read(condensed), tmp_path / "other.safetensors"
        names = (*same.class_names[5:], *same.class_names[:5])
        replace(same, class_names=names).write(other)
        alone = [
            here("evaluate", path, "--sizes", 1, *BRIEF).splitlines()[-1].split()[1] for path in (condensed, other)
        ]
        both = here("evaluate", condensed, other, "--sizes", 1, *BRIEF).splitlines()[-2:]
        assert [line.split()[1] for line in both] == alone

    def test_sizes_of_all_files_are_checked_first(self, refusal: Here, tmp_path: Path, condensed: Path) -> None:
        small = tmp_path / "small.safetensors"
        read(condensed).prefix(1).write(small)
        message = refusal("evaluate", condensed, small, "--sizes", "1,3", *BRIEF, "--save")
        assert "The sizes are 1 to 1" in message

    def test_files_with_missing_or_damaged_provenance_are_refused(self, refusal: Here, tmp_path: Path) -> None:
        golden = read(GOLDEN)
        path = tmp_path / "odd.safetensors"
        for provenance, reason in (
            ({}, "does not name its dataset: add --data DATASET."),
            ({"dataset": 7}, "does not name its dataset"),
            ({"dataset": "fashion-mini", "size": "big"}, "is damaged"),
            ({"dataset": "fashion-mini", "split_seed": None}, "is damaged"),
            ({"dataset": "npz:far.npz"}, "was condensed from npz:far.npz, and data that are named in a file are not "),
            (
                {"dataset": "fashion-mini", "sha256": "00"},
                "from another version of fashion-mini: add --data fashion-mini to use the present one.",
            ),
        ):
            Artifact(golden.images, 1, golden.mean, golden.std, golden.class_names, {}, cast(Any, provenance)).write(
                path
            )
            assert reason in refusal("evaluate", path, *BRIEF)

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            (["--first", "0"], "--first is 0: it must be at least 1"),
            (["--best", "-1"], "--best is -1: it must be at least 1"),
            (["--epochs", "0"], "--epochs is 0: it must be at least 1"),
            (["--seed", "-1"], "--seed is -1: it must be at least 0"),
            (["--protocol", "fast"], "--protocol is 'fast'. Choose standard, "),
            (["--device", "quantum"], "--device is 'quantum', which this machine does not have. Choose cpu or auto."),
            (["--out", "nowhere/new"], "There is no folder"),
            (["--out", str(GOLDEN)], "exists already. Choose another --out, or set --force"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_reorder_refuses_impossible_flags(
        self, refusal: Here, tmp_path: Path, condensed: Path, given: list[str], reason: str
    ) -> None:
        assert reason in refusal("reorder", condensed, "--out", tmp_path / "new", *REORDER, *given)


class TestInterrupt:
    """Ctrl-C, which a terminal sends to the whole group."""

    def test_interrupting_evaluate_ends_its_workers(
        self, tmp_path: Path, condensed: Path, processes: list[subprocess.Popen[str]]
    ) -> None:
        before = condensed.read_bytes()
        given = ("--networks", 500, "--protocol", "quick", "--workers", 2, "--threads", 1, "--save")
        process = start(TELLING, "evaluate", condensed, *given, cwd=tmp_path, until="working", processes=processes)
        interrupt(process)
        assert group_is_gone(process.pid, within=10)
        assert condensed.read_bytes() == before
        assert names(tmp_path) == {condensed.name}

    def test_workers_end_when_their_parent_is_killed(
        self, tmp_path: Path, condensed: Path, processes: list[subprocess.Popen[str]]
    ) -> None:
        """It cannot tell them."""
        given = ("--networks", 500, "--protocol", "quick", "--sizes", 1, "--workers", 2, "--threads", 1)
        process = start(TELLING, "evaluate", condensed, *given, cwd=tmp_path, until="working", processes=processes)
        assert len(alive(process.pid)) >= 3
        process.kill()
        assert group_is_gone(process.pid, within=10)

    def test_interrupting_evaluate_keeps_saved_files(
        self, condensed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        second = tmp_path / "second.safetensors"
        second.write_bytes(condensed.read_bytes())
        score = evaluate.Evaluation.score

        def stop_at_the_second(evaluation: evaluate.Evaluation, size: int, number: int) -> evaluate.Score:
            if read(condensed).accuracy:
                signal.raise_signal(signal.SIGINT)
            return score(evaluation, size, number)

        monkeypatch.setattr(evaluate.Evaluation, "score", stop_at_the_second)
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", str(condensed), str(second), "--save", "--sizes", "1", "--workers", "1", *BRIEF])
        assert ended.value.code == 130
        assert capfd.readouterr().err.splitlines()[-1] == "mipset: Interrupted. Saved the accuracies of set."
        assert read(condensed).accuracy
        assert not read(second).accuracy


class TestReorder:
    def test_reorder_writes_the_same_images_in_another_order(self, tmp_path: Path, condensed: Path, here: Here) -> None:
        old, new = read(condensed), tmp_path / "new.safetensors"
        printed = here("reorder", condensed, "--out", new, *REORDER)
        assert printed.startswith(f"{new}: the images of {condensed}, easiest first, ")
        assert printed.endswith(f"; next: mipset evaluate {condensed} {new}\n")
        assert printed.count("\n") == 1
        reordered = read(new)
        for c in range(10):
            before, after = ([image.tobytes() for image in artifact.images[:, c]] for artifact in (old, reordered))
            assert sorted(after) == sorted(before)
        assert not np.array_equal(reordered.images, old.images)
        assert reordered.recipe == old.recipe
        assert reordered.provenance["reordered"] == "yoco"
        assert reordered.provenance["reordered_with"].endswith("; seed 0; best 1 of the first 2 epochs")
        assert [line.split()[0] for line in here("evaluate", condensed, new, *BRIEF).splitlines()[2:]] == ["set", "new"]
        content = new.read_bytes()
        here("reorder", condensed, "--out", new, *REORDER, "--force", "--seed", 1)
        assert new.read_bytes() != content


class TestSaving:
    def test_file_that_was_replaced_meanwhile_is_left_alone(
        self, condensed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        """The accuracies of both files are printed, and those of the other file are saved."""
        other = tmp_path / "other.safetensors"
        other.write_bytes(condensed.read_bytes())
        new = replace(read(condensed), images=255 - read(condensed).images)

        def fit_while_the_file_is_replaced(*arguments: Any) -> Any:
            new.write(condensed)
            return fit(*arguments)

        monkeypatch.setattr("mipset.evaluation.evaluate.fit", fit_while_the_file_is_replaced)
        condensed.chmod(0o600)
        other.chmod(0o640)
        with pytest.raises(SystemExit) as ended:
            cli.main(["evaluate", str(condensed), str(other), "--sizes", "1", *BRIEF, "--save"])
        shown = capfd.readouterr()
        assert ended.value.code == 2
        assert "set.safetensors was replaced by another set" in shown.err
        assert [line.split()[0] for line in shown.out.splitlines()[2:]] == ["set", "other"]
        assert (read(condensed).images == new.images).all()
        assert read(condensed).accuracy == ()
        assert [point.size for point in read(other).accuracy] == [1]
        assert [path.stat().st_mode & 0o777 for path in (condensed, other)] == [0o600, 0o640]
