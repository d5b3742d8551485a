"""Trajectory matching: its distance and derivatives, learned rates, snapshots on disk, and runs with every policy."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from test_experts import build, images
from test_growing import without_class
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from mipset.condensing import assembly, checkpoint, experts, policies
from mipset.condensing.assembly import assemble
from mipset.condensing.checkpoint import CheckpointedRun, Identity, find
from mipset.condensing.condense import condense
from mipset.condensing.costs import PeakBytes, cost, passes, student_flops, students
from mipset.condensing.experts import ExpertFiles, Trajectories
from mipset.condensing.growing import grown, in_order_of, pack_grown
from mipset.condensing.objectives import Student, TrajectoryMatching
from mipset.condensing.packing import pack
from mipset.condensing.parts import Parts
from mipset.condensing.passes import Passes
from mipset.condensing.states import weights_of
from mipset.data import Dataset
from mipset.errors import ArtifactError, DivergedError, SettingError
from mipset.file.artifact import read
from mipset.nn.augment import augmentation
from mipset.nn.distributed import Alone
from mipset.nn.engines import Native
from mipset.nn.native import Kernels
from mipset.nn.networks import ConvNet, Network
from mipset.nn.randomness import Purpose, generator
from mipset.settings.recipe import Recipe

MTT: dict[str, Any] = {
    "objective": "trajectory",
    "learner": "trajectories",
    "experts": 2,
    "snapshot_steps": 4,
    "expert_starts": 3,
    "expert_ahead": 2,
    "student_steps": 4,
    "student_lr": 0.05,
    "student_lr_lr": 1e-4,
    "train_batch": 20,
    "train_augment": "color_crop",
    "match_augment": "none",
    "network_lr": 0.05,
    "network_momentum": 0.0,
    "network_decay": 0.0,
    "cutmix": 0.0,
    "factor": 1,
    "outer": 2,
    "inner": 2,
    "pixel_lr": 10.0,
}
RATE = torch.tensor(0.05, dtype=torch.float64)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all runs of this module share their trajectories."""
    return tmp_path_factory.mktemp("trajectories")


