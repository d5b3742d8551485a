"""Classes of one's own: named in a recipe, used, and recorded as what ran; never imported because a file names them."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from commands import TINY, Here
from mipset import read
from mipset.condensing import checkpoint
from mipset.condensing.assembly import assemble
from mipset.condensing.checkpoint import CheckpointedRun, Identity
from mipset.condensing.condense import condense
from mipset.condensing.growing import recipe_of
from mipset.condensing.objectives import FeatureMatching
from mipset.condensing.optimisers import MomentumSGD
from mipset.condensing.own_parts import own_code
from mipset.condensing.packing import pack
from mipset.condensing.policies import BaselineC, EveryPrefix
from mipset.data import Dataset
from mipset.errors import SettingError
from mipset.experiments.grid import identity_of
from mipset.settings.recipe import Recipe

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"

OBJECTIVE = """
from mipset.condensing.objectives import FeatureMatching

class Doubled(FeatureMatching):
    def of_features(self, synthetic, real, ends):
        return 2 * super().of_features(synthetic, real, ends)

class NeedsMore(FeatureMatching):
    def __init__(self, more):
        self.more = more

class Other:
    pass
"""
HOSTILE = "open('imported', 'w').close()"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module of the page, one of objectives, and one that must never be imported."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(block.splitlines()) <= 20
    for name, code in (("largest", block), ("own_objectives", OBJECTIVE), ("hostile", HOSTILE), ("broken", "1 / 0")):
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_example_of_the_page_runs(here: Here, refusal: Here, pets: Path, folder: Path) -> None:
    out = folder / "largest.safetensors"
    given = (*TINY, "--compile", "off", "--objective", "own_objectives:Doubled+10*confidence")
    here("condense", f"npz:{pets}", "--out", out, *given, "--policy", "largest:LargestSizes")
    written = read(out)
    assert written.recipe["policy"] == "largest:LargestSizes"
    assert written.recipe["objective"] == "own_objectives:Doubled+10*confidence"
    assert written.provenance["parts"] == {
        "policy": "largest:LargestSizes(ipc=2, count=2)",
        "objective": "WeightedSum(terms=(Term(weight=1.0, objective=own_objectives:Doubled(half=False), period=1), "
        "Term(weight=10.0, objective=Confidence(half=False), period=1)))",
    }
    shown = here("show", out)
    assert "parts     objective WeightedSum(" in shown
    assert "; policy largest:LargestSizes(ipc=2, count=2)\n" in shown
    grow = ("grow", out, "--data", f"npz:{pets}", "--ipc", 3, "--out", folder / "grown", "--threads", 1)
    assert "The file was condensed with --" in refusal(*grow)
    own = ("--policy", "largest:LargestSizes", "--objective", "feature")
    here(*grow, *own)
    assert (
        read(folder / "grown")
        .provenance["parts"]["policy"]
        .startswith("FrozenPrefix(policy=largest:LargestSizes(ipc=3")
    )


def test_own_policy_is_compared(here: Here, pets: Path, folder: Path) -> None:
    brief = ("--networks", 1, "--protocol", "quick", "--epochs", 1, "--workers", 1, "--sizes", "1", "--compile", "off")
    command = ("compare", "own-cpu", "--data", f"npz:{pets}", "--out", folder / "table", *TINY, *brief)
    printed = here(*command, "--methods", "baseline-c,largest:LargestSizes,largest:LargestSizes:pixel-lr=0.1")
    rows = [line.split()[0] for line in printed.splitlines()]
    assert {"baseline-c", "largest:LargestSizes", "largest:LargestSizes:pixel-lr=0.1"} <= set(rows)


def test_replaced_parts_are_recorded_and_others_are_not(toy: Dataset, recipe: Recipe) -> None:
    parts = assemble(recipe, toy)
    *_, step = condense(parts)
    assert "parts" not in pack(step, recipe, toy).provenance
    assert pack(step, recipe, toy).recipe["policy"] == "mdc"
    optimiser = MomentumSGD(parts.S.pixels, 0.25, 0.5)
    own = replace(parts, objective=FeatureMatching(), policy=BaselineC(3), optimiser=optimiser)
    packed = pack(replace(step, parts=own), recipe, toy)
    assert packed.provenance["parts"] == {
        "objective": "FeatureMatching(half=False)",
        "policy": "BaselineC(N=3)",
        "optimiser": "MomentumSGD(rate=0.25, momentum=0.5, coasting=True)",
    }
    assert packed.recipe["policy"] == "mipset.condensing.policies:BaselineC"
    assert packed.recipe["ipc"] == 3


def test_parts_describe_themselves_without_images(toy: Dataset, recipe: Recipe) -> None:
    for changes in ({}, {"metric": "accuracy"}, {"learner": "experts"}, {"policy": "every-prefix"}):
        parts = assemble(recipe.replace(**changes, expert_steps=1, experts=1), toy)
        for axis in ("objective", "policy", "sampler", "learner", "optimiser", "metric", "augmentation"):
            text = repr(getattr(parts, axis))
            assert re.fullmatch(r"\w+\(.*\)", text)
            assert len(text) < 500
            assert not re.search("tensor|object at|function|/", text), text
    assert repr(EveryPrefix((1.0, 2.0), balanced=True)) == "EveryPrefix(w=(1.0, 2.0), balanced=True)"


def test_checkpoint_does_not_resume_with_another_class(toy: Dataset, recipe: Recipe, folder: Path) -> None:
    parts, file = assemble(recipe, toy), folder / "run.checkpoint"
    *_, step = condense(replace(parts, policy=BaselineC(3)))
    identity = Identity(recipe, "data")
    checkpoint.save(file, step, identity)
    found = checkpoint.find(file)
    assert found is not None
    with pytest.raises(SettingError, match=r"made with the policy BaselineC\(N=3\), not MostLearnableSubset\("):
        found.restore(parts, identity)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere:Class", "the module nowhere cannot be imported .*No module named 'nowhere'"),
        ("broken:Class", "the module broken cannot be imported .*division by zero"),
        ("own_objectives:Missing", "own_objectives has no class Missing that is derived from mipset"),
        ("own_objectives:Other", "has no class Other that is derived from mipset.condensing.objectives.base.Objective"),
        (
            "own_objectives:NeedsMore",
            "cannot be made .*Give its arguments defaults, or write a class method from_recipe",
        ),
    ],
)
def test_class_that_cannot_be_used_is_refused(toy: Dataset, recipe: Recipe, name: str, message: str) -> None:
    with pytest.raises(SettingError, match=f"`objective` is {name!r}.*{message}"):
        assemble(recipe.replace(objective=name), toy)
    with pytest.raises(SettingError, match="or a class of your own as module:Class"):
        recipe.replace(policy=f"{name}()")


@pytest.mark.parametrize("setting", ["policy", "objective", "learner"])
def test_nothing_that_a_file_names_is_imported(
    here: Here, condensed: Path, folder: Path, refusal: Here, setting: str
) -> None:
    artifact = read(condensed)
    settings = {**vars(Recipe(ipc=3, factor=1)), **artifact.recipe, setting: "hostile:Class"}
    hostile = replace(
        artifact, recipe=settings, provenance={**artifact.provenance, "parts": {setting: "hostile:Class()"}}
    )
    hostile.write(condensed)
    here("show", condensed)
    assert f"The file was condensed with --{setting} hostile:Class, a class" in refusal(
        "grow", condensed, "--ipc", 4, "--out", folder / "grown"
    )
    with pytest.raises(SettingError, match=f"Give `{setting}` again"):
        recipe_of(hostile, ipc=4)
    assert not (folder / "imported").exists()


POLICY = """
from mipset.condensing.policies import Policy

