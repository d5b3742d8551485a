"""Every random draw has an address."""

from __future__ import annotations

import torch

from mipset.nn.randomness import Purpose, generator, key, shuffled_batch


def test_keys_depend_on_seed_purpose_and_address() -> None:
    keys = {
        key(seed, purpose, *address)
        for seed in range(3)
        for purpose in Purpose
        for address in [(), (0,), (1,), (0, 1), (1, 0), (11,), (1, 1)]
    }
    assert len(keys) == 3 * len(Purpose) * 7
    assert key(0, Purpose.NETWORK, 1) == 3942481396370221052  # must never change: a file can be made again years later
    a, b = (torch.rand(3, generator=generator(4, Purpose.NETWORK, 2)) for _ in range(2))
    assert torch.equal(a, b)


def test_shuffled_batches_hold_every_item_once_per_epoch() -> None:
    first = torch.cat([shuffled_batch(10, 5, step, 0, Purpose.REAL_BATCH, 7) for step in (0, 1)])
    second = torch.cat([shuffled_batch(10, 5, step, 0, Purpose.REAL_BATCH, 7) for step in (2, 3)])
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(10))
    assert first.tolist() != second.tolist()
    assert len({tuple(shuffled_batch(11, 5, step, 0, Purpose.REAL_BATCH).tolist()) for step in range(4)}) == 4
