"""Federated learning on a condensed set, of which every client takes as much as it can hold.

A coordinator publishes one file. Each client opens it, plans the largest size that fits into its bytes and reads no
more than that. In a round every client starts from the common weights and learns its own prefix, all with as many
steps; the weights that come back are averaged, each counted by the images behind it. Beside it, the same clients with a
set of one size, which can only be the size that fits the smallest of them.

The last run printed (one condensation and one network for each row; rounds 2 to 11 are left out here):

                       images per class      read  round 1  round 12
    each its own size  1 2 3 4 6 7 8 10  321.4 kB     67.0      78.8
    all the smallest    1 1 1 1 1 1 1 1   62.7 kB     64.7      71.8
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from common import CPU, Setting, at_least, parser, repeated
from torch import Tensor

from mipset import device
from mipset.display.tables import in_columns
from mipset.evaluation.evaluate import decoded
from mipset.nn.networks import Network
from mipset.nn.training import Images, Schedule, accuracy, fit, rule_of
from mipset.units import byte_count

Weights = Mapping[str, Tensor]


def mean(weights: Sequence[Weights], counts: Sequence[int]) -> Weights:
    """The mean of several networks' weights, each counted so often."""
    shares = [count / sum(counts) for count in counts]
    return {
        name: torch.stack([share * own[name] for share, own in zip(shares, weights, strict=True)]).sum(dim=0)
        for name in weights[0]
    }


def copied(theta: Network) -> Weights:
    """The weights of a network, which go on to change there."""
    return {name: value.clone() for name, value in theta.state_dict().items()}


def federated(setting: Setting, clients: Sequence[Images], rounds: int, steps: int) -> Iterator[float]:
    """The accuracy of the common weights after each round, in which every client takes so many steps."""
    theta, test = setting.network, setting.images(setting.data.test)
    rule, once = rule_of(setting.protocol()), Schedule(1, milestones=())
    common = copied(theta)
    for number in range(rounds):
        returned = []
        for client, images in enumerate(clients):
            theta.load_state_dict(common)
            for _ in fit(theta, repeated(images, steps * once.batch), rule, once, 0, number, client):
                pass
            returned.append(copied(theta))
        common = mean(returned, [len(images) for images in clients])
        theta.load_state_dict(common)
        yield accuracy(theta, test)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--clients", type=at_least(1), default=8)
    arguments.add_argument("--rounds", type=at_least(1), default=12)
    arguments.add_argument("--steps", type=at_least(1), default=20, help="of each client in a round")
    chosen = arguments.parse_args()
    setting = Setting(chosen.toy)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "published.safetensors"
        setting.condensed(setting.data).write(path)
        said = device.open(path).about
        least, most = said.prefix(1).file_bytes, said.file_bytes
        budgets = np.linspace(least, most, chosen.clients).astype(int)
        sources = [device.open(path) for _ in budgets]  # one for each client
        own = [device.plan(source, bytes=int(room)).size for source, room in zip(sources, budgets, strict=True)]
        ways = {"each its own size": own, "all the smallest": [min(own)] * len(own)}
        rows = [["", "images per class", "read", *(f"round {n + 1}" for n in range(chosen.rounds))]]
        for name, sizes in ways.items():
            subsets = [source.prefix(size) for source, size in zip(sources, sizes, strict=True)]
            clients = [decoded(subset.artifact(), CPU) for subset in subsets]
            found = federated(setting, clients, chosen.rounds, chosen.steps)
            read = byte_count(sum(subset.nbytes for subset in subsets))
            rows.append([name, " ".join(map(str, sizes)), read, *(f"{value:.1f}" for value in found)])
    print("accuracy in % of the common weights")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