@pytest.fixture
def mtt(recipe: Recipe, home: Path, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    monkeypatch.setattr(assembly, "home", lambda: home)
    return recipe.replace(**MTT)


def network(dtype: torch.dtype = torch.float64) -> ConvNet:
    torch.manual_seed(0)
    return ConvNet(3, 2, (8, 8), 3, 2).to(dtype)


def noise(count: int, seed: int) -> Tensor:
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def goal_of(theta: Network) -> Tensor:
    torch.manual_seed(1)
    return weights_of(theta) + 0.1 * torch.randn_like(weights_of(theta))


def student(steps: int = 3, batch: int = 0, augment: str = "color_crop_flip") -> Student:
    return Student(steps, batch, augmentation(augment), seed=0)


def unrolled(theta: Network, goal: Tensor, x: Tensor, labels: Tensor, rate: Tensor, learns: Student) -> Tensor:
    """The distance by the book: training with its whole graph."""
    names, first = [name for name, _ in theta.named_parameters()], [p.detach() for p in theta.parameters()]
    weights = [p.clone().requires_grad_() for p in first]
    for step in range(learns.steps):
        batch = learns._batch(len(x), step, 7)
        seen = augmentation_at(learns, step, x[batch])
        scores = torch.func.functional_call(theta, dict(zip(names, weights, strict=True)), (seen,))
        slopes = torch.autograd.grad(F.cross_entropy(scores, labels[batch]), weights, create_graph=True)
        weights = [w - rate * slope for w, slope in zip(weights, slopes, strict=True)]
    reached, start = (torch.cat([w.flatten() for w in each]) for each in (weights, first))
    return (reached - goal).square().sum() / (start - goal).square().sum()


def augmentation_at(learns: Student, step: int, x: Tensor) -> Tensor:
    draws = generator(learns.seed, Purpose.STUDENT_AUGMENTATION, 7, step)
    return learns.augmentation.draw(draws, (8, 8), images=len(x))(x)


@pytest.mark.parametrize("batch", [0, 3])
def test_distance_and_derivatives_equal_those_of_the_whole_graph(batch: int) -> None:
    theta, x, labels = network(), noise(4, 0), torch.arange(4) % 2
    goal, learns = goal_of(theta), student(batch=batch)
    value, by_images, by_rate = learns.distance(theta, goal, x, labels, RATE, 7)
    leaf, rate = x.clone().requires_grad_(), RATE.clone().requires_grad_()
    expected = unrolled(theta, goal, leaf, labels, rate, learns)
    for ours, book in zip(
        (value, by_images, by_rate), (expected, *torch.autograd.grad(expected, [leaf, rate])), strict=True
    ):
        torch.testing.assert_close(ours, book, rtol=1e-9, atol=1e-12)


def test_derivatives_equal_finite_differences() -> None:
    theta, x, labels = network(), noise(4, 0), torch.arange(4) % 2
    goal, learns = goal_of(theta), student(batch=3)

    def value(images: Tensor, rate: Tensor) -> float:
        return float(learns.distance(theta, goal, images, labels, rate, 7)[0])

    _, by_images, by_rate = learns.distance(theta, goal, x, labels, RATE, 7)
    along, h = noise(4, 5), 1e-5
    slope = (value(x + h * along, RATE) - value(x - h * along, RATE)) / (2 * h)
    assert slope == pytest.approx(float((by_images * along).sum()), rel=1e-5)
    assert (value(x, RATE + h) - value(x, RATE - h)) / (2 * h) == pytest.approx(float(by_rate), rel=1e-6)


@given(steps=st.integers(0, 3), rate=st.sampled_from([0.0, 0.1, 3.0]), batch=st.integers(0, 5), seed=st.integers(0, 9))
def test_distance_is_1_for_a_student_that_does_not_move(steps: int, rate: float, batch: int, seed: int) -> None:
    theta, labels = network(), torch.arange(4) % 2
    distance, by_images, _ = student(steps, batch).distance(
        theta, goal_of(theta), noise(4, seed), labels, torch.tensor(rate, dtype=torch.float64), seed
    )
    assert (float(distance) == 1) == (steps == 0 or rate == 0)
    assert bool(by_images.any()) == (steps > 0 and rate > 0)


def test_distance_is_0_where_the_expert_took_the_same_steps() -> None:
    theta, x, labels = network(), noise(4, 0), torch.arange(4) % 2
    loss = F.cross_entropy(theta(x), labels)
    slope = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(theta.parameters()))])
    goal = weights_of(theta) - RATE * slope
    assert float(student(1, augment="none").distance(theta, goal, x, labels, RATE, 0)[0]) < 1e-20


def test_kernels_give_the_derivatives_of_plain_torch(kernels: Kernels) -> None:
    torch.manual_seed(0)
    plain = ConvNet(16, 2, (8, 8), 16, 2)
    native = ConvNet(16, 2, (8, 8), 16, 2, Native(kernels))
    native.load_state_dict(plain.state_dict())
    x, labels, goal = torch.randn(4, 16, 8, 8), torch.arange(4) % 2, goal_of(plain)
    for ours, expected in zip(
        *(student(augment="none").distance(theta, goal, x, labels, RATE.float(), 0) for theta in (native, plain)),
        strict=True,
    ):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-5)
    assert isinstance(native.engine, Native), "the engine is lent, not replaced"


def matching(sizes: int = 0, lr: float = 0.0) -> TrajectoryMatching:
    learns = student(2, augment="none")
    objective = TrajectoryMatching(goal_of, learns, 4, rate=0.05, rate_lr=lr, rate_momentum=0.5, sizes=sizes)
    objective._rates = objective._rates.detach().double().requires_grad_()
    objective._velocity = objective._velocity.double()
    return objective


