"""Every random draw has an address (law 6 in docs/architecture.md).

Each draw has its own generator, keyed by the seed, the purpose of the draw and its place in the run. No draw depends on
the draws before it. So a run that was interrupted and resumed, or that several processes share, draws the same numbers
as one that was not.
"""

from __future__ import annotations

import hashlib
from enum import Enum

import torch


class Purpose(Enum):
    """What a draw is for. Two purposes never share a generator."""

    INITIAL_PIXELS = "initial pixels"
    NETWORK = "network"
    REAL_BATCH = "real batch"
    MATCH_AUGMENTATION = "match augmentation"
    TRAIN_BATCH = "train batch"
    TRAIN_AUGMENTATION = "train augmentation"
    EARLY_BATCH = "early batch"
    EARLY_AUGMENTATION = "early augmentation"
    EXPERT = "expert"
    EXPERT_CHOICE = "expert choice"
    EXPERT_BATCH = "expert batch"
    EXPERT_AUGMENTATION = "expert augmentation"
    STUDENT_BATCH = "student batch"
    STUDENT_AUGMENTATION = "student augmentation"
    STUDENT_SIZES = "student sizes"
    FREQUENCIES = "frequencies"
    METRIC_IMAGES = "metric images"
    AUDIT = "audit"
    EVALUATION_NETWORK = "evaluation network"
    EVALUATION_BATCH = "evaluation batch"
    EVALUATION_AUGMENTATION = "evaluation augmentation"
    SELECTION = "selection"
    CLUSTERS = "clusters"


def key(seed: int, purpose: Purpose, *address: int) -> int:
    """A 63-bit seed for one place in a run, the same on every machine."""
    text = "/".join([str(seed), purpose.value, *map(str, address)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, purpose: Purpose, *address: int) -> torch.Generator:
    """A generator on the CPU for one place in a run; its numbers are moved to the device that needs them."""
    return torch.Generator().manual_seed(key(seed, purpose, *address))


def permutation(items: int, seed: int, purpose: Purpose, *address: int) -> torch.Tensor:
    """A shuffled 0..items-1."""
    return torch.randperm(items, generator=generator(seed, purpose, *address))


def shuffled_batch(items: int, batch: int, step: int, seed: int, purpose: Purpose, *address: int) -> torch.Tensor:
    """Batch number `step` of an endless sequence of shuffled epochs; the incomplete last batch of each is dropped.

    The epoch follows from `step`, so a checkpoint needs no position.
    """
    epoch, place = divmod(step, items // batch)
    return permutation(items, seed, purpose, *address, epoch)[place * batch : (place + 1) * batch]
