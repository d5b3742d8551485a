"""Charts: every series, title and point is drawn, whatever its name, and can be told apart on every background."""

from __future__ import annotations

import math
import re
import sys
import warnings
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from mipset.display.charts import COLOURS, INK, LINES, STYLES, Axis, Chart, Panel, Series, Style, accuracy_curve
from mipset.errors import MissingExtraError
from mipset.file.description import Accuracy

SVG = "{http://www.w3.org/2000/svg}"

LINEAR = Panel(
    [Series("one", [(1, 10), (2, 20), (5, 30)], [1, 2, 0]), Series("two", [(1, 12), (5, 33)])],
    Axis("size", ticks=(1, 2, 5)),
    Axis("accuracy in %"),
    "left panel",
)
LOGARITHMIC = Panel(
    [
        Series("two", [(1, 1e-3), (10, 20), (500, 3000)], [0.1, 200, 0]),
        Series("goal", [(1, 5), (500, 5)], style=Style()),
    ],
    Axis("time", log=True),
    Axis("memory", log=True),
)


def texts(svg: bytes) -> list[str]:
    """All texts, those of several lines joined."""
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def marks(svg: bytes, group: str) -> list[tuple[float, float]]:
    """Where the markers of a series are."""
    (series,) = (element for element in ET.fromstring(svg).iter(f"{SVG}g") if element.get("id") == group)
    return [(float(mark.get("x", "")), float(mark.get("y", ""))) for mark in series.iter(f"{SVG}use")]


@pytest.fixture(scope="module")
def svg() -> bytes:
    return Chart("Two panels", [LINEAR, LOGARITHMIC]).svg()


class TestDrawing:
    def test_every_title_and_name_is_there_once(self, svg: bytes) -> None:
        shown = texts(svg)
        names = ["Two panels", "left panel", "size", "accuracy in %", "time", "memory", "one", "two", "goal"]
        assert [shown.count(name) for name in names] == [1] * len(names)

    def test_every_point_has_a_marker(self, svg: bytes) -> None:
        groups = ("panel-0-series-0", "panel-0-series-1", "panel-1-series-0", "panel-1-series-1")
        assert [len(marks(svg, group)) for group in groups] == [3, 2, 3, 0]

    def test_points_are_where_their_values_are(self, svg: bytes) -> None:
        """Linear: 2 is at a quarter of 1 to 5. Logarithmic: 10 to 500 is log(50) of log(500)."""
        (x1, y1), (x2, y2), (x5, y5) = marks(svg, "panel-0-series-0")
        assert ((x2 - x1) / (x5 - x1), (y2 - y1) / (y5 - y1)) == pytest.approx((1 / 4, 1 / 2), abs=1e-3)
        (x1, _), (x10, _), (x500, _) = marks(svg, "panel-1-series-0")
        assert (x10 - x1) / (x500 - x1) == pytest.approx(math.log(10) / math.log(500), abs=1e-3)

    def test_ticks_are_plain_numbers(self, svg: bytes) -> None:
        assert {"1", "2", "5", "0.001", "1000"} <= set(texts(svg))
        assert b"mathdefault" not in svg

    def test_same_values_give_the_same_bytes(self, svg: bytes) -> None:
        assert Chart("Two panels", [LINEAR, LOGARITHMIC]).svg() == svg
        assert b"dc:date" not in svg

    def test_file_name_chooses_png_or_svg(self, tmp_path: Path) -> None:
        chart = Chart("t", [LINEAR])
        chart.write(tmp_path / "chart.PNG")
        chart.write(tmp_path / "chart.svg")
        with Image.open(tmp_path / "chart.PNG") as image:
            assert image.mode == "RGBA"
            assert image.getchannel("A").getpixel((0, 0)) == 0, "the background is transparent"
        assert ET.parse(tmp_path / "chart.svg").getroot().tag == f"{SVG}svg"

    @pytest.mark.parametrize("log", [False, True])
    @pytest.mark.parametrize("value", [1e-300, 1e-9, 7.0, 1e15 + 1, 1e30])
    def test_single_points_and_extreme_values_are_drawn(self, value: float, log: bool) -> None:
        panel = Panel([Series("a", [(value, value)], [value])], Axis(log=log), Axis(log=log))
        assert len(marks(Chart("t", [panel]).svg(), "panel-0-series-0")) == 1

    def test_many_series_are_listed_beside_the_panel(self) -> None:
        names = [f"a method with a long name, number {number}" for number in range(12)]
        drawn = Chart("t", [Panel([Series(name, [(1, 2), (3, 4)]) for name in names])]).svg()
        shown = "".join(texts(drawn)).replace(" ", "")
        assert all(name.replace(" ", "") in shown for name in names)

    def test_accuracy_curve_of_a_file(self) -> None:
        points = [
            Accuracy(
                size=size, mean=50.0 + size, std=1.0, networks=2, network="convnet", protocol="quick", seed=0, data=""
            )
            for size in (10, 1)
        ]
        (panel,) = accuracy_curve("curve", points).panels
        (series,) = panel.series
        assert (series.name, series.points, series.spreads) == ("convnet; quick", [(1, 51.0), (10, 60.0)], [1.0, 1.0])
        assert panel.x.ticks == [1, 10]


