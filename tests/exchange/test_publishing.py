"""A published folder: read with Hugging Face datasets, as a gallery, and by people."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import mipset
from export_sets import HOSTILE, paths_below, pixels_of, small_set
from gallery_sets import publication
from mipset.errors import ArtifactError
from mipset.exchange import publishing
from mipset.exchange.card import card, without_front_matter
from mipset.exchange.publishing import publish
from mipset.file.audit_file import AuditFile, Neighbour
from mipset.file.decoding import decoded
from noise_sets import noise_set, point


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The set of noise as a folder."""
    folder = tmp_path_factory.mktemp("published") / "noise"
    publish(publication(time="24min of processor time", command="mipset condense noise"), folder)
    return folder


def front_matter(text: str) -> dict[str, Any]:
    """The fields at the top of a card, as Hugging Face reads them."""
    hub = pytest.importorskip("huggingface_hub", reason="Hugging Face's library is not installed")
    fields: dict[str, Any] = hub.DatasetCard(text).data.to_dict()
    return fields


def test_hugging_face_opens_every_size_as_a_configuration(published: Path, hugging_face: Any, tmp_path: Path) -> None:
    assert hugging_face.get_dataset_config_names(str(published)) == list("123456")
    whole = decoded(noise_set()).images
    for size in (1, 3):
        rows = hugging_face.load_dataset(str(published), name=str(size), cache_dir=str(tmp_path))["train"]
        assert rows.features["label"].names == ["a", "b", "c", "d"]
        expected = whole[: 4 * size].reshape(-1, *whole.shape[2:])
        assert rows["label"][:] == [0, 1, 2, 3] * 4 * size
        for row, image in zip(rows, expected, strict=True):
            np.testing.assert_array_equal(pixels_of(row["image"]), image)
    rows = hugging_face.load_dataset(str(published), split="train", cache_dir=str(tmp_path))
    assert len(rows) == 6 * 4 * 4


