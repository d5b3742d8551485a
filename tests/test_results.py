"""Results: lines that can be trusted, and tables that say what the numbers say."""

from __future__ import annotations

import csv
import io
import os
import statistics
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mipset.errors import ArtifactError
from mipset.experiments.results import (
    Result,
    Row,
    accuracy_chart,
    accuracy_rows,
    add_result,
    comma_separated,
    cost_rows,
    document,
    markdown,
    moment_rows,
    moments,
    once,
    overtaking,
    pictures,
    progress_chart,
    read_results,
    rows,
)


def result(method: str = "c", seed: int = 0, scores: dict[int, list[float]] | None = None, **changes: object) -> Result:
    base = Result(
        cell=f"{method}-{seed}",
        table="t",
        method=method,
        seed=seed,
        outer=10,
        final=True,
        network="convnet-3, width 64",
        protocol="quick, 16 epochs",
        scores=scores or {1: [10.0, 20.0], 2: [30.0, 50.0]},
        condensations=1,
        images=20,
        bytes=2000,
        seconds=60.0,
        forward=100,
        backward=150,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


class TestSpreads:
    def test_the_two_spreads_by_hand(self) -> None:
        first = result(seed=0, scores={1: [10.0, 20.0], 2: [30.0, 50.0]})  # by network: 20, 35; mean 27.5
        second = result(seed=1, scores={1: [20.0, 20.0], 2: [40.0, 40.0]})  # by network: 30, 30; mean 30
        row = Row([first, second])
        assert first.by_network == [20.0, 35.0]
        assert row.means == {1: 17.5, 2: 40.0}
        assert row.mean == 28.75
        assert row.over_condensations == pytest.approx(statistics.stdev([27.5, 30.0]))
        assert row.over_networks == pytest.approx((statistics.variance([20.0, 35.0]) / 2) ** 0.5)

    def test_one_run_or_one_network_has_no_spread(self) -> None:
        assert Row([result()]).over_condensations is None
        assert Row([result(scores={1: [5.0]})]).over_networks is None

    @given(st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=2, max_size=4), st.floats(-5, 5))
    def test_spreads_do_not_depend_on_the_level(self, values: list[list[float]], by: float) -> None:
        def row(shift: float) -> Row:
            return Row([result(seed=k, scores={1: [v + shift for v in of]}) for k, of in enumerate(values)])

        assert row(0).over_condensations == pytest.approx(row(by).over_condensations or 0, abs=1e-6)
        assert row(0).over_networks == pytest.approx(row(by).over_networks or 0, abs=1e-6)
        assert row(by).mean - row(0).mean == pytest.approx(by, abs=1e-6)


class TestFile:
    def test_what_is_added_is_read_again(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        assert read_results(path) == []
        for seed in range(3):
            add_result(path, result(seed=seed))
        assert read_results(path) == [result(seed=seed) for seed in range(3)]
        assert [entry.name for entry in tmp_path.iterdir()] == ["results.jsonl"]

    def test_a_missing_end_of_line_is_made_up_for(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result())
        path.write_text(path.read_text().rstrip("\n"))
        add_result(path, result(seed=1))
        assert [r.seed for r in read_results(path)] == [0, 1]

    def test_processes_may_add_to_one_file(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda seed: add_result(path, result(seed=seed)), range(64)))
        assert sorted(r.seed for r in read_results(path)) == list(range(64))

    def test_a_full_disk_leaves_no_part_of_a_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result())
        before, write = path.read_bytes(), os.write
        monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:10]))
        with pytest.raises(OSError, match="No space left on device"):
            add_result(path, result(seed=1))
        assert path.read_bytes() == before

    @pytest.mark.parametrize(
        "line",
        [
            "{",
            "[]",
            "{}",
            '"text"',
            '{"scores": 3}',
            '{"cell": "x", "scores": {"1": [1.0]}}',
            '{"scores": {"one": [1.0]}}',
            "\udcff",
        ],
    )
    def test_a_damaged_line_is_named(self, tmp_path: Path, line: str) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result())
        with path.open("ab") as stream:
            stream.write(line.encode(errors="surrogateescape") + b"\n")
        with pytest.raises(ArtifactError, match=r"line 2 of .*results.jsonl is damaged: remove it"):
            read_results(path)

    @pytest.mark.parametrize("field", ["seconds", "method", "final", "images"])
    def test_a_field_of_another_kind_is_damage(self, tmp_path: Path, field: str) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result(**{field: None}))  # type: ignore[arg-type]
        with pytest.raises(ArtifactError, match="line 1"):
            read_results(path)

    def test_uneven_scores_are_damage(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result(scores={1: [1.0, 2.0], 2: [3.0]}))
        with pytest.raises(ArtifactError, match="line 1"):
            read_results(path)

    def test_fields_of_a_later_version_are_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "results.jsonl"
        add_result(path, result())
        path.write_text(path.read_text().replace('{"cell"', '{"colour": "red", "cell"'))
        assert read_results(path) == [result()]


