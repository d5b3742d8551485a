"""Checkpoints: a resumed run equals an uninterrupted one, damage is noticed, and another run is refused."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mipset.condensing import checkpoint
from mipset.condensing.assembly import assemble
from mipset.condensing.checkpoint import CheckpointedRun, Found, Identity, find, save
from mipset.condensing.condense import condense
from mipset.condensing.parts import Parts, Place
from mipset.condensing.spent import Spent
from mipset.condensing.states import from_bytes, to_bytes
from mipset.data import Dataset
from mipset.errors import ArtifactError, SettingError
from mipset.nn.engines import Engine, native
from mipset.settings.recipe import Recipe

MDC = {"policy": "mdc", "ipc": 4, "pixel_lr": 0.5}
FIRST_ORDER = {
    "objective": "layered+2*confidence/2",
    "learner": "experts",
    "pixel_optimiser": "adam",
    "expert_steps": 2,
}
UNTRAINED = {"objective": "characteristic", "learner": "untrained", "pixel_optimiser": "adam"}
ON_SYNTHETIC = {"learner": "trained-on-synthetic", "train_epochs": 2, "distance": "row-cosine", "matched_layers": "all"}
CLUSTERED = {"sampler": "k-means", "cluster_every": 2, "cluster_images": 12, "cluster_steps": 2, "init": "k-means"}
SHORT = {"outer": 3, "inner": 3}


@pytest.mark.parametrize(
    "settings",
    [
        MDC,
        {**MDC, "freeze": "predecessor", "pool": 2, "life": 3},
        {**MDC, "policy": "mdc-per-class", "pool": 2, "life": 2},
        {**MDC, "metric": "gradient"},
        {"policy": "every-prefix", "ipc": 4, "network_momentum": 0.0},
        {"policy": "baseline-c", "pool": 3, "life": 2},
        {**MDC, "early_epochs": 1, "train_batch": 30},
        {"policy": "every-prefix", "pool": 2, "life": 2, "early_epochs": 1, "train_batch": 30},
        {**FIRST_ORDER, "policy": "mdc"},
        {**FIRST_ORDER, "policy": "every-prefix"},
        {**UNTRAINED, "policy": "mdc"},
        {**UNTRAINED, "policy": "every-prefix"},
        {**ON_SYNTHETIC, "policy": "mdc", "sampler": "uniform", "pixel_space": "normalised"},
        {**CLUSTERED, "policy": "mdc", "pool": 2, "life": 3},
    ],
    ids=lambda settings: "-".join(map(str, settings.values())),
)
def test_run_resumed_after_any_inner_iteration_equals_an_uninterrupted_one(
    toy: Dataset, recipe: Recipe, tmp_path: Path, settings: dict[str, Any]
) -> None:
    check_resumed(recipe.replace(**SHORT, **settings), toy, tmp_path, Engine())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("settings", [MDC, {**FIRST_ORDER, "policy": "mdc"}], ids=["trained", "experts"])
def test_resumed_run_with_compiled_kernels_equals_an_uninterrupted_one(
    toy: Dataset, recipe: Recipe, tmp_path: Path, settings: dict[str, Any]
) -> None:
    check_resumed(recipe.replace(**SHORT, **settings), toy, tmp_path, native())


def check_resumed(r: Recipe, toy: Dataset, tmp_path: Path, engine: Engine) -> None:
    """Save after every step, and go on from each of the files in new parts."""
    identity = Identity(r, toy.sha256)
    files: dict[Path, Place] = {}
    for step in condense(assemble(r, toy, engine=engine)):
        file = tmp_path / f"{step.t}-{step.e}-{len(files)}"
        save(file, step, identity, Spent(1.5, 2.5))
        files[file] = step.place
    whole = step.parts
    early = sum(place.e == 0 and place.F is not None for place in files.values())
    assert early == r.networks * r.early_steps(len(toy.train))
    assert [place.e for place in files.values() if place.e or place.F is None] == [1, 2, 0] * 3
    for file, place in list(files.items())[:-1:2]:  # after e = 1 and 2 of an iteration, and after its end
        run = CheckpointedRun(file, assemble(r, toy, engine=engine), identity)
        run.resume(found(file))
        assert (run.place.t, run.place.e, run.place.F is None) == (place.t, place.e, place.F is None)
        assert run.seconds - run.parts.learner.preparing_seconds >= 1.5
        assert run.spent.processor_seconds >= 2.5
        for _ in run.steps():
            pass
        assert run.complete
        assert_same(run.parts, whole)


def found(file: Path) -> Found:
    there = find(file)
    assert there is not None
    return there


def assert_same(parts: Parts, expected: Parts) -> None:
    assert torch.equal(parts.S.pixels, expected.S.pixels)
    for name, tensor in parts.optimiser.state.items():
        assert torch.equal(tensor, expected.optimiser.state[name])
    assert parts.policy.state() == expected.policy.state()


class TestWhen:
    def run(self, toy: Dataset, recipe: Recipe, tmp_path: Path) -> CheckpointedRun:
        return CheckpointedRun(tmp_path / "run.checkpoint", assemble(recipe, toy), Identity(recipe, toy.sha256))

    def test_checkpoints_are_written_inside_outer_iterations(
        self, toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = self.run(toy, recipe.replace(outer=1, inner=3), tmp_path)
        monkeypatch.setattr(checkpoint, "SECONDS", -1.0)
        assert [(run.place.t, run.place.e) for _ in run.steps()] == [(0, 0), (0, 1), (0, 2)]

    def test_stopped_run_saves_after_the_inner_iteration(self, toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
        run = self.run(toy, recipe, tmp_path)
        assert len(list(run.steps(lambda: True))) == 1
        assert not run.complete
        again = self.run(toy, recipe, tmp_path)
        again.resume(found(run.path))
        assert (again.place.t, again.place.e) == (0, 1)

    def test_learner_that_cannot_go_on_inside_is_saved_between_outer_iterations(
        self, toy: Dataset, recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = self.run(toy, recipe, tmp_path)
        monkeypatch.setattr(checkpoint, "SECONDS", -1.0)
        monkeypatch.setattr(type(run.parts.learner), "saved_inside", False)
        assert [(run.place.t, run.place.e) for _ in run.steps()] == [(0, 0), (0, 0), (1, 0), (1, 0)]


@pytest.fixture
def two(toy: Dataset, recipe: Recipe, tmp_path: Path) -> Path:
    """A checkpoint in the middle of the second outer iteration, and the one before it."""
    r = recipe.replace(**SHORT, policy="mdc", pool=2, life=2)
    file = tmp_path / "run.checkpoint"
    for step in condense(assemble(r, toy)):
        if (step.t, step.e) in [(1, 3), (2, 1)]:
            save(file, step, Identity(r, toy.sha256, "plain torch"))
    return file


def identity_of(file: Path) -> Identity:
    content = from_bytes(file.read_bytes())
    return Identity(Recipe(**content["recipe"]), content["sources"], content["engine"])


class TestDamage:
    def resumed(self, file: Path, toy: Dataset, identity: Identity) -> CheckpointedRun:
        run = CheckpointedRun(file, assemble(identity.recipe, toy), identity)
        run.resume(found(file))
        return run

    def test_any_changed_bit_is_noticed(self, two: Path) -> None:
        previous, written = two.with_name("run.checkpoint.previous"), two.read_bytes()
        draws = random.Random(0)
        for place in [*range(50), *draws.sample(range(len(written)), 50), len(written) - 1]:
            two.write_bytes(written[:place] + bytes([written[place] ^ 1 << draws.randrange(8)]) + written[place + 1 :])
            assert found(two).path == previous
        for damaged in (b"", b"nonsense", written[:100], written[:-1], written + b"x"):
            two.write_bytes(damaged)
            assert found(two).path == previous

    def test_run_goes_on_from_the_checkpoint_before_a_damaged_one(self, two: Path, toy: Dataset) -> None:
        identity = identity_of(two)
        whole = self.resumed(two, toy, identity)
        for _ in whole.steps():
            pass
        two.write_bytes(two.read_bytes()[:-1])
        run = self.resumed(two, toy, identity)
        assert (run.place.t, run.place.e) == (1, 0)
        assert not two.exists(), "the next checkpoint would replace the good one by it"
        for _ in run.steps():
            pass
        assert_same(run.parts, whole.parts)

    def test_missing_checkpoint_is_replaced_by_the_one_before(self, two: Path, toy: Dataset) -> None:
        """A process may be killed between the two renames."""
        identity = identity_of(two)
        two.unlink()
        assert self.resumed(two, toy, identity).place.t == 1

    def test_two_damaged_checkpoints_are_refused(self, two: Path) -> None:
        for file in (two, two.with_name("run.checkpoint.previous")):
            file.write_bytes(b"damaged")
        with pytest.raises(
            ArtifactError, match=r"run\.checkpoint is damaged, and there is none before it\. Set `fresh`"
        ):
            find(two)

    @pytest.mark.parametrize(
        "edit",
        [
            lambda s: s.update(pixels=None),
            lambda s: s.update(pixels=s["pixels"][1:]),
            lambda s: s.update(pixels=s["pixels"].double()),
            lambda s: s["pixels"].fill_(float("nan")),
            lambda s: s.update(t=99),
            lambda s: s.update(t=-3),
            lambda s: s.update(t=1.0),
            lambda s: s.update(t="1"),
            lambda s: s.update(t=3),  # complete, but e is 1
            lambda s: s.update(e=3),
            lambda s: s.update(e=-1),
            lambda s: s.update(F=None),
            lambda s: s.update(F=s["F"][:, 1:]),
            lambda s: s.update(loss=float("inf")),
            lambda s: s.update(seconds=-1.0),
            lambda s: s.update(seconds="long"),
            lambda s: s.update(processor_seconds=-1.0),
            lambda s: s.update(optimiser={}),
            lambda s: s["optimiser"].update(velocity=s["optimiser"]["velocity"][:1]),
            lambda s: s["optimiser"].update(more=s["pixels"]),
            lambda s: s.update(policy={}),
            lambda s: s.update(policy=None),
            lambda s: s["policy"].update(chosen=[7]),
            lambda s: s["policy"].update(chosen=[0]),
            lambda s: s["policy"].update(chosen="1"),
            lambda s: s["policy"].update(frozen=2),
            lambda s: s["policy"].update(F_before=[1.0]),
            lambda s: s["policy"].update(F_before=["a", "b"]),
            lambda s: s["policy"].update(more=1),
            lambda s: s.update(learner={}),
            lambda s: s["learner"].update(turn=5),
            lambda s: s["learner"]["networks"].pop(1),
            lambda s: s["learner"]["networks"][1].update(weights=torch.zeros(3)),
            lambda s: s["learner"]["networks"][1].pop("momentum"),
            lambda s: s["learner"].update(networks=[1]),
            lambda s: s.pop("learner"),
        ],
    )
    def test_impossible_fields_are_damage(
        self, two: Path, toy: Dataset, edit: Callable[[dict[str, Any]], object]
    ) -> None:
        """Even if the digest fits: the run goes on from the checkpoint before."""
        identity, content = identity_of(two), from_bytes(two.read_bytes())
        edit(content["state"])
        two.write_bytes(to_bytes(content))
        run = self.resumed(two, toy, identity)
        assert (run.place.t, run.place.e) == (1, 0)

    @pytest.mark.parametrize("name", ["recipe", "sources", "engine", "budget", "state"])
    def test_missing_fields_are_damage(self, two: Path, name: str) -> None:
        content = from_bytes(two.read_bytes())
        for edited in ({**content, name: 1}, {key: value for key, value in content.items() if key != name}):
            two.write_bytes(to_bytes(edited))
            assert found(two).damaged == [two]

    def test_full_disk_is_one_sentence_and_keeps_both(
        self, two: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = {file: file.read_bytes() for file in two.parent.iterdir()}
        step = next(condense(assemble(recipe, toy)))

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            ArtifactError, match=r"run\.checkpoint cannot be written: No space left on device\. Free some"
        ):
            save(two, step, Identity(recipe, ""))
        assert {file: file.read_bytes() for file in two.parent.iterdir()} == before


def test_removed_checkpoint_leaves_nothing(two: Path) -> None:
    """Not even what a process left that was killed while it wrote one."""
    (two.parent / f".{two.name}.0123abcd.part").touch()
    checkpoint.remove(two)
    assert list(two.parent.iterdir()) == []


@pytest.mark.parametrize(
    "edit",
    [
        lambda chosen: chosen.clear(),
        lambda chosen: chosen.update(chosen=chosen["chosen"][:, 1:]),
        lambda chosen: chosen["chosen"].fill_(20),  # a class has 20 images, counted from 0
        lambda chosen: chosen["chosen"].fill_(-2),
    ],
)
def test_impossible_representatives_are_damage(
    toy: Dataset, recipe: Recipe, tmp_path: Path, edit: Callable[[dict[str, Any]], object]
) -> None:
    r = recipe.replace(**SHORT, **CLUSTERED)
    file = tmp_path / "run.checkpoint"
    for step in condense(assemble(r, toy)):
        save(file, step, Identity(r, toy.sha256))
        if step.e == 2:
            break
    content = from_bytes(file.read_bytes())
    edit(content["state"]["sampler"])
    file.write_bytes(to_bytes(content))
    run = CheckpointedRun(file, assemble(r, toy), Identity(r, toy.sha256))
    run.resume(found(file))
    assert (run.place.t, run.place.e) == (0, 1)


class TestAnotherRun:
    def test_all_differences_are_named(self, two: Path) -> None:
        identity = identity_of(two)
        other = Identity(identity.recipe.replace(seed=1, policy="every-prefix"), "0" * 64, "compiled kernels", "2h")
        with pytest.raises(SettingError) as refused:
            found(two).check_fits(other)
        assert str(refused.value) == (
            f"The checkpoint {two} is of another run: `policy` is mdc there and every-prefix here; "
            f"`seed` is 0 there and 1 here; `budget` is missing there and 2h here; the data are others; "
            f"`compile`: plain torch there and compiled kernels here. "
            f"Use the same settings and data to continue it, or set `fresh` to start again."
        )
        found(two).check_fits(replace(identity))

    def test_settings_that_are_newer_than_a_checkpoint_have_their_defaults(self, two: Path) -> None:
        identity, content = identity_of(two), from_bytes(two.read_bytes())
        del content["recipe"]["match_precision"]
        two.write_bytes(to_bytes(content))
        found(two).check_fits(identity)
        with pytest.raises(SettingError, match="`match_precision` is float32 there and bfloat16 here"):
            found(two).check_fits(replace(identity, recipe=identity.recipe.replace(match_precision="bfloat16")))

    def test_no_checkpoint_is_no_error(self, tmp_path: Path) -> None:
        assert find(tmp_path / "run.checkpoint") is None
