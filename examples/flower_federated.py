"""Flower: federated learning on one condensed file in Flower's simulation engine, each client with its own prefix.

A server publishes one file. Each client is an actor of Ray. It opens the file, reads the largest prefix that fits into
its bytes, and trains on it, with the same number of steps for all clients. FedAvg of Flower averages the weights,
weighted by the numbers of images. In the second row, the file has only one size, which must fit the smallest client.

Run:   python examples/flower_federated.py (needs `pip install ".[condense,flower]"`)
Takes: three minutes on 2 cores, on CIFAR-10 if `mipset data fetch cifar10` has fetched it. `--toy` is a small one.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # these are read at import
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # else clients have a low priority, and wait on a busy machine
from common import CPU, Setting, argument_parser, at_least, framework_setting, repeated, setting_of
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from mipset import device
from mipset.display.tables import in_columns
from mipset.evaluation.evaluate import decoded
from mipset.integrations.flower import prefix_for
from mipset.nn.training import Schedule, accuracy, fit, rule_of


def client_app(toy: bool, dataset: str, path: str, budgets: list[int], steps: int) -> ClientApp:
    """What a client does in a round: train the common weights on its own prefix."""
    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def train(message: Message, context: Context) -> Message:
        setting = setting_of(toy, dataset)
        prefix = prefix_for(context, path, budgets, cache=Path(path).with_name("ranks"))  # of an address: read once
        images = decoded(prefix.artifact(), CPU)
        network, one_epoch = setting.network, Schedule(1, milestones=())
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        address = (message.content["config"]["server-round"], context.node_config["partition-id"])
        rule = rule_of(setting.protocol())
        for _ in fit(network, repeated(images, steps * one_epoch.batch), rule, one_epoch, 0, *address):
            pass
        count = MetricRecord({"num-examples": len(images)})
        return Message(RecordDict({"arrays": ArrayRecord(network.state_dict()), "metrics": count}), reply_to=message)

    return app


def simulated(setting: Setting, path: str, budgets: list[int], rounds: int, steps: int) -> list[float]:
    """The accuracy of the common weights after each round."""
    network, test, accuracies = setting.network, setting.images(setting.data.test), list[float]()
    server, replied = ServerApp(), list[int]()

    def evaluate(number: int, arrays: ArrayRecord) -> MetricRecord:
        network.load_state_dict(arrays.to_torch_state_dict())
        if number:  # round 0 is before training
            accuracies.append(accuracy(network, test))
        return MetricRecord({})

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, _: Context) -> None:
        count = len(budgets)
        strategy = FedAvg(
            fraction_evaluate=0.0,
            min_train_nodes=count,
            min_available_nodes=count,
            train_metrics_aggr_fn=lambda replies, _: MetricRecord({"clients": len(replies)}),
        )
        result = strategy.start(grid, ArrayRecord(network.state_dict()), num_rounds=rounds, evaluate_fn=evaluate)
        replied.extend(record["clients"] for record in result.train_metrics_clientapp.values())

    run_simulation(
        server,
        client_app(setting.toy, setting.dataset, path, budgets, steps),
        num_supernodes=len(budgets),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}, "init_args": {"num_cpus": 1}},
    )
    if replied != [len(budgets)] * rounds:  # FedAvg goes on without clients that fail
        raise SystemExit(f"of {len(budgets)} clients, so many trained in each of {rounds} rounds: {replied}")
    return accuracies


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--clients", type=at_least(2), help="default: 6; with --toy 3")
    parser.add_argument("--rounds", type=at_least(1), help="default: 6; with --toy 2")
    parser.add_argument("--steps", type=at_least(1), help="of each client in a round (default: 20; with --toy 1)")
    arguments = parser.parse_args()
    given, usual = (arguments.clients, arguments.rounds, arguments.steps), (3, 2, 1) if arguments.toy else (6, 6, 20)
    count, rounds, steps = (value or default for value, default in zip(given, usual, strict=True))
    logging.getLogger("flwr").setLevel(logging.ERROR)
    setting = framework_setting(arguments)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "published.safetensors"
        setting.condensed(setting.data).write(path)
        source = device.open(path)
        own = np.linspace(source.file_bytes(1), source.file_bytes(source.about.ipc), count).astype(int).tolist()
        rows = [["", "images per class", *(f"round {n + 1}" for n in range(rounds))]]
        for title, budgets in {"each its own size": own, "all the smallest": [own[0]] * count}.items():
            sizes = [device.plan(source, bytes=budget).size for budget in budgets]
            accuracies = simulated(setting, str(path), budgets, rounds, steps)
            rows.append([title, " ".join(map(str, sizes)), *(f"{value:.1f}" for value in accuracies)])
    print(f"{setting.dataset}, {count} clients of Flower: test accuracy of the common weights in %")
    print(in_columns(rows))


if __name__ == "__main__":
    main()