class TestTables:
    BOTH = (
        result("c", scores={1: [20.0, 22.0], 10: [40.0, 40.0]}),
        result("mdc", scores={1: [30.0, 32.0], 10: [40.0, 42.0]}),
        result("mdc", seed=1, scores={1: [32.0, 34.0], 10: [42.0, 44.0]}),
    )

    def test_rows_are_as_in_the_paper(self) -> None:
        head, c, mdc = accuracy_rows(rows(self.BOTH))
        assert head[:5] == ["method", "1", "10", "mean", "minus c"]
        assert c[:5] == ["c", "21.00", "40.00", "30.50", "+0.00"]
        assert mdc[:5] == ["mdc", "32.00", "42.00", "37.00", "+6.50"]
        assert (c[-1], mdc[-1]) == ("1 x 2", "2 x 2")
        assert c[5] == "-"
        assert mdc[5] == f"{statistics.stdev([36.0, 38.0]):.2f}"

    def test_without_c_there_is_no_difference(self) -> None:
        assert accuracy_rows(rows(self.BOTH[1:]))[1][4] == "-"

    def test_costs_are_means_over_runs(self) -> None:
        some = [result("b", seconds=30.0, condensations=10), result("b", seed=1, seconds=90.0, condensations=10)]
        assert cost_rows(rows(some))[1] == ["b", "10", "20", "2.0 kB", "1:00", "100", "150"]

    def test_markdown_and_csv_hold_the_same_numbers(self) -> None:
        text = document("title", ["note"], self.BOTH)
        assert markdown(accuracy_rows(rows(self.BOTH))) in text
        assert text.startswith("# title\n\nnote\n")
        listed = list(csv.DictReader(io.StringIO(comma_separated(self.BOTH))))
        assert [(line["method"], float(line["mean"]), float(line["minus_c"])) for line in listed] == [
            ("c", 30.5, 0.0),
            ("mdc", 37.0, 6.5),
        ]
        assert listed[0]["sd_runs"] == ""
        assert float(listed[1]["sd_runs"]) == pytest.approx(statistics.stdev([36.0, 38.0]))
        assert float(listed[1]["size_10"]) == 42.0

    def test_costs_are_told_of_every_method_whichever_network_it_was_evaluated_with(self) -> None:
        other = replace(self.BOTH[1], network="resnet-10, width 32")
        assert [row[0] for row in cost_rows(rows(once([self.BOTH[0], other])))] == ["method", "c", "mdc"]

    def test_networks_have_tables_of_their_own_and_costs_are_told_once(self) -> None:
        other = [replace(one, network="resnet-10, width 32", scores={1: [1.0], 10: [3.0]}) for one in self.BOTH]
        text = document("title", [], [*self.BOTH, *other])
        assert text.count("## Accuracy in %") == 2
        assert text.count("## What it took") == 1
        assert "| c | 1.00 | 3.00 | 2.00 | +0.00 |" in text
        listed = list(csv.DictReader(io.StringIO(comma_separated([*self.BOTH, *other]))))
        assert [float(line["minus_c"]) for line in listed] == [0.0, 6.5, 0.0, 0.0]


