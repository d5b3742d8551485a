"""The tables of names: they and the tables of parts have the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

import pytest

from mipset.condensing import assembly
from mipset.errors import SettingError
from mipset.exchange import exports
from mipset.nn.augment import Operation, augmentation
from mipset.nn.networks import building
from mipset.settings import choices
from mipset.settings.architecture import CONDENSING_NETWORKS, NETWORKS
from mipset.settings.exchange_choices import EXPORT_FORMATS
from mipset.settings.recipe import Recipe

TABLES: dict[str, tuple[Mapping[str, object], Iterable[str]]] = {
    "policies": (choices.POLICIES, assembly.POLICIES),
    "freeze rules": (choices.FREEZE_RULES, assembly.FREEZE_RULES),
    "metrics": (choices.METRICS, assembly.METRICS),
    "distances": (choices.DISTANCES, assembly.DISTANCES),
    "initialisations": (choices.INITIALISATIONS, assembly.INITIALISATIONS),
    "steps": (choices.STEPS, assembly.BALANCED),
    "precisions": (choices.PRECISIONS, assembly.HALF),
    "augmentations": (choices.AUGMENTATIONS, [operation.value for operation in Operation]),
    "networks": (NETWORKS, building.CLASSES),
    "export formats": (EXPORT_FORMATS, [exports.PNG, *exports.SINGLE_FILES, exports.C_HEADER]),
}


@pytest.mark.parametrize("table", TABLES)
def test_names_that_can_be_chosen_are_names_that_can_be_made(table: str) -> None:
    names, parts = TABLES[table]
    assert list(names) == list(parts)


def test_settings_for_some_policies_name_settings_and_policies() -> None:
    assert set(choices.ONLY_FOR) <= {f.name for f in fields(Recipe)}
    for policies in choices.ONLY_FOR.values():
        assert set(policies) < set(choices.POLICIES)


def test_networks_for_condensing_have_no_batch_norm() -> None:
    assert list(CONDENSING_NETWORKS) == ["convnet", "resnet-ap"]


def test_augmentation_is_a_list_of_operations() -> None:
    assert augmentation("none").operations == ()
    assert augmentation("color_crop").operations == (Operation.COLOR, Operation.CROP)
    with pytest.raises(SettingError, match=r"no augmentation 'blur'\. Choose from color, crop"):
        augmentation("color_blur")
