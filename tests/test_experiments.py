"""Grids: every method is the same loop, nothing finished is run again, and what is stopped goes on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mipset.condensing import assembly, checkpoint
from mipset.condensing.assembly import assemble, first_pixels
from mipset.condensing.condense import condense
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.errors import ArtifactError, DivergedError, SettingError
from mipset.evaluation import selection
from mipset.evaluation.evaluate import Evaluation, Score
from mipset.experiments import experiment as experiments
from mipset.experiments.experiment import Advance, Experiment
from mipset.experiments.methods import METHODS, methods
from mipset.experiments.results import Result, read_results
from mipset.file.artifact import read
from mipset.settings.catalogue import RECIPES
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe

FAST = Protocol("fast", epochs=6, rate=0.2)
CPU = torch.device("cpu")


def experiment(folder: Path, data: Dataset, recipe: Recipe, names: str = "c,mdc", **changes: Any) -> Experiment:
    given = {
        key: value
        for key, value in asdict(recipe).items()
        if key not in ("policy", "prefix_weights", "steps", "seed") and any(m.reads(key) for m in methods(names))
    }
    return Experiment(
        **{
            "folder": folder / "out",
            "name": "demo",
            "data": data,
            "methods": methods(names),
            "seeds": [0],
            "sizes": [1, 2, 3],
            "protocol": FAST,
            "networks": 2,
            "given": given,
            **changes,
        }
    )


def finished(grid: Experiment) -> list[Result]:
    for _ in grid.run():
        pass
    return grid.results()


def stop_after(grid: Experiment, steps: int) -> None:
    for _ in islice(grid.run(), steps):
        pass


def sets_in(folder: Path) -> dict[str, bytes]:
    """The bytes of all sets, by their places in the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.safetensors")}


def numbers(results: Sequence[Result]) -> dict[tuple[str, int, int, str], dict[int, Sequence[float]]]:
    return {(r.method, r.seed, r.outer, r.network): dict(r.scores) for r in results}


def condensed(recipe: Recipe, data: Dataset, start: torch.Tensor | None = None) -> Any:
    *_, step = condense(assemble(recipe, data, start=start))
    return pack(step, recipe, data).images


