"""Reports: tables and charts hold the numbers of the results."""

from __future__ import annotations

import csv
import io
import statistics
from dataclasses import replace

import pytest

from mipset.experiments.report import (
    accuracy_table,
    charts,
    cost_table,
    csv_text,
    markdown,
    markdown_table,
    moment_table,
    overtaking_sentences,
)
from mipset.experiments.summary import moments, one_per_run, rows
from toy_results import FINAL, WITH_MOMENTS, result

RESNET = "resnet-10, width 32"
WITH_RESNET = (*FINAL, *(replace(final, network=RESNET, scores={1: [1.0], 10: [3.0]}) for final in FINAL))


class TestTables:
    def test_accuracy_table_is_as_in_the_paper(self) -> None:
        titles, baseline, mdc = accuracy_table(rows(FINAL))
        assert titles[:5] == ["method", "1", "10", "mean", "minus baseline-c"]
        assert baseline[:5] == ["baseline-c", "21.00", "40.00", "30.50", "+0.00"]
        assert mdc[:5] == ["mdc", "32.00", "42.00", "37.00", "+6.50"]
        assert (baseline[-1], mdc[-1]) == ("1 x 2", "2 x 2")
        assert baseline[5] == "-"
        assert mdc[5] == f"{statistics.stdev([36.0, 38.0]):.2f}"

    def test_without_baseline_c_there_is_no_difference(self) -> None:
        assert accuracy_table(rows(FINAL[1:]))[1][4] == "-"

    def test_costs_are_means_over_runs(self) -> None:
        runs = [result("mdc", seconds=30.0, condensations=10), result("mdc", seed=1, seconds=90.0, condensations=10)]
        assert cost_table(rows(runs))[1] == ["mdc", "10", "20", "2.0 kB", "1:00", "100", "150"]

    def test_markdown_and_csv_hold_the_same_numbers(self) -> None:
        text = markdown("title", ["note"], FINAL)
        assert markdown_table(accuracy_table(rows(FINAL))) in text
        assert text.startswith("# title\n\nnote\n")
        lines = list(csv.DictReader(io.StringIO(csv_text(FINAL))))
        assert [(line["method"], float(line["mean"]), float(line["minus_c"])) for line in lines] == [
            ("baseline-c", 30.5, 0.0),
            ("mdc", 37.0, 6.5),
        ]
        assert lines[0]["sd_runs"] == ""
        assert float(lines[1]["sd_runs"]) == pytest.approx(statistics.stdev([36.0, 38.0]))
        assert float(lines[1]["size_10"]) == 42.0

    def test_costs_include_methods_of_all_architectures(self) -> None:
        other = replace(FINAL[1], network=RESNET)
        table = cost_table(rows(one_per_run([FINAL[0], other])))
        assert [line[0] for line in table] == ["method", "baseline-c", "mdc"]

    def test_each_architecture_has_a_table_and_costs_appear_once(self) -> None:
        text = markdown("title", [], WITH_RESNET)
        assert text.count("## Accuracy in %") == 2
        assert text.count("## What it took") == 1
        assert "| baseline-c | 1.00 | 3.00 | 2.00 | +0.00 |" in text
        lines = list(csv.DictReader(io.StringIO(csv_text(WITH_RESNET))))
        assert [float(line["minus_c"]) for line in lines] == [0.0, 6.5, 0.0, 0.0]


class TestMoments:
    def test_moment_table_has_outer_iterations_and_times(self) -> None:
        assert moment_table(moments(WITH_MOMENTS))[2] == ["mdc", "5", "50 s", "22.00", "22.00"]

    def test_sentences_say_when_baseline_c_is_passed(self) -> None:
        goal = "the final mean of baseline-c (20.00 %, 1:40)"
        assert overtaking_sentences(WITH_MOMENTS) == [f"mdc passes {goal} within 5 outer iterations (50 s)."]
        worse = [replace(r, scores={1: [1.0]}) if r.method == "mdc" else r for r in WITH_MOMENTS]
        assert overtaking_sentences(worse) == [f"mdc does not pass {goal}."]
        assert overtaking_sentences(WITH_MOMENTS[1:]) == []

    def test_sentences_compare_the_same_seeds(self) -> None:
        more = [*WITH_MOMENTS, result("baseline-c", 1, {1: [90.0]}), result("mdc", 1, {1: [95.0]})]
        assert overtaking_sentences(more) == overtaking_sentences(WITH_MOMENTS)