class Turns(Policy):
    def __init__(self, ipc):
        self.ipc, self.size, self._chosen = ipc, 1, []

    @classmethod
    def from_recipe(cls, recipe):
        return cls(recipe.ipc)

    def weights(self, c):
        return [float(n in (self.size, self.ipc)) for n in range(1, self.ipc + 1)]

    def measures(self, t):
        return True

    def select(self, t, F):
        self.size = self.size % self.ipc + 1
        self._chosen = [*self._chosen, self.size]
"""


def test_own_policy_that_decides_continues_where_it_was(toy: Dataset, recipe: Recipe, folder: Path) -> None:
    """Without a line of its own for checkpoints. What it decides is no setting of it."""
    (folder / "turns.py").write_text(POLICY, encoding="utf-8")
    own = recipe.replace(policy="turns:Turns", outer=4)

    def run() -> CheckpointedRun:
        return CheckpointedRun(folder / "run.checkpoint", assemble(own, toy), Identity(own, "data"))

    *_, whole = run().steps()
    first, place = run(), 0
    for step in first.steps(stop=lambda: first.last is not None and first.last.place.t == 2):
        place = step.place.t
    assert place == 2
    second = run()
    found = checkpoint.find(folder / "run.checkpoint")
    assert found is not None
    second.resume(found)
    *_, last = second.steps()
    assert torch.equal(last.parts.S.pixels, whole.parts.S.pixels)
    assert vars(last.parts.policy) == vars(whole.parts.policy)
    assert pack(last, own, toy).provenance["parts"]["policy"] == f"turns:Turns(ipc={own.ipc}, size=1)"


def test_changed_code_is_another_method(recipe: Recipe, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are not found again, and a checkpoint does not continue."""
    own, file = recipe.replace(objective="own_objectives:Doubled+1*confidence"), folder / "run.checkpoint"
    before, known = Identity(own, "data"), identity_of(own)
    assert identity_of(own) == known
    assert known["code"].keys() == {"own_objectives:Doubled"}
    assert "code" not in identity_of(recipe)
    checkpoint.save_choice(file, before)
    (folder / "own_objectives.py").write_text(OBJECTIVE.replace("2 *", "3 *"), encoding="utf-8")
    monkeypatch.delitem(sys.modules, "own_objectives")
    assert identity_of(own) != known
    found = checkpoint.find(file)
    assert found is not None
    found.check_fits(before)
    with pytest.raises(SettingError, match="the code of own_objectives:Doubled has changed since then"):
        found.check_fits(Identity(own, "data"))


