"""What objects look like where a user looks at them: in a Python prompt, and in a notebook that a real kernel runs."""

from __future__ import annotations

import importlib.util
import io
import os
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import mipset
from commands import GOLDEN, SOURCE
from mipset import Artifact, Dataset, Recipe, device, markup
from mipset.file.curves import Curve
from mipset.settings.catalogue import RECIPES

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook.ipynb"
VOID = {"img"}


class Page(HTMLParser):
    """The tags and the text of a piece of HTML; every tag must be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.pictures: list[bytes] = []
        self._opened: list[str] = []
        self.feed(html)
        self.close()
        assert self._opened == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in VOID:
            source = dict(attrs)["src"] or ""
            assert source.startswith("data:image/png;base64,")  # nothing is loaded from elsewhere
            self.pictures.append(b64decode(source.partition(",")[2]))
        else:
            self._opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._opened.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def pixels(png: bytes) -> Any:
    with Image.open(io.BytesIO(png)) as picture:
        picture.load()
        return np.asarray(picture)


def shown(value: Any) -> Page:
    return Page(value._repr_html_())


@pytest.fixture
def golden() -> Artifact:
    return mipset.read(GOLDEN)


class TestText:
    def test_every_object_has_one_to_three_lines(self, golden: Artifact, toy: Dataset) -> None:
        source = device.open(GOLDEN)
        evaluation = mipset.Evaluation(replace(golden, images=golden.images), _data_of(golden))
        texts = {
            repr(golden): "<Artifact: 3 images per class, 2 classes, 1 x 4 x 5 pixels, 4 training images in each, ",
            repr(toy): "<Dataset toy: 3 classes, 60 training and 30 test images of 3 x 12 x 12 pixels>",
            repr(toy.train): "<Split: 60 images of 3 x 12 x 12 pixels>",
            repr(source): f"<Source {GOLDEN}: 3 images per class, 2 classes",
            repr(source.about): "<Description: 3 images per class, 2 classes",
            repr(source[:2]): f"<Subset of {GOLDEN}: 2 images per class, 16 to train on>",
            repr(evaluation): "<Evaluation with <Dataset pets: 2 classes",
            repr(Curve(golden.accuracy)): "<Curve: 41.5 ± 1.2 % at size 1, 62.0 ± 1.2 % at size 3>",
            repr(mipset.recipe("demo")): "Recipe(policy='every-prefix', period=1, prefix_weights='inverse', factor=1, ",
        }
        for text, beginning in texts.items():
            assert text.startswith(beginning)
            assert len(text.splitlines()) <= 3
            assert len(text) < 400

    def test_a_set_shows_the_curve_of_the_longest_training(self, golden: Artifact) -> None:
        longest = replace(golden.accuracy[0], mean=70.0, protocol="paper, 1000 epochs")
        text = repr(golden.with_accuracy([longest])).splitlines()[1]
        way = "(convnet-3, width 4; protocol paper, 1000 epochs)"
        assert text == f"accuracy 70.0 ± 1.2 % at size 1 {way}; 1 more curve in `accuracy`>"
        assert repr(golden).endswith("62.0 ± 1.2 % at size 3 (convnet-3, width 4; protocol quick)>")

    @pytest.mark.parametrize("name", RECIPES)
    def test_a_recipe_shows_python_that_gives_it_again(self, name: str) -> None:
        assert eval(repr(RECIPES[name].recipe), {"Recipe": Recipe}) == RECIPES[name].recipe

    def test_many_sizes_are_cut_short(self, golden: Artifact) -> None:
        curve = Curve(replace(golden.accuracy[0], size=n) for n in range(1, 51))
        assert repr(curve).count("at size") == 10
        assert repr(curve).endswith("at size 9, ..., 41.5 ± 1.2 % at size 50>")
        assert len([word for word in shown(curve).words if word == "41.5 ± 1.2"]) == 50


class TestSlices:
    """Law 1: a subset is a slice."""

    def test_a_slice_from_the_beginning_is_a_prefix(self, golden: Artifact) -> None:
        for part in (golden[:2], golden[0:2], golden[: np.int64(2) : 1]):
            assert part.to_bytes() == golden.prefix(2).to_bytes()
        assert golden[:].to_bytes() == golden.to_bytes()
        assert device.open(GOLDEN)[:2].artifact().to_bytes() == golden[:2].to_bytes()

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            (0, "[0] is no subset"),
            (slice(1, 2), "[1:2:] is no subset"),
            (slice(None, None, 2), "[::2] is no subset"),
            (slice(None, 4), "There is no subset of size 4. Choose a size from 1 to 3."),
            (slice(None, 0), "There is no subset of size 0. "),
            (slice(None, -1), "There is no subset of size -1. "),
            (slice(None, "all"), "There is no subset of size 'all'. "),
        ],
        ids=str,
    )
    def test_other_slices_are_refused(self, golden: Artifact, key: Any, message: str) -> None:
        for each in (golden, device.open(GOLDEN)):
            with pytest.raises(mipset.MipsetError) as refused:
                each[key]
            assert str(refused.value).startswith(message)


class TestHtml:
    def test_a_set_is_a_grid_of_its_images(self, golden: Artifact) -> None:
        page = shown(golden)
        assert len(page.pictures) == 6
        by_class = np.swapaxes(golden.images, 0, 1).reshape(6, 4, 5)
        for png, image in zip(page.pictures, by_class, strict=True):
            np.testing.assert_array_equal(pixels(png), image)
        assert [*golden.class_names, "41.5 ± 1.2", "62.0 ± 1.2"] == [
            word for word in page.words if word in golden.class_names or "±" in word
        ]

    def test_colours_are_those_of_the_image(self, toy: Dataset) -> None:
        page = shown(toy)
        assert len(page.pictures) == 3 * 10
        np.testing.assert_array_equal(pixels(page.pictures[10]), np.moveaxis(toy.train.images[1], 0, -1))

    def test_source_and_subset_show_the_images_that_are_in_memory(self) -> None:
        source = device.open(GOLDEN)
        assert shown(source).pictures == []
        subset = source.prefix([2, 1])
        assert len(shown(source).pictures) == 4
        assert len(shown(subset).pictures) == 3

    def test_large_sets_are_cut_and_say_so(self) -> None:
        images = np.zeros((12, 15, 3, 300, 200), np.uint8)
        large = Artifact(images, 1, (0.5,) * 3, (0.5,) * 3, tuple(map(str, range(15))))
        page = shown(large)
        assert len(page.pictures) == 100
        assert pixels(page.pictures[0]).shape == (60, 40, 3)
        assert page.words[-1] == "The first 10 of 15 classes, and the first 10 of 12 images of each."
        assert len(large._repr_html_()) < 1_000_000

    def test_images_that_cannot_be_drawn_are_named(self) -> None:
        two = Artifact(np.zeros((1, 1, 2, 4, 4), np.uint8), 1, (0.5,) * 2, (0.5,) * 2, ("a",))
        assert "2 channels" in shown(two).words

    def test_recipe_and_evaluation_are_tables(self, golden: Artifact) -> None:
        assert {"pixel_lr", "0.05", "λ, learning rate of the pixels"} <= {
            word.partition(".")[0] if "λ" in word else word for word in shown(mipset.recipe("demo")).words
        }
        words = shown(mipset.Evaluation(golden, _data_of(golden))).words
        assert {"protocol", "41.5 ± 1.2"} <= set(words)

    @given(st.text(min_size=1, max_size=80))
    def test_names_are_escaped(self, name: str) -> None:
        """A name from a file makes no tag, and no control character reaches the page."""
        set_ = Artifact(np.zeros((1, 1, 1, 2, 2), np.uint8), 1, (0.5,), (0.5,), (name,), provenance={"dataset": name})
        page = shown(set_)
        assert set(page.tags) == {"p", "table", "thead", "tbody", "tr", "th", "td", "img"}
        assert "script" not in shown(replace(set_, class_names=("<script>alert(1)</script>",))).tags

    @given(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.randoms(use_true_random=False))
    def test_png_holds_the_pixels(self, height: int, width: int, channels: int, random: Any) -> None:
        content = bytes(random.randrange(256) for _ in range(height * width * channels))
        assert pixels(markup.png(content, height, width, channels)).tobytes() == content


def _data_of(artifact: Artifact) -> Dataset:
    """A dataset that the set may come from."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (8, *artifact.images.shape[2:]), dtype=np.uint8)
    labels = [artifact.class_names[i % 2] for i in range(8)]
    data = mipset.from_arrays(images, labels, images, labels, name="pets")
    return data.with_class_order(artifact.class_names)


