"""The keys of the provenance, and names of datasets without paths."""

from __future__ import annotations

from pathlib import Path

from mipset.file.provenance import Provenance, public_name


def test_public_name_has_only_the_last_part_of_a_path() -> None:
    assert public_name("folder:/home/somebody/pets") == "folder:pets"
    assert public_name("imagenet:/home/somebody/photos:classes=n01,n02") == "imagenet:photos:classes=n01,n02"
    assert public_name("hf:somebody/pets:large") == "hf:somebody/pets:large"
    assert public_name("cifar10") == "cifar10"


def test_guide_for_devices_lists_every_key() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    for key in Provenance.__annotations__:
        assert f"`{key}`" in guide, key