def test_folder_is_a_gallery_of_the_file_itself(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIPSET_GALLERY", str(published))
    assert (published / "noise.safetensors").read_bytes() == noise_set().to_bytes()
    assert mipset.read("gallery:noise").to_bytes() == noise_set().to_bytes()
    (entry,) = mipset.gallery()
    assert (entry.dataset, entry.ipc, entry.licence) == ("noise", 6, "cc0-1.0")
    assert entry.bytes == (published / "noise.safetensors").stat().st_size
    with Image.open(published / "accuracy.png") as picture:
        assert picture.format == "PNG"


def test_card_has_the_fields_of_hugging_face(published: Path) -> None:
    fields = front_matter((published / "README.md").read_text("utf-8"))
    assert fields["license"] == "cc0-1.0"
    assert fields["task_categories"] == ["image-classification"]
    assert fields["size_categories"] == ["n<1K"]
    assert "mipset" in fields["tags"]
    assert "viewer" not in fields
    assert [config["config_name"] for config in fields["configs"]] == list("123456")
    assert [config["config_name"] for config in fields["configs"] if config.get("default")] == ["6"]


def test_card_tells_how_it_was_made_and_how_good_it_is(published: Path) -> None:
    text = without_front_matter((published / "README.md").read_text("utf-8"))
    assert text.startswith("# noise, condensed to 6 images per class\n")
    assert "![Accuracy by images per class](accuracy.png)" in text
    assert (
        "- accuracy 1: `convnet-3, width 4; protocol quick, 16 epochs, at least 100 steps; seed 0; 3 networks" in text
    )
    assert "| 2 | " in text
    assert " | 50.0 ± 2.0 |\n| 3 | " in text
    assert "- time: 24min of processor time\n" in text
    assert "- command: `mipset condense noise`\n" in text
    assert "The images were not compared with the real ones." in text
    assert text.endswith("## Licence of the source data\n\nnoise: Noise is free.\n")


def test_card_tells_what_mipset_is_and_cites_the_paper(published: Path) -> None:
    text = (published / "README.md").read_text("utf-8")
    assert (
        "mipset is a Python library that makes such sets and reads them. What follows needs it to be installed" in text
    )
    assert "pip install" not in text, "mipset is on no index"
    citation = (Path(__file__).parents[2] / "CITATION.cff").read_text("utf-8").partition("preferred-citation:")[2]
    given, family = (re.findall(rf"{kind}-names: (.*)", citation) for kind in ("given", "family"))
    title, year = re.findall(r"  title: \"(.*)\"", citation)[0], re.findall(r"year: (\d+)", citation)[0]
    names = ", ".join(map(" ".join, zip(given, family, strict=True)))
    assert f"{names}: {title}, ICLR {year} (arXiv:2403.06075)." in text
    assert "arXiv:2403.06075" in citation


def test_card_lists_the_nearest_real_images() -> None:
    neighbours = [Neighbour(rank, 1, 2, 70 + rank, 0, 3.25 * rank, 0.2 * rank) for rank in range(1, 7)]
    audit = AuditFile("", "", 12.5, ["real|a"], neighbours)
    text = card(publication(audit=audit), {}, "")
    assert (
        "2 of 6 training images are nearer to a real training image than half of the real ones are to each other"
        in text
    )
    assert "| b | 1, tile 2 | 3.2 | 71 (real\\|a) |\n" in text
    assert "| b | 6," not in text


def test_card_of_a_set_without_tiles_names_none() -> None:
    audit = AuditFile("", "", 12.5, ["real"], [Neighbour(2, 1, 1, 70, 0, 3.25, 0.2)])
    assert "| b | 2 | 3.2 | 70 (real) |\n" in card(publication(noise_set(factor=1), audit=audit), {}, "")


def test_card_begins_with_the_longest_training() -> None:
    longest = [point(size, 70.0 + size, 1.0, "paper, 1000 epochs") for size in (1, 2)]
    text = card(publication(noise_set(accuracy=(*noise_set().accuracy, *longest))), {}, "")
    assert "- accuracy 1: `convnet-3, width 4; protocol paper, 1000 epochs; " in text
    assert " | 71.0 ± 1.0 | 40.0 ± 1.0 |\n| 2 | " in text
    converged = "Networks of the protocol `quick` are far from converged"
    assert converged in text
    assert converged not in card(publication(noise_set(accuracy=longest)), {}, "")


@pytest.mark.parametrize(
    ("recipe", "modules"),
    [
        ({"objective": "mine:Far"}, "`mine`"),
        ({"objective": "2*mine:Far/3+10*confidence", "policy": "my.lab:Own"}, "`mine` and `my.lab`"),
        ({"policy": "mipset.condensing.policies:EveryPrefix", "prefix_weights": "fleet:1:2"}, ""),
    ],
)
def test_card_names_modules_that_are_not_of_mipset(recipe: dict[str, str], modules: str) -> None:
    text = card(publication(noise_set(recipe=recipe)), {}, "")
    assert ("own classes" in text) == bool(modules)
    assert f"- own classes: of {modules}, from the publisher and no part of mipset; " in text or not modules


def test_card_of_a_large_set_lists_what_was_measured() -> None:
    def sizes(ipc: int) -> list[int]:
        rows = card(publication(noise_set((ipc, 2, 1, 2, 2), 1)), {}, "").partition("| n | file |")[2].splitlines()[2:]
        return [int(row.split("|")[1]) for row in rows[: rows.index("")]]

    assert sizes(20) == list(range(1, 21))
    assert sizes(21) == [1, 2, 4, 21]


def test_card_of_a_file_without_accuracies_and_parquet(tmp_path: Path) -> None:
    publish(publication(noise_set(accuracy=())), tmp_path / "new", with_parquet=False)
    assert paths_below(tmp_path / "new") == {"README.md", "index.json", "noise.safetensors"}
    text = (tmp_path / "new" / "README.md").read_text("utf-8")
    assert "Its accuracy was not measured." in text
    assert "configs" not in front_matter(text)
    assert front_matter(text)["viewer"] is False, "index.json is not the data"
    assert "load_dataset" not in text


def test_no_name_breaks_a_card(hugging_face: Any, tmp_path: Path) -> None:
    names = tuple(HOSTILE)
    artifact = small_set(1, names, factor=1)
    odd = noise_set(images=artifact.images, mean=(0.5,), std=(0.5,), class_names=names, factor=1, accuracy=())
    publish(publication(noise_set(**{**vars(odd), "provenance": {"dataset": "--- \n# <b>x</b>|`"}})), tmp_path / "odd")
    text = (tmp_path / "odd" / "README.md").read_text("utf-8")
    assert front_matter(text)["pretty_name"] == "--- ?# <b>x</b>|`, condensed to 3 images per class"
    assert "\n# --- ?# &lt;b&gt;x&lt;/b&gt;\\|\\`, condensed" in text
    assert "<b>" not in without_front_matter(text)
    rows = hugging_face.load_dataset(str(tmp_path / "odd"), name="2", split="train", cache_dir=str(tmp_path / "cache"))
    assert len(rows) == 2 * len(names)


class TestFolder:
    def test_published_folder_is_replaced_with_force_only(self, tmp_path: Path) -> None:
        plain = publication(noise_set(accuracy=()))
        publish(plain, tmp_path / "new")
        with pytest.raises(ArtifactError, match=r"exists already\. Choose another `to`, or set `force`"):
            publish(plain, tmp_path / "new")
        publish(plain, tmp_path / "new", with_parquet=False, force=True)
        assert paths_below(tmp_path / "new") == {"README.md", "index.json", "noise.safetensors"}

    @pytest.mark.parametrize("other", [".git/config", "notes.txt", "data/mine.parquet", "accuracy.png/x"])
    def test_folder_with_other_files_is_never_replaced(self, tmp_path: Path, other: str) -> None:
        plain = publication(noise_set(accuracy=()))
        publish(plain, tmp_path / "new", with_parquet=False)
        (tmp_path / "new" / other).parent.mkdir(exist_ok=True)
        (tmp_path / "new" / other).write_text("precious", "utf-8")
        with pytest.raises(ArtifactError, match=r"holds more than a published set\. Choose another `to`"):
            publish(plain, tmp_path / "new", force=True)
        assert (tmp_path / "new" / other).read_text("utf-8") == "precious"

    def test_folder_of_something_else_and_a_file_are_never_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "index.json").write_text(json.dumps({"precious": 1}), "utf-8")
        with pytest.raises(ArtifactError, match="holds more than a published set"):
            publish(publication(), tmp_path / "x", force=True)
        with pytest.raises(ArtifactError, match=r"is a file. Name a folder as `to`"):
            publish(publication(), tmp_path / "x" / "index.json", force=True)

    def test_failure_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(publishing, "accuracy_curve", fail)
        with pytest.raises(ArtifactError, match=r"cannot be written: No space left on device\. Choose another `to`"):
            publish(publication(), tmp_path / "new")
        assert paths_below(tmp_path) == set()

    def test_name_that_nobody_can_type_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ArtifactError, match=r"^'No Name' is no name of a set: .* Choose another `name`\.$"):
            publishing.check_target("No Name", tmp_path / "new", force=False)
