"""Every claim of speed in one table, as ratios measured in one run: `make bench`.

The yardstick is one inner iteration of MDC at the paper's size: CIFAR-10 shapes, ConvNet-3 of width 128, 10 classes of
10 images, factor 2, 64 real images per class, S_[1] active, then training on 2,000 real images in batches of 64;
`plain.py` transcribes it plainly. Usage: bench.py [THREADS] [ROUNDS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import noise
import plain
import ranks
import resident
import torch
import torch.nn.functional as F
from rounds import Work, best, contenders
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import Parts, update_class
from mipset.condensing.costs import cost
from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.policies import BaselineC, EveryPrefix, MostLearnableSubset, Policy
from mipset.data import Dataset
from mipset.evaluation.evaluate import Evaluation
from mipset.file.artifact import Artifact
from mipset.nn.engines import Engine, native
from mipset.nn.memory import keep_freed_memory
from mipset.settings.architecture import Architecture
from mipset.settings.catalogue import PAPER_CIFAR10
from mipset.settings.protocol import protocol
from mipset.settings.recipe import Recipe

N, CLASSES, SHAPE = 10, 10, (3, 32, 32)
CPU = torch.device("cpu")
WIDE = Architecture("convnet", 128, 3)


def data(train: int = 5000, test: int = 100) -> Dataset:
    """Noise in the shape of CIFAR-10."""
    splits = noise.split(train), noise.split(test, seed=1)
    return Dataset("noise", *splits, tuple("abcdefghij"), (0.5,) * 3, (0.25,) * 3)


def subset_of_one() -> MostLearnableSubset:
    """MDC after its first choice."""
    policy = MostLearnableSubset(N)
    policy.restore({"chosen": [1], "F_before": [0.0] * (N - 1), "frozen": 0})
    return policy


def parts_of(recipe: Recipe, engine: Engine) -> Parts:
    return assemble(recipe, data(), CPU, None, engine)


def plain_setup(threads: int) -> dict[str, Work]:
    """The yardstick."""
    torch.set_num_threads(threads)
    parts = parts_of(PAPER_CIFAR10, Engine())
    learner = parts.learner
    assert isinstance(learner, TrainedOnReal)
    theta = learner.start(2)
    optimiser = learner.rule.optimiser(theta)
    return {
        "match": lambda: plain.match(parts, theta, 2, 1, subset=1),
        "train": lambda: plain.train(learner, theta, optimiser, 1),
        "gradient": lambda: plain.pixel_gradient(parts, parts.learner.start(3), 2, 1, 0, subset=1),
    }


def our_setup(threads: int, changes: dict[str, Any]) -> dict[str, Work]:
    """The same with our engine, and with other policies."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    parts = parts_of(PAPER_CIFAR10.replace(**changes), native())
    theta = parts.learner.start(2)

    def match(policy: Policy) -> Work:
        its = replace(parts, policy=policy)
        return lambda: [update_class(its, theta, 2, 1, c) for c in its.classes]

    def gradient() -> Tensor:
        again = replace(parts_of(PAPER_CIFAR10, native()), policy=subset_of_one())
        update_class(again, again.learner.start(3), 2, 1, 0)
        return again.S.velocity[:, 0] / again.S.momentum ** (again.S.C - 1)  # the gradient has decayed while it coasted

    return {
        "match": match(subset_of_one()),
        "base": match(BaselineC(N)),
        "every": match(EveryPrefix((1.0,) * N)),
        "train": lambda: parts.learner.advance(theta, 1),
        "gradient": gradient,
    }


def peak_setup(threads: int) -> dict[str, Work]:
    """The largest convolution of the network, as torch computes it in either order of memory."""
    torch.set_num_threads(threads)
    x, weight = torch.randn(64, 128, 16, 16), torch.randn(128, 128, 3, 3)
    lined = [value.to(memory_format=torch.channels_last) for value in (x, weight)]
    return {"rows": lambda: F.conv2d(x, weight, padding=1), "channels": lambda: F.conv2d(lined[0], lined[1], padding=1)}


PEAK_FLOPS = 2 * 64 * 16 * 16 * 128 * 128 * 9
EPOCHS = 4


def evaluation(engine: Engine) -> Evaluation:
    real = data()
    stored = real.train.images[: N * CLASSES].reshape(N, CLASSES, *SHAPE)
    return Evaluation(
        Artifact(stored, 2, real.mean, real.std, real.class_names),
        real,
        protocol("paper", epochs=EPOCHS),
        WIDE,
        engine=engine,
    )


def plain_evaluation(threads: int) -> dict[str, Work]:
    """One network after the other."""
    torch.set_num_threads(threads)
    its = evaluation(Engine())
    return {"scores": lambda: list(its.scores(range(1, N + 1), networks=1, workers=1))}


def our_evaluation(workers: int) -> dict[str, Work]:
    """As many at once as there are processes."""
    its = evaluation(native())
    return {"scores": lambda: list(its.scores(range(1, N + 1), networks=1, workers=workers))}


def apart(one: Tensor, other: Tensor) -> float:
    """The difference in relative norm."""
    return float((one - other).norm() / other.norm())