class TestOnTheWay:
    STATES = (
        result("c", scores={1: [20.0]}, seconds=100.0),
        result("mdc", scores={1: [15.0]}, outer=2, final=False, seconds=20.0),
        result("mdc", scores={1: [22.0]}, outer=5, final=False, seconds=50.0),
        result("mdc", scores={1: [30.0]}, seconds=110.0),
    )

    def test_states_are_in_order_and_the_final_one_is_the_last(self) -> None:
        found = moments(reversed(self.STATES))
        assert list(found) == ["mdc"], "what was not looked at on its way has no curve"
        assert [(moment.outer, moment.row.mean) for moment in found["mdc"]] == [(2, 15.0), (5, 22.0), (10, 30.0)]
        assert moment_rows(found)[2] == ["mdc", "5", "50 s", "22.00", "22.00"]

    def test_states_on_the_way_are_not_rows(self) -> None:
        assert [(row.method, row.mean) for row in rows(self.STATES)] == [("c", 20.0), ("mdc", 30.0)]

    def test_states_are_means_of_the_same_runs(self) -> None:
        """A second seed that was looked at only at its end does not lift the curve there."""
        more = [*self.STATES, result("c", 1, {1: [90.0]}), result("mdc", 1, {1: [95.0]})]
        assert [moment.row.mean for moment in moments(more)["mdc"]] == [15.0, 22.0, 30.0]
        assert overtaking(more) == overtaking(self.STATES)

    def test_when_c_is_overtaken(self) -> None:
        assert overtaking(self.STATES) == [
            "mdc passes the final mean of c (20.00 %, 1:40) within 5 outer iterations (50 s)."
        ]
        never = [replace(one, scores={1: [1.0]}) if one.method == "mdc" else one for one in self.STATES]
        assert overtaking(never) == ["mdc does not pass the final mean of c (20.00 %, 1:40)."]
        assert overtaking(self.STATES[1:]) == []


SVG = "{http://www.w3.org/2000/svg}"


def drawn(picture: str) -> dict[str, dict[str, list[str]]]:
    """For each panel and name what its marks tell."""
    found = {}
    for panel in ET.fromstring(picture).findall(f"{SVG}g"):
        if panel.find(f"{SVG}rect") is None:  # the legend
            continue
        (title,) = (text.text or "" for text in panel.findall(f"{SVG}text") if text.get("y", "").startswith("-"))
        found[title] = {
            series.findtext(f"{SVG}title", ""): [
                mark.findtext(f"{SVG}title", "") for mark in series.findall(f"{SVG}path")
            ]
            for series in reversed(panel.findall(f"{SVG}g"))
        }
    return found


def group(picture: str, name: str) -> ET.Element:
    """What is drawn of a name in the only panel."""
    (found,) = (g for g in ET.fromstring(picture).iter(f"{SVG}g") if g.findtext(f"{SVG}title") == name)
    return found


def line(picture: str, name: str) -> list[tuple[float, float]]:
    """The places that a line joins."""
    found = group(picture, name).find(f"{SVG}polyline")
    assert found is not None
    pairs = (pair.split(",") for pair in found.get("points", "").split())
    return [(float(x), float(y)) for x, y in pairs]


