"""Protocols: their names, and what an accuracy depends on."""

from __future__ import annotations

import pytest

from mipset.errors import SettingError
from mipset.nn.training import rule_of
from mipset.settings.protocol import PROTOCOLS, protocol


def test_name_says_the_precision_if_it_is_not_the_full_one() -> None:
    assert str(protocol("standard")) == "standard, 200 epochs, at least 1000 steps"
    assert str(protocol("standard", precision="bfloat16")) == "standard, 200 epochs, at least 1000 steps, bfloat16"


def test_identity_has_every_choice_and_no_text() -> None:
    full = protocol("standard").identity
    assert "text" not in full
    assert "precision" not in full  # results of versions without it keep their names
    assert protocol("standard", precision="bfloat16").identity == {**full, "precision": "bfloat16"}
    assert len({str(each.identity) for each in PROTOCOLS.values()}) == len(PROTOCOLS)


def test_precision_reaches_the_training() -> None:
    assert [rule_of(protocol("quick", precision=name)).half for name in ("float32", "bfloat16")] == [False, True]


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(SettingError, match=r"There is no `precision` 'float8'. Did you mean float32\?"):
        protocol("standard", precision="float8")
