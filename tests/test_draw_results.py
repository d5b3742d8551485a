"""The charts of the docs: drawn from the numbers beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mipset.settings.paper import ACCURACIES

REPO = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _scripts_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPO / "scripts")
    monkeypatch.syspath_prepend(REPO / "benchmarks")


@pytest.mark.parametrize("dataset", ["cifar10", "fashion-mnist"])
def test_accuracy_chart_shows_every_method_of_the_csv(dataset: str) -> None:
    import draw_results

    lines = draw_results.read_csv(dataset)
    (panel,) = draw_results.accuracy_chart(dataset, lines).panels
    picture = (draw_results.FOLDER / f"{dataset}.svg").read_text("utf-8")
    for line, series in zip(lines, panel.series, strict=True):
        assert [y for _, y in series.points] == [float(line[f"size_{size}"]) for size in range(1, 11)]
        if line["method"] in draw_results.MAIN_METHODS:
            assert len(series.spreads) == 10
        assert f">{line['method']}</text>" in picture


def test_chart_of_the_readme_shows_every_line_of_the_csv() -> None:
    import draw_results

    lines = draw_results.read_csv("cifar10-main")
    (panel,) = draw_results.main_chart().panels
    picture = (draw_results.FOLDER / "cifar10-main.svg").read_text("utf-8")
    *own, reported = panel.series
    assert [y for _, y in reported.points] == [*ACCURACIES["cifar10", 10]["mdc"].values()]
    for line, series in zip(lines, own, strict=True):
        assert [y for _, y in series.points] == [
            float(line[key]) for key in line if key.startswith("size_") and line[key]
        ]
        assert f">{line['method']}</text>" in picture


def test_chart_of_time_has_a_line_for_each_policy_and_objective() -> None:
    import draw_results

    lines = draw_results.read_csv("cifar10-time")
    (panel,) = draw_results.time_chart().panels
    picture = (draw_results.FOLDER / "cifar10-time.svg").read_text("utf-8")
    times = sorted({float(line["minutes"]) for line in lines})
    names = [f"{line['policy']}, {line['objective']}" for line in lines]
    assert [series.name for series in panel.series] == [*dict.fromkeys(names), *draw_results.PAPER_LINES.values()]
    for series in panel.series[:-2]:
        assert [x for x, _ in series.points] == times[: len(series.points)]
        assert "".join(f">{word}" for word in series.name.split(", ")[:1]) in picture
    assert draw_results.interpolated_mean([(1, 10.0), (3, 30.0), (10, 30.0)]) == pytest.approx((10 + 20 + 8 * 30) / 10)


def test_progress_chart_ends_at_the_final_mean() -> None:
    import draw_results

    (panel,) = draw_results.progress_chart("cifar10").panels
    baseline, *_, goal = panel.series
    assert goal.points[-1] == baseline.points[-1]


def test_growth_chart_shows_every_point_of_the_csv() -> None:
    import growth

    points = growth.read_points(growth.POINTS)
    assert list(points) == list(dict.fromkeys(place for axis in growth.AXES for place in growth.places(axis)))
    panels = growth.growth_chart(points).panels
    assert [[series.name for series in panel.series] for panel in panels] == [
        *[["measured", "linear growth"]] * 3,
        *[["measured", "linear growth", "estimated"]] * 3,
    ]


def test_charts_of_the_explanation_show_the_demo_and_the_pull_of_each_policy() -> None:
    import draw_explanation

    drawn = {"degradation": draw_explanation.degradation_chart(), "pull": draw_explanation.pull_chart()}
    for name, chart in drawn.items():
        (panel,) = chart.panels
        picture = (draw_explanation.FOLDER / f"{name}.svg").read_text("utf-8")
        assert all(f">{series.name}</text>" in picture for series in panel.series)
    results = (REPO / "docs" / "results.md").read_text("utf-8").partition("## The demo")[2]
    for series in drawn["degradation"].panels[0].series:
        (row,) = [line for line in results.splitlines() if line.startswith(f"| {series.name} | ")]
        assert [float(cell.split(" ±")[0]) for cell in row.split(" | ")[1:11]] == [y for _, y in series.points]
    baseline, mdc, every = drawn["pull"].panels[0].series
    assert {y for _, y in baseline.points} == {1.0}
    assert [y for _, y in mdc.points] == pytest.approx([1 + 10 / 3] * 3 + [1.0] * 7)
    assert every.points[0][1] == pytest.approx(sum(10 / n for n in range(1, 11)))


def test_page_of_results_has_the_accuracies_that_the_paper_reports() -> None:
    text = (REPO / "docs" / "results.md").read_text("utf-8")
    titles = {"baseline-a": "Baseline A", "baseline-b": "Baseline B", "baseline-c": "Baseline C", "mdc": "MDC"}
    for method, means in ACCURACIES["cifar10", 10].items():
        assert f"| {titles[method]} | {' | '.join(f'{mean:.2f}' for mean in means.values())} |" in text
