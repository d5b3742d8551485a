"""Summaries: means, the two spreads, and moments during a run."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mipset.experiments.summary import Row, moments, rows
from toy_results import WITH_MOMENTS, result


class TestRow:
    def test_means_and_both_spreads_by_hand(self) -> None:
        first = result(seed=0, scores={1: [10.0, 20.0], 2: [30.0, 50.0]})  # by network: 20, 35; mean 27.5
        second = result(seed=1, scores={1: [20.0, 20.0], 2: [40.0, 40.0]})  # by network: 30, 30; mean 30
        row = Row([first, second])
        assert first.by_network == [20.0, 35.0]
        assert row.means == {1: 17.5, 2: 40.0}
        assert row.mean == 28.75
        assert row.spreads == {1: pytest.approx(statistics.stdev([15.0, 20.0])), 2: 0.0}
        assert row.spread_over_runs == pytest.approx(statistics.stdev([27.5, 30.0]))
        assert row.spread_over_networks == pytest.approx((statistics.variance([20.0, 35.0]) / 2) ** 0.5)

    def test_one_run_or_one_network_has_no_spread(self) -> None:
        assert Row([result()]).spread_over_runs is None
        assert Row([result()]).spreads == {}
        assert Row([result(scores={1: [5.0]})]).spread_over_networks is None

    @given(st.lists(st.lists(st.floats(0, 100), min_size=3, max_size=3), min_size=2, max_size=4), st.floats(-5, 5))
    def test_spreads_do_not_depend_on_the_level(self, values: list[list[float]], shift: float) -> None:
        def row(shift: float) -> Row:
            return Row([result(seed=seed, scores={1: [v + shift for v in run]}) for seed, run in enumerate(values)])

        assert row(0).spread_over_runs == pytest.approx(row(shift).spread_over_runs or 0, abs=1e-6)
        assert row(0).spread_over_networks == pytest.approx(row(shift).spread_over_networks or 0, abs=1e-6)
        assert row(shift).mean - row(0).mean == pytest.approx(shift, abs=1e-6)


class TestMoments:
    def test_moments_are_in_order_and_end_with_the_final_result(self) -> None:
        curves = moments(reversed(WITH_MOMENTS))
        assert list(curves) == ["mdc"], "a method without moments has no curve"
        assert [(moment.outer, moment.row.mean) for moment in curves["mdc"]] == [(2, 15.0), (5, 22.0), (10, 30.0)]

    def test_rows_have_final_results_only(self) -> None:
        assert [(row.method, row.mean) for row in rows(WITH_MOMENTS)] == [("baseline-c", 20.0), ("mdc", 30.0)]

    def test_moments_are_means_of_the_same_seeds(self) -> None:
        """A second seed that has only a final result does not change the curve."""
        more = [*WITH_MOMENTS, result("baseline-c", 1, {1: [90.0]}), result("mdc", 1, {1: [95.0]})]
        assert [moment.row.mean for moment in moments(more)["mdc"]] == [15.0, 22.0, 30.0]