class TestCharts:
    def test_accuracy_chart_by_hand(self) -> None:
        (panel,) = charts(FINAL)["results.svg"].panels
        baseline, mdc = panel.series
        assert (panel.title, panel.x.title, panel.x.ticks) == ("convnet-3, width 64", "images per class", [1, 10])
        assert (baseline.name, baseline.points, baseline.spreads) == ("baseline-c", [(1, 21.0), (10, 40.0)], [])
        assert (mdc.name, mdc.points) == ("mdc", [(1, 32.0), (10, 42.0)])
        assert mdc.spreads == pytest.approx([statistics.stdev([31.0, 33.0])] * 2)

    def test_each_architecture_has_a_panel(self) -> None:
        own, resnet = charts(WITH_RESNET)["results.svg"].panels
        assert (own.title, resnet.title) == ("convnet-3, width 64", RESNET)
        assert resnet.series[0].points == [(1, 1.0), (10, 3.0)]

    def test_progress_chart_by_hand(self) -> None:
        (panel,) = charts(WITH_MOMENTS)["during.svg"].panels
        mdc, goal = panel.series
        assert panel.x.title == "seconds of condensation"
        assert (mdc.name, mdc.points) == ("mdc", [(20.0, 15.0), (50.0, 22.0), (110.0, 30.0)])
        assert (goal.name, goal.points) == ("final mean of baseline-c", [(20.0, 20.0), (110.0, 20.0)])
        (panel,) = charts(WITH_MOMENTS[1:])["during.svg"].panels
        assert [series.name for series in panel.series] == ["mdc"], "without Baseline C there is no goal"

    @pytest.mark.parametrize(("seconds", "unit"), [(60, "minutes"), (3600, "hours")])
    def test_long_runs_have_longer_units(self, seconds: int, unit: str) -> None:
        slow = [replace(r, seconds=r.seconds * seconds) for r in WITH_MOMENTS]
        (panel,) = charts(slow)["during.svg"].panels
        assert panel.x.title == f"{unit} of condensation"
        assert panel.series[0].points[-1] == (110.0, 30.0)

    def test_method_has_one_style_in_both_charts(self) -> None:
        drawn = charts(WITH_MOMENTS)
        (accuracy,), (progress,) = drawn["results.svg"].panels, drawn["during.svg"].panels
        assert accuracy.series[1].style == progress.series[0].style is not None

    def test_wide_range_of_sizes_has_a_logarithmic_axis(self) -> None:
        (panel,) = charts([result(scores={1: [1.0], 10: [2.0], 100: [3.0]})])["results.svg"].panels
        assert panel.x.log
        assert not charts(FINAL)["results.svg"].panels[0].x.log

    def test_only_charts_with_data_exist(self) -> None:
        assert list(charts(FINAL)) == ["results.svg"]
        assert list(charts(WITH_MOMENTS)) == ["results.svg", "during.svg"]
        assert list(charts([r for r in WITH_MOMENTS if not r.final])) == ["during.svg"]
        assert charts([]) == {}

    def test_markdown_links_charts_below_their_tables(self) -> None:
        accuracy = "![Accuracy against images per class](results.svg)"
        progress = "![Mean accuracy during condensation](during.svg)"
        text = markdown("title", [], WITH_MOMENTS, ["results.svg", "during.svg"])
        order = ["## Accuracy", accuracy, "## During", "mdc passes", progress, "## What it took"]
        assert sorted(order, key=text.index) == order
        assert "![" not in markdown("title", [], WITH_MOMENTS)