@pytest.fixture
def condensations(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes of all condensations that are run."""
    seen: list[Recipe] = []
    assemble = assembly.assemble

    def assemble_and_tell(recipe: Recipe, *rest: Any) -> Any:
        seen.append(recipe)
        return assemble(recipe, *rest)

    monkeypatch.setattr(experiments, "assemble", assemble_and_tell)
    return seen


class TestBaselines:
    def test_every_method_gives_a_result(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        quick = recipe.replace(metric_epochs=1)
        results = finished(experiment(tmp_path, toy, quick, ",".join(METHODS), networks=1, sizes=[1, 3]))
        assert [r.method for r in results] == list(METHODS)
        for r in results:
            assert set(r.scores) == {1, 3}
            assert all(0 <= value <= 100 for values in r.scores.values() for value in values)
            assert all((tmp_path / "out" / name).exists() for name in r.files)

    def test_a_is_a_condensation_for_each_size(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (found,) = finished(experiment(tmp_path, toy, recipe, "a"))
        basic = recipe.replace(policy="baseline-c")
        files = [read(tmp_path / "out" / name) for name in found.files]
        assert [artifact.ipc for artifact in files] == [1, 2, 3]
        for artifact in files:
            assert np.array_equal(artifact.images, condensed(basic.replace(ipc=artifact.ipc), toy))
            (score,) = Evaluation(artifact, toy, FAST).scores([artifact.ipc], networks=1)
            assert found.scores[artifact.ipc][0] == score.accuracy
        assert (found.condensations, found.images, found.bytes) == (3, 3 * (1 + 2 + 3), 3 * 6 * 3 * 12 * 12)

    def test_b_is_condensations_of_size_1_in_a_row(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (found,) = finished(experiment(tmp_path, toy, recipe, "b"))
        (name,) = found.files
        together = read(tmp_path / "out" / name)
        assert (together.recipe["ipc"], together.provenance["condensations"]) == (3, 3)
        basic = recipe.replace(policy="baseline-c")
        starts = first_pixels(basic, toy)
        for rank, images in enumerate(read(tmp_path / "out" / name).images):
            alone = condensed(basic.replace(ipc=1), toy, starts[rank : rank + 1])
            assert np.array_equal(images, alone[0])
        assert (found.condensations, found.images) == (3, 9)

    def test_c_is_one_condensation(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (found,) = finished(experiment(tmp_path, toy, recipe, "c"))
        (name,) = found.files
        assert np.array_equal(read(tmp_path / "out" / name).images, condensed(recipe.replace(policy="baseline-c"), toy))
        assert (found.condensations, found.images) == (1, 9)

    def test_passes_of_a_and_b_are_those_of_their_runs(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        a, b, c, random, yoco = finished(experiment(tmp_path, toy, recipe, "a,b,c,random,yoco"))
        assert a.forward == b.forward == 3 * c.forward
        assert a.backward == b.backward == 3 * c.backward
        assert (random.forward, random.backward) == (0, 0)
        assert yoco.backward > c.backward

    def test_methods_share_what_they_have_in_common(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(experiment(tmp_path, toy, recipe, "c,a,b,yoco"))
        basic = recipe.replace(policy="baseline-c")
        assert sorted(r.ipc for r in condensations) == [1, 1, 1, 2, 3]
        assert {r.replace(ipc=3) for r in condensations} == {basic}


class TestGoingOn:
    def test_nothing_finished_is_run_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        first = finished(experiment(tmp_path, toy, recipe))
        assert len(condensations) == 2
        assert finished(experiment(tmp_path, toy, recipe)) == first
        assert list(experiment(tmp_path, toy, recipe).run()) == []
        assert len(condensations) == 2

    def test_methods_and_seeds_join_the_table(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        results = finished(experiment(tmp_path, toy, recipe, "mdc", seeds=[0, 1]))
        assert [(r.method, r.seed) for r in results] == [("mdc", 0), ("mdc", 1), ("c", 0)]
        assert len(condensations) == 3
        assert (tmp_path / "out" / "results.md").read_text().count("\n| c |") == 2

    def test_a_recipe_that_has_changed_is_another_table(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        for changes in ({"recipe": RECIPES["demo"].recipe.replace(period=7)}, {"tuned": {"none": {"period": 9}}}):
            monkeypatch.setitem(RECIPES, "demo", replace(RECIPES["demo"], **changes))
            assert experiment(tmp_path, toy, recipe, "c").results() == []

    def test_a_row_is_of_one_recipe(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(experiment(tmp_path, toy, recipe, "mdc"))
        finished(experiment(tmp_path, toy, recipe.replace(period=2), "mdc", seeds=[1]))
        last = experiment(tmp_path, toy, recipe, "c").results()
        assert [(r.method, r.seed, r.recipe["period"]) for r in last] == [("mdc", 1, 2)]
        assert [(r.seed, r.recipe["period"]) for r in experiment(tmp_path, toy, recipe, "mdc").results()] == [(0, 1)]

    def test_another_normalisation_is_other_data(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        other = replace(toy, mean=(0.1, 0.2, 0.3))
        assert other.sha256 == toy.sha256
        grid = experiment(tmp_path, other, recipe, "c")
        assert grid.results() == []
        assert len(grid.runs_left(grid.cells)) == 1

    def test_a_result_has_the_name_that_is_asked_for_now(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(experiment(tmp_path, toy, recipe, f"c:pixel-lr={recipe.pixel_lr},mdc"))
        grid = experiment(tmp_path, toy, recipe, "c,mdc")
        assert [r.method for r in grid.results()] == ["c", "mdc"]
        assert list(grid.run()) == []

    def test_another_recipe_is_another_table(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        first = finished(experiment(tmp_path, toy, recipe, "c"))
        second = finished(experiment(tmp_path, toy, recipe.replace(pixel_lr=0.5), "c"))
        assert len(second) == 1
        assert second[0].cell != first[0].cell
        assert len(read_results(tmp_path / "out" / "results.jsonl")) == 2

    @pytest.mark.parametrize("changed", ["sizes", "networks", "protocol", "evaluation_seed"])
    def test_another_evaluation_of_the_same_runs(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe], changed: str
    ) -> None:
        other = {"sizes": [1, 2], "networks": 1, "protocol": Protocol("other", epochs=1), "evaluation_seed": 7}
        finished(experiment(tmp_path, toy, recipe, "c"))
        (found,) = finished(experiment(tmp_path, toy, recipe, "c", **{changed: other[changed]}))
        assert len(condensations) == 1, "a condensation does not depend on how it is evaluated"
        assert len(read_results(tmp_path / "out" / "results.jsonl")) == 2
        assert list(found.scores) == (other["sizes"] if changed == "sizes" else [1, 2, 3])

    def test_scores_depend_on_what_was_condensed(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        """Without this, that scores are the same would say nothing."""
        moved, still = finished(experiment(tmp_path, toy, recipe, "mdc:pixel-lr=0.5,mdc:pixel-lr=0"))
        assert moved.scores != still.scores

    def test_stopped_anywhere_and_started_again_it_gives_the_same(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        expected = finished(experiment(tmp_path / "whole", toy, recipe, "b,mdc", at=[1]))
        for after in (1, 4, 7, 9, 14, 19):
            part = experiment(tmp_path / str(after), toy, recipe, "b,mdc", at=[1])
            stop_after(part, after)
            before = part.results()
            assert numbers(finished(part)) == numbers(expected), after
            assert sets_in(tmp_path / str(after)) == sets_in(tmp_path / "whole"), after
            assert {r.cell: r for r in before}.items() <= {r.cell: r for r in part.results()}.items(), after

    def test_a_checkpoint_that_cannot_be_used_is_not(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        grid = experiment(tmp_path, toy, recipe, "c")
        stop_after(grid, 2 + recipe.inner)
        (waiting,) = (tmp_path / "out").rglob("checkpoint")
        waiting.write_bytes(b"damaged")
        finished(grid)
        finished(experiment(tmp_path / "whole", toy, recipe, "c"))
        assert sets_in(tmp_path / "out") == sets_in(tmp_path / "whole" / "out")
        assert not waiting.exists()

    def test_a_missing_state_on_the_way_is_made_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        results = finished(experiment(tmp_path, toy, recipe, "c", at=[1]))
        assert [r.outer for r in results] == [2, 1]
        assert len(condensations) == 2

    def test_a_damaged_line_is_not_overwritten(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        path = tmp_path / "out" / "results.jsonl"
        path.write_text(path.read_text()[:-20])
        with pytest.raises(ArtifactError, match="line 1"):
            finished(experiment(tmp_path, toy, recipe, "c"))

    def test_which_cell_failed(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def diverge(*_: Any) -> list[tuple[int, Score]]:
            raise DivergedError("not finite.")

        monkeypatch.setattr(experiments, "scores", diverge)
        with pytest.raises(DivergedError, match=r"c, seed 0: not finite\."):
            finished(experiment(tmp_path, toy, recipe, "c"))

    def test_a_cell_that_fails_does_not_hold_up_the_others(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        grid = experiment(tmp_path, toy, recipe, "c:network-lr=1e29,mdc")
        for _ in range(2):
            with pytest.raises(DivergedError, match=r"^c:network-lr=1e29, seed 0: "):
                finished(grid)
            assert [r.method for r in grid.results()] == ["mdc"]

    @pytest.mark.parametrize("ending", ["safetensors", "json"])
    @pytest.mark.parametrize("damage", ["gone", "cut"])
    def test_a_run_that_lost_a_file_is_run_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, ending: str, damage: str
    ) -> None:
        finished(experiment(tmp_path, toy, recipe, "c"))
        (file,) = (tmp_path / "out" / "runs").rglob(f"*.{ending}")
        whole = file.read_bytes()
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(whole[:10])
        again = experiment(tmp_path, toy, recipe, "c", evaluation_seed=5)
        if damage == "cut":
            with pytest.raises(ArtifactError, match=rf"cannot be used any more: remove {file.parent}, and it will"):
                finished(again)
            for other in file.parent.iterdir():
                other.unlink()
        finished(again)
        if ending == "safetensors":
            assert file.read_bytes() == whole

    def test_sets_are_put_together_once(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grid = experiment(tmp_path, toy, recipe, "herding", architectures=["convnet", "resnet"])
        made: list[str] = []
        select = selection.select

        def select_and_tell(name: str, *rest: Any, **more: Any) -> Any:
            made.append(name)
            return select(name, *rest, **more)

        monkeypatch.setattr(selection, "select", select_and_tell)
        stop_after(grid, 2 + 2 * 3 * 1)
        assert len(grid.results()) == 1
        finished(grid)
        assert made == ["herding"]

    def test_a_checkpoint_never_says_more_than_was_kept(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stopped while the set of a state on the way is written, the run goes on from before that state."""
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        longer = recipe.replace(outer=4)
        grid = experiment(tmp_path, toy, longer, "c", at=[3])
        keep = Experiment._keep

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(Experiment, "_keep", stop)
        with pytest.raises(KeyboardInterrupt):
            finished(grid)
        monkeypatch.setattr(Experiment, "_keep", keep)
        first = next(iter(grid.run()))
        assert first.earlier
        assert first.flops == pytest.approx(grid._run_flops(grid.cells[0].runs[0]) / 2)


class TestOnTheWay:
    def test_states_are_those_of_shorter_runs(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        longer = recipe.replace(outer=3)
        results = finished(experiment(tmp_path, toy, longer, "mdc", at=[1, 2]))
        assert [(r.outer, r.final) for r in results] == [(1, False), (2, False), (3, True)]
        for r in results:
            (name,) = r.files
            shorter = longer.replace(outer=r.outer, policy="mdc")
            assert np.array_equal(read(tmp_path / "out" / name).images, condensed(shorter, toy))
        assert [r.seconds for r in results] == sorted(r.seconds for r in results)
        assert results[0].forward < results[1].forward < results[2].forward
        text = (tmp_path / "out" / "results.md").read_text()
        assert "During condensation" in text
        shown = re.findall(r"!\[.*\]\((.*)\)", text)
        assert shown == ["results.svg", "during.svg"]
        assert all((tmp_path / "out" / name).read_text().startswith("<svg") for name in shown)

    def test_a_picture_of_another_table_does_not_stay(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(experiment(tmp_path, toy, recipe, "c", at=[1]))
        assert (tmp_path / "out" / "during.svg").exists()
        finished(experiment(tmp_path, toy, recipe.replace(pixel_lr=0.5), "c"))
        assert not (tmp_path / "out" / "during.svg").exists()
        assert "during.svg" not in (tmp_path / "out" / "results.md").read_text()

    def test_what_is_not_condensed_has_no_way(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        results = finished(experiment(tmp_path, toy, recipe, "c,random", at=[1]))
        assert [(r.method, r.outer) for r in results] == [("c", 1), ("c", 2), ("random", 2)]

    def test_beyond_the_end_there_is_nothing(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match="--at cannot be 3: the runs have outer iterations 1 to 2"):
            experiment(tmp_path, toy, recipe, at=[3])


class TestOtherNetworks:
    def test_each_is_a_result_of_its_own(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        own = finished(experiment(tmp_path, toy, recipe, "c"))
        both = finished(experiment(tmp_path, toy, recipe, "c", architectures=["convnet", "resnet"]))
        assert [r.network for r in both] == ["convnet-2, width 4", "resnet-10, width 32"]
        assert both[0] == own[0]
        assert len(condensations) == 1
        alone = Evaluation(read(tmp_path / "out" / both[1].files[0]), toy, FAST)
        resnet = experiment(tmp_path, toy, recipe, architectures=["resnet"]).architectures_for(recipe)[0]
        (score,) = replace(alone, architecture=resnet).scores([2], networks=1)
        assert both[1].scores[2][0] == score.accuracy

    def test_an_unknown_one_is_named(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match="there is no network 'vgg'"):
            finished(experiment(tmp_path, toy, recipe, "c", architectures=["vgg"]))


class TestEstimates:
    def test_the_work_left_is_the_work_that_is_done(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        grid = experiment(tmp_path, toy, recipe, "a,c,mdc", at=[1], networks=1)
        expected = grid.work(grid.cells)
        assert grid.work(grid.cells, anew=True) == pytest.approx(expected)
        assert sum(step.flops for step in grid.run()) == pytest.approx(expected)
        assert grid.work(grid.cells) == 0
        assert grid.work(grid.cells, anew=True) == pytest.approx(expected)

    def test_making_sets_is_watched_while_it_goes_on(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        told: list[Advance] = []
        for name in ("herding", "yoco"):
            told.clear()
            grid = experiment(tmp_path, toy, recipe, name, networks=1, watch=told.append)
            whole = grid.work(grid.cells)
            yielded = sum(step.flops for step in grid.run())
            assert len(told) > 3
            assert sum(step.flops for step in told) == pytest.approx(grid._set_flops(grid.cells[0]))
            assert yielded + sum(step.flops for step in told) == pytest.approx(whole)

    def test_what_a_checkpoint_held_was_done_earlier(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        grid = experiment(tmp_path, toy, recipe.replace(outer=4), "c")
        whole = grid.work(grid.cells)
        condensing = grid._run_flops(grid.cells[0].runs[0])
        stop_after(grid, 1 + 3 * recipe.inner)
        steps = list(grid.run())
        assert steps[0].earlier
        assert steps[0].flops == pytest.approx(condensing / 2), "two of four outer iterations"
        assert not any(step.earlier for step in steps[1:])
        assert sum(step.flops for step in steps) == pytest.approx(whole)

    def test_accuracies_as_metric_and_selections_cost_something(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe
    ) -> None:
        grid = experiment(tmp_path, toy, recipe, "mdc,mdc-accuracy,random,herding,c,yoco")
        mdc, accuracy, random, herding, c, yoco = (grid.work([cell]) for cell in grid.cells)
        assert accuracy > mdc
        assert herding > random
        assert yoco > c
        assert experiment(tmp_path, toy, recipe, "random").max_memory > 1e8

    def test_an_estimate_of_time_covers_what_is_left(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        grid = experiment(tmp_path, toy, recipe, "c,yoco,mdc")
        seconds = grid.seconds(grid.cells)
        c, yoco, mdc = grid.cells
        assert seconds([c]) > 0
        assert seconds(grid.cells) < seconds([c]) + seconds([yoco]) + seconds([mdc]), "what is shared is run once"
        finished(grid)
        assert seconds(grid.cells) == 0
        assert grid.max_memory > 1e8

    def test_data_that_do_not_suffice_are_refused_before_anything_runs(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe
    ) -> None:
        with pytest.raises(SettingError, match=r"class .* has 20 training images, but --ipc 3 with --factor 3"):
            experiment(tmp_path, toy, recipe.replace(factor=3), "random")
        with pytest.raises(SettingError, match="--sizes cannot hold 4: c has sizes 1 to 3"):
            experiment(tmp_path, toy, recipe, "c", sizes=[4])
        with pytest.raises(SettingError, match=r"class .* has 20 training images"):
            experiment(tmp_path, toy, recipe.replace(factor=3, init="noise"), "c,random")
        assert list(tmp_path.iterdir()) == []

    def test_what_nobody_reads_and_what_is_asked_for_twice_is_refused(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe
    ) -> None:
        with pytest.raises(SettingError, match="none of the methods reads --period from the command line"):
            experiment(tmp_path, toy, recipe, "c", given={"period": 3})
        with pytest.raises(SettingError, match="none of the methods reads --freeze from"):
            experiment(tmp_path, toy, recipe, "c,mdc-predecessor", given={"freeze": "never"})
        with pytest.raises(SettingError, match="--methods mdc and mdc:period=1 are the same"):
            experiment(tmp_path, toy, recipe, "mdc,mdc:period=1")
