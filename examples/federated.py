"""Federated learning on one condensed file: each client reads as many images as it can store.

A server publishes one file. Each client opens it, plans the largest size that fits into its number of bytes, and reads
only that prefix. In each round, every client starts from the common weights and trains on its own prefix for the same
number of steps. The new common weights are the mean of the clients' weights, weighted by their numbers of images.
The second row of the table shows the same clients with a file of only one size. Then all clients must use the size
that fits the smallest client.

Run:   python examples/federated.py
Takes: some minutes on 2 cores. `--toy`, with fewer clients, rounds and steps, takes seconds.
Printed (recipe `fashion-mini-gradient-cpu`; one condensation, one network for each row; rounds 2 to 11 left out):

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
from common import CPU, Setting, argument_parser, at_least, repeated
from torch import Tensor

from mipset import device
from mipset.display.tables import in_columns
from mipset.evaluation.evaluate import decoded
from mipset.nn.networks import Network
from mipset.nn.training import Images, Schedule, accuracy, fit, rule_of
from mipset.units import byte_count

Weights = Mapping[str, Tensor]


def weighted_mean(weights: Sequence[Weights], counts: Sequence[int]) -> Weights:
    """The mean of the weights of several networks; the counts say how much each network contributes."""
    shares = [count / sum(counts) for count in counts]
    return {
        name: torch.stack([share * client[name] for share, client in zip(shares, weights, strict=True)]).sum(dim=0)
        for name in weights[0]
    }


def copy_weights(network: Network) -> Weights:
    """A copy of the network's weights, which stays as it is when the network learns more."""
    return {name: value.clone() for name, value in network.state_dict().items()}


def federated_accuracies(setting: Setting, clients: Sequence[Images], rounds: int, steps: int) -> Iterator[float]:
    """The accuracy of the common weights after each round; every client takes `steps` training steps in a round."""
    network, test = setting.network, setting.images(setting.data.test)
    rule, one_epoch = rule_of(setting.protocol()), Schedule(1, milestones=())
    common = copy_weights(network)
    for number in range(rounds):
        returned = []
        for client, images in enumerate(clients):
            network.load_state_dict(common)
            for _ in fit(network, repeated(images, steps * one_epoch.batch), rule, one_epoch, 0, number, client):
                pass
            returned.append(copy_weights(network))
        common = weighted_mean(returned, [len(images) for images in clients])
        network.load_state_dict(common)
        yield accuracy(network, test)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--clients", type=at_least(1), help="default: 8; with --toy 3")
    parser.add_argument("--rounds", type=at_least(1), help="default: 12; with --toy 2")
    parser.add_argument("--steps", type=at_least(1), help="of each client in a round (default: 20; with --toy 1)")
    arguments = parser.parse_args()
    given, usual = (arguments.clients, arguments.rounds, arguments.steps), (3, 2, 1) if arguments.toy else (8, 12, 20)
    count, rounds, steps = (value or default for value, default in zip(given, usual, strict=True))
    setting = Setting(arguments.toy)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "published.safetensors"
        setting.condensed(setting.data).write(path)
        source = device.open(path)
        budgets = np.linspace(source.file_bytes(1), source.file_bytes(source.about.ipc), count).astype(int)
        sources = [device.open(path) for _ in budgets]  # one for each client
        own = [device.plan(source, bytes=int(budget)).size for source, budget in zip(sources, budgets, strict=True)]
        sizes_by_title = {"each its own size": own, "all the smallest": [min(own)] * len(own)}
        rows = [["", "images per class", "read", *(f"round {n + 1}" for n in range(rounds))]]
        for title, sizes in sizes_by_title.items():
            subsets = [source.prefix(size) for source, size in zip(sources, sizes, strict=True)]
            clients = [decoded(subset.artifact(), CPU) for subset in subsets]
            accuracies = federated_accuracies(setting, clients, rounds, steps)
            read = byte_count(sum(subset.nbytes for subset in subsets))
            rows.append([title, " ".join(map(str, sizes)), read, *(f"{value:.1f}" for value in accuracies)])
    print("test accuracy of the common weights in %")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
