"""Clients of Flower read the prefix that fits, in its real simulation engine and by its real contexts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import web
from framework_parts import noise
from mipset import BudgetError, SettingError, device

pytestmark = pytest.mark.frameworks

flwr = pytest.importorskip("flwr.app", reason="needs flwr: run make test-frameworks")

from mipset.integrations.flower import prefix_for  # noqa: E402

WHOLE = noise(ipc=5, shape=(3, 8, 8))


@pytest.fixture
def published(tmp_path: Path) -> Path:
    path = tmp_path / "published.safetensors"
    WHOLE.write(path)
    return path


def context(**node_config: Any) -> Any:
    """The context that Flower gives to a client with this node config."""
    config = {name.replace("_", "-"): value for name, value in node_config.items()}
    return flwr.Context(run_id=1, node_id=1, node_config=config, state=flwr.RecordDict(), run_config={})


def test_client_reads_the_largest_prefix_that_fits_its_node_config(published: Path) -> None:
    room = device.open(published).file_bytes(3)
    assert prefix_for(context(bytes=room), published).sizes == (3, 3)
    assert prefix_for(context(bytes=room - 1), published).sizes == (2, 2)


def test_client_of_a_simulation_takes_its_entry_of_the_budgets(published: Path) -> None:
    budgets = [device.open(published).file_bytes(size) for size in (1, 5, 2)]
    sizes = [prefix_for(context(partition_id=n, num_partitions=3), published, budgets).sizes[0] for n in range(3)]
    assert sizes == [1, 5, 2]


def test_own_bytes_count_more_than_the_list(published: Path) -> None:
    room = device.open(published).file_bytes(1)
    assert prefix_for(context(bytes=room, partition_id=0), published, [10**6]).sizes == (1, 1)


def test_client_with_a_cache_downloads_its_prefix_once(tmp_path: Path) -> None:
    content, moved = WHOLE.to_bytes(), []
    with web.serving(content) as server:
        for _ in range(2):  # rounds
            before = server.sent
            subset = prefix_for(context(bytes=len(content)), server.url, cache=tmp_path / "ranks")
            assert subset.sizes == (5, 5)
            moved.append(server.sent - before)
    assert moved[1] < moved[0] - WHOLE.images.nbytes / 2, "the second round reads the header only"


@pytest.mark.parametrize(
    ("node_config", "budgets", "reason"),
    [
        ({}, None, "has no `bytes`"),
        ({"partition_id": 0}, None, "there are no `budgets`"),
        ({"partition_id": 2}, [1, 2], "`budgets` has 2 entries, and this is client 2"),
        ({"bytes": "many"}, None, "`bytes` of the node config is 'many'"),
        ({"bytes": -1}, None, "`bytes` of the node config is -1"),
    ],
)
def test_budget_that_is_not_clear_is_refused(
    published: Path, node_config: dict[str, Any], budgets: list[int] | None, reason: str
) -> None:
    with pytest.raises(SettingError, match=reason):
        prefix_for(context(**node_config), published, budgets)


def test_client_without_room_for_one_image_per_class_is_told(published: Path) -> None:
    with pytest.raises(BudgetError):
        prefix_for(context(bytes=10), published)
