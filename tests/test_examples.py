"""Run each example with `--toy` in a process of its own and check what it prints."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import mipset

EXAMPLES = Path(__file__).parent.parent / "examples"
SOURCE = str(Path(mipset.__file__).parents[1])
ALL = sorted(path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text(encoding="utf-8"))
OF_FRAMEWORKS = {"avalanche_replay", "ddranking_scores", "flower_federated"}  # tests/test_framework_examples.py
NAMES = [name for name in ALL if name not in OF_FRAMEWORKS]


def printed_lines(name: str, *arguments: object, cwd: Path, warnings: str = "error") -> list[str]:
    """Run an example and return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, str(EXAMPLES / f"{name}.py"), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": SOURCE, "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def cells(line: str) -> list[str]:
    """The columns of a line, which are separated by two or more spaces."""
    return re.split(r" {2,}", line.strip())


def percentages(texts: list[str]) -> list[float]:
    """The numbers in these texts, which must be percentages."""
    values = [float(text) for text in texts]
    assert all(0 <= value <= 100 for value in values)
    return values


def in_bytes(text: str) -> float:
    """The number of bytes in a text such as "80.5 kB"."""
    number, unit = text.split()
    return float(number) * {"B": 1, "kB": 1e3, "MB": 1e6}[unit]


def test_every_example_is_tested_here() -> None:
    tested = ("c_training", "federated", "fleet", "halving", "hf_training", "optuna_search", "replay", "torch_training")
    assert tuple(NAMES) == tested
    assert set(ALL) > OF_FRAMEWORKS


