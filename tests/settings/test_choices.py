"""The tables of names: they and the tables of parts have the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

import pytest

from mipset.condensing import assembly
from mipset.errors import SettingError
from mipset.exchange import exports
from mipset.nn import precision
from mipset.nn.augment import COMPOSITIONS, DSA, IDC, Operation, augmentation
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
    "objectives": (choices.OBJECTIVES, assembly.OBJECTIVES),
    "learners": (choices.LEARNERS, assembly.LEARNERS),
    "matched layers": (choices.MATCHED_LAYERS, assembly.WITH_CLASSIFIER),
    "samplers": (choices.SAMPLERS, assembly.SAMPLERS),
    "moments of a step": (choices.STEP_AFTER, assembly.COASTING),
    "pixel spaces": (choices.PIXEL_SPACES, assembly.PIXEL_SPACES),
    "compositions": (choices.COMPOSITIONS, COMPOSITIONS),
    "resamplings": (choices.RESAMPLINGS, assembly.ALIGN_CORNERS),
    "pixel optimisers": (choices.OPTIMISERS, assembly.OPTIMISERS),
    "initialisations": (choices.INITIALISATIONS, assembly.INITIALISATIONS),
    "steps": (choices.STEPS, assembly.BALANCED),
    "precisions": (choices.PRECISIONS, precision.HALF),
    "augmentations": (choices.AUGMENTATIONS, [operation.value for operation in Operation]),
    "networks": (NETWORKS, building.CLASSES),
    "export formats": (EXPORT_FORMATS, [exports.PNG, *exports.SINGLE_FILES, exports.C_HEADER]),
}


@pytest.mark.parametrize("table", TABLES)
def test_names_that_can_be_chosen_are_names_that_can_be_made(table: str) -> None:
    names, parts = TABLES[table]
    assert list(names) == list(parts)


def test_settings_that_need_others_name_settings_and_their_choices() -> None:
    names = {
        "policy": choices.POLICIES,
        "learner": choices.LEARNERS,
        "pixel_optimiser": choices.OPTIMISERS,
        "sampler": choices.SAMPLERS,
        "objective": choices.OBJECTIVES,
        "network": NETWORKS,
    }
    assert choices.READ_IF["width"]["network"] == tuple(CONDENSING_NETWORKS)
    assert set(choices.READ_IF) <= {f.name for f in fields(Recipe)}
    for needed in choices.READ_IF.values():
        for other, values in needed.items():
            assert set(values) < set(names[other])


def test_objective_is_a_sum_of_weighted_terms() -> None:
    assert choices.parse_objective("gradient") == [(1.0, "gradient", 1)]
    assert choices.parse_objective("0.5*feature+10*confidence/2") == [(0.5, "feature", 1), (10.0, "confidence", 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "blur",
            r"there is no objective 'blur'\. Choose gradient, feature, characteristic, layered, confidence or",
        ),
        ("", "there is no objective ''"),
        ("feature+", "there is no objective ''"),
        ("x*feature", "the weight of each term must be a number larger than 0"),
        ("0*feature", "larger than 0"),
        ("-1*feature", "larger than 0"),
        ("nan*feature", "larger than 0"),
        ("feature+inf*confidence", "larger than 0"),
        ("feature+2*feature", "each term may be named once"),
        ("feature+confidence/0", "its period a whole number from 1 on"),
        ("feature+confidence/", "its period a whole number from 1 on"),
        ("feature+confidence/1.5", "its period a whole number from 1 on"),
        ("feature/2+confidence", "1 for the first term"),
        ("trajectory+feature", "trajectory has one distance for all classes together"),
        ("confidence", "the first term must compare real and synthetic images"),
        ("confidence+feature", "Put gradient, feature, characteristic or layered before confidence"),
    ],
)
def test_objective_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        Recipe(objective=text)


def test_networks_for_condensing_have_no_batch_norm() -> None:
    assert list(CONDENSING_NETWORKS) == ["convnet", "resnet-ap"]


def test_augmentation_is_a_list_of_operations() -> None:
    assert augmentation("none").operations == ()
    assert augmentation("color_crop") == IDC((Operation.COLOR, Operation.CROP))
    assert augmentation("color_crop", "dsa") == DSA((Operation.COLOR, Operation.CROP))
    with pytest.raises(SettingError, match=r"no augmentation 'blur'\. Choose from color, crop"):
        augmentation("color_blur")
