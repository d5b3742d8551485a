"""Hugging Face's library for tests, without its network."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Hugging Face `datasets`, kept from the network and from the user's own cache."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HF_HUB_OFFLINE", "1")
        environment.setenv("HF_HOME", str(tmp_path_factory.mktemp("hugging_face")))
        datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
        datasets.disable_progress_bars()
        yield datasets
