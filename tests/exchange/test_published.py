"""Condensed sets that others published: importing them, and refusing broken or hostile files with one line."""

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
from commands import BRIEF, Here, done, run
from mipset import read
from mipset.condensing.synthetic import formation
from mipset.data import spec_of
from mipset.errors import ArtifactError, MipsetError, SettingError
from mipset.exchange.published import ImportedSet, as_artifact, open_published, order_by_tiles
from mipset.nn.pixels import to_uint8
from mipset.settings.exchange_choices import IMPORT_ORDERS

DATA = Path(__file__).parent.parent / "data"
KEEP_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class ToySpec:
    """The facts about a dataset that importing needs."""

    name: str = "toy"
    class_names: tuple[str, ...] = ("a", "b", "c")
    shape: tuple[int, int, int] = (3, 8, 8)
    mean: tuple[float, ...] = (0.4914, 0.4822, 0.4465)
    std: tuple[float, ...] = (0.2023, 0.1994, 0.2010)
    sha256: str = "00" * 32


TOY = ToySpec()


def random_set(ipc: int = 4, dataset: ToySpec = TOY, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images in [0, 1] and labels, class by class."""
    classes = len(dataset.class_names)
    images = torch.rand(classes * ipc, *dataset.shape, generator=torch.Generator().manual_seed(seed))
    return images, torch.arange(classes).repeat_interleave(ipc)


def normalised(images: Tensor, dataset: ToySpec = TOY) -> Tensor:
    mean, std = (torch.tensor(values).reshape(-1, 1, 1) for values in (dataset.mean, dataset.std))
    return (images - mean) / std


def save(path: Path, content: Any, **how: Any) -> Path:
    torch.save(content, path, **how)
    return path


def import_set(path: Path, kind: str = "mdc", dataset: ToySpec = TOY, **more: Any) -> ImportedSet:
    return as_artifact(open_published(path), kind, dataset, **more)


def released_decoding(stored: Tensor, factor: int) -> Tensor:
    """Images [N, ch, h, w] of a class as the release decodes them: tile position by tile position."""
    by_image = formation(factor).decode(stored).reshape(len(stored), factor**2, *stored.shape[1:])
    return by_image.transpose(0, 1).flatten(0, 1)


def decoded_class(converted: ImportedSet, c: int, n: int) -> Tensor:
    """What our S_[n] decodes to in one class."""
    artifact = converted.artifact.prefix(n)
    return formation(artifact.factor).decode(torch.from_numpy(artifact.images[:, c].copy()).float() / 255)


@pytest.mark.parametrize(("factor", "size"), [(2, 32), (3, 24), (2, 28)])
def test_prefixes_of_an_mdc_file_decode_to_the_sizes_of_the_release(tmp_path: Path, factor: int, size: int) -> None:
    """The first n ranks decode to the first n * f² images that the authors' own decoder gave, in their order."""
    file: Any = np.load(DATA / "decode.npz", allow_pickle=False)
    assert isinstance(file, NpzFile)
    stored = torch.tensor(file[f"pixels_f{factor}_s{size}"])  # three images
    by_image = torch.tensor(file[f"decoded_f{factor}_s{size}"]).reshape(3, factor**2, *stored.shape[1:])
    dataset = ToySpec(class_names=("a", "b"), shape=(3, size, size))
    turned = [2, 0, 1]  # another class of the same images
    content = [torch.cat([stored, stored[turned]]), torch.tensor([0, 0, 0, 1, 1, 1])]
    converted = import_set(save(tmp_path / "data_2000.pt", content), dataset=dataset, factor=factor)
    assert converted.artifact.images.shape == (3, 2, *stored.shape[1:])
    assert converted.clipped_share == 0
    for c, order in enumerate(([0, 1, 2], turned)):
        theirs = by_image[order].transpose(0, 1).flatten(0, 1)  # position by position
        for n in (1, 2, 3):
            ours = decoded_class(converted, c, n)
            assert len(ours) == n * factor**2
            assert float((ours - theirs[: len(ours)]).abs().max()) <= 0.5 / 255 + 1e-6


def test_first_image_of_an_mdc_file_has_the_first_tiles_of_four_images(tmp_path: Path) -> None:
    """As docs/fidelity.md puts it: the top left quarters of the first four stored images."""
    images, labels = random_set(ipc=4)
    converted = import_set(save(tmp_path / "x.pt", [images, labels]), factor=2).artifact.images
    expected = to_uint8(images).numpy()
    for position, place in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        y, x = place
        np.testing.assert_array_equal(converted[0, 1, :, y : y + 4, x : x + 4], expected[4 + position, :, :4, :4])


@given(factor=st.integers(1, 4), ipc=st.integers(1, 7), classes=st.integers(1, 3), tile=st.integers(1, 3))
def test_ordering_by_tiles_loses_nothing_and_keeps_every_prefix(factor: int, ipc: int, classes: int, tile: int) -> None:
    side = factor * tile
    images = torch.randint(0, 256, (classes, ipc, 1, side, side), dtype=torch.uint8)
    converted = torch.from_numpy(order_by_tiles(images.numpy(), factor))
    for c in range(classes):
        assert sorted(converted[c].flatten().tolist()) == sorted(images[c].flatten().tolist())
        theirs = released_decoding(images[c].float(), factor)
        for n in range(1, ipc + 1):
            ours = formation(factor).decode(converted[c, :n].float())
            torch.testing.assert_close(ours, theirs[: n * factor**2], rtol=0, atol=0)


def test_order_images_keeps_whole_images_of_an_mdc_file(tmp_path: Path) -> None:
    images, labels = random_set()
    converted = import_set(save(tmp_path / "x.pt", [images, labels]), factor=2, order="images").artifact
    expected = to_uint8(images).reshape(3, 4, *TOY.shape).transpose(0, 1)
    np.testing.assert_array_equal(converted.images, expected.numpy())
    assert converted.factor == 2
    assert converted.provenance["order"] == "images"


def test_tiles_of_different_sizes_need_order_images(tmp_path: Path) -> None:
    dataset = replace(TOY, shape=(3, 10, 10))
    path = save(tmp_path / "x.pt", [*random_set(dataset=dataset)])
    with pytest.raises(SettingError, match=r"\(3 does not divide 10 x 10\)\. Set `order` to images\.$"):
        import_set(path, dataset=dataset, factor=3)
    assert import_set(path, dataset=dataset, factor=3, order="images").artifact.factor == 3
    one = save(tmp_path / "one.pt", [*random_set(1, dataset)])
    assert import_set(one, dataset=dataset, factor=3).artifact.ipc == 1  # with one image per class, no tile has to move


def test_mdc_file_without_tiles_is_stored_rank_by_rank(tmp_path: Path) -> None:
    images, labels = random_set()
    converted = import_set(save(tmp_path / "x.pt", [images, labels]), factor=1).artifact
    assert converted.factor == 1
    for rank in range(4):
        for c in range(3):
            np.testing.assert_array_equal(converted.images[rank, c], to_uint8(images[4 * c + rank]).numpy())


def test_values_of_an_mdc_file_outside_0_to_1_are_clipped(tmp_path: Path) -> None:
    """The release clips values before its last steps, but not after."""
    images, labels = random_set()
    images[0, 0, 0, :2] = torch.tensor([-0.25, 1.25])
    converted = import_set(save(tmp_path / "x.pt", [images, labels]), factor=1)
    assert converted.artifact.images[0, 0, 0, 0, :2].tolist() == [0, 255]
    assert converted.clipped_share == pytest.approx(2 / images.numel())


def test_provenance_of_an_imported_set(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", [*random_set()])
    origin = {"size": None, "split_seed": 0}
    dataset = replace(TOY, name="npz:/home/me/pets.npz")
    converted = import_set(path, dataset=dataset, factor=2, origin=origin).artifact
    assert converted.provenance == {
        "mipset": mipset.__version__,
        "dataset": "npz:pets.npz",
        "sha256": TOY.sha256,
        "size": None,
        "split_seed": 0,
        "imported": "mdc",
        "imported_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "order": "tiles",
    }
    assert (converted.mean, converted.std, converted.class_names) == (TOY.mean, TOY.std, TOY.class_names)
    converted.write(tmp_path / "ours")
    np.testing.assert_array_equal(read(tmp_path / "ours").images, converted.images)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_mdc_file_of_other_float_types_is_imported(tmp_path: Path, dtype: torch.dtype) -> None:
    images, labels = random_set()
    path = save(tmp_path / "x.pt", (images.to(dtype), labels.to(torch.uint8)))
    expected = to_uint8(images.to(dtype).float())
    assert import_set(path, factor=1).artifact.images[0, 0].tolist() == expected[0].tolist()


def dc_experiments(count: int = 5) -> list[list[Tensor]]:
    pairs = [random_set(2, seed=seed) for seed in range(count)]
    return [[normalised(images), labels] for images, labels in pairs]


def write_dc_file(path: Path, **how: Any) -> Path:
    """A file like those of DC: accuracies are numbers of numpy, of which torch opens none by itself."""
    accuracies = {"ConvNet": [np.float64(0.449), np.float64(0.451)]}
    return save(path, {"data": dc_experiments(), "accs_all_exps": accuracies}, **how)


@pytest.mark.parametrize("experiment", [None, 0, 3])
@pytest.mark.parametrize("zipped", [True, False])
def test_experiment_of_a_dc_file_is_denormalised(tmp_path: Path, experiment: int | None, zipped: bool) -> None:
    path = write_dc_file(tmp_path / "res.pt", _use_new_zipfile_serialization=zipped)
    converted = as_artifact(open_published(path, experiment=experiment), "dc", TOY)
    expected = to_uint8(random_set(2, seed=experiment or 0)[0]).reshape(3, 2, *TOY.shape).transpose(0, 1)
    np.testing.assert_allclose(converted.artifact.images.astype(int), expected.numpy(), atol=1)  # twice rounded
    assert (converted.artifact.images == expected.numpy()).mean() > 0.99
    assert converted.artifact.factor == 1
    assert converted.artifact.provenance["experiment"] == (experiment or 0)
    assert "order" not in converted.artifact.provenance
    assert converted.clipped_share < 0.001


def test_dc_file_with_numbers_of_an_older_numpy_is_opened(tmp_path: Path) -> None:
    path = write_dc_file(tmp_path / "res.pt", _use_new_zipfile_serialization=False)
    older = path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
    assert older != path.read_bytes()
    path.write_bytes(older)
    assert len(open_published(path).images) == 6


def test_values_of_a_dc_file_that_no_picture_can_hold_are_clipped(tmp_path: Path) -> None:
    images = torch.tensor([-10.0, 0.0, 10.0]).repeat(64).reshape(3, 1, 8, 8).expand(3, 3, 8, 8).clone()
    converted = import_set(save(tmp_path / "x.pt", [images, torch.arange(3)]), "dc")
    levels = np.unique(converted.artifact.images).tolist()
    assert levels == [0, *sorted(round(255 * mean) for mean in TOY.mean), 255]
    assert converted.clipped_share == pytest.approx(2 / 3)


def test_unknown_experiment_is_refused(tmp_path: Path) -> None:
    path = write_dc_file(tmp_path / "res.pt")
    for number in (5, -1):
        with pytest.raises(SettingError, match=rf"`experiment` is {number}, but .* holds 5\. Choose from 0 to 4\.$"):
            open_published(path, experiment=number)
    single = save(tmp_path / "single.pt", dc_experiments()[0])
    with pytest.raises(SettingError, match="does not hold several experiments"):
        open_published(single, experiment=0)
    none = save(tmp_path / "none.pt", {"data": []})
    with pytest.raises(ArtifactError, match=r"holds no experiment, and so no images\. Choose another file\.$"):
        open_published(none)


@pytest.mark.parametrize("names", [("images", "labels"), ("images_train", "labels_train")])
def test_dictionary_of_images_and_labels_is_opened(tmp_path: Path, names: tuple[str, str]) -> None:
    pair = dc_experiments()[0]
    converted = open_published(save(tmp_path / "x.pt", dict(zip(names, pair, strict=True))))
    np.testing.assert_array_equal(converted.images, pair[0].numpy())


def test_factor_and_order_are_refused_for_a_dc_file(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", dc_experiments()[0])
    with pytest.raises(SettingError, match="`factor` is 2, but images of `kind` dc have no tiles"):
        import_set(path, "dc", factor=2)
    for order in IMPORT_ORDERS:
        with pytest.raises(SettingError, match=f"`order` is {order}, but images of `kind` dc have no tiles"):
            import_set(path, "dc", order=order)
    assert import_set(path, "dc", factor=1).artifact.factor == 1


def test_labels_file_beside_the_images_is_found(tmp_path: Path) -> None:
    images, labels = random_set(2)
    path = save(tmp_path / "images_best.pt", normalised(images).requires_grad_())
    with pytest.raises(SettingError, match=r"holds only images\. Give the file of their labels as `labels`"):
        open_published(path)
    save(tmp_path / "labels_best.pt", labels)
    converted = import_set(path, "dc").artifact
    assert converted.images.shape == (2, 3, *TOY.shape)
    assert "experiment" not in converted.provenance


def test_labels_file_can_be_named(tmp_path: Path) -> None:
    images, labels = random_set(2)
    path = save(tmp_path / "x.pt", normalised(images))
    with pytest.raises(SettingError, match="as `labels`"):
        open_published(path)
    elsewhere = save(tmp_path / "y.pt", labels)
    assert open_published(path, labels=elsewhere).labels.tolist() == labels.tolist()
    both = save(tmp_path / "both.pt", [images, labels])
    with pytest.raises(SettingError, match=r"holds its own labels\. Leave out `labels`"):
        open_published(both, labels=elsewhere)
    with pytest.raises(ArtifactError, match="There is no file"):
        open_published(path, labels=tmp_path / "none")


class Harm:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class Rebuilt:
    """Pickled as a call of a function with these arguments, and optionally a state for the result."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], *state: Any) -> None:
        self.reduced = (function, arguments, *state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def refusal_of(path: Path, kind: str = "mdc", dataset: ToySpec = TOY, **more: Any) -> str:
    """The error for a file that cannot be imported: one line that names the file."""
    with pytest.raises(MipsetError) as caught:
        import_set(path, kind, dataset, **({"factor": 1} | more if kind == "mdc" else more))
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert message.endswith(".")
    return message


@pytest.mark.parametrize("where", ["alone", "beside", "plain pickle", "labels"])
def test_code_in_a_published_file_is_never_executed(tmp_path: Path, where: str) -> None:
    harm, path = tmp_path / "harm", tmp_path / "images.pt"
    images, labels = random_set()
    if where == "plain pickle":
        path.write_bytes(pickle.dumps(Harm(harm)))
    elif where == "labels":
        save(path, images)
        save(tmp_path / "labels.pt", Harm(harm))
    else:
        save(path, Harm(harm) if where == "alone" else {"data": [[images, labels]], "more": Harm(harm)})
    with pytest.raises(ArtifactError, match=r"It was not opened, because it could run code\."):
        open_published(path)
    assert not harm.exists()


def test_opening_a_published_file_allows_torch_nothing_else(tmp_path: Path) -> None:
    """Only numbers of numpy are allowed, not its arrays; and torch allows nothing more to other callers."""
    before = set(torch.serialization.get_safe_globals())
    path = save(tmp_path / "x.pt", {"data": np.zeros(3)})
    with pytest.raises(ArtifactError, match="was not opened"):
        open_published(path)
    assert set(torch.serialization.get_safe_globals()) == before


@KEEP_FIXTURES
@given(st.binary(max_size=200), st.integers(0, 2000))
def test_damaged_published_file_raises_only_our_errors(tmp_path: Path, noise: bytes, place: int) -> None:
    path = save(tmp_path / "x.pt", [*random_set(1)])
    whole = path.read_bytes()
    for content in (noise, whole[:place], whole[:place] + noise + whole[place + len(noise) :]):
        path.write_bytes(content)
        with suppress(MipsetError):  # no other exception; some damaged files can still be read
            import_set(path, factor=1)


def test_missing_published_file_is_refused(tmp_path: Path) -> None:
    assert "There is no file" in refusal_of(tmp_path / "none")
    assert "cannot be read: Is a directory" in refusal_of(tmp_path)


@pytest.mark.parametrize(
    "content",
    [3, "text", [], {}, [1, 2], {"data": [7]}, {"images": 1, "labels": 2}, [torch.zeros(1)], {"data": 1}],
    ids=str,
)
def test_torch_file_without_images_and_labels_is_refused(tmp_path: Path, content: Any) -> None:
    assert "in a form that MDC, DC or MTT publish" in refusal_of(save(tmp_path / "x.pt", content))


def write_changed(path: Path, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Path:
    return save(path, list(change(*random_set())))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, y: (x, y + 1), "has the label 3, but the labels of toy are 0 to 2"),
        (lambda x, y: (x, y - 1), "has the label -1, but the labels of toy are 0 to 2"),
        (lambda x, y: (x, y.clamp(max=1)), "has no image of class 2 of toy (c)"),
        (lambda x, y: (x[1:], y[1:]), "has 3 images of class 0 and 4 of class 1"),
        (lambda x, y: (x, y.flip(0)), "does not hold its images class by class"),
        (lambda x, y: (x, y.reshape(3, 4).T.flatten()), "does not hold its images class by class"),
        (lambda x, y: (x, y.to(torch.uint8).flip(0)), "does not hold its images class by class"),
        (lambda x, y: (x, y.float()), "has labels of type torch.float32. They must be whole numbers"),
        (lambda x, y: (x, y > 0), "has labels of type torch.bool"),
        (lambda x, y: (x, y[:5]), "has labels [5] for 12 images"),
        (lambda x, y: (x, torch.eye(3)[y].long()), "has labels [12, 3] for 12 images"),
        (lambda x, y: (x, y.to_sparse()), "holds its labels in a special tensor (sparse, "),
        (lambda x, y: (x.index_fill(0, y[:1], float("nan")), y), "holds values that are not finite"),
        (lambda x, y: (x.index_fill(0, y[:1], float("inf")), y), "holds values that are not finite"),
        (lambda x, y: (to_uint8(x), y), "holds images of type torch.uint8. They must be floats"),
        (lambda x, y: (x.to_sparse(), y), "holds its images in a special tensor (sparse, "),
        (lambda x, y: (x[:, :1], y), "holds images [12, 1, 8, 8], but the images of toy are 3 x 8 x 8"),
        (lambda x, y: (x[0], y), "holds images [3, 8, 8], but the images of toy are 3 x 8 x 8"),
        (lambda x, y: (x[:0], y[:0]), "holds images [0, 3, 8, 8], but"),
        (lambda x, y: (x - 0.6, y), "but `kind` mdc is for values in [0, 1]. Use `kind` dc for normalised values"),
        (lambda x, y: (x * 255, y), "but `kind` mdc is for values in [0, 1]"),
        (
            lambda x, y: (x[:1, :1, :1, :1].expand(12, 3, 8, 8).to("meta"), y),
            "or without values). Save them",
        ),
    ],
)
def test_inconsistent_images_and_labels_are_refused(
    tmp_path: Path, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], reason: str
) -> None:
    assert reason in refusal_of(write_changed(tmp_path / "x.pt", change))


@pytest.mark.parametrize("kind", ["quantised", "nested", "bits"])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.filterwarnings("ignore::UserWarning")  # torch does not like to make these either
def test_quantised_nested_and_bits_tensors_are_refused(tmp_path: Path, kind: str, place: int) -> None:
    content = [*random_set()]
    if kind == "quantised":
        content[place] = torch.quantize_per_tensor(content[place].float(), 1.0, 0, torch.quint8)
    elif kind == "nested":
        content[place] = torch.nested.nested_tensor([*content[place].float().reshape(12, -1)])
    else:
        content[place] = to_uint8(content[place].float()).view(torch.bits8)
    message = refusal_of(save(tmp_path / "x.pt", content))
    if kind == "nested":
        assert f"holds its {('images', 'labels')[place]} in a special tensor" in message
    else:
        assert ("has labels of type" if place else "holds images of type") in message


def test_file_cannot_replace_methods_of_dictionaries_and_tensors(tmp_path: Path) -> None:
    """What is between the images and us may have any attributes, since torch sets those that a file names."""
    dictionary = Rebuilt(OrderedDict, (), {"get": 3})
    assert "in a form that MDC, DC or MTT publish" in refusal_of(save(tmp_path / "x.pt", dictionary))
    images, labels = random_set()
    function, arguments = images.__reduce_ex__(2)  # type: ignore[no-untyped-call]
    tensor = Rebuilt(torch._tensor._rebuild_from_type_v2, (function, Tensor, arguments, {"detach": 3}))
    converted = import_set(save(tmp_path / "y.pt", [tensor, labels]), factor=1)
    np.testing.assert_array_equal(converted.artifact.images[0, 0], to_uint8(images[0]).numpy())


def test_flipped_bit_in_a_torch_file_is_noticed(tmp_path: Path) -> None:
    """Torch itself would open the file, with other images."""
    path = save(tmp_path / "x.pt", [*random_set()])
    whole, (images, _) = path.read_bytes(), random_set()
    start = whole.index(images.numpy().tobytes())
    for place, bit in ((start, 0), (start + images.nbytes // 2, 5), (start + images.nbytes - 1, 7)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        assert not torch.equal(torch.load(path, weights_only=True)[0], images)
        with pytest.raises(ArtifactError, match=r"x\.pt is damaged") as caught:
            open_published(path)
        assert str(caught.value.__cause__) == "a record does not have its checksum"


@pytest.mark.parametrize("record", ["data.pkl", "data/0", "byteorder"])
def test_compressed_torch_file_is_refused(tmp_path: Path, record: str) -> None:
    path = save(tmp_path / "x.pt", [*random_set()])
    with zipfile.ZipFile(path) as whole, zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as packed:
        for entry in whole.infolist():
            filler = bytes(10_000_000) if entry.filename.endswith(record) else b""
            packed.writestr(entry.filename, whole.read(entry) + filler)
    with pytest.raises(ArtifactError, match="was not opened") as caught:
        open_published(tmp_path / "bomb.pt")
    assert str(caught.value.__cause__) == "its records are compressed"


def test_tensor_longer_than_its_file_is_refused(tmp_path: Path) -> None:
    """A tensor can repeat one number without end."""
    dataset = replace(TOY, class_names=("a",), shape=(3, 10**5, 10**5))
    content = [torch.zeros(1).expand(10**6, *dataset.shape), torch.zeros(1).long().expand(10**6)]
    path = save(tmp_path / "x.pt", content)
    assert path.stat().st_size < 10_000
    assert "is smaller than the images that it says it holds" in refusal_of(path, dataset=dataset)


def test_file_of_the_other_kind_is_refused_with_advice(tmp_path: Path) -> None:
    images, labels = random_set()
    assert "Use `kind` dc for normalised values" in refusal_of(save(tmp_path / "a.pt", [normalised(images), labels]))
    assert "Use `kind` mdc for values in [0, 1]" in refusal_of(save(tmp_path / "b.pt", [images, labels]), "dc")


def test_invalid_factor_order_or_kind_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "x.pt", [*random_set()])
    assert "does not say how many tiles its images have. Give `factor`" in refusal_of(path, factor=None)
    for arguments, reason in (
        ({"factor": 0}, "`factor` is 0: it must be at least 1"),
        ({"factor": 3}, "3 does not divide 8 x 8"),
        ({"factor": 1, "order": "rows"}, r"There is no `order` 'rows'\. Choose tiles or images"),
        ({"factor": 9, "order": "images"}, "`factor` is 9, but images of 8 x 8 pixels cannot be cut into 9 x 9 tiles"),
        ({"factor": 5}, "`factor` is 5, but images of 8 x 8 pixels cannot be cut into 5 x 5 tiles"),
    ):
        with pytest.raises(MipsetError, match=reason):
            import_set(path, **arguments)
    with pytest.raises(SettingError, match=r"There is no `kind` 'kip' of published files\. Choose mdc or dc"):
        import_set(path, "kip")


def write_clothes(path: Path) -> Path:
    dataset = spec_of("fashion-mini")
    assert dataset is not None
    images = torch.rand(20, *dataset.shape, generator=torch.Generator().manual_seed(0))
    return save(path, [images, torch.arange(10).repeat_interleave(2)])


def test_import_command_makes_a_set_that_can_be_evaluated(tmp_path: Path) -> None:
    write_clothes(tmp_path / "data_2000.pt")
    command = ("import", "data_2000.pt", "--kind", "mdc", "--factor", 2, "--data", "fashion-mini", "--out", "a")
    first, second = done(run(*command, cwd=tmp_path)).splitlines()
    assert first.startswith("a: 2 images for each of 10 classes, 1")
    assert first.endswith("kB; 0 % of the values did not fit into a byte and were clipped")
    assert second == "next: mipset evaluate a"
    converted = read(tmp_path / "a")
    assert converted.factor == 2
    assert converted.provenance["dataset"] == "fashion-mini"
    brief = (*BRIEF, "--width", 4, "--sizes", 1, "--save")
    done(run("evaluate", "a", *brief, cwd=tmp_path))
    assert [point.size for point in read(tmp_path / "a").accuracy] == [1]


def test_import_command_refuses_with_one_line(tmp_path: Path, refusal: Here) -> None:
    path = write_clothes(tmp_path / "x.pt")
    (tmp_path / "taken").touch()
    new = ("--out", tmp_path / "new")
    mdc = ("--kind", "mdc", "--factor", 2)
    for arguments, reason in (
        ((path, *mdc, "--data", "fashion-mini", "--out", tmp_path / "taken"), "exists already"),
        ((path, *mdc, "--data", "fashion-mini", "--out", path, "--force"), "would overwrite the file itself"),
        ((path, *mdc, "--data", "cifar10", *new), "but the images of cifar10 are 3 x 32 x 32. Name another --data."),
        ((path, *mdc, "--data", "cifar11", *new), "There is no dataset 'cifar11'"),
        (
            (path, *mdc, "--data", "fashion-mini", "--resolution", 32, *new),
            "--resolution is 32, but the images of fashion-mini are 28x28",
        ),
        ((path, "--kind", "mdc", "--data", "fashion-mini", *new), "Give --factor"),
        ((path, "--kind", "dc", "--data", "fashion-mini", *new), "Use --kind mdc for values in [0, 1]"),
        ((path, "--kind", "kip", "--data", "fashion-mini", *new), "--kind is 'kip'. Choose mdc or dc"),
        ((path, *mdc, *new), "required: --data"),
    ):
        assert reason in refusal("import", *arguments)
    assert {entry.name for entry in tmp_path.iterdir()} == {"x.pt", "taken"}


@pytest.mark.parametrize("given", [True, False])
def test_import_command_does_not_overwrite_the_labels_file(tmp_path: Path, refusal: Here, given: bool) -> None:
    """Whether they were named or converted beside the images."""
    images, labels = torch.load(write_clothes(tmp_path / "both.pt"), weights_only=True)
    path = save(tmp_path / "images_best.pt", images - 0.5)
    beside = save(tmp_path / ("y.pt" if given else "labels_best.pt"), labels)
    named = ("--labels", beside) if given else ()
    command = ("import", path, "--kind", "dc", "--data", "fashion-mini", *named, "--out", beside, "--force")
    assert "would overwrite the file itself" in refusal(*command)


def test_import_command_with_an_own_dataset(tmp_path: Path, here: Here) -> None:
    """Any dataset that can be loaded works. Its mean and std denormalise the images."""
    rng = np.random.default_rng(0)
    arrays = {
        "images": rng.integers(0, 256, (30, 3, 8, 8), dtype=np.uint8),
        "labels": np.repeat(np.arange(3), 10),
        "mean": np.array(TOY.mean),
        "std": np.array(TOY.std),
    }
    np.savez(tmp_path / "pets.npz", **arrays)  # type: ignore[arg-type]
    images, labels = random_set(2)
    path = save(tmp_path / "x.pt", {"data": [[normalised(images), labels]] * 2})
    out = tmp_path / "out"
    command = ["import", path, "--kind", "dc", "--experiment", 1, "--data", f"npz:{tmp_path / 'pets.npz'}"]
    here(*command, "--out", out)
    converted = read(out)
    assert converted.mean == TOY.mean
    assert converted.provenance["dataset"] == "npz:pets.npz"
    assert converted.provenance["experiment"] == 1


def test_spec_of_a_dataset_equals_the_loaded_dataset() -> None:
    spec, loaded = spec_of("fashion-mini"), mipset.load("fashion-mini")
    assert spec is not None
    for name in ("name", "class_names", "shape", "mean", "std", "sha256"):
        assert getattr(spec, name) == getattr(loaded, name)
    cifar = spec_of("cifar10")
    assert cifar is not None
    assert cifar.mean == (0.4914, 0.4822, 0.4465)
    assert spec_of("npz:pets.npz") is None