def outputs(cell: Any, kind: str) -> list[str]:
    return ["".join(out["data"][kind]) for out in cell.outputs if kind in out.get("data", {})]


def test_notebook_runs_in_a_real_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Word for word, at toy size: text, pictures, tables, and a bar that is a widget."""
    for package in ("ipykernel", "ipywidgets", "nbclient"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # toy networks are faster with one thread
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    toy = '"demo", policy="every-prefix", outer=2, inner=2, width=4, real_batch=8, expert_steps=2, experts=1'
    written = '"demo", policy="every-prefix"'
    assert sum(written in cell.source for cell in notebook.cells) == 1
    for cell in notebook.cells:
        short = cell.source.replace('protocol("quick")', 'protocol("quick", epochs=1, least_steps=1)')
        cell.source = short.replace(written, toy)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    first.source = f"from mipset.display import progress\nprogress.SILENT_SECONDS = 0\n{first.source}"
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()

    data, recipe, run, part, evaluation, curve, text, source = [c for c in notebook.cells if c.cell_type == "code"]
    assert len(Page(outputs(data, "text/html")[0]).pictures) == 100
    assert outputs(recipe, "text/plain")[0].startswith("Recipe(policy='every-prefix'")
    assert outputs(run, "application/vnd.jupyter.widget-view+json")  # a notebook's bar
    assert len(Page(outputs(run, "text/html")[-1]).pictures) == 100
    assert len(Page(outputs(part, "text/html")[0]).pictures) == 30
    assert "protocol" in Page(outputs(evaluation, "text/html")[0]).words
    assert Page(outputs(curve, "text/html")[0]).words[:5] == ["accuracy in % at size", "1", "3", "10", "mean"]
    assert re.match("<Artifact: 10 images per class", text.outputs[0]["text"])
    assert len(Page(outputs(source, "text/html")[0]).pictures) == 20
    assert mipset.read(tmp_path / "clothes.safetensors").accuracy