def slopes(objective: TrajectoryMatching, ends: list[int], weights: list[float]) -> tuple[Tensor, Tensor]:
    """The derivatives of a weighted sum of distances by images and rates, stacked, and the distances."""
    theta, x = network(), noise(8, 3).reshape(2, 4, 3, 8, 8).requires_grad_()
    target = objective.target(theta, x.detach(), [0, 1])
    match = objective.distances(theta, x, [0, 1], target, ends)
    assert match.distances.shape == (1, len(ends))
    loss = (match.distances * torch.tensor(weights, dtype=torch.float64)).sum()
    by_images, by_rates = torch.autograd.grad(loss, [x, *objective.learned])
    return torch.cat([by_images.flatten(), by_rates]), match.distances[0].detach()


def test_every_size_has_a_student_and_a_rate_of_its_own() -> None:
    both, distances = slopes(matching(), [1, 4], [2.0, 1.0])
    small, (of_one, _) = slopes(matching(), [1, 4], [2.0, 0.0])
    large, _ = slopes(matching(), [1, 4], [0.0, 1.0])
    torch.testing.assert_close(both, small + large)
    assert float(distances[0]) == float(of_one)
    rates = both[-4:]
    assert rates.bool().tolist() == [True, False, False, True], "the sizes that count"
    assert not small[:-4].reshape(2, 4, -1)[:, 1:].any(), "an image after the prefix has no part in it"


def test_drawn_sizes_are_unbiased() -> None:
    ends, weights = [1, 2, 4], [1.0, 0.5, 2.0]
    whole, distances = slopes(matching(), ends, weights)
    drawn = [slopes(matching(sizes=1).at(number), ends, weights) for number in range(30)]
    places = [int(values.argmax()) for _, values in drawn]
    assert min(map(places.count, range(3))) > 5, "every size is as likely as the others"
    of_places = [drawn[places.index(place)] for place in range(3)]  # the three results that are possible
    torch.testing.assert_close(torch.stack([by for by, _ in of_places]).mean(dim=0), whole)
    torch.testing.assert_close(torch.stack([values for _, values in of_places]).mean(dim=0), distances)


@pytest.mark.parametrize(("gradient", "said"), [(1e9, "became -"), (-1e9, "became 1"), (float("nan"), "became nan")])
def test_rate_that_leaves_its_range_is_told(gradient: float, said: str) -> None:
    objective = matching(lr=1.0)
    with pytest.raises(DivergedError, match=rf"students of size 2 {said}.*smaller `student_lr_lr`"):
        objective.learn([torch.tensor([0.0, gradient, 0.0, 0.0], dtype=torch.float64)])


def test_rates_move_with_momentum() -> None:
    objective = matching(lr=1e-3)
    for _ in range(2):
        objective.learn([torch.ones(4, dtype=torch.float64)])
    assert objective._rates.tolist() == pytest.approx([0.05 - 1e-3 - 1.5e-3] * 4)


# Snapshots on disk.


def trajectories(folder: Path, toy: Dataset, recipe: Recipe, count: int = 2) -> Trajectories:
    rule = assembly.training_rule(recipe.replace(**MTT))
    way = {"every": 3, "starts": 2, "ahead": 2}
    return Trajectories([build] * count, images(toy), rule, **way, batch=8, seed=0, files=ExpertFiles(folder))


