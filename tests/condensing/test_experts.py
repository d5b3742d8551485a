"""Experts: trained once, kept on disk, resumed, and the networks between their first and last weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from mipset.condensing import assembly, experts
from mipset.condensing.assembly import assemble, training_rule
from mipset.condensing.condense import condense
from mipset.condensing.experts import ExpertFiles, Experts
from mipset.condensing.states import from_bytes, to_bytes
from mipset.data import Dataset
from mipset.errors import DivergedError
from mipset.nn.distributed import Alone
from mipset.nn.networks import ConvNet, Network
from mipset.nn.training import Images, accuracy
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def build() -> Network:
    return ConvNet(3, 3, (12, 12), 4, 2)


def images(toy: Dataset) -> Images:
    return Images.of(torch.from_numpy(toy.train.images), torch.from_numpy(toy.train.labels), toy.mean, toy.std, CPU)


def learner(toy: Dataset, recipe: Recipe, folder: Path | None = None, steps: int = 6, count: int = 2) -> Experts:
    rule = training_rule(recipe)
    return Experts([build] * count, images(toy), rule, steps=steps, batch=8, seed=0, files=ExpertFiles(folder))


def weights(theta: Network) -> Tensor:
    return parameters_to_vector(theta.parameters()).detach().clone()


def last_weights(trained: Experts) -> list[Tensor]:
    """The last weights of all experts that are seen in many iterations."""
    seen: dict[bytes, Tensor] = {}
    for number in range(20):
        theta = trained.advance(trained.start(1), number)
        last = weights(trained.trained(theta))
        seen[last.numpy().tobytes()] = last
    return [seen[key] for key in sorted(seen)]


def test_experts_learn_and_differ(toy: Dataset, recipe: Recipe) -> None:
    trained = learner(toy, recipe.replace(network_lr=0.05, cutmix=0.0), steps=60)
    trained.prepare()
    assert accuracy(trained.trained(trained.start(1)), images(toy)) > 80
    assert len(last_weights(trained)) == 2


def test_networks_lie_between_first_and_last_weights(toy: Dataset, recipe: Recipe) -> None:
    trained = learner(toy, recipe, count=1)
    last, shares = None, []
    for number in range(30):
        theta = trained.advance(trained.start(1), number)
        last = weights(trained.trained(theta))
        first = trained._experts[0].first
        share = float((weights(theta) - last) @ (first - last) / (first - last).square().sum())
        torch.testing.assert_close(weights(theta), share * first + (1 - share) * last, rtol=0, atol=1e-6)
        shares.append(share)
    assert 0 <= min(shares) < 0.2
    assert 0.8 < max(shares) <= 1


def test_networks_depend_on_the_place_in_the_run_only(toy: Dataset, recipe: Recipe) -> None:
    one, other = learner(toy, recipe), learner(toy, recipe)
    one.start(1)
    one.advance(one.start(2), 5)
    assert torch.equal(weights(one.advance(one.start(3), 7)), weights(other.advance(other.start(9), 7)))
    assert torch.equal(weights(one.start(4)), weights(other.start(4)))
    assert not torch.equal(weights(one.start(4)), weights(other.start(5)))


def test_experts_on_disk_are_used_again(toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: Any) -> None:
    first = learner(toy, recipe, tmp_path)
    first.prepare()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.expert", "1.expert"]
    monkeypatch.setattr(experts, "shuffled_batch", None)  # a training step would fail
    again = learner(toy, recipe, tmp_path)
    assert all(map(torch.equal, last_weights(first), last_weights(again)))


@pytest.mark.parametrize("seconds", [-1.0, 1e9])  # a file after every step, or only when it is interrupted
def test_interrupted_training_goes_on_with_the_same_result(
    toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr(experts, "SECONDS", seconds)

    def stop(*report: object) -> None:
        if report[1] == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner(toy, recipe, tmp_path).prepare(stop)
    assert from_bytes((tmp_path / "1.expert").read_bytes())["steps"] == 3
    steps: list[tuple[float, float]] = []
    resumed = learner(toy, recipe, tmp_path)
    resumed.prepare(lambda _, done, total: steps.append((done, total)))
    assert steps == [(10, 12), (11, 12), (12, 12)]
    assert all(map(torch.equal, last_weights(resumed), last_weights(learner(toy, recipe))))


def changed_bit(content: bytes) -> bytes:
    place = len(content) // 2
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


def with_weights(content: bytes, change: Callable[[Tensor], object]) -> bytes:
    """The content with other weights, and a digest that fits."""
    state = from_bytes(content)
    return to_bytes({**state, "weights": change(state["weights"])})


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"nonsense",
        changed_bit,
        lambda content: with_weights(content, lambda weights: weights[1:]),
        lambda content: with_weights(content, lambda weights: weights / 0),
        lambda content: with_weights(content, lambda weights: weights.double()),
        lambda content: with_weights(content, lambda _: None),
        lambda content: to_bytes({**from_bytes(content), "steps": 99}),
        lambda content: to_bytes({**from_bytes(content), "first": from_bytes(content)["weights"]}),
    ],
)
def test_damaged_file_is_trained_again(
    toy: Dataset, recipe: Recipe, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    expected, file = last_weights(learner(toy, recipe, tmp_path)), tmp_path / "0.expert"
    written = file.read_bytes()
    file.write_bytes(damage(written))
    assert all(map(torch.equal, last_weights(learner(toy, recipe, tmp_path)), expected))
    trained_again, before = from_bytes(file.read_bytes()), from_bytes(written)
    assert torch.equal(trained_again["weights"], before["weights"])


def test_experts_are_not_kept_in_a_folder_that_cannot_be_written(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kept_nowhere = learner(toy, recipe, tmp_path / "file" / "experts")
    assert all(map(torch.equal, last_weights(kept_nowhere), last_weights(learner(toy, recipe))))


class Rehearsed(Alone):
    """One of two processes, which writes down its exchanges; the other one is not there."""

    def __init__(self, process: int, diary: list[str]) -> None:
        object.__setattr__(self, "process", process)
        object.__setattr__(self, "processes", 2)
        object.__setattr__(self, "diary", diary)
        self.diary = diary

    def complete(self, whole: Tensor, own: Sequence[int], dim: int = 0) -> None:
        self.diary.append("exchange")


@pytest.mark.parametrize("count", [2, 3, 4])
def test_processes_train_at_the_same_time_and_exchange_equally_often(
    toy: Dataset, recipe: Recipe, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experts, "BEAT_STEPS", 4)
    exchanges = []
    for process in (0, 1):
        diary: list[str] = []
        trained = learner(toy, recipe, steps=6, count=count)
        trained.team = Rehearsed(process, diary)
        trained.prepare(lambda *_, diary=diary: diary.append("step"))
        own = len(trained.team.share(range(count)))
        assert diary.count("step") == 6 * own
        assert diary.index("step") == 0, "no process waits before it trains"
        longest_wait = max(len(list(run)) for kind, run in itertools.groupby(diary) if kind == "step")
        assert longest_wait <= 4
        exchanges.append(diary.count("exchange"))
    assert exchanges[0] == exchanges[1]


def test_seconds_of_training_are_kept(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    first, again = learner(toy, recipe, tmp_path), learner(toy, recipe, tmp_path)
    first.prepare()
    again.prepare()
    assert first.preparing_seconds == pytest.approx(again.preparing_seconds)
    assert first.preparing_seconds > 0
    assert first.preparing_processor_seconds == pytest.approx(again.preparing_processor_seconds)
    assert first.preparing_processor_seconds > 0
    for number in range(len(first.builds)):  # as an older version wrote them
        kept = first.files.read(number, torch.device("cpu"))
        first.files.write(number, {name: value for name, value in kept.items() if name != "processor_seconds"})
    older = learner(toy, recipe, tmp_path)
    older.prepare()
    assert older.preparing_seconds == pytest.approx(first.preparing_seconds)
    assert math.isnan(older.preparing_processor_seconds)


def test_expert_that_diverges_stops_the_run(toy: Dataset, recipe: Recipe) -> None:
    with pytest.raises(
        DivergedError, match=r"The weights of an expert network became too large\. Try a smaller `network_lr`"
    ):
        learner(toy, recipe.replace(network_lr=1e3, expert_steps=30)).prepare()


EXPERTS = {"learner": "experts", "experts": 2, "expert_steps": 3, "pixel_optimiser": "adam", "objective": "feature"}


def test_runs_share_experts_unless_a_setting_of_their_training_differs(
    toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "home", lambda: tmp_path)
    r = recipe.replace(**EXPERTS)
    assemble(r, toy)
    for shared in (r.replace(policy="every-prefix", ipc=2), r.replace(pixel_lr=0.5, real_batch=4), r.replace(outer=5)):
        assemble(shared, toy)
        assert len(list((tmp_path / "experts").iterdir())) == 1
    assemble(r.replace(experts=3), toy)
    (folder,) = (tmp_path / "experts").iterdir()
    assert len(list(folder.iterdir())) == 3
    others = (r.replace(seed=1), r.replace(expert_steps=4), r.replace(width=5), r.replace(network_lr=0.02))
    for count, other in enumerate(others, start=2):
        assemble(other, toy)
        assert len(list((tmp_path / "experts").iterdir())) == count
    assemble(r, replace(toy, mean=(0.5, 0.5, 0.5)))
    assert len(list((tmp_path / "experts").iterdir())) == 6


def test_assembling_reports_the_training(toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(assembly, "home", lambda: tmp_path)
    told: list[tuple[object, ...]] = []
    parts = assemble(recipe.replace(**EXPERTS), toy, report=lambda *report: told.append(report))
    assert told[-1] == ("training experts", 6, 6)
    assert all(step.loss > 0 for step in condense(parts))
