"""The report in a real browser: it opens from disk, needs no network, and shows exactly what the files hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import Browser, started, why_there_is_none
from mipset.display.report.content import Cost, Report, ShownSet
from mipset.display.report.files import report_of, shown_file
from mipset.display.report.page import html
from mipset.display.report.sheets import sheet
from mipset.experiments.folder_report import folder_report
from mipset.file.artifact import read
from mipset.file.decoding import decode
from report_sets import HOSTILE, made_up_set, write_comparison, write_file

SIZES = (
    "return [...document.querySelectorAll('#grid .row')].map(r => r.querySelectorAll('canvas:not([hidden])').length)"
)
FACT = "return document.querySelector(`[data-fact=${arguments[0]}] dd`).textContent"
PIXELS = """
const canvas = document.querySelectorAll('#grid .row')[arguments[0]].querySelectorAll('canvas')[arguments[1]];
return [canvas.width, canvas.height, [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]];
"""
CONTRASTS = """
const light = (text) => {
  const channels = text.match(/[0-9.]+/g).slice(0, 3).map((value) => value / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2];
};
const paper = light(getComputedStyle(document.body).backgroundColor);
return ['h1', '.soft', '.note', 'a', 'dt', 'summary', 'svg text'].map((selector) => {
  const element = document.querySelector(`header ${selector}, main ${selector}`);
  if (!element) return [selector, 21];
  const style = getComputedStyle(element);
  const ink = light(selector === 'svg text' ? style.fill : style.color);
  return [selector, (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)];
});
"""


def block(page: bytes) -> Any:
    """The JSON in a page, as a program reads it."""
    found = re.search(r'<script id="report" type="application/json">(.*?)</script>', page.decode(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages: one.html of a file with an initialisation, two.html of a comparison, all.html of both."""
    folder = tmp_path_factory.mktemp("report")
    one = shown_file(write_file(folder), "set")
    start = np.random.default_rng(5).integers(0, 256, one.artifact.images.shape, dtype=np.uint8)
    (folder / "one.html").write_bytes(html(report_of(replace(one, start=start, command="mipset condense 'a b'"))))
    (folder / "two.html").write_bytes(html(folder_report(write_comparison(folder / "cmp"))))
    (folder / "all.html").write_bytes(html(report_of(one).joined(folder_report(folder / "cmp"))))
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this module."""
    if why_there_is_none():
        pytest.skip(why_there_is_none())
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def one(browser: Browser, folder: Path) -> Browser:
    browser.look(1200)
    browser.open((folder / "one.html").as_uri() + "#")
    browser.log("browser")
    return browser


@pytest.fixture
def two(browser: Browser, folder: Path) -> Browser:
    browser.look(1200)
    browser.open((folder / "two.html").as_uri() + "#")
    return browser


class TestInABrowser:
    def test_page_opens_from_disk_without_request_or_error(self, browser: Browser, folder: Path) -> None:
        browser.look(1200)
        for page in ("one.html", "two.html"):
            browser.requests()
            browser.open((folder / page).as_uri())
            requests = [url for url in browser.requests() if not url.startswith(("data:", "chrome"))]
            assert requests == [(folder / page).as_uri()]
            assert browser.log("browser") == []
            assert browser.run("return window.hacked") is None
        assert browser.run("return document.querySelector('img[src=x]')") is None

    def test_slider_and_keys_change_images_bytes_and_accuracy(self, one: Browser, folder: Path) -> None:
        about = read(folder / "set.safetensors")
        assert one.run(SIZES) == [4, 4, 4]
        assert one.run(FACT, "accuracy").startswith("60.0 ± 1.0 % (mean ± standard deviation over 3 networks; ")
        seen = []
        for keys, n in (("home", 1), ("right", 2), ("right", 3), ("left", 2)):
            one.press("#size", keys)
            assert one.run(SIZES) == [n] * 3
            seen.append((one.run(FACT, "bytes"), one.run(FACT, "accuracy")))
            assert f"({len(about.prefix(n).to_bytes()):,} bytes)" in seen[-1][0]
            assert f"S_[{n}] of set: {n} image" in one.run("return document.querySelector('#size-text').textContent")
        assert len(set(seen)) == 3
        assert seen[1] == seen[3]
        assert seen[0][1].startswith("40.0 ± 2.0 %")
        assert seen[2][1].startswith("55.0 ± ")
        assert "interpolated between measured sizes" in seen[2][1]

    def test_arrow_keys_work_without_the_focus(self, one: Browser) -> None:
        one.run("document.activeElement.blur()")
        one.press("body", "home", "right")
        assert one.run(SIZES) == [2, 2, 2]
        assert one.run("return location.hash").count("n=2") == 1

    def test_budget_of_a_device_chooses_the_size(self, one: Browser, folder: Path) -> None:
        plan = len(read(folder / "set.safetensors").prefix(2).to_bytes())
        one.press("#budget", str(plan / 1000))
        assert one.run(SIZES) == [2, 2, 2]
        said = one.run("return document.querySelector('#budget-text').textContent")
        assert "gets 2 images per class" in said
        assert "accuracy 50.0 ± 1.5 %" in said
        one.run("document.querySelector('#budget').value = ''")
        one.press("#budget", "1")
        assert "Not even one image per class fits" in one.run(
            "return document.querySelector('#budget-text').textContent"
        )

    def test_stored_decoded_and_first_images_are_those_of_the_file(self, one: Browser, folder: Path) -> None:
        images = read(folder / "set.safetensors").images
        start = np.random.default_rng(5).integers(0, 256, images.shape, dtype=np.uint8)
        for view, expected in (("stored", images[2, 1]), ("start", start[2, 1])):
            one.run("document.querySelector(`input[value=${arguments[0]}]`).click()", view)
            width, height, values = one.run(PIXELS, 1, 2)
            shown = np.array(values, np.uint8).reshape(height, width, 4)[..., :3]
            np.testing.assert_array_equal(shown, expected.transpose(1, 2, 0))
        one.run("document.querySelector('input[value=decoded]').click()")
        width, height, values = one.run(PIXELS, 1, 2)
        shown = np.array(values, np.uint8).reshape(height, width, 4)[..., :3]
        tiles = np.rint(255 * decode(images[2, 1][None], 2)).transpose(0, 2, 3, 1)
        assert (height, width) == (25, 25)
        for number, (row, column) in enumerate(((0, 0), (0, 13), (13, 0), (13, 13))):
            cut = shown[row : row + 12, column : column + 12].astype(float)
            np.testing.assert_allclose(cut, tiles[number], atol=1)
        assert one.run("return getComputedStyle(document.querySelector('canvas')).imageRendering") == "pixelated"

    def test_class_names_are_texts(self, one: Browser) -> None:
        names = one.run("return [...document.querySelectorAll('#grid .row > span')].map(e => e.textContent)")
        assert tuple(names) == HOSTILE
        assert "cats/a <b>.png" in one.run("return document.querySelector('main').textContent")

    def test_run_is_drawn_with_a_heat_map_of_the_classes(self, one: Browser) -> None:
        assert one.run("return document.querySelectorAll('svg[data-heat]').length") == 2
        one.wait_for("return document.querySelectorAll('svg[data-heat] rect').length > 4")
        drawn = one.run("return [...document.querySelectorAll('path[data-series]')].map(e => e.dataset.series)")
        assert {"loss", "size 1", "size 4", "on the clock", "of the processor", "memory"} <= {*drawn}

    def test_methods_are_side_by_side_with_spreads_and_the_gap(self, two: Browser) -> None:
        names = "return [...document.querySelectorAll('#side .row > span')].map(e => e.textContent)"
        assert two.run(names) == ["mdc", "every-prefix"]
        assert "below baseline-a" in two.run("return document.querySelector('#gap-text').textContent")
        assert two.run("return document.querySelectorAll('path[data-band]').length") == 1
        assert two.run("return document.querySelectorAll('svg .bar').length") > 8
        text = two.run("return document.querySelector('main').textContent")
        assert "baseline-a has a file for each size, so its images are not shown." in text
        assert "Of mdc, the images of seed 0 are shown." in text
        assert "Mean accuracy over all sizes against time" in text
        assert "Most learnable subset and frozen prefix" in text

    def test_every_control_and_image_has_a_name(self, one: Browser) -> None:
        unnamed = """
        const controls = [...document.querySelectorAll('input, select')].filter((e) => !e.labels.length);
        const images = [...document.querySelectorAll('main canvas')].filter((e) => !e.getAttribute('aria-label'));
        const drawn = [...document.querySelectorAll('main svg[role=img]')];
        const charts = drawn.filter((e) => !e.querySelector('title').textContent);
        return [controls.length, images.length, charts.length, document.documentElement.lang, drawn.length > 4];
        """
        assert one.run(unnamed) == [0, 0, 0, "en", True]

    @pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
    def test_page_fits_every_width_and_is_readable(self, one: Browser, folder: Path, dark: bool) -> None:
        one.open((folder / "all.html").as_uri())
        for width in (400, 1200, 2000):
            one.look(width, dark)
            one.wait_for(f"return innerWidth === {width}")
            assert one.run("return document.documentElement.scrollWidth") == width
            assert len(one.screenshot()) > 10_000
        contrasts = dict(one.run(CONTRASTS))
        assert min(contrasts.values()) >= 4.5, contrasts

    def test_print_shows_no_controls(self, one: Browser) -> None:
        one.command("Emulation.setEmulatedMedia", media="print")
        try:
            names = ["nav", ".controls", ".size input"]
            hidden = "return [...arguments].map(e => getComputedStyle(document.querySelector(e)).display)"
            assert one.run(hidden, *names) == ["none"] * 3
            assert one.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        finally:
            one.command("Emulation.setEmulatedMedia", media="")


class TestContent:
    def test_all_values_are_in_one_block_of_json(self, folder: Path) -> None:
        artifact = read(folder / "set.safetensors")
        content = block((folder / "one.html").read_bytes())
        (shown,) = content["sets"]
        assert shown["class_names"] == list(HOSTILE)
        assert shown["recipe"] == dict(artifact.recipe)
        assert shown["rank_sha256"] == artifact.rank_sha256
        assert shown["log"]["selected"] == [[1, 1, 2], [2, 1, 2], [3, 1, 2]]
        assert [size["file_bytes"] for size in shown["sizes"]] == [
            len(artifact.prefix(n).to_bytes()) for n in range(1, 5)
        ]
        assert shown["audit"]["neighbours"][0]["file"] == "cats/a <b>.png"

    def test_page_of_cifar10_is_small(self) -> None:
        """Noise, which cannot be compressed, with its initialisation."""
        pixels = np.random.default_rng(0).integers(0, 256, (10, 10, 3, 32, 32), dtype=np.uint8)
        artifact = made_up_set(images=pixels, class_names=tuple("abcdefghij"), accuracy=())
        written = html(Report("noise", [ShownSet("noise", artifact, start=pixels[::-1])]))
        assert len(written) < 3_000_000
        page = written.decode()
        assert page.count("data:image/png") == 2
        assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in page

    def test_papers_curves_are_there_for_its_dataset(self) -> None:
        pixels = np.zeros((10, 3, 3, 12, 12), np.uint8)
        content = block(html(Report("x", [ShownSet("x", made_up_set(images=pixels))])))
        reported = {curve["name"]: curve for curve in content["curves"] if curve["paper"]}
        assert [point["mean"] for point in reported["mdc"]["points"]][:2] == [49.66, 54.58]
        assert set(reported) == {"baseline-a", "baseline-b", "baseline-c", "mdc"}

    def test_images_that_cannot_be_shown_are_told(self) -> None:
        four = made_up_set(images=np.zeros((2, 3, 4, 6, 6), np.uint8), mean=(0.0,) * 4, std=(1.0,) * 4, accuracy=())
        assert "Images of 4 channels cannot be shown" in str(block(html(Report("x", [ShownSet("x", four)])))["sets"])
        large = made_up_set(images=np.zeros((2, 3, 3, 1200, 1200), np.uint8), accuracy=())
        assert b"The first 1 of 2 images per class are shown" in html(Report("x", [ShownSet("x", large)]))

    def test_values_that_json_or_utf_8_cannot_hold_do_not_break_the_page(self) -> None:
        costs = [Cost("\ud800", seconds=float("nan"), memory=3)]
        content = block(html(Report("\udcff", [ShownSet("x", made_up_set())], costs=costs)))
        assert (content["costs"][0]["name"], content["costs"][0]["seconds"]) == ("\ud800", None)

    def test_sheet_holds_every_image(self) -> None:
        import base64
        import io

        from PIL import Image

        pixels = np.random.default_rng(1).integers(0, 256, (2, 3, 1, 4, 5), dtype=np.uint8)
        with Image.open(io.BytesIO(base64.b64decode(sheet(pixels).partition(",")[2]))) as picture:
            shown = np.asarray(picture)
        assert shown.shape == (3 * 4, 2 * 5)
        np.testing.assert_array_equal(shown[4:8, 5:10], pixels[1, 1, 0])

    def test_log_of_another_run_is_not_shown(self, tmp_path: Path) -> None:
        path = write_file(tmp_path)
        other = made_up_set("every-prefix")
        other.write(path)
        shown = shown_file(path, "set")
        assert shown.log is None
        assert shown.audit is not None  # the images are the same
        replace(other, images=255 - other.images).write(path)
        assert shown_file(path, "set").audit is None