class TestNames:
    @pytest.mark.parametrize(
        "name",
        [
            "<b>&amp;\"'",
            "$x_1$ and $",
            "_hidden",
            r"\alpha^2 \n",
            "%s {0}",
            "mdc:pixel-lr=0.03",
            "漢字 ± λ",
            "]]>",
            "--",
        ],
    )
    def test_names_are_shown_literally(self, name: str) -> None:
        panel = Panel([Series(name, [(1, 2)])], Axis(f"x {name}"), Axis(f"y {name}"), f"panel {name}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # missing glyphs, for one, are not our users' business
            shown = texts(Chart(f"title {name}", [panel]).svg())
        assert {name, f"x {name}", f"y {name}", f"panel {name}", f"title {name}"} <= set(shown)

    def test_control_characters_are_replaced(self) -> None:
        shown = texts(Chart("\x1b[31m", [Panel([Series("a\x00b\ud800c\nd", [(1, 2)])])]).svg())
        assert {"?[31m", "a?b?c?d"} <= set(shown)

    def test_very_long_names_are_cut(self) -> None:
        drawn = Chart("t" * 10_000, [Panel([Series("n" * 10_000, [(1, 2)])])]).svg()
        assert max(map(len, re.findall(rb"[tn]+", drawn))) <= 200

    def test_empty_names_are_possible(self) -> None:
        assert len(marks(Chart("", [Panel([Series("", [(1, 2)])])]).svg(), "panel-0-series-0")) == 1


class TestRefusals:
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e31])
    def test_values_without_a_place_are_refused(self, value: float) -> None:
        for series in (Series("m", [(1, value)]), Series("m", [(value, 1)]), Series("m", [(1, 1)], [value])):
            with pytest.raises(ValueError, match=f"^'m' contains {re.escape(str(value))}: values must be from"):
                Chart("t", [Panel([series])])

    @pytest.mark.parametrize("point", [(0, 1), (1, 0), (-1, 1)])
    def test_logarithmic_axis_refuses_values_that_are_not_positive(self, point: tuple[float, float]) -> None:
        with pytest.raises(ValueError, match="values on a logarithmic axis must be above 0"):
            Chart("t", [Panel([Series("m", [point])], Axis(log=True), Axis(log=True))])

    def test_negative_spread_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'m' has a spread of -1: it must be at least 0"):
            Chart("t", [Panel([Series("m", [(1, 1)], [-1])])])

    def test_number_of_spreads_must_fit(self) -> None:
        with pytest.raises(ValueError, match="'m' has 1 points, but 2 spreads"):
            Chart("t", [Panel([Series("m", [(1, 1)], [1, 2])])])

    @pytest.mark.parametrize("panels", [[], [Panel([])], [Panel([Series("m", [])])]])
    def test_charts_without_points_are_refused(self, panels: list[Panel]) -> None:
        with pytest.raises(ValueError, match=r"(needs a|has no points)"):
            Chart("t", panels)

    def test_without_matplotlib_the_error_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        chart = Chart("t", [LINEAR])
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtraError, match=r"needs matplotlib.*\[charts\]"):
            chart.svg()


class TestStyles:
    """Everybody can tell series apart, on every background."""

    # Linear red, green and blue as people see them who lack one kind of cones (Machado, Oliveira and Fernandes, 2009).
    SIGHTS = (
        ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    )

    @staticmethod
    def light(colour: str) -> list[float]:
        """Linear red, green and blue."""
        shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        return [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]

    @staticmethod
    def lab(light: list[float]) -> list[float]:
        """CIE L*a*b* of linear red, green and blue."""
        r, g, b = (min(1.0, max(0.0, value)) for value in light)
        x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
        y = 0.2126 * r + 0.7152 * g + 0.0722 * b
        z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
        fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
        return [116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)]

    @pytest.mark.parametrize("colour", [*COLOURS, INK])
    @pytest.mark.parametrize("background", ["#ffffff", "#0d1117"])
    def test_contrast_is_at_least_3_to_1(self, colour: str, background: str) -> None:
        """As accessibility guidelines ask of graphics."""

        def luminance(of: str) -> float:
            r, g, b = self.light(of)
            return 0.2126 * r + 0.7152 * g + 0.0722 * b

        dark, bright = sorted((luminance(colour), luminance(background)))
        assert (bright + 0.05) / (dark + 0.05) >= 3

    @pytest.mark.parametrize("sight", SIGHTS, ids=["all", "no red", "no green", "no blue"])
    def test_colours_differ_for_every_kind_of_sight(self, sight: tuple[tuple[float, ...], ...]) -> None:
        def seen(colour: str) -> list[float]:
            light = self.light(colour)
            return self.lab([sum(a * b for a, b in zip(row, light, strict=True)) for row in sight])

        assert min(math.dist(seen(first), seen(second)) for first, second in combinations(COLOURS, 2)) > 20

    def test_styles_differ_by_line_and_by_marker(self) -> None:
        assert len(STYLES) == len(COLOURS) * len(LINES)
        assert len({(style.colour, style.line) for style in STYLES}) == len(STYLES)
        assert len({(style.colour, style.marker) for style in STYLES}) == len(STYLES)