def test_snapshots_differ_and_are_plain_safetensors(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    learner = trajectories(tmp_path, toy, recipe)
    learner.prepare()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.safetensors", "1.safetensors"]
    for number in (0, 1):
        snapshots = load_file(tmp_path / f"{number}.safetensors")["snapshots"]
        assert len(snapshots) == 4, "no more than the last start and its goal need"
        assert len({row.numpy().tobytes() for row in snapshots}) == 4
        assert torch.equal(snapshots[0], weights_of(learner._fresh(number)))
    steps: list[object] = []
    again = trajectories(tmp_path, toy, recipe)
    again.prepare(lambda *report: steps.append(report))
    assert not steps, "another run trains nothing"
    assert again.preparing_seconds == learner.preparing_seconds > 0
    assert again.preparing_processor_seconds == learner.preparing_processor_seconds > 0


def test_networks_are_snapshots_and_goals_are_later_ones(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    learner = trajectories(tmp_path, toy, recipe)
    starts = set()
    for number in range(20):
        theta = learner.advance(learner.start(1), number)
        expert, snapshot = learner._chosen
        rows = load_file(tmp_path / f"{expert}.safetensors")["snapshots"]
        assert torch.equal(weights_of(theta), rows[snapshot])
        assert torch.equal(learner.later(theta), rows[snapshot + 2])
        assert torch.equal(weights_of(learner.trained(theta)), rows[-1])
        starts.add((expert, snapshot))
    assert starts == {(expert, snapshot) for expert in (0, 1) for snapshot in (0, 1)}


@pytest.mark.parametrize("stop_at", [5, 14])  # in the first trajectory, in the second
def test_interrupted_trajectory_goes_on_with_the_same_snapshots(
    toy: Dataset, recipe: Recipe, tmp_path: Path, stop_at: int
) -> None:
    def stop(*report: object) -> None:
        if report[1] == stop_at:
            raise KeyboardInterrupt

    trajectories(tmp_path / "whole", toy, recipe).prepare()
    with pytest.raises(KeyboardInterrupt):
        trajectories(tmp_path / "parts", toy, recipe).prepare(stop)
    steps: list[float] = []
    trajectories(tmp_path / "parts", toy, recipe).prepare(lambda _, done, __: steps.append(done))
    assert len(steps) == 18 - stop_at, "steps that were taken are not taken again"
    for number in (0, 1):
        ours, whole = (load_file(tmp_path / name / f"{number}.safetensors") for name in ("parts", "whole"))
        assert torch.equal(ours["snapshots"], whole["snapshots"])


def longer(content: bytes) -> bytes:
    """The same file with a shape that has one row more."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header["snapshots"]["shape"][0] += 1
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:-1],
        lambda content: content[:-7] + bytes([content[-7] ^ 1]) + content[-6:],
        lambda content: content.replace(b"seconds", b"sEconds"),
        lambda content: struct.pack("<Q", 1 << 60) + content[8:],
        longer,
    ],
)
def test_damaged_trajectory_is_trained_again(toy: Dataset, recipe: Recipe, tmp_path: Path, damage: Any) -> None:
    trajectories(tmp_path, toy, recipe, 1).prepare()
    file = tmp_path / "0.safetensors"
    whole = load_file(file)["snapshots"].clone()  # not a view of the file
    file.write_bytes(damage(file.read_bytes()))
    learner = trajectories(tmp_path, toy, recipe, 1)
    learner.prepare()
    assert torch.equal(load_file(file)["snapshots"], whole)
    file.write_bytes(damage(file.read_bytes()))  # while it is in use
    with pytest.raises(ArtifactError, match=r"0\.safetensors is damaged"):
        [learner.later(learner.advance(learner.start(1), number)) for number in range(20)]


def test_trajectories_that_do_not_fit_are_refused_before_training(
    toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experts, "free_bytes", lambda _: 1000)
    with pytest.raises(ArtifactError, match=r"need [\d.]+ kB in .*but 1[.0]* kB are left.*fewer `experts`"):
        trajectories(tmp_path / "none", toy, recipe).prepare()
    assert not (tmp_path / "none").exists()


def test_several_processes_are_refused(toy: Dataset, mtt: Recipe) -> None:
    with pytest.raises(SettingError, match="in one process, not in 2"):
        assemble(mtt, toy, team=Alone(0, 2))


# Runs.


def finished(parts: Parts) -> tuple[list[float], bytes, list[float | None]]:
    losses = [step.loss for step in condense(parts)]
    return losses, parts.S.pixels.numpy().tobytes(), parts.objective.record()["student_rates"]


def test_run_lowers_the_loss_and_learns_its_rate(toy: Dataset, mtt: Recipe) -> None:
    losses, _, rates = finished(assemble(mtt.replace(policy="baseline-c", outer=12, train_augment="none"), toy))
    assert sum(losses[-6:]) < 0.6 * sum(losses[:6])
    assert rates[:2] == [None, None]
    assert rates[2] is not None
    assert rates[2] != pytest.approx(0.05)


@pytest.mark.parametrize("policy", ["baseline-c", "mdc", "every-prefix"])
def test_resumed_run_is_the_same(
    toy: Dataset, mtt: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(checkpoint, "SECONDS", -1)
    r = mtt.replace(policy=policy, student_sizes=2 if policy == "every-prefix" else 0)
    expected = finished(assemble(r, toy))
    path, identity = tmp_path / "checkpoint", Identity(r, toy.identity)
    for _ in range(3):  # stops after every inner iteration
        run = CheckpointedRun(path, assemble(r, toy), identity)
        found = find(path)
        if found is not None:
            run.resume(found)
        next(steps := run.steps(lambda: True))
        assert next(steps, None) is None
    parts = assemble(r, toy)
    run = CheckpointedRun(path, parts, identity)
    found = find(path)
    assert found is not None
    run.resume(found)
    last = [step.loss for step in run.steps()]
    assert last == expected[0][-1:]
    assert parts.S.pixels.numpy().tobytes() == expected[1]
    assert parts.objective.record()["student_rates"] == expected[2]


def test_mdc_without_weight_and_freezing_is_the_base_method_bit_by_bit(toy: Dataset, mtt: Recipe) -> None:
    base = finished(assemble(mtt.replace(policy="baseline-c"), toy))
    off = finished(assemble(mtt.replace(policy="mdc", subset_weight=0.0, freeze="never"), toy))
    assert off == base


def test_mdc_freezes_bit_by_bit_and_gives_its_subset_a_rate(
    toy: Dataset, mtt: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies, "most_learnable", lambda _: 2)  # after size 1, which is then frozen
    parts = assemble(mtt.replace(policy="mdc", outer=3), toy)
    frozen, before, lengths = 0, parts.S.pixels.clone(), set()
    for _ in condense(parts):
        assert torch.equal(parts.S.pixels[:frozen], before[:frozen])
        frozen, before = parts.policy.frozen(0), parts.S.pixels.clone()
        lengths.add(frozen)
    assert lengths == {0, 1}
    assert None not in parts.objective.record()["student_rates"]


def test_rates_are_in_the_file(toy: Dataset, mtt: Recipe, tmp_path: Path) -> None:
    parts = assemble(mtt.replace(policy="every-prefix"), toy)
    (*_, last) = condense(parts)
    pack(last, mtt.replace(policy="every-prefix"), toy).write(tmp_path / "set.safetensors")
    provenance = read(tmp_path / "set.safetensors").provenance
    assert provenance["student_rates"] == parts.objective.record()["student_rates"]
    assert all(provenance["student_rates"])
    assert "parts" not in provenance, "the recipe names all parts"


def test_set_grows_by_ranks(toy: Dataset, mtt: Recipe) -> None:
    r = mtt.replace(policy="every-prefix", ipc=2)
    (*_, last) = condense(assemble(r, toy))
    small, more = pack(last, r, toy), r.replace(ipc=3)
    (*_, last) = condense(grown(small, toy, more, torch.device("cpu")))
    larger = pack_grown(small, last, more, toy, {})
    assert (larger.images[:2] == small.images).all()
    *old, new = larger.provenance["student_rates"]
    assert old == [None, None], "sizes that cannot change have no student"
    assert new is not None


def test_set_grows_by_classes_with_students_of_all_classes(toy: Dataset, mtt: Recipe) -> None:
    r, fewer = mtt.replace(policy="baseline-c", ipc=2), without_class(toy, "c")
    (*_, last) = condense(assemble(r, fewer))
    small = pack(last, r, fewer)
    parts = grown(small, in_order_of(small, toy), r, torch.device("cpu"))
    assert parts.groups == [[0, 1, 2]], "a student of the new class alone would forget the others"
    first = parts.S.pixels.clone()
    (*_, last) = condense(parts)
    assert torch.equal(parts.S.pixels[:, :2], first[:, :2])
    assert not torch.equal(parts.S.pixels[:, 2], first[:, 2])


def test_costs_are_those_of_a_real_run(toy: Dataset, mtt: Recipe) -> None:
    r = mtt.replace(policy="every-prefix", student_steps=3, outer=1, inner=1, ipc=2)
    counted = cost(r, toy.shape, toy.classes, len(toy.train))
    parts = assemble(r, toy)
    assert counted.trajectory_bytes == sum(file.bytes for file in parts.learner._files)  # type: ignore[attr-defined]
    with FlopCounterMode(display=False) as counter:
        list(condense(parts))
    assert counter.get_total_flops() == counted.classes * counted.match_flops
    flops = student_flops(r, counted)
    assert flops[2] == pytest.approx(2 * flops[1])
    assert sum(flops.values()) == pytest.approx(counted.classes * counted.distances_flops)
    training = Passes(1, 1) * r.training_steps(toy.classes)
    assert passes(r, toy.shape, toy.classes, len(toy.train)) == Passes(2, 3) * 3 * 2 + training


def test_each_size_that_counts_has_a_student(mtt: Recipe) -> None:
    assert students(mtt.replace(policy="baseline-c")) == {3: 1}
    assert students(mtt.replace(policy="mdc")) == {1: 1, 3: 1}
    assert students(mtt.replace(policy="every-prefix")) == {1: 1, 2: 1, 3: 1}
    assert students(mtt.replace(policy="every-prefix", student_sizes=1)) == dict.fromkeys((1, 2, 3), 1 / 3)


def test_drawn_sizes_cost_their_share(toy: Dataset, mtt: Recipe) -> None:
    r = mtt.replace(policy="every-prefix", student_steps=1, ipc=2)
    whole, drawn = (cost(each, toy.shape, toy.classes, 60) for each in (r, r.replace(student_sizes=1)))
    assert drawn.distances_flops == pytest.approx(whole.distances_flops / 2, abs=1)
    assert drawn.working_bytes == whole.working_bytes


def test_memory_is_that_of_one_step_and_of_the_weights_before_each() -> None:
    with torch.device("meta"):
        theta, x, labels = ConvNet(3, 2, (16, 16), 8, 2), torch.zeros(30, 3, 16, 16), torch.zeros(30, dtype=torch.long)
        goal, rate = weights_of(theta), torch.zeros(())
    weights = 4 * goal.numel()

    def most(steps: int, batch: int = 0) -> int:
        with PeakBytes() as peak:
            student(steps, batch, "none").distance(theta, goal, x, labels, rate, 0)
        return int(peak.most)

    assert most(6) - most(2) <= 5 * weights
    assert most(2, batch=3) < 0.3 * most(2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learner": "experts"}, "needs `learner` trajectories, not experts"),
        ({"objective": "trajectory+feature"}, "can only stand alone"),
        ({"objective": "2*trajectory"}, "can only stand alone"),
        ({"policy": "mdc-per-class"}, "Choose mdc"),
        ({"student_lr": 0.0}, "`student_lr` is 0.0"),
        ({"student_lr": 11.0}, "at most 10"),
        ({"student_lr_momentum": 1.0}, "must be below 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(recipe: Recipe, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        recipe.replace(**{**MTT, **changes})


def test_snapshots_can_serve_other_objectives(toy: Dataset, mtt: Recipe, home: Path) -> None:
    shutil.rmtree(home / "experts", ignore_errors=True)
    losses, *_ = (step.loss for step in condense(assemble(mtt.replace(objective="feature"), toy)))
    assert losses > 0
