"""Charts: every point is where its scale says, whatever its value, and whatever its name."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mipset.display.charts import (
    COLOURS,
    INK,
    MARKS,
    STYLES,
    Axis,
    Panel,
    Point,
    Scale,
    Series,
    Style,
    chart,
    log_ticks,
    number_text,
    round_ticks,
)

SVG = "{http://www.w3.org/2000/svg}"
LARGEST_MARK = 5.5

values = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=5e-324, allow_nan=False, allow_infinity=False)
spread = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


def moved(element: ET.Element) -> Point:
    """Where an element is moved to."""
    found = re.match(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def frames(picture: ET.Element) -> list[ET.Element]:
    """The groups that are panels."""
    return [group for group in picture.findall(f"{SVG}g") if group.find(f"{SVG}rect") is not None]


def series(frame: ET.Element) -> dict[str, ET.Element]:
    """What is drawn in a panel, by name, in the order of the legend."""
    found = {group.findtext(f"{SVG}title", ""): group for group in frame.findall(f"{SVG}g")}
    return dict(reversed(found.items()))


def marks(group: ET.Element) -> list[Point]:
    """Where in its panel the marks of a series are."""
    return [moved(path) for path in group.findall(f"{SVG}path")]


def lines(group: ET.Element) -> list[list[Point]]:
    """The lines of a series: that through its points, then its bars."""
    found = []
    for line in group.findall(f"{SVG}polyline"):
        pairs = (pair.split(",") for pair in line.get("points", "").split())
        found.append([(float(x), float(y)) for x, y in pairs])
    return found


def texts(element: ET.Element) -> list[str]:
    return [text.text or "" for text in element.iter(f"{SVG}text")]


def places(picture: ET.Element) -> Iterator[Point]:
    """All places of marks, ends of lines and texts, from the corner of the picture."""

    def inside(element: ET.Element, x: float, y: float) -> Iterator[Point]:
        for child in element:
            right, down = moved(child)
            if child.tag == f"{SVG}g":
                yield from inside(child, x + right, y + down)
            if child.tag == f"{SVG}path":
                yield from ((x + right + by, y + down + by) for by in (-LARGEST_MARK, LARGEST_MARK))
            if child.tag == f"{SVG}text":
                yield x + float(child.get("x", "nan")), y + float(child.get("y", "nan"))
        yield from ((x + across, y + down) for line in lines(element) for across, down in line)

    return inside(picture, 0, 0)


def assert_inside(picture: ET.Element, width: float = 420, height: float = 280) -> None:
    """Marks and bars lie in their frames, and everything lies in the picture."""
    across, down = float(picture.get("width", "nan")), float(picture.get("height", "nan"))
    assert all(0 <= x <= across and 0 <= y <= down for x, y in places(picture))
    for frame in frames(picture):
        for group in series(frame).values():
            drawn = [*marks(group), *(end for line in lines(group) for end in line)]
            assert all(0 <= x <= width and 0 <= y <= height for x, y in drawn)


class TestPlaces:
    def test_points_by_hand(self) -> None:
        """A frame of 110 x 110 pixels, 5 of which are room on each side: ten pixels of axis for every tenth."""
        one = Series("one", [(0, 0), (5, 10), (10, 5)])
        two = Series("two", [(10, 0)])
        (frame,) = frames(ET.fromstring(chart("t", [Panel([one, two])], size=(110, 110))))
        found = series(frame)
        assert list(found) == ["one", "two"]
        assert marks(found["one"]) == [(5, 105), (55, 5), (105, 55)]
        assert lines(found["one"]) == [[(5, 105), (55, 5), (105, 55)]]
        assert marks(found["two"]) == [(105, 105)]
        assert lines(found["two"]) == [], "one point has no line"

    def test_bars_by_hand(self) -> None:
        one = Series("one", [(0, 4), (10, 6)], spreads=[0, 4])  # up to 10, down to 2
        (frame,) = frames(ET.fromstring(chart("t", [Panel([one], y=Axis(shows=[0]))], size=(110, 110))))
        _, bar = lines(series(frame)["one"])
        assert bar == [(105, 85), (105, 5)], "a spread of nothing has no bar"

    def test_logarithmic_places_by_hand(self) -> None:
        one = Series("one", [(1, 1), (10, 10), (100, 1000)], spreads=[2, 0, 0])
        panel = Panel([one], Axis(log=True), Axis(log=True))
        (frame,) = frames(ET.fromstring(chart("t", [panel], size=(110, 110))))
        found = series(frame)["one"]
        assert marks(found) == [(5, 105), (55, pytest.approx(105 - 100 / 3, abs=0.05)), (105, 5)]
        assert lines(found)[1][0] == (5, 110), "a bar that has no lower end reaches the edge"

    def test_ticks_are_where_their_values_are(self) -> None:
        one = Series("one", [(0, 0), (10, 10)])
        (frame,) = frames(ET.fromstring(chart("t", [Panel([one], Axis("across", ticks=[0, 10, 99]))], size=(110, 110))))
        found = {(text.text, text.get("text-anchor")): text for text in frame.findall(f"{SVG}text")}
        assert [float(found[label, "middle"].get("x", "nan")) for label in ("0", "10")] == [5, 105]
        assert float(found["10", "end"].get("y", "nan")) == pytest.approx(5 + 4)
        assert ("99", "middle") not in found

    def test_labels_do_not_touch(self) -> None:
        sizes = [1, 2, 3, 100, 101, 200]
        one = Series("one", [(size, 0) for size in sizes])
        (frame,) = frames(ET.fromstring(chart("t", [Panel([one], Axis(ticks=sizes))])))
        labels = [text.text for text in frame.findall(f"{SVG}text") if text.get("text-anchor") == "middle"]
        assert labels == ["1", "100", "200"]

    @given(
        st.lists(st.tuples(values, values, spread), min_size=1, max_size=6),
        st.lists(st.tuples(values, values, spread), max_size=6),
    )
    def test_any_values_lie_inside(
        self, first: list[tuple[float, float, float]], second: list[tuple[float, float, float]]
    ) -> None:
        given = [
            Series(name, [(x, y) for x, y, _ in of], [by for *_, by in of])
            for name, of in (("a", first), ("b", second))
        ]
        picture = ET.fromstring(chart("t", [Panel(given, Axis("x"), Axis("y"), "panel")]))
        (frame,) = frames(picture)
        assert [len(marks(group)) for group in series(frame).values()] == [len(first), len(second)]
        assert_inside(picture)

    @given(st.lists(st.tuples(positive, positive, spread), min_size=1, max_size=6))
    @example([(1.0, 8.7e307, 8.7e307)])
    @example([(1.7e308, 1.7976931348623157e308, 0.0), (1.7e308, 1.797693e308, 0.0)])
    def test_any_positive_values_lie_inside_on_logarithmic_axes(self, points: list[tuple[float, float, float]]) -> None:
        one = Series("a", [(x, y) for x, y, _ in points], [by for *_, by in points])
        assert_inside(ET.fromstring(chart("t", [Panel([one], Axis("x", log=True), Axis("y", log=True))])))

    @pytest.mark.parametrize("log", [False, True])
    @pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-290, 1e-5, 1.0, 1e5, 1.7976931348623157e308])
    @pytest.mark.parametrize("count", [1, 3])
    def test_equal_values_lie_inside(self, value: float, count: int, log: bool) -> None:
        one = Series("a", [(value, value)] * count)
        assert_inside(ET.fromstring(chart("t", [Panel([one], Axis(log=log), Axis(log=log))])))

    def test_neighbours_of_a_large_number(self) -> None:
        one = Series("a", [(1e15, 1e15), (1e15 + 0.125, 1e15 + 0.125)])
        assert_inside(ET.fromstring(chart("t", [Panel([one])])))


class TestTicks:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (0, 10, [0, 2, 4, 6, 8, 10]),
            (0.1, 0.9, [0.2, 0.4, 0.6, 0.8]),
            (-3, 47, [0, 10, 20, 30, 40]),
            (1234, 1236, [1234, 1234.5, 1235, 1235.5, 1236]),
        ],
    )
    def test_round_numbers(self, low: float, high: float, expected: list[float]) -> None:
        assert round_ticks(low, high, 5) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        [
            (1, 100, [1, 2, 5, 10, 20, 50, 100]),
            (1, 1e5, [1, 10, 100, 1e3, 1e4, 1e5]),
            (1, 1e20, [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18]),
            (31, 39, [32, 34, 36, 38]),
        ],
    )
    def test_round_numbers_of_a_logarithmic_axis(self, low: float, high: float, expected: list[float]) -> None:
        assert log_ticks(math.log10(low), math.log10(high), 7) == pytest.approx(expected)

    @given(values, values, st.booleans(), st.integers(2, 12))
    def test_they_are_few_and_inside(self, one: float, other: float, log: bool, most: int) -> None:
        known = [abs(one) or 1.0, abs(other) or 1.0] if log else [one, other]
        scale = Scale.over(known, 0, 100, log)
        ticks = scale.ticks(most)
        assert len(ticks) <= most + 1
        assert ticks == sorted(set(ticks))
        assert all(0 <= scale(tick) <= 100 for tick in ticks)

    @given(st.floats(-1e300, 1e300), st.floats(1e-6, 1e6))
    def test_no_two_have_the_same_label(self, low: float, by: float) -> None:
        ticks = Scale.over([low, low + by], 0, 100).ticks(8)
        assert len(ticks) >= 2
        assert len({number_text(tick) for tick in ticks}) == len(ticks)

    @pytest.mark.parametrize(
        ("value", "text"),
        [(0.0, "0"), (0.1 + 0.2, "0.3"), (20000, "20,000"), (2e9, "2e9"), (-1.5e-7, "-1.5e-7"), (64, "64")],
    )
    def test_labels(self, value: float, text: str) -> None:
        assert number_text(value) == text


class TestWords:
    def test_titles_and_axes_are_told(self) -> None:
        panels = [Panel([Series("m", [(1, 2)])], Axis("sizes"), Axis("accuracy"), f"panel {k}") for k in range(3)]
        picture = ET.fromstring(chart("what it shows", panels))
        assert picture[0].tag == f"{SVG}title"
        assert picture[0].text == "what it shows"
        assert picture.get("role") == "img"
        told = texts(picture)
        assert {"what it shows", "sizes", "accuracy", "panel 0", "panel 1", "panel 2", "m"} <= set(told)
        assert told.count("m") == 1, "the legend names each once, however many panels have it"

    def test_a_mark_tells_its_values(self) -> None:
        one = Series("mdc", [(10, 45.234), (20, 50)], [0.31, 0])
        (frame,) = frames(ET.fromstring(chart("t", [Panel([one])])))
        told = [path.findtext(f"{SVG}title") for path in series(frame)["mdc"].findall(f"{SVG}path")]
        assert told == ["mdc: 10, 45.234 ± 0.31", "mdc: 20, 50"]

    @pytest.mark.parametrize(
        "name",
        ['<script>alert("x")</script>', "a & b", "]]>", '" onload="x', "'", "&amp;", "emoji 🙂 漢字", " ", ""],
    )
    def test_names_mean_themselves(self, name: str) -> None:
        picture = ET.fromstring(chart(name, [Panel([Series(name, [(0, 0)])], Axis(name), Axis(name), name)]))
        (frame,) = frames(picture)
        assert list(series(frame)) == [name]
        assert picture.findtext(f"{SVG}title") == name
        assert {element.tag for element in picture.iter()} <= {
            f"{SVG}{tag}" for tag in ("svg", "title", "g", "rect", "polyline", "path", "text")
        }

    @given(st.text())
    def test_any_name_gives_xml(self, name: str) -> None:
        chart(name, [Panel([Series(name, [(0, 0)])], title=name)]).encode()
        ET.fromstring(chart(name, [Panel([Series(name, [(0, 0)])], title=name)]))

    def test_what_xml_cannot_hold_is_replaced(self) -> None:
        picture = ET.fromstring(chart("a\0b\ud800", [Panel([Series("m", [(0, 0)])])]))
        assert picture.findtext(f"{SVG}title") == "a\ufffdb\ufffd"


class TestLegend:
    def names(self, count: int) -> list[str]:
        return [f"method-{k}" for k in range(count)]

    def picture(self, names: list[str]) -> ET.Element:
        return ET.fromstring(chart("t", [Panel([Series(name, [(0, k), (1, k)]) for k, name in enumerate(names)])]))

    def entries(self, picture: ET.Element) -> dict[str, Point]:
        groups = [group for group in picture.findall(f"{SVG}g") if group.find(f"{SVG}rect") is None]
        return {" ".join(texts(group)): moved(group) for group in groups}

    @pytest.mark.parametrize("count", [1, 3, 14, 20])
    def test_it_covers_no_panel(self, count: int) -> None:
        picture = self.picture(self.names(count))
        (frame,) = frames(picture)
        left, top = moved(frame)
        entries = self.entries(picture)
        assert list(entries) == self.names(count)
        above = all(y + 12 < top for _, y in entries.values())
        beside = all(x > left + 420 for x, _ in entries.values())
        assert (above, beside) == ((True, False) if count <= 3 else (False, True))
        assert len(set(entries.values())) == count
        assert_inside(picture)

    def test_a_long_name_takes_more_lines(self) -> None:
        long = "mdc:pixel-lr=0.03 " * 6
        picture = self.picture([long, "c"])
        (first, (_, y)), (second, (_, below)) = self.entries(picture).items()
        assert (first.replace(" ", ""), second) == (long.replace(" ", ""), "c")
        assert below - y > 3 * 12
        assert float(picture.get("width", "nan")) < 800

    def test_a_tall_one_makes_the_picture_taller(self) -> None:
        picture = self.picture(self.names(40))
        assert_inside(picture)

    def test_a_name_has_one_style(self) -> None:
        panels = [Panel([Series(name, [(0, 0), (1, 1)]) for name in names]) for names in ("ab", "bca")]
        first, second = frames(ET.fromstring(chart("t", panels)))

        def colours(frame: ET.Element) -> dict[str, str | None]:
            return {name: group[1].get("stroke") for name, group in series(frame).items()}

        assert colours(first) == dict(zip("ab", COLOURS, strict=False))
        assert colours(second) == dict(zip("bca", (COLOURS[1], COLOURS[2], COLOURS[0]), strict=True))

    def test_a_style_of_its_own(self) -> None:
        goal = Series("goal", [(0, 1), (1, 1)], style=Style(dashes="5 4"))
        rings = Series("rings", [(0, 1), (1, 1)], style=Style(mark="ring", joined=False))
        (frame,) = frames(ET.fromstring(chart("t", [Panel([goal, rings, Series("c", [(0, 0)])])])))
        found = series(frame)
        (line,) = found["goal"].findall(f"{SVG}polyline")
        assert (line.get("stroke"), line.get("stroke-dasharray"), marks(found["goal"])) == (INK, "5 4", [])
        assert lines(found["rings"]) == []
        assert found["rings"][1].get("d") == MARKS["ring"]
        assert found["c"][1].get("fill") == COLOURS[0], "styles that are given use up no other"


class TestRefusals:
    @pytest.mark.parametrize("point", [(0, 1), (1, 0), (-1, 1), (1, -2.5)])
    def test_a_logarithmic_axis_has_no_place_for_what_is_not_positive(self, point: Point) -> None:
        with pytest.raises(ValueError, match=r"'m' has a point at .*, which is not positive: a logarithmic axis"):
            chart("t", [Panel([Series("m", [(1, 1), point])], Axis(log=True), Axis(log=True))])
        with pytest.raises(ValueError, match=r"the axis 'x' is to show 0, which is not positive"):
            chart("t", [Panel([Series("m", [(1, 1)])], Axis("x", log=True, shows=[0]))])

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_what_is_not_finite_has_no_place(self, value: float) -> None:
        with pytest.raises(ValueError, match=r"'m' has a point at .*, which is not finite"):
            chart("t", [Panel([Series("m", [(1, value)])])])
        with pytest.raises(ValueError, match="'m' has a spread that is negative or not finite"):
            chart("t", [Panel([Series("m", [(1, 1)], [value])])])

    def test_spreads_fit_their_points(self) -> None:
        with pytest.raises(ValueError, match="'m' has 1 points, but 2 spreads"):
            chart("t", [Panel([Series("m", [(1, 1)], [1, 2])])])

    def test_nothing_is_no_chart(self) -> None:
        with pytest.raises(ValueError, match="a chart needs a panel"):
            chart("t", [])
        with pytest.raises(ValueError, match="a panel needs a point"):
            chart("t", [Panel([Series("m", [])])])


class TestStyles:
    """Told apart by everyone, on every background."""

    # what people who lack one kind of cones see (Machado, Oliveira and Fernandes, 2009), of linear red, green and blue
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
    def test_contrast(self, colour: str, background: str) -> None:
        """At least 3 to 1, as accessibility guidelines ask of graphics."""

        def luminance(of: str) -> float:
            r, g, b = self.light(of)
            return 0.2126 * r + 0.7152 * g + 0.0722 * b

        dark, bright = sorted((luminance(colour), luminance(background)))
        assert (bright + 0.05) / (dark + 0.05) >= 3

    @pytest.mark.parametrize("sight", SIGHTS, ids=["all", "no red", "no green", "no blue"])
    def test_no_two_colours_look_alike(self, sight: tuple[tuple[float, ...], ...]) -> None:
        def seen(colour: str) -> list[float]:
            light = self.light(colour)
            return self.lab([sum(a * b for a, b in zip(row, light, strict=True)) for row in sight])

        assert min(math.dist(seen(one), seen(other)) for one, other in combinations(COLOURS, 2)) > 20

    def test_no_two_styles_are_alike(self) -> None:
        assert len(STYLES) >= 16
        assert len({(style.colour, style.dashes) for style in STYLES}) == len(STYLES)
        assert len({(style.colour, style.mark) for style in STYLES}) == len(STYLES)