def test_changed_base_class_is_another_method(folder: Path, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> None:
    derived = "import own_objectives\n\nclass More(own_objectives.Doubled):\n    pass\n"
    (folder / "derived.py").write_text(derived, encoding="utf-8")
    own = recipe.replace(objective="derived:More")
    before = own_code(own)
    (folder / "own_objectives.py").write_text(OBJECTIVE + "\n", encoding="utf-8")
    for module in ("own_objectives", "derived"):
        monkeypatch.delitem(sys.modules, module)
    assert own_code(own) != before


WRONG = """
import torch
from mipset.condensing.objectives import FeatureMatching
from mipset.condensing.policies import Policy

class OneForAll(FeatureMatching):
    def of_features(self, synthetic, real, ends):
        return super().of_features(synthetic, real, ends)[:, -1:]

class Scalar(FeatureMatching):
    def of_features(self, synthetic, real, ends):
        return super().of_features(synthetic, real, ends).sum()

class Cut(FeatureMatching):
    def of_features(self, synthetic, real, ends):
        return super().of_features(synthetic, real, ends).detach()

class Short(Policy):
    def weights(self, c):
        return [1.0]

class NotFinite(Policy):
    def weights(self, c):
        return [1.0, float("nan"), 1.0]

class Nothing(Policy):
    pass
"""


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "OneForAll"}, r"wrong:OneForAll gave distances of the shape \[\d, 1\].* is \[\d, 3\] here"),
        ({"objective": "Scalar"}, r"wrong:Scalar gave distances of the shape \[\],"),
        ({"objective": "Scalar+1*feature"}, r"wrong:Scalar gave distances of the shape \[\],"),
        ({"objective": "Cut"}, "the distances of wrong:Cut have no gradient"),
        ({"policy": "Short"}, r"wrong:Short gave the weights \[1\.0\] for class 0\. Give 3 finite numbers"),
        ({"policy": "NotFinite"}, r"wrong:NotFinite gave the weights \[1\.0, nan, 1\.0\]"),
        ({"policy": "Nothing"}, "which lacks weights"),
    ],
)
def test_wrong_answers_of_own_parts_are_named(
    toy: Dataset, recipe: Recipe, folder: Path, settings: dict[str, str], message: str
) -> None:
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    own = recipe.replace(policy="every-prefix", prefix_weights="one", ipc=3)
    with pytest.raises(SettingError, match=message):
        list(condense(assemble(own.replace(**{key: f"wrong:{name}" for key, name in settings.items()}), toy)))
