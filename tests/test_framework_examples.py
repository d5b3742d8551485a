"""The examples that need Avalanche, Flower or DD-Ranking, each with `--toy` in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework_parts import need
from test_examples import cells, percentages, printed_lines

pytestmark = pytest.mark.frameworks


def test_avalanche_buffers_have_the_same_bytes(tmp_path: Path) -> None:
    need("avalanche", "avalanche-lib")
    lines = printed_lines("avalanche_replay", "--toy", cwd=tmp_path, warnings="ignore")
    first, titles, *rows = [line for line in lines if line]
    assert first == "fashion-mini, 5 experiences of 2 classes, all measured after the last one"
    assert cells(titles) == ["accuracy in %", "forgetting", "images in the buffer", "bytes"]
    table = {row[0]: row[1:] for row in map(cells, rows)}
    assert list(table) == ["PrefixBuffer, condensed", "PrefixBuffer, real shrunk", "ClassBalancedBuffer"]
    percentages([row[0] for row in table.values()])
    assert [row[2] for row in table.values()] == ["80", "80", "20"]  # four training images in each stored one
    assert {row[3] for row in table.values()} == {str(20 * 28 * 28)}


def test_flower_clients_train_on_their_own_prefixes(tmp_path: Path) -> None:
    need("flwr", "flwr[simulation]")
    lines = printed_lines("flower_federated", "--toy", "--clients", 2, "--rounds", 1, cwd=tmp_path, warnings="ignore")
    first, titles, own, smallest = lines[-4:]
    assert first == "fashion-mini, 2 clients of Flower: test accuracy of the common weights in %"
    assert cells(titles) == ["images per class", "round 1"]
    assert cells(own)[:2] == ["each its own size", "1 3"]
    assert cells(smallest)[:2] == ["all the smallest", "1 1"]
    percentages([cells(own)[2], cells(smallest)[2]])


def test_ddranking_scores_are_printed(tmp_path: Path) -> None:
    need("ddranking", "ddranking")
    lines = printed_lines("ddranking_scores", "--toy", "--sizes", 1, cwd=tmp_path, warnings="ignore")
    first, titles, row = lines[-3:]
    assert first == "fashion-mini, 10 epochs, if all real images give 85 %"
    assert cells(titles) == ["size", "HLR", "IOR", "LRS"]
    size, recovery, improvement, score = cells(row)
    assert size == "1"
    assert -15 <= float(recovery) <= 85
    assert -100 <= float(improvement) <= 100
    assert 0 <= float(score) <= 1