def fastest(command: list[str], repeats: int = 5) -> float:
    """Seconds of a process."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


Row = tuple[str, str, str]


def engine_rows(threads: int, rounds: int) -> list[Row]:
    """Points 1, 2, 3, 7 and 8."""
    setups: list[tuple[Any, ...]] = [
        (plain_setup, threads),
        (our_setup, threads, {}),
        (our_setup, threads, {"train_precision": "bfloat16"}),
        (peak_setup, threads),
    ]
    with contenders(*setups) as made:
        yard, ours, half, peak = made
        error = apart(ours.ask("gradient"), yard.ask("gradient"))
        turns = [
            (yard, ["match", "train"]),
            (ours, ["match", "base", "every", "train"]),
            (half, ["train"]),
            (peak, ["rows", "channels"] * 9),
        ]
        y, o, h, p = best(turns, rounds)
    whole, mine = y["match"] + y["train"], o["match"] + o["train"]
    found = cost(PAPER_CIFAR10, SHAPE, CLASSES, 50_000)
    rate, top = found.inner_flops / mine / 1e9, PEAK_FLOPS / min(p.values()) / 1e9
    less = o["match"] + h["train"]
    return [
        ("plain yardstick", "", f"{whole:.2f} s: {y['match']:.2f} + {y['train']:.2f}"),
        ("ours, float32", ">= 1.8x", f"{whole / mine:.2f}x: {mine:.2f} s: {o['match']:.2f} + {o['train']:.2f}"),
        ("  pixel gradient apart by", "<= 5e-3", f"{error:.1e}"),
        (
            "ours, training in bfloat16",
            ">= 3.5x",
            f"{whole / less:.2f}x: {less:.2f} s: {o['match']:.2f} + {h['train']:.2f}",
        ),
        ("MDC against Baseline C", "<= 1.10x", f"{mine / (o['base'] + o['train']):.2f}x"),
        ("every prefix against the base loss", "<= 1.35x", f"{o['every'] / o['base']:.2f}x"),
        ("  its gradient apart from N losses", "<= 1e-4", f"{every_prefix_error():.1e}"),
        ("GFLOP/s of direct convolution", "60 % of peak", f"{rate:.0f} of {top:.0f}: {100 * rate / top:.0f} %"),
        ("  plain", "", f"{found.inner_flops / whole / 1e9:.0f}: {100 * found.inner_flops / whole / 1e9 / top:.0f} %"),
    ]


def every_prefix_error() -> float:
    """One pass for all sizes against a pass for each, in plain torch."""
    parts = parts_of(PAPER_CIFAR10.replace(width=32), Engine())
    theta, per_image = parts.learner.start(1), parts.S.formation.images
    real = parts.sampler.sample(0, theta, 0)
    target = parts.objective.target(theta, real, 0)

    def gradient(ends: list[list[int]]) -> Tensor:
        pixels = parts.S.of_class(0)
        decoded = parts.S.decode(pixels)
        losses = [parts.objective.distances(theta, decoded[: some[-1]], 0, target, some).distances for some in ends]
        return torch.autograd.grad(torch.cat(losses).sum(), pixels)[0]

    sizes = [n * per_image for n in range(1, N + 1)]
    together, separately = gradient([sizes]), gradient([[size] for size in sizes])
    return apart(together, separately)


def evaluation_rows(threads: int) -> list[Row]:
    """Point 4."""
    with contenders((plain_evaluation, threads), (our_evaluation, threads)) as made:
        one, many = best([(contender, ["scores"]) for contender in made], rounds=1, warm=0)
    before, now = one["scores"], many["scores"]
    return [("evaluation of sizes 1 to 10", ">= 2x", f"{before / now:.2f}x: {now:.1f} s, one by one {before:.1f} s")]


def ranks_rows() -> list[Row]:
    """Two processes for one run."""
    found = ranks.measured(width=64)
    one, two = found[1][0], found[2][0]
    return [("two ranks of one thread", ">= 1.7x", f"{one / two:.2f}x: {two:.2f} s, one rank {one:.2f} s")]


def memory_rows() -> list[Row]:
    """Point 8."""
    peak, estimate = resident.measured("every-prefix")
    said = f"{peak / 1e6:.0f} MB; max_memory says {estimate / 1e6:.0f} MB"
    return [("peak memory on CIFAR-10, every prefix", "< 1.5 GB", said)]


def start_rows() -> list[Row]:
    """Point 10."""
    python = [sys.executable, "-X", "frozen_modules=on"]
    empty = fastest([*python, "-c", ""])
    return [
        ("mipset --help", "< 0.3 s", f"{fastest([*python, '-m', 'mipset', '--help']):.2f} s"),
        ("import mipset", "< 0.15 s", f"{fastest([*python, '-c', 'import mipset']) - empty:.2f} s"),
    ]


def main() -> None:
    threads, rounds = (int(value) for value in (*sys.argv[1:], "2", "3")[:2])
    sections: list[Callable[[], list[Row]]] = [
        lambda: engine_rows(threads, rounds),
        lambda: evaluation_rows(threads),
        ranks_rows,
        memory_rows,
        start_rows,
    ]
    print(f"one inner iteration of MDC at the paper's size, matching + training, {threads} threads, best of {rounds}")
    print(f"{'':38}{'wanted':14}measured")
    for section in sections:
        for title, wanted, measured in section():
            print(f"{title:38}{wanted:14}{measured}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(Path(folder))
        main()