@pytest.mark.parametrize("name", ALL)
def test_example_is_short(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 150


@pytest.mark.parametrize("name", ALL)
def test_example_is_listed_in_the_readme(name: str) -> None:
    assert f"python examples/{name}.py" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_help_of_example_shows_its_docstring_and_runs_nothing(name: str, tmp_path: Path) -> None:
    first = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").splitlines()[0].strip('"')
    lines = printed_lines(name, "--help", cwd=tmp_path)
    assert first in lines
    assert any(line.startswith(f"Run:   python examples/{name}.py") for line in lines)
    assert any("--toy" in line for line in lines)
    assert not list(tmp_path.iterdir())


def test_fleet_moves_fewer_bytes_with_one_file(tmp_path: Path) -> None:
    first, titles, *lines = printed_lines("fleet", "--toy", "--devices", 3, "--rounds", 8, cwd=tmp_path)
    assert first == "3 devices, 8 rounds, sizes [1, 2, 3]"
    assert cells(titles) == ["method", "files", "published", "moved", "mean accuracy in %"]
    table = {row[0]: row[1:] for row in map(cells, lines)}
    assert {name: row[0] for name, row in table.items()} == {
        "every-prefix": "1",
        "baseline-a": "3",
        "baseline-b": "1",
        "baseline-c": "1",
    }
    published, moved = ({name: in_bytes(row[i]) for name, row in table.items()} for i in (1, 2))
    percentages([row[3] for row in table.values()])
    rank = 10 * 28 * 28
    assert published["every-prefix"] > 3 * rank  # three images of each class and a header
    assert published["baseline-a"] > (1 + 2 + 3) * rank
    assert moved["every-prefix"] < 0.7 * moved["baseline-a"]
    assert moved["every-prefix"] > 3 * rank  # each of the three devices holds images
    for name in ("baseline-b", "baseline-c"):
        assert moved[name] == pytest.approx(moved["every-prefix"], rel=0.01)  # only the headers differ
    again = printed_lines("fleet", "--toy", "--devices", 3, "--rounds", 8, cwd=tmp_path)
    assert again == [first, titles, *lines]  # the second run reads the results of the first


def test_replay_buffer_never_exceeds_its_bytes(tmp_path: Path) -> None:
    _, titles, stored, buffer_bytes, *lines = map(cells, printed_lines("replay", "--toy", "--total", 6, cwd=tmp_path))
    assert titles == ["old and new classes", "0 + 2", "2 + 2", "4 + 2", "mean"]
    assert stored == ["stored images per old class", "-", "3", "1"]
    assert buffer_bytes == ["bytes in the buffer", "0", str(2 * 3 * 784), str(4 * 1 * 784)]
    assert [row[0] for row in lines] == ["condensed", "real", "real, shrunk"]
    for _, *row in lines:
        *accuracies, mean = percentages(row)
        assert mean == pytest.approx(sum(accuracies) / 3, abs=0.1)
    assert len({row[1] for row in lines}) == 1  # the first task has no buffer


def test_federated_clients_read_the_largest_size_that_fits(tmp_path: Path) -> None:
    _, titles, own, smallest = map(cells, printed_lines("federated", "--toy", cwd=tmp_path))
    assert titles == ["images per class", "read", "round 1", "round 2"]
    assert own[0] == "each its own size"
    sizes = [int(size) for size in own[1].split()]
    assert sizes in (
        [1, 1, 3],
        [1, 2, 3],
    )  # the header decides whether 2 fit into half of it
    assert smallest[:2] == ["all the smallest", "1 1 1"]
    rank = 10 * 28 * 28
    assert in_bytes(own[2]) == pytest.approx(sum(sizes) * rank, rel=0.01)
    assert in_bytes(smallest[2]) == pytest.approx(3 * rank, rel=0.01)
    percentages([*own[3:], *smallest[3:]])


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler (cc)")
def test_c_training_prints_the_accuracy_of_each_size(tmp_path: Path) -> None:
    memory, *lines = printed_lines("c_training", "--toy", cwd=tmp_path)
    assert memory.endswith(f"flash for images: {3 * 10 * 784} bytes")
    sizes, accuracies = zip(*(line.removesuffix(" %").split(": ") for line in lines), strict=True)
    assert sizes == ("n = 1", "n = 3")
    percentages(list(accuracies))


def test_torch_training_has_a_row_for_each_way_to_train(tmp_path: Path) -> None:
    titles, *rows = map(cells, printed_lines("torch_training", "--toy", cwd=tmp_path))
    assert titles == ["test accuracy in %", "n = 1", "n = 2", "n = 3"]
    assert [row[0] for row in rows] == ["images as they are", "augmentation", "augmentation and CutMix"]
    for _, *accuracies in rows:
        assert len(percentages(accuracies)) == 3


def test_hugging_face_rows_train_every_size(tmp_path: Path) -> None:
    titles, *rows = map(cells, printed_lines("hf_training", "--toy", cwd=tmp_path))
    assert titles == ["test accuracy in %", "n = 1", "n = 2", "n = 3"]
    assert [row[0] for row in rows] == ["condensed", "real images, same bytes"]
    for _, *accuracies in rows:
        assert len(percentages(accuracies)) == 3
    assert not list(tmp_path.iterdir())


def test_halving_compares_sizes_with_real_images(tmp_path: Path) -> None:
    lines = printed_lines("halving", "--toy", cwd=tmp_path)
    _, titles, *rows, correlations = map(cells, lines[:-3])
    assert titles == ["rate, augmentation", "size 1", "size 2", "size 3", "real images"]
    names = [row[0] for row in rows]
    assert names == ["0.002, none", "0.01, none", "0.05, none", "0.25, none"]
    scores = [percentages(row[1:]) for row in rows]
    assert correlations[0] == "rank correlation with real"
    assert all(-1 <= float(value) <= 1 for value in correlations[1:])
    summary = re.fullmatch(r"tried 4 at size 1, 2 at size 2, 1 at size 3: (.*) is left", lines[-3])
    assert summary is not None
    winner = scores[names.index(summary[1])]
    best_two = sorted(scores, key=lambda row: -row[0])[:2]
    assert winner[1] == max(row[1] for row in best_two)
    assert f"it has {winner[3]:.1f} %, the best {max(row[3] for row in scores):.1f} %" in lines[-2]
    share = r"([\d.]+)%"
    work = (
        f"it took {share} of the work of trying all settings on the real images, and {share} together with condensing"
    )
    shares = re.fullmatch(work, lines[-1])
    assert shares is not None
    assert 0 < float(shares[1]) < float(shares[2])


def test_optuna_counts_trials_work_and_what_was_found(tmp_path: Path) -> None:
    _, _, titles, *lines, last = printed_lines("optuna_search", "--toy", "--searches", 2, cwd=tmp_path)
    assert cells(titles) == ["size 1", "size 3", "work in %", "found in %", "points below the best"]
    table = {row[0]: [float(value) for value in row[1:]] for row in map(cells, lines)}
    assert list(table) == ["whole set, no pruner", "SuccessiveHalvingPruner", "HyperbandPruner"]
    assert table["whole set, no pruner"][:3] == [0, 4, 100]
    assert table["SuccessiveHalvingPruner"][0] == 4  # all four settings are tried at size 1
    assert 1 <= table["SuccessiveHalvingPruner"][1] <= 4
    for row in table.values():
        assert 0 <= row[3] <= 100
        assert row[4] >= 0
    assert re.fullmatch(r"100 % of work is [\d.]+% of trying all .*; condensing is [\d.]+%", last)


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("optuna_search", ("--searches", 0), "argument --searches: cannot be 0: it must be at least 1"),
        ("fleet", ("--devices", 0), "argument --devices: cannot be 0: it must be at least 1"),
        ("fleet", ("--rounds", 0), "argument --rounds: cannot be 0: it must be at least 1"),
        ("federated", ("--clients", 0), "argument --clients: cannot be 0: it must be at least 1"),
        ("federated", ("--steps", -1), "argument --steps: cannot be -1: it must be at least 1"),
        ("replay", ("--total", 3), "argument --total: cannot be 3: 4 old classes need one image each"),
    ],
)
def test_argument_that_is_too_small_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, arguments: tuple[Any], reason: str
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", [name, "--toy", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(name).main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith(f"error: {reason}\n")


