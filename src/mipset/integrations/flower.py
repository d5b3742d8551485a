"""Flower: each client of a federation reads the prefix that fits into its storage.

All clients open one published file. A client of a deployment says how many bytes it has in its node config
(`flower-supernode ... node-config "bytes=200000"`). A simulation has no such clients, so it gives a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mipset import device
from mipset.errors import SettingError

if TYPE_CHECKING:
    from flwr.app import Context

BYTES, PARTITION = "bytes", "partition-id"  # keys of a node config: ours, and the one of simulations


def prefix_for(
    context: Context, where: str | Path, budgets: Sequence[int] | None = None, *, cache: str | Path | None = None
) -> device.Subset:
    """The largest prefix of the file at `where`, a path or an address, that fits the client of this context.

    Its bytes are `bytes` of its node config, or else number `partition-id` of `budgets`, as in a simulation. `cache`
    names a folder that stores ranks, as in `device.open`: without it, a client downloads its prefix in every round.
    """
    source = device.open(where, cache=cache)
    return source.prefix(device.plan(source, bytes=budget_of(context, budgets)).size)


def budget_of(context: Context, budgets: Sequence[int] | None = None) -> int:
    """The bytes of storage that the client of this context has for the file."""
    own = context.node_config
    if BYTES in own:
        return _whole(own[BYTES], BYTES)
    if budgets is None or PARTITION not in own:
        raise SettingError(
            f"The node config of this client has no `{BYTES}`, and there are no `budgets` for its `partition-id`. "
            "Start the client with one, or give a list of bytes with one entry for each client of a simulation."
        )
    number = _whole(own[PARTITION], PARTITION)
    if number >= len(budgets):
        raise SettingError(f"`budgets` has {len(budgets)} entries, and this is client {number}. Give one for each.")
    return int(budgets[number])


def _whole(value: object, name: str) -> int:
    """A value of a node config that must be a number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SettingError(f"`{name}` of the node config is {value!r}: it must be a whole number of at least 0.")
    return value
