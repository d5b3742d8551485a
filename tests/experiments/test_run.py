"""Running comparisons: every method is the same loop, and an interrupted comparison continues with the same results."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mipset.condensing import assembly, checkpoint
from mipset.condensing.assembly import assemble
from mipset.condensing.condense import condense
from mipset.condensing.packing import pack
from mipset.data import Dataset
from mipset.display import charts
from mipset.errors import ArtifactError, DivergedError, MissingExtraError, SettingError
from mipset.evaluation import selection
from mipset.evaluation.evaluate import Evaluation, Score
from mipset.experiments import builders, run
from mipset.experiments.report import write_report
from mipset.experiments.store import RunFolder
from mipset.experiments.workload import Workload
from mipset.file.artifact import read
from mipset.file.run_log import read_run_log
from mipset.settings.architecture import Architecture
from mipset.settings.methods import METHODS
from mipset.settings.protocol import Protocol
from mipset.settings.recipe import Recipe
from toy_comparisons import (
    FAST,
    finished,
    reports_of,
    scores_of,
    sets_in,
    stop_after,
    stop_when,
    toy_comparison,
)


@pytest.mark.parametrize(("number", "text"), [(1, ", 1 thread, torch "), (2, ", 2 threads, torch ")])
def test_processor_has_its_threads(monkeypatch: pytest.MonkeyPatch, number: int, text: str) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: number)
    assert text in run.processor()


def condensed(recipe: Recipe, data: Dataset, start: torch.Tensor | None = None) -> Any:
    *_, step = condense(assemble(recipe, data, start=start))
    return pack(step, recipe, data).images


@pytest.fixture
def condensations(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """The recipes of all condensations that are run."""
    recipes: list[Recipe] = []
    assemble = assembly.assemble

    def assemble_and_record(recipe: Recipe, *rest: Any, **named: Any) -> Any:
        recipes.append(recipe)
        return assemble(recipe, *rest, **named)

    monkeypatch.setattr(run, "assemble", assemble_and_record)
    return recipes


class TestMethods:
    def test_every_method_gives_a_result(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        quick = recipe.replace(metric_epochs=1)
        methods = [name for name, method in METHODS.items() if not method.base]  # those of others have own recipes
        results = finished(toy_comparison(tmp_path, toy, quick, ",".join(methods), networks=1, sizes=[1, 3]))
        assert [r.method for r in results] == methods
        for r in results:
            assert set(r.scores) == {1, 3}
            assert all(0 <= value <= 100 for values in r.scores.values() for value in values)
            assert all((tmp_path / "out" / name).exists() for name in r.files)

    def test_baseline_a_is_one_condensation_per_size(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (result,) = finished(toy_comparison(tmp_path, toy, recipe, "baseline-a"))
        baseline = recipe.replace(policy="baseline-c")
        files = [read(tmp_path / "out" / name) for name in result.files]
        assert [artifact.ipc for artifact in files] == [1, 2, 3]
        for artifact in files:
            assert np.array_equal(artifact.images, condensed(baseline.replace(ipc=artifact.ipc), toy))
            (score,) = Evaluation(artifact, toy, FAST).scores([artifact.ipc], networks=1)
            assert result.scores[artifact.ipc][0] == score.accuracy
        assert (result.condensations, result.images, result.bytes) == (3, 3 * (1 + 2 + 3), 3 * 6 * 3 * 12 * 12)

    def test_baseline_b_joins_condensations_of_size_1(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (result,) = finished(toy_comparison(tmp_path, toy, recipe, "baseline-b"))
        (name,) = result.files
        joined = read(tmp_path / "out" / name)
        assert (joined.recipe["ipc"], joined.provenance["condensations"]) == (3, 3)
        baseline = recipe.replace(policy="baseline-c")
        starts = assemble(baseline, toy).S.pixels
        for rank, images in enumerate(joined.images):
            alone = condensed(baseline.replace(ipc=1), toy, starts[rank : rank + 1])
            assert np.array_equal(images, alone[0])
        assert (result.condensations, result.images) == (3, 9)

    def test_baseline_c_is_one_condensation(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        (result,) = finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        (name,) = result.files
        expected = condensed(recipe.replace(policy="baseline-c"), toy)
        assert np.array_equal(read(tmp_path / "out" / name).images, expected)
        assert (result.condensations, result.images) == (1, 9)

    def test_passes_are_those_of_all_condensations(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        names = "baseline-a,baseline-b,baseline-c,random,yoco"
        a, b, c, random, yoco = finished(toy_comparison(tmp_path, toy, recipe, names))
        assert a.forward == b.forward == 3 * c.forward
        assert a.backward == b.backward == 3 * c.backward
        assert (random.forward, random.backward) == (0, 0)
        assert yoco.backward > c.backward

    def test_methods_share_equal_condensations(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c,baseline-a,baseline-b,yoco"))
        baseline = recipe.replace(policy="baseline-c")
        assert sorted(r.ipc for r in condensations) == [1, 1, 1, 2, 3]
        unread = {name: getattr(baseline, name) for name in ("experts", "expert_steps", "prefix_weights")}
        assert {r.replace(ipc=3, **unread) for r in condensations} == {baseline}

    def test_scores_depend_on_the_condensed_images(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        """Otherwise the tests that scores are equal would prove nothing."""
        moved, still = finished(toy_comparison(tmp_path, toy, recipe, "mdc:pixel-lr=0.5,mdc:pixel-lr=0"))
        assert moved.scores != still.scores


class TestContinuing:
    def test_finished_results_are_not_run_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        first = finished(toy_comparison(tmp_path, toy, recipe))
        assert len(condensations) == 2
        assert finished(toy_comparison(tmp_path, toy, recipe)) == first
        assert reports_of(toy_comparison(tmp_path, toy, recipe)) == []
        assert len(condensations) == 2

    def test_methods_and_seeds_can_be_added_to_a_table(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        results = finished(toy_comparison(tmp_path, toy, recipe, "mdc", seeds=[0, 1]))
        assert [(r.method, r.seed) for r in results] == [("mdc", 0), ("mdc", 1), ("baseline-c", 0)]
        assert len(condensations) == 3
        assert (tmp_path / "out" / "results.md").read_text().count("\n| baseline-c |") == 2

    @pytest.mark.parametrize("changed", ["sizes", "networks", "protocol", "seed"])
    def test_another_evaluation_uses_the_same_condensation(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe], changed: str
    ) -> None:
        other = {"sizes": [1, 2], "networks": 1, "protocol": Protocol("other", epochs=1), "seed": 7}
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c", **{changed: other[changed]})
        (result,) = finished(comparison)
        assert len(condensations) == 1
        assert len(comparison.store.results()) == 2
        assert list(result.scores) == (other["sizes"] if changed == "sizes" else [1, 2, 3])

    def test_stopped_anywhere_it_continues_with_the_same_results(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        names = "baseline-b,mdc"
        expected = finished(toy_comparison(tmp_path / "whole", toy, recipe, names, at=[1]))
        for after in (1, 4, 7, 9, 14, 19):
            folder = tmp_path / str(after)
            part = toy_comparison(folder, toy, recipe, names, at=[1])
            stop_after(part, after)
            before = part.results()
            assert scores_of(finished(part)) == scores_of(expected), after
            assert sets_in(folder) == sets_in(tmp_path / "whole"), after
            assert {r.cell: r for r in before}.items() <= {r.cell: r for r in part.results()}.items(), after
            logs = [read_run_log(path) for path in (folder / "out" / "runs").glob("*/log.jsonl")]
            assert len(logs) == 4, after  # of three condensations of Baseline B, and one of MDC
            assert all([entry.outer for entry in log.entries] == [1, 2] for log in logs), after

    def test_two_commands_share_a_folder(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At the same time, in the same cells, with a checkpoint after every inner iteration."""
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        expected = finished(toy_comparison(tmp_path / "whole", toy, recipe))
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(finished, toy_comparison(tmp_path, toy, recipe)) for _ in range(2)]
            assert [scores_of(command.result()) for command in both] == [scores_of(expected)] * 2
        assert sets_in(tmp_path / "out") == sets_in(tmp_path / "whole" / "out")
        assert not list((tmp_path / "out").rglob("checkpoint*"))
        assert not list((tmp_path / "out").rglob("*.part"))

    def test_damaged_checkpoint_is_not_used(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c")
        stop_after(comparison, 2 + recipe.inner)
        (waiting,) = (tmp_path / "out").rglob("checkpoint")
        waiting.write_bytes(b"damaged")
        finished(comparison)
        finished(toy_comparison(tmp_path / "whole", toy, recipe, "baseline-c"))
        assert sets_in(tmp_path / "out") == sets_in(tmp_path / "whole" / "out")
        assert not waiting.exists()

    def test_checkpoint_is_never_ahead_of_the_stored_sets(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stopped while a set is written, the run continues from before that set."""
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        comparison = toy_comparison(tmp_path, toy, recipe.replace(outer=4), "baseline-c", at=[3])
        workload = Workload(comparison)
        whole, (condensation,) = workload.flops(comparison.grid.cells), comparison.grid.cells[0].condensations

        def stop(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "write", stop)
            with pytest.raises(KeyboardInterrupt):
                finished(comparison)
        _, done, total = reports_of(comparison)[0]
        assert done == 0
        assert total == pytest.approx(whole - workload.run_flops(condensation) * 5 / 8), "5 of 8 iterations are done"

    def test_missing_moment_is_condensed_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        results = finished(toy_comparison(tmp_path, toy, recipe, "baseline-c", at=[1]))
        assert [r.outer for r in results] == [2, 1]
        assert len(condensations) == 2

    def test_damaged_line_of_results_is_not_overwritten(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        path = tmp_path / "out" / "results.jsonl"
        path.write_text(path.read_text()[:-20])
        with pytest.raises(ArtifactError, match="Line 1"):
            finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))

    @pytest.mark.parametrize("ending", ["safetensors", "json"])
    def test_condensation_with_a_missing_file_is_run_again(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, ending: str
    ) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        (set_file,) = (tmp_path / "out" / "runs").rglob("*.safetensors")
        before = set_file.read_bytes()
        set_file.with_suffix(f".{ending}").unlink()
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c", seed=5))
        assert set_file.read_bytes() == before

    @pytest.mark.parametrize("ending", ["safetensors", "json"])
    def test_error_about_a_damaged_file_names_what_to_remove(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, ending: str
    ) -> None:
        finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        (file,) = (tmp_path / "out" / "runs").rglob(f"*.{ending}")
        file.write_bytes(file.read_bytes()[:10])
        again = toy_comparison(tmp_path, toy, recipe, "baseline-c", seed=5)
        with pytest.raises(ArtifactError, match=rf"{file} is damaged\. Remove {file.parent}, and the next run makes"):
            finished(again)
        for other in file.parent.iterdir():
            other.unlink()
        finished(again)

    def test_sets_are_built_once(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        comparison = toy_comparison(tmp_path, toy, recipe, "herding", architectures=["convnet", "resnet"])
        selections: list[str] = []

        def select_and_record(name: str, *rest: Any, **more: Any) -> Any:
            selections.append(name)
            return selection.select(name, *rest, **more)

        monkeypatch.setattr(builders, "select", select_and_record)
        stop_when(comparison, lambda: len(comparison.results()) == 1)
        finished(comparison)
        assert selections == ["herding"]


class TestFailures:
    def test_error_names_the_cell(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def diverge(*_: Any) -> list[tuple[int, Score]]:
            raise DivergedError("not finite.")

        monkeypatch.setattr(run, "scores", diverge)
        with pytest.raises(DivergedError, match=r"baseline-c, seed 0: not finite\."):
            finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))

    def test_other_cells_run_after_a_failure(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c:network-lr=1000:inner=60,mdc")
        for _ in range(2):
            with pytest.raises(DivergedError, match=r"^baseline-c:network-lr=1000:inner=60, seed 0: "):
                finished(comparison)
            assert [r.method for r in comparison.results()] == ["mdc"]


class TestMoments:
    def test_moments_equal_shorter_runs(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        longer = recipe.replace(outer=3)
        comparison = toy_comparison(tmp_path, toy, longer, "mdc", at=[1, 2])
        results = finished(comparison)
        assert [(r.outer, r.final) for r in results] == [(1, False), (2, False), (3, True)]
        for r in results:
            (name,) = r.files
            shorter = longer.replace(outer=r.outer, policy="mdc")
            assert np.array_equal(read(tmp_path / "out" / name).images, condensed(shorter, toy))
        assert [r.seconds for r in results] == sorted(r.seconds for r in results)
        assert results[0].forward < results[1].forward < results[2].forward

    def test_real_images_have_no_moments(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        results = finished(toy_comparison(tmp_path, toy, recipe, "baseline-c,random", at=[1]))
        assert [(r.method, r.outer) for r in results] == [("baseline-c", 1), ("baseline-c", 2), ("random", 2)]


class TestReportFiles:
    def test_report_links_its_charts_and_removes_old_ones(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        folder = tmp_path / "out"
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-c", at=[1], networks=1)
        finished(comparison)
        assert not (folder / "results.svg").exists(), "tables are written after every result, charts at the end"
        assert write_report(comparison) == ["results.md", "results.svg", "during.svg", "results.csv", "results.jsonl"]
        linked = re.findall(r"!\[.*\]\((.*)\)", (folder / "results.md").read_text())
        assert linked == ["results.svg", "during.svg"]
        assert all("<svg" in (folder / name).read_text() for name in linked)
        other = toy_comparison(tmp_path, toy, recipe.replace(pixel_lr=0.5), "baseline-c", networks=1)
        finished(other)
        assert write_report(other) == ["results.md", "results.svg", "results.csv", "results.jsonl"]
        assert not (folder / "during.svg").exists()
        assert "during.svg" not in (folder / "results.md").read_text()

    def test_without_matplotlib_there_are_tables_only(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(_: charts.Chart) -> bytes:
            raise MissingExtraError("matplotlib")

        comparison = toy_comparison(tmp_path, toy, recipe, "random", networks=1)
        finished(comparison)
        (tmp_path / "out" / "results.svg").write_text("of another table")
        monkeypatch.setattr(charts.Chart, "svg", fail)
        assert write_report(comparison) == ["results.md", "results.csv", "results.jsonl"]
        assert not (tmp_path / "out" / "results.svg").exists()
        assert "![" not in (tmp_path / "out" / "results.md").read_text()


class TestOtherArchitectures:
    def test_each_architecture_has_its_own_result(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, condensations: list[Recipe]
    ) -> None:
        own = finished(toy_comparison(tmp_path, toy, recipe, "baseline-c"))
        both = finished(toy_comparison(tmp_path, toy, recipe, "baseline-c", architectures=["convnet", "resnet"]))
        assert [r.network for r in both] == ["convnet-2, width 4", "resnet-10, width 32"]
        assert both[0] == own[0]
        assert len(condensations) == 1
        artifact = read(tmp_path / "out" / both[1].files[0])
        (score,) = Evaluation(artifact, toy, FAST, Architecture.named("resnet")).scores([2], networks=1)
        assert both[1].scores[2][0] == score.accuracy

    def test_unknown_architecture_is_refused(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        with pytest.raises(SettingError, match="'vgg'"):
            toy_comparison(tmp_path, toy, recipe, "baseline-c", architectures=["vgg"])


class TestProgress:
    def test_done_grows_to_the_total(self, tmp_path: Path, toy: Dataset, recipe: Recipe) -> None:
        comparison = toy_comparison(tmp_path, toy, recipe, "baseline-a,baseline-c,mdc", at=[1], networks=1)
        expected = Workload(comparison).flops(comparison.grid.cells)
        reports = reports_of(comparison)
        assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
        assert {total for _, _, total in reports} == {expected}
        assert reports[-1][1] == pytest.approx(expected)

    def test_training_experts_is_reported_and_done_once(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(assembly, "home", lambda: tmp_path / "cache")
        first_order = {"objective": "feature+confidence", "learner": "experts", "experts": 2, "expert_steps": 3}
        experts = recipe.replace(**first_order, pixel_optimiser="adam")
        comparison = toy_comparison(tmp_path, toy, experts, "baseline-a,mdc,herding", networks=1)
        reports = reports_of(comparison)
        assert [done for _, done, _ in reports] == sorted(done for _, done, _ in reports)
        assert reports[-1][1] == pytest.approx(reports[-1][2])
        totals = list(dict.fromkeys(round(total) for _, _, total in reports))
        assert totals == sorted(totals, reverse=True), "experts that are there already are not trained again"
        assert len(list((tmp_path / "cache" / "experts").glob("*/*.expert"))) == 2
        assert {result.method for result in comparison.results()} == {"baseline-a", "mdc", "herding"}

    @pytest.mark.parametrize("name", ["herding", "yoco"])
    def test_building_sets_is_reported(self, tmp_path: Path, toy: Dataset, recipe: Recipe, name: str) -> None:
        comparison = toy_comparison(tmp_path, toy, recipe, name, networks=1)
        expected = Workload(comparison).build_flops(comparison.grid.cells[0])
        reports = reports_of(comparison)
        building = [done for stage, done, _ in reports if stage == f"{name}, seed 0: building sets"]
        assert len(building) > 3
        assert building[-1] - building[0] == pytest.approx(expected)
        assert reports[-1][1] == pytest.approx(reports[-1][2])

    def test_checkpointed_work_reduces_the_total(
        self, tmp_path: Path, toy: Dataset, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(checkpoint, "SECONDS", -1)
        comparison = toy_comparison(tmp_path, toy, recipe.replace(outer=4), "baseline-c", networks=1)
        workload = Workload(comparison)
        whole, (condensation,) = workload.flops(comparison.grid.cells), comparison.grid.cells[0].condensations
        stop_after(comparison, 2 + 3 * recipe.inner)
        reports = reports_of(comparison)
        left = whole - workload.run_flops(condensation) * 3 / 4
        assert reports[0][1:] == pytest.approx((0, left)), "three of four outer iterations are done"
        assert reports[-1][1:] == pytest.approx((left, left))