class TestCharts:
    BOTH = TestTables.BOTH
    STATES = TestOnTheWay.STATES
    OWN = "convnet-3, width 64"

    def test_accuracy_by_hand(self) -> None:
        sd = statistics.stdev([31.0, 33.0])
        assert drawn(accuracy_chart(self.BOTH)) == {
            self.OWN: {
                "c": ["c: 1, 21", "c: 10, 40"],
                "mdc": [f"mdc: 1, 32 ± {sd:.3g}", f"mdc: 10, 42 ± {sd:.3g}"],
            }
        }

    def test_each_network_has_a_panel(self) -> None:
        other = [replace(one, network="resnet-10, width 32", scores={1: [1.0], 10: [3.0]}) for one in self.BOTH]
        found = drawn(accuracy_chart([*self.BOTH, *other]))
        assert list(found) == [self.OWN, "resnet-10, width 32"]
        assert found["resnet-10, width 32"]["c"] == ["c: 1, 1", "c: 10, 3"]

    def test_states_on_the_way_are_not_in_the_first_chart(self) -> None:
        assert drawn(accuracy_chart(self.STATES)) == {self.OWN: {"c": ["c: 1, 20"], "mdc": ["mdc: 1, 30"]}}

    def test_progress_by_hand(self) -> None:
        assert drawn(progress_chart(self.STATES)) == {
            self.OWN: {"mdc": ["mdc: 20, 15", "mdc: 50, 22", "mdc: 110, 30"], "final mean of c": []}
        }
        assert "seconds of condensing" in progress_chart(self.STATES)
        assert list(drawn(progress_chart(self.STATES[1:]))[self.OWN]) == ["mdc"], "without c there is no goal"

    def test_the_goal_is_level_and_as_long_as_the_lines(self) -> None:
        """At 20 of 15 to 30 %, from the first state to the last."""
        picture = progress_chart(self.STATES)
        start, end = line(picture, "final mean of c")
        first, *_, last = line(picture, "mdc")
        assert (start[0], end[0]) == (first[0], last[0])
        assert start[1] == end[1] == pytest.approx(first[1] + (last[1] - first[1]) * (20 - 15) / (30 - 15), abs=0.1)
        assert group(picture, "final mean of c")[1].get("stroke-dasharray")

    def test_long_runs_are_told_in_longer_units(self) -> None:
        for factor, unit in ((60, "minutes"), (3600, "hours")):
            slow = [replace(one, seconds=one.seconds * factor) for one in self.STATES]
            assert f"{unit} of condensing" in progress_chart(slow)
            assert drawn(progress_chart(slow))[self.OWN]["mdc"][-1] == "mdc: 110, 30"

    def test_a_method_looks_the_same_in_both(self) -> None:
        """Though another one is not in the second chart."""
        first, second = (group(draw(self.STATES), "mdc")[-1] for draw in (accuracy_chart, progress_chart))
        assert first.get("fill") == second.get("fill") is not None
        assert first.get("d") == second.get("d")

    def test_sizes_far_apart_are_on_a_logarithmic_axis(self) -> None:
        """Then 10 is in the middle between 1 and 100."""
        picture = accuracy_chart([result(scores={1: [1.0], 10: [2.0], 100: [3.0]})])
        (first, _), (middle, _), (last, _) = line(picture, "c")
        assert middle == pytest.approx((first + last) / 2, abs=0.1)

    def test_only_what_there_is_to_draw_is_drawn_and_shown(self) -> None:
        first, second = (
            "![Accuracy against images per class](results.svg)",
            "![Mean accuracy during condensation](during.svg)",
        )
        assert list(pictures(self.BOTH)) == ["results.svg"]
        text = document("title", [], self.BOTH)
        assert text.index(markdown(accuracy_rows(rows(self.BOTH)))) < text.index(first) < text.index("## What it took")
        assert second not in text
        assert list(pictures(self.STATES)) == ["results.svg", "during.svg"]
        text = document("title", [], self.STATES)
        assert text.index(first) < text.index("## During") < text.index("mdc passes") < text.index(second)
        unfinished = [one for one in self.STATES if not one.final]
        assert list(pictures(unfinished)) == ["during.svg"]
        assert first not in document("title", [], unfinished)
