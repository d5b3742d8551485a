"""Checkpoints: a resumed run equals an uninterrupted one, and a checkpoint of another run is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mipset.condensing import checkpoint
from mipset.condensing.assembly import assemble
from mipset.condensing.condense import Step, condense
from mipset.data import Dataset
from mipset.errors import ArtifactError, SettingError
from mipset.settings.recipe import Recipe

CPU = torch.device("cpu")


def last(recipe: Recipe, data: Dataset) -> Step:
    *_, step = condense(assemble(recipe, data))
    return step


@pytest.mark.parametrize("done", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("policy", "freeze"),
    [("mdc", "ratchet"), ("mdc", "predecessor"), ("mdc-per-class", "ratchet"), ("every-prefix", "ratchet")],
)
def test_resumed_run_equals_an_uninterrupted_one(
    toy: Dataset, recipe: Recipe, tmp_path: Path, policy: str, freeze: str, done: int
) -> None:
    check_resumed(recipe.replace(outer=5, policy=policy, freeze=freeze, ipc=4, pixel_lr=0.5), toy, tmp_path, done)


@pytest.mark.parametrize("policy", ["mdc", "every-prefix"])
@pytest.mark.parametrize("learner", ["experts", "untrained"])
def test_resumed_first_order_run_equals_an_uninterrupted_one(
    toy: Dataset, recipe: Recipe, tmp_path: Path, policy: str, learner: str
) -> None:
    objective = "feature" if learner == "untrained" else "layered+2*confidence/3"
    first_order = {"objective": objective, "learner": learner, "pixel_optimiser": "adam"}
    check_resumed(recipe.replace(**first_order, policy=policy, outer=4, expert_steps=2), toy, tmp_path, 2)


def check_resumed(longer: Recipe, toy: Dataset, tmp_path: Path, done: int) -> None:
    file = tmp_path / "run.checkpoint"
    for step in condense(assemble(longer, toy)):
        if step.t == done and step.outer_done:
            checkpoint.save(file, step, longer, toy.sha256, seconds=1.5)
    whole, parts = step.parts, assemble(longer, toy, CPU)
    assert checkpoint.resume(file, parts, longer, toy.sha256) == (done, 1.5)
    *_, resumed = condense(parts, done)
    assert torch.equal(resumed.parts.S.pixels, whole.S.pixels)
    for name, tensor in resumed.parts.optimiser.state.items():
        assert torch.equal(tensor, whole.optimiser.state[name])
    assert resumed.parts.policy.state() == whole.policy.state()


def test_checkpoint_of_another_run_is_refused(toy: Dataset, recipe: Recipe, tmp_path: Path) -> None:
    file = tmp_path / "run.checkpoint"
    parts = assemble(recipe, toy, CPU)
    with pytest.raises(ArtifactError, match=r"There is no checkpoint .*run.checkpoint\. Start without `resume`\."):
        checkpoint.resume(file, parts, recipe, toy.sha256)
    checkpoint.save(file, last(recipe, toy), recipe, toy.sha256, "plain torch")
    with pytest.raises(
        SettingError, match=r"was made with `seed` 0, not 1\. Use the same settings, or delete the checkpoint"
    ):
        checkpoint.resume(file, parts, recipe.replace(seed=1), toy.sha256, "plain torch")
    with pytest.raises(SettingError, match=r"other data\. Use the same data, or delete the checkpoint"):
        checkpoint.resume(file, parts, recipe, "0" * 64, "plain torch")
    with pytest.raises(SettingError, match=r"with plain torch, not with compiled kernels\. Use the same `compile`"):
        checkpoint.resume(file, parts, recipe, toy.sha256, "compiled kernels")
    for content in (b"", b"nonsense", file.read_bytes()[:200]):
        file.write_bytes(content)
        with pytest.raises(ArtifactError, match=r"cannot be read\. Delete it to start again\."):
            checkpoint.resume(file, parts, recipe, toy.sha256)
