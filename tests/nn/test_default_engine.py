"""Which engine computes if nobody chooses one: the same in Python and on the command line."""

from __future__ import annotations

import pytest

from mipset import Artifact, Evaluation
from mipset.condensing.assembly import assemble
from mipset.condensing.budget import recipe_within
from mipset.data import Dataset
from mipset.nn import engines
from mipset.nn.networks import Network
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.fixture(params=["long", "short", "long, without a compiler"])
def expected(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[engines.Engine]:
    """The engine of toy work that counts as long or short."""
    monkeypatch.setattr(engines, "COMPILE_FROM", 1e15 if request.param == "short" else 1.0)
    if "without" in request.param:
        monkeypatch.setenv("CXX", "no-such-compiler")
    return engines.Native if request.param == "long" else engines.Engine


def test_assemble_chooses_kernels_for_long_work(toy: Dataset, recipe: Recipe, expected: type[engines.Engine]) -> None:
    assert type(assemble(recipe, toy).learner.start(1).engine) is expected
    plain = assemble(recipe, toy, engine=engines.Engine())
    assert type(plain.learner.start(1).engine) is engines.Engine


def test_evaluation_chooses_kernels_for_long_work(
    toy: Dataset, expected: type[engines.Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[type[engines.Engine]] = []

    def fit(theta: Network, *_: object) -> list[int]:
        used.append(type(theta.engine))
        return []

    monkeypatch.setattr("mipset.evaluation.evaluate.fit", fit)
    images = toy.train.images[:6].reshape(2, 3, *toy.shape)
    small = Artifact(images, 1, toy.mean, toy.std, toy.class_names, {"network": "convnet", "width": 4, "depth": 2})
    Evaluation(small, toy, Protocol(epochs=1)).score(1, 0)
    assert used == [expected]


def test_budget_is_measured_with_the_kernels(toy: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives a budget wants longer work."""
    used = []

    def timed(*arguments: object) -> tuple[float, float]:
        used.append(str(arguments[4]))
        return 1e-4, 1e-4

    monkeypatch.setattr("mipset.condensing.budget.processor_seconds", timed)
    recipe_within(Recipe(ipc=2, width=4, depth=2, inner=2, real_batch=6, train_batch=8, train_images=8), toy, "10s")
    assert used == ["compiled kernels"]