def test_fleet_mean_accuracy_equals_a_calculation_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device counts in every round, with the mean over the networks of its size."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from fleet import mean_accuracy

    scores = {1: [10.0, 30.0], 2: [50.0], 5: [90.0, 70.0]}
    assert mean_accuracy(scores, [[1, 1, 2], [5, 1, 2]]) == pytest.approx((20 + 20 + 50 + 80 + 20 + 50) / 6)
    assert mean_accuracy(scores, [[5]]) == pytest.approx(80)


def test_federated_clients_take_equal_numbers_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of steps does not depend on the number of images."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from common import Setting
    from federated import federated_accuracies

    from mipset.nn.training import TrainingRule

    batches: list[int] = []
    step = TrainingRule.step

    def recording_step(rule: TrainingRule, theta: Any, optimiser: Any, images: Any, *more: Any) -> None:
        batches.append(len(images))
        step(rule, theta, optimiser, images, *more)

    monkeypatch.setattr(TrainingRule, "step", recording_step)
    setting = Setting(toy=True)
    images = setting.images(setting.data.train)
    clients = [images.at(torch.arange(count)) for count in (5, 200)]
    assert len(list(federated_accuracies(setting, clients, rounds=2, steps=3))) == 2
    assert batches == [64] * 2 * 2 * 3


def test_spearman_correlation_equals_a_calculation_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ties, for the values -1 and 1, and by the formula for lists without ties."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from halving import positions, spearman

    assert positions([3.0, 1.0, 3.0, 2.0]).tolist() == [2.5, 0, 2.5, 1]
    assert spearman([1, 2, 3], [10, 20, 300]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 1], [3, 2, 1]) == 0
    assert spearman([1, 2, 3, 4], [2, 1, 4, 3]) == pytest.approx(1 - 6 * 4 / (4 * 15))  # 1 - 6 Σd² / n(n² - 1)
