"""Sets that others published: read as they are published, and refused with one sentence where they are not."""

from __future__ import annotations

import hashlib
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib.npyio import NpzFile
from torch import Tensor

import mipset
from commands import Here, done, run
from mipset import read
from mipset.cli import files
from mipset.condensing.synthetic import formation
from mipset.data import spec_of
from mipset.errors import ArtifactError, MipsetError, SettingError
from mipset.exchange import published as imports
from mipset.exchange.published import Imported, as_artifact, open_published, prefixes_of_tiles
from mipset.nn.pixels import to_uint8

DATA = Path(__file__).parent / "data"
some = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Toy:
    """A dataset of which only this is known."""

    name: str = "toy"
    class_names: tuple[str, ...] = ("a", "b", "c")
    shape: tuple[int, int, int] = (3, 8, 8)
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    std: tuple[float, ...] = (0.2023, 0.1994, 0.2010)
    sha256: str = "00" * 32


TOY = Toy()


def drawn(ipc: int = 4, about: Toy = TOY, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images in [0, 1] and labels, class by class."""
    classes = len(about.class_names)
    images = torch.rand(classes * ipc, *about.shape, generator=torch.Generator().manual_seed(seed))
    return images, torch.arange(classes).repeat_interleave(ipc)


def normalised(images: Tensor, about: Toy = TOY) -> Tensor:
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (about.mean, about.std))
    return (images - mean) / std


def saved(path: Path, content: Any, **how: Any) -> Path:
    torch.save(content, path, **how)
    return path


def imported(path: Path, kind: str = "mdc", about: Toy = TOY, **more: Any) -> Imported:
    return as_artifact(open_published(path), kind, about, **more)


def released_decoding(stored: Tensor, factor: int) -> Tensor:
    """Images [N, ch, h, w] of a class as the release decodes them: tile position by tile position."""
    by_image = formation(factor).decode(stored).reshape(len(stored), factor**2, *stored.shape[1:])
    return by_image.transpose(0, 1).flatten(0, 1)


def decoded_class(found: Imported, c: int, n: int) -> Tensor:
    """What our S_[n] decodes to in one class."""
    artifact = found.artifact.prefix(n)
    return formation(artifact.factor).decode(torch.from_numpy(artifact.images[:, c].copy()).float() / 255)


class TestMdc:
    @pytest.mark.parametrize(("factor", "size"), [(2, 32), (3, 24), (2, 28)])
    def test_sizes_are_those_of_the_release(self, tmp_path: Path, factor: int, size: int) -> None:
        """The first n ranks decode to the first n * f² images that the authors' own decoder gave, in their order."""
        file: Any = np.load(DATA / "decode.npz", allow_pickle=False)
        assert isinstance(file, NpzFile)
        stored = torch.tensor(file[f"pixels_f{factor}_s{size}"])  # three images
        by_image = torch.tensor(file[f"decoded_f{factor}_s{size}"]).reshape(3, factor**2, *stored.shape[1:])
        about = Toy(class_names=("a", "b"), shape=(3, size, size))
        turned = [2, 0, 1]  # another class of the same images
        content = [torch.cat([stored, stored[turned]]), torch.tensor([0, 0, 0, 1, 1, 1])]
        found = imported(saved(tmp_path / "data_2000.pt", content), about=about, factor=factor)
        assert found.artifact.images.shape == (3, 2, *stored.shape[1:])
        assert found.cut_off == 0
        for c, order in enumerate(([0, 1, 2], turned)):
            theirs = by_image[order].transpose(0, 1).flatten(0, 1)  # position by position
            for n in (1, 2, 3):
                ours = decoded_class(found, c, n)
                assert len(ours) == n * factor**2
                assert float((ours - theirs[: len(ours)]).abs().max()) <= 0.5 / 255 + 1e-6

    def test_the_first_size_is_made_of_first_tiles(self, tmp_path: Path) -> None:
        """As docs/fidelity.md puts it: the top left quarters of the first four stored images."""
        images, labels = drawn(ipc=4)
        found = imported(saved(tmp_path / "x.pt", [images, labels]), factor=2).artifact.images
        expected = to_uint8(images).numpy()
        for position, place in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
            y, x = place
            np.testing.assert_array_equal(found[0, 1, :, y : y + 4, x : x + 4], expected[4 + position, :, :4, :4])

    @given(factor=st.integers(1, 4), ipc=st.integers(1, 7), classes=st.integers(1, 3), tile=st.integers(1, 3))
    def test_nothing_is_lost_and_every_prefix_is_theirs(self, factor: int, ipc: int, classes: int, tile: int) -> None:
        side = factor * tile
        images = torch.randint(0, 256, (classes, ipc, 1, side, side), dtype=torch.uint8)
        found = prefixes_of_tiles(images, factor)
        for c in range(classes):
            assert sorted(found[c].flatten().tolist()) == sorted(images[c].flatten().tolist())
            theirs = released_decoding(images[c].float(), factor)
            for n in range(1, ipc + 1):
                ours = formation(factor).decode(found[c, :n].float())
                torch.testing.assert_close(ours, theirs[: n * factor**2], rtol=0, atol=0)

    def test_whole_images_can_be_kept(self, tmp_path: Path) -> None:
        images, labels = drawn()
        found = imported(saved(tmp_path / "x.pt", [images, labels]), factor=2, order="images").artifact
        expected = to_uint8(images).reshape(3, 4, *TOY.shape).transpose(0, 1)
        np.testing.assert_array_equal(found.images, expected.numpy())
        assert found.factor == 2
        assert found.provenance["order"] == "images"

    def test_tiles_of_several_sizes_stay_where_they_are(self, tmp_path: Path) -> None:
        about = replace(TOY, shape=(3, 10, 10))
        path = saved(tmp_path / "x.pt", [*drawn(about=about)])
        with pytest.raises(SettingError, match=r"\(3 does not divide 10 x 10\): add --order images\.$"):
            imported(path, about=about, factor=3)
        assert imported(path, about=about, factor=3, order="images").artifact.factor == 3
        one = saved(tmp_path / "one.pt", [*drawn(1, about)])
        assert imported(one, about=about, factor=3).artifact.ipc == 1  # its tiles are in order whatever that is

    def test_without_tiles_classes_are_interleaved(self, tmp_path: Path) -> None:
        images, labels = drawn()
        found = imported(saved(tmp_path / "x.pt", [images, labels]), factor=1).artifact
        assert found.factor == 1
        for rank in range(4):
            for c in range(3):
                np.testing.assert_array_equal(found.images[rank, c], to_uint8(images[4 * c + rank]).numpy())

    def test_what_strayed_is_cut_off(self, tmp_path: Path) -> None:
        """The release cuts values off before its last steps, not after."""
        images, labels = drawn()
        images[0, 0, 0, :2] = torch.tensor([-0.25, 1.25])
        found = imported(saved(tmp_path / "x.pt", [images, labels]), factor=1)
        assert found.artifact.images[0, 0, 0, 0, :2].tolist() == [0, 255]
        assert found.cut_off == pytest.approx(2 / images.numel())

    def test_where_it_comes_from(self, tmp_path: Path) -> None:
        path = saved(tmp_path / "x.pt", [*drawn()])
        origin = {"size": None, "split_seed": 0}
        about = replace(TOY, name="npz:/home/me/pets.npz")
        found = imported(path, about=about, factor=2, origin=origin).artifact
        assert found.provenance == {
            "mipset": mipset.__version__,
            "dataset": "npz:pets.npz",
            "sha256": TOY.sha256,
            "size": None,
            "split_seed": 0,
            "imported": "mdc",
            "imported_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "order": "tiles",
        }
        assert (found.mean, found.std, found.class_names) == (TOY.mean, TOY.std, TOY.class_names)
        found.write(tmp_path / "ours")
        np.testing.assert_array_equal(read(tmp_path / "ours").images, found.images)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_other_floats(self, tmp_path: Path, dtype: torch.dtype) -> None:
        images, labels = drawn()
        path = saved(tmp_path / "x.pt", (images.to(dtype), labels.to(torch.uint8)))
        expected = to_uint8(images.to(dtype).float())
        assert imported(path, factor=1).artifact.images[0, 0].tolist() == expected[0].tolist()


class TestDc:
    def experiments(self, count: int = 5) -> list[list[Tensor]]:
        pairs = [drawn(2, seed=seed) for seed in range(count)]
        return [[normalised(images), labels] for images, labels in pairs]

    def published(self, path: Path, **how: Any) -> Path:
        """A file like those of DC: accuracies are numbers of numpy, of which torch opens none by itself."""
        accuracies = {"ConvNet": [np.float64(0.449), np.float64(0.451)]}
        return saved(path, {"data": self.experiments(), "accs_all_exps": accuracies}, **how)

    @pytest.mark.parametrize("experiment", [None, 0, 3])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_an_experiment_is_taken_back_to_pixels(self, tmp_path: Path, experiment: int | None, zipped: bool) -> None:
        path = self.published(tmp_path / "res.pt", _use_new_zipfile_serialization=zipped)
        found = as_artifact(open_published(path, experiment=experiment), "dc", TOY)
        expected = to_uint8(drawn(2, seed=experiment or 0)[0]).reshape(3, 2, *TOY.shape).transpose(0, 1)
        np.testing.assert_allclose(found.artifact.images.astype(int), expected.numpy(), atol=1)  # twice rounded
        assert (found.artifact.images == expected.numpy()).mean() > 0.99
        assert found.artifact.factor == 1
        assert found.artifact.provenance["experiment"] == (experiment or 0)
        assert "order" not in found.artifact.provenance
        assert found.cut_off < 0.001

    def test_an_older_numpy_wrote_its_numbers_under_another_name(self, tmp_path: Path) -> None:
        path = self.published(tmp_path / "res.pt", _use_new_zipfile_serialization=False)
        older = path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
        assert older != path.read_bytes()
        path.write_bytes(older)
        assert len(open_published(path).images) == 6

    def test_values_that_no_picture_can_hold_are_cut_off(self, tmp_path: Path) -> None:
        images = torch.tensor([-10.0, 0.0, 10.0]).repeat(64).reshape(3, 1, 8, 8).expand(3, 3, 8, 8).clone()
        found = imported(saved(tmp_path / "x.pt", [images, torch.arange(3)]), "dc")
        levels = np.unique(found.artifact.images).tolist()
        assert levels == [0, *sorted(round(255 * mean) for mean in TOY.mean), 255]
        assert found.cut_off == pytest.approx(2 / 3)

    def test_there_is_no_such_experiment(self, tmp_path: Path) -> None:
        path = self.published(tmp_path / "res.pt")
        for number in (5, -1):
            with pytest.raises(SettingError, match=rf"--experiment cannot be {number}: .* holds 5, from 0 on\.$"):
                open_published(path, experiment=number)
        single = saved(tmp_path / "single.pt", self.experiments()[0])
        with pytest.raises(SettingError, match="does not hold several experiments"):
            open_published(single, experiment=0)
        none = saved(tmp_path / "none.pt", {"data": []})
        with pytest.raises(ArtifactError, match=r"holds no experiment, and so no images: choose another file\.$"):
            open_published(none)

    @pytest.mark.parametrize("names", [("images", "labels"), ("images_train", "labels_train")])
    def test_two_tensors_by_name(self, tmp_path: Path, names: tuple[str, str]) -> None:
        pair = self.experiments()[0]
        found = open_published(saved(tmp_path / "x.pt", dict(zip(names, pair, strict=True))))
        torch.testing.assert_close(found.images, pair[0])

    def test_tiles_are_not_for_it(self, tmp_path: Path) -> None:
        path = saved(tmp_path / "x.pt", self.experiments()[0])
        with pytest.raises(SettingError, match="--factor cannot be 2 for --kind dc"):
            imported(path, "dc", factor=2)
        for order in imports.ORDERS:
            with pytest.raises(SettingError, match=f"--order cannot be {order} for --kind dc, whose images have"):
                imported(path, "dc", order=order)
        assert imported(path, "dc", factor=1).artifact.factor == 1


class TestMtt:
    def test_labels_are_beside_the_images(self, tmp_path: Path) -> None:
        images, labels = drawn(2)
        path = saved(tmp_path / "images_best.pt", normalised(images).requires_grad_())
        with pytest.raises(SettingError, match="holds images alone: add --labels"):
            open_published(path)
        saved(tmp_path / "labels_best.pt", labels)
        found = imported(path, "dc").artifact
        assert found.images.shape == (2, 3, *TOY.shape)
        assert "experiment" not in found.provenance

    def test_labels_are_where_one_says(self, tmp_path: Path) -> None:
        images, labels = drawn(2)
        path = saved(tmp_path / "x.pt", normalised(images))
        with pytest.raises(SettingError, match="add --labels"):
            open_published(path)
        elsewhere = saved(tmp_path / "y.pt", labels)
        assert open_published(path, labels=elsewhere).labels.tolist() == labels.tolist()
        both = saved(tmp_path / "both.pt", [images, labels])
        with pytest.raises(SettingError, match="holds more than images: leave out --labels"):
            open_published(both, labels=elsewhere)
        with pytest.raises(ArtifactError, match="there is no file"):
            open_published(path, labels=tmp_path / "none")


class Harm:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class Rebuilt:
    """In a pickle: what a function gives for these arguments, and perhaps a state for it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], *state: Any) -> None:
        self.reduced = (function, arguments, *state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def refused(path: Path, kind: str = "mdc", about: Toy = TOY, **more: Any) -> str:
    """What is said about a file that cannot be imported: one sentence that names it."""
    with pytest.raises(MipsetError) as caught:
        imported(path, kind, about, **({"factor": 1} | more if kind == "mdc" else more))
    said = str(caught.value)
    assert str(path) in said
    assert "\n" not in said
    assert said.endswith(".")
    return said


class TestBadFiles:
    @pytest.mark.parametrize("where", ["alone", "beside", "plain pickle", "labels"])
    def test_nothing_is_executed(self, tmp_path: Path, where: str) -> None:
        harm, path = tmp_path / "harm", tmp_path / "images.pt"
        images, labels = drawn()
        if where == "plain pickle":
            path.write_bytes(pickle.dumps(Harm(harm)))
        elif where == "labels":
            saved(path, images)
            saved(tmp_path / "labels.pt", Harm(harm))
        else:
            saved(path, Harm(harm) if where == "alone" else {"data": [[images, labels]], "more": Harm(harm)})
        with pytest.raises(ArtifactError, match=r"it is not opened, as it could run code\.$"):
            open_published(path)
        assert not harm.exists()

    def test_the_stand_ins_make_nothing_else_safe(self, tmp_path: Path) -> None:
        """Arrays of numpy are more than its numbers: they stay closed, and so does torch for others."""
        before = set(torch.serialization.get_safe_globals())
        path = saved(tmp_path / "x.pt", {"data": np.zeros(3)})
        with pytest.raises(ArtifactError, match="it is not opened"):
            open_published(path)
        assert set(torch.serialization.get_safe_globals()) == before

    @some
    @given(st.binary(max_size=200), st.integers(0, 2000))
    def test_damaged_files(self, tmp_path: Path, noise: bytes, place: int) -> None:
        path = saved(tmp_path / "x.pt", [*drawn(1)])
        whole = path.read_bytes()
        for content in (noise, whole[:place], whole[:place] + noise + whole[place + len(noise) :]):
            path.write_bytes(content)
            with suppress(MipsetError):  # and nothing else: what is damaged may still be readable
                imported(path, factor=1)

    def test_that_are_not_there(self, tmp_path: Path) -> None:
        assert "there is no file" in refused(tmp_path / "none")
        assert "cannot be read: Is a directory" in refused(tmp_path)

    @pytest.mark.parametrize(
        "content",
        [3, "text", [], {}, [1, 2], {"data": [7]}, {"images": 1, "labels": 2}, [torch.zeros(1)], {"data": 1}],
        ids=str,
    )
    def test_that_hold_something_else(self, tmp_path: Path, content: Any) -> None:
        assert "in a way that MDC, DC or MTT publish them" in refused(saved(tmp_path / "x.pt", content))

    def changed(self, path: Path, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Path:
        return saved(path, list(change(*drawn())))

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda x, y: (x, y + 1), "has the label 3, but those of toy are 0 to 2"),
            (lambda x, y: (x, y - 1), "has the label -1, but those of toy are 0 to 2"),
            (lambda x, y: (x, y.clamp(max=1)), "has no image of class 2 of toy (c)"),
            (lambda x, y: (x[1:], y[1:]), "has 3 images of class 0 and 4 of class 1"),
            (lambda x, y: (x, y.flip(0)), "does not hold its images class by class"),
            (lambda x, y: (x, y.reshape(3, 4).T.flatten()), "does not hold its images class by class"),
            (lambda x, y: (x, y.to(torch.uint8).flip(0)), "does not hold its images class by class"),
            (lambda x, y: (x, y.float()), "has labels of type torch.float32: they must be whole numbers"),
            (lambda x, y: (x, y > 0), "has labels of type torch.bool"),
            (lambda x, y: (x, y[:5]), "has labels [5] for 12 images"),
            (lambda x, y: (x, torch.eye(3)[y].long()), "has labels [12, 3] for 12 images"),
            (lambda x, y: (x, y.to_sparse()), "holds its labels in a special tensor (sparse, "),
            (lambda x, y: (x.index_fill(0, y[:1], float("nan")), y), "holds values that are not finite"),
            (lambda x, y: (x.index_fill(0, y[:1], float("inf")), y), "holds values that are not finite"),
            (lambda x, y: (to_uint8(x), y), "holds images of type torch.uint8: they must be floats"),
            (lambda x, y: (x.to_sparse(), y), "holds its images in a special tensor (sparse, "),
            (lambda x, y: (x[:, :1], y), "holds images [12, 1, 8, 8], but those of toy are 3 x 8 x 8"),
            (lambda x, y: (x[0], y), "holds images [3, 8, 8], but those of toy are 3 x 8 x 8"),
            (lambda x, y: (x[:0], y[:0]), "holds images [0, 3, 8, 8], but"),
            (lambda x, y: (x - 0.6, y), "but --kind mdc is for values in [0, 1]: --kind dc is for normalised ones"),
            (lambda x, y: (x * 255, y), "but --kind mdc is for values in [0, 1]"),
            (
                lambda x, y: (x[:1, :1, :1, :1].expand(12, 3, 8, 8).to("meta"), y),
                "or without values): save them",
            ),
        ],
    )
    def test_that_contradict_themselves(
        self, tmp_path: Path, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], reason: str
    ) -> None:
        assert reason in refused(self.changed(tmp_path / "x.pt", change))

    @pytest.mark.parametrize("kind", ["quantised", "nested", "bits"])
    @pytest.mark.parametrize("place", [0, 1])
    @pytest.mark.filterwarnings("ignore::UserWarning")  # torch does not like to make these either
    def test_of_tensors_with_which_torch_cannot_count(self, tmp_path: Path, kind: str, place: int) -> None:
        content = [*drawn()]
        if kind == "quantised":
            content[place] = torch.quantize_per_tensor(content[place].float(), 1.0, 0, torch.quint8)
        elif kind == "nested":
            content[place] = torch.nested.nested_tensor([*content[place].float().reshape(12, -1)])
        else:
            content[place] = to_uint8(content[place].float()).view(torch.bits8)
        said = refused(saved(tmp_path / "x.pt", content))
        if kind == "nested":
            assert f"holds its {('images', 'labels')[place]} in a special tensor" in said
        else:
            assert ("has labels of type" if place else "holds images of type") in said

    def test_that_give_dictionaries_and_tensors_other_methods(self, tmp_path: Path) -> None:
        """What is between the images and us may have any attributes, since torch sets those that a file names."""
        dictionary = Rebuilt(OrderedDict, (), {"get": 3})
        assert "in a way that MDC, DC or MTT publish them" in refused(saved(tmp_path / "x.pt", dictionary))
        images, labels = drawn()
        function, arguments = images.__reduce_ex__(2)  # type: ignore[no-untyped-call]
        tensor = Rebuilt(torch._tensor._rebuild_from_type_v2, (function, Tensor, arguments, {"detach": 3}))
        found = imported(saved(tmp_path / "y.pt", [tensor, labels]), factor=1)
        np.testing.assert_array_equal(found.artifact.images[0, 0], to_uint8(images[0]).numpy())

    @pytest.mark.parametrize("record", ["data.pkl", "data/0", "byteorder"])
    def test_that_unpack_to_more_than_they_are(self, tmp_path: Path, record: str) -> None:
        path = saved(tmp_path / "x.pt", [*drawn()])
        with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed:
            for entry in whole.infolist():
                filler = bytes(10_000_000) if entry.filename.endswith(record) else b""
                packed.writestr(entry.filename, whole.read(entry) + filler)
        with pytest.raises(ArtifactError, match="is not opened") as caught:
            open_published(tmp_path / "bomb.pt")
        assert str(caught.value.__cause__) == "its records are compressed"

    def test_that_claim_more_than_they_hold(self, tmp_path: Path) -> None:
        """A tensor can repeat one number without end."""
        about = replace(TOY, class_names=("a",), shape=(3, 10**5, 10**5))
        content = [torch.zeros(1).expand(10**6, *about.shape), torch.zeros(1).long().expand(10**6)]
        path = saved(tmp_path / "x.pt", content)
        assert path.stat().st_size < 10_000
        assert "is smaller than the images that it says it holds" in refused(path, about=about)

    def test_of_the_other_kind(self, tmp_path: Path) -> None:
        images, labels = drawn()
        assert "--kind dc is for normalised ones" in refused(saved(tmp_path / "a.pt", [normalised(images), labels]))
        assert "--kind mdc is for those in [0, 1]" in refused(saved(tmp_path / "b.pt", [images, labels]), "dc")

    def test_settings_that_cannot_be(self, tmp_path: Path) -> None:
        path = saved(tmp_path / "x.pt", [*drawn()])
        assert "does not say how many tiles its images have: add --factor" in refused(path, factor=None)
        for arguments, reason in (
            ({"factor": 0}, "--factor cannot be 0: it must be at least 1"),
            ({"factor": 3}, "3 does not divide 8 x 8"),
            ({"factor": 1, "order": "rows"}, "there is no order of 'rows': choose tiles or images"),
            ({"factor": 9, "order": "images"}, "--factor 9 does not cut images of 8 x 8 pixels: choose a smaller one"),
            ({"factor": 5}, "--factor 5 does not cut images of 8 x 8 pixels: choose a smaller one"),
        ):
            with pytest.raises(MipsetError, match=reason):
                imported(path, **arguments)
        with pytest.raises(SettingError, match="there is no kind 'kip' of files to import: choose mdc or dc"):
            imported(path, "kip")


class TestCommand:
    """The real command at toy size: what was published as condensed from Fashion-MNIST."""

    def clothes(self, path: Path) -> Path:
        about = spec_of("fashion-mini")
        assert about is not None
        images = torch.rand(20, *about.shape, generator=torch.Generator().manual_seed(0))
        return saved(path, [images, torch.arange(10).repeat_interleave(2)])

    def test_from_a_release_to_an_accuracy(self, tmp_path: Path) -> None:
        self.clothes(tmp_path / "data_2000.pt")
        command = ("import", "data_2000.pt", "--kind", "mdc", "--factor", 2, "--dataset", "fashion-mini", "--out", "a")
        first, second = done(run(*command, cwd=tmp_path)).splitlines()
        assert first.startswith("a: 2 images for each of 10 classes, 1")
        assert first.endswith("kB; 0 % of their values were outside of what a byte can hold, and were cut off")
        assert second == "next: mipset evaluate a"
        found = read(tmp_path / "a")
        assert found.factor == 2
        assert found.provenance["dataset"] == "fashion-mini"
        brief = ("--networks", 1, "--epochs", 1, "--threads", 1, "--workers", 1, "--width", 4, "--sizes", 1, "--save")
        done(run("evaluate", "a", *brief, cwd=tmp_path))
        assert [point.size for point in read(tmp_path / "a").accuracy] == [1]

    def test_refusals(self, tmp_path: Path, refusal: Here) -> None:
        path = self.clothes(tmp_path / "x.pt")
        (tmp_path / "taken").touch()
        new = ("--out", tmp_path / "new")
        mdc = ("--kind", "mdc", "--factor", 2)
        for arguments, reason in (
            ((path, *mdc, "--dataset", "fashion-mini", "--out", tmp_path / "taken"), "exists already"),
            ((path, *mdc, "--dataset", "fashion-mini", "--out", path, "--force"), "would overwrite the file itself"),
            ((path, *mdc, "--dataset", "cifar10", *new), "but those of cifar10 are 3 x 32 x 32"),
            ((path, *mdc, "--dataset", "cifar11", *new), "There is no dataset called 'cifar11'"),
            ((path, *mdc, "--dataset", "fashion-mini", "--resolution", 32, *new), "A size of 32 was asked for"),
            ((path, "--kind", "mdc", "--dataset", "fashion-mini", *new), "add --factor"),
            ((path, "--kind", "dc", "--dataset", "fashion-mini", *new), "--kind mdc is for those in [0, 1]"),
            ((path, "--kind", "kip", "--dataset", "fashion-mini", *new), "invalid choice: 'kip'"),
            ((path, *mdc, *new), "required: --dataset"),
        ):
            assert reason in refusal("import", *arguments)
        assert {entry.name for entry in tmp_path.iterdir()} == {"x.pt", "taken"}

    @pytest.mark.parametrize("given", [True, False])
    def test_labels_are_not_overwritten_either(self, tmp_path: Path, refusal: Here, given: bool) -> None:
        """Whether they were named or found beside the images."""
        images, labels = torch.load(self.clothes(tmp_path / "both.pt"), weights_only=True)
        path = saved(tmp_path / "images_best.pt", images - 0.5)
        beside = saved(tmp_path / ("y.pt" if given else "labels_best.pt"), labels)
        named = ("--labels", beside) if given else ()
        command = ("import", path, "--kind", "dc", "--dataset", "fashion-mini", *named, "--out", beside, "--force")
        assert "would overwrite the file itself" in refusal(*command)

    def test_your_own_dataset(self, tmp_path: Path, here: Here) -> None:
        """Any that can be loaded: its mean and std are what the images were normalised with."""
        rng = np.random.default_rng(0)
        arrays = {
            "images": rng.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8),
            "labels": np.repeat(np.arange(3), 10),
            "mean": np.array(TOY.mean),
            "std": np.array(TOY.std),
        }
        np.savez(tmp_path / "pets.npz", **arrays)  # type: ignore[arg-type]
        images, labels = drawn(2)
        path = saved(tmp_path / "x.pt", {"data": [[normalised(images), labels]] * 2})
        out = tmp_path / "out"
        command = ["import", path, "--kind", "dc", "--experiment", 1, "--dataset", f"npz:{tmp_path / 'pets.npz'}"]
        here(*command, "--out", out)
        found = read(out)
        assert found.mean == TOY.mean
        assert found.provenance["dataset"] == "npz:pets.npz"
        assert found.provenance["experiment"] == 1

    def test_knows_the_kinds(self) -> None:
        assert files.IMPORTS == imports.KINDS
        assert files.ORDERS == imports.ORDERS


def test_facts_are_those_of_the_datasets() -> None:
    known, loaded = spec_of("fashion-mini"), mipset.load("fashion-mini")
    assert known is not None
    for name in ("name", "class_names", "shape", "mean", "std", "sha256"):
        assert getattr(known, name) == getattr(loaded, name)
    cifar = spec_of("cifar10")
    assert cifar is not None
    assert cifar.mean == (0.4914, 0.4822, 0.4465)
    assert spec_of("npz:pets.npz") is None
