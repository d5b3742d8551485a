"""All claims about speed, measured in one run and printed in one table.

The reference is one inner iteration of MDC with the paper's settings: CIFAR-10 shapes, ConvNet-3 of width 128, 10
classes of 10 images, factor 2, 64 real images per class, S_[1] active; then the network learns from 2,000 real images
in batches of 64. `plain.py` is this reference.

Run:   make bench, or python benchmarks/bench.py [THREADS] [ROUNDS]
Takes: 4 minutes on 2 free cores.
Printed: docs/speed.md has the table.
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
import processes
import resident
import torch
import torch.nn.functional as F
from rounds import Work, best_times, contenders
from torch import Tensor

from mipset.condensing.assembly import assemble
from mipset.condensing.condense import update
from mipset.condensing.costs import cost
from mipset.condensing.learners import TrainedOnReal
from mipset.condensing.objectives import GradientMatching
from mipset.condensing.optimisers import MomentumSGD
from mipset.condensing.parts import Parts
from mipset.condensing.policies import BaselineC, EveryPrefix, MostLearnableSubset, Policy
from mipset.data import Dataset
from mipset.evaluation.evaluate import Evaluation
from mipset.file.artifact import Artifact
from mipset.nn.engines import Engine, native
from mipset.nn.memory import keep_freed_memory
from mipset.nn.networks import builder, fresh
from mipset.settings.architecture import Architecture
from mipset.settings.paper_recipes import PAPER_CIFAR10
from mipset.settings.protocol import protocol
from mipset.settings.recipe import Recipe

N, CLASSES, SHAPE = 10, 10, (3, 32, 32)
CPU = torch.device("cpu")
WIDE = Architecture("convnet", 128, 3)


def random_data(train: int = 5000, test: int = 100) -> Dataset:
    """Random images of CIFAR-10's shape."""
    splits = noise.random_split(train), noise.random_split(test, seed=1)
    return Dataset("noise", *splits, tuple("abcdefghij"), (0.5,) * 3, (0.25,) * 3)


def subset_of_one() -> MostLearnableSubset:
    """The policy of MDC after its first selection: S_[1] is active."""
    policy = MostLearnableSubset(N)
    policy.restore({"chosen": [1], "F_before": [0.0] * (N - 1), "frozen": 0})
    return policy


def parts_of(recipe: Recipe, engine: Engine) -> Parts:
    """The parts of a condensation of random images."""
    return assemble(recipe, random_data(), CPU, None, engine)


def plain_setup(threads: int) -> dict[str, Work]:
    """The pieces of work of the reference."""
    torch.set_num_threads(threads)
    parts = parts_of(PAPER_CIFAR10, Engine())
    learner = parts.learner
    assert isinstance(learner, TrainedOnReal)
    theta = learner.start(2)
    optimiser = learner.rule.optimiser(theta)
    return {
        "match": lambda: plain.match_all_classes(parts, theta, 2, 1, subset=1),
        "train": lambda: plain.train(learner, theta, optimiser, 1),
        "gradient": lambda: plain.pixel_gradient(parts, parts.learner.start(3), 2, 1, 0, subset=1),
    }


def our_setup(threads: int, changes: dict[str, Any]) -> dict[str, Work]:
    """The same pieces of work with the compiled kernels, and matching with other policies."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    parts = parts_of(PAPER_CIFAR10.replace(**changes), native())
    theta = parts.learner.start(2)

    def match(policy: Policy) -> Work:
        changed = replace(parts, policy=policy)
        return lambda: [update(changed, theta, 2, 1, [c]) for c in changed.classes]

    def gradient() -> Tensor:
        fresh = replace(parts_of(PAPER_CIFAR10, native()), policy=subset_of_one())
        update(fresh, fresh.learner.start(3), 2, 1, [0])
        # The velocity decayed while the other classes took their steps.
        assert isinstance(fresh.optimiser, MomentumSGD)
        return fresh.optimiser.velocity[:, 0] / fresh.optimiser.momentum ** (fresh.S.C - 1)

    return {
        "match": match(subset_of_one()),
        "base": match(BaselineC(N)),
        "every": match(EveryPrefix((1.0,) * N)),
        "train": lambda: parts.learner.advance(theta, 1),
        "gradient": gradient,
    }


FIRST_ORDER = {
    "feature": "feature",
    "confident": "feature+10*confidence",
    "waves": "characteristic+10*confidence",
    "default": "layered+10*confidence/2",
}
FIRST_ORDER_STEPS = 2  # inner iterations that are timed at once: a term may count in every second one only


def first_order_setup(threads: int) -> dict[str, Work]:
    """The steps of first-order objectives, with the same images and networks of the same shape."""
    torch.set_num_threads(threads)
    keep_freed_memory()

    def step(objective: str, policy: Policy) -> Work:
        experts = {"learner": "experts", "experts": 1, "expert_steps": 1, "pixel_optimiser": "adam"}
        parts = replace(parts_of(PAPER_CIFAR10.replace(objective=objective, **experts), native()), policy=policy)
        theta = parts.learner.start(1)
        numbers = range(1, FIRST_ORDER_STEPS + 1)
        return lambda: [update(parts, theta, 2, e, group) for e in numbers for group in parts.groups]

    every = {name: step(objective, EveryPrefix((1.0,) * N)) for name, objective in FIRST_ORDER.items()}
    return {**every, "base": step("feature", BaselineC(N))}


def peak_setup(threads: int) -> dict[str, Work]:
    """The largest convolution of the network in torch, in both memory formats."""
    torch.set_num_threads(threads)
    x, weight = torch.randn(64, 128, 16, 16), torch.randn(128, 128, 3, 3)
    last_x, last_weight = (value.to(memory_format=torch.channels_last) for value in (x, weight))
    return {
        "channels first": lambda: F.conv2d(x, weight, padding=1),
        "channels last": lambda: F.conv2d(last_x, last_weight, padding=1),
    }


def residual_setup(threads: int, compiled: bool) -> dict[str, Work]:
    """ResNetAP-10 at 224 pixels: a match of a few images of one class, and a training step."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    build = builder(Architecture("resnet-ap", 64, 10), (3, 224, 224), CLASSES, native() if compiled else Engine())
    theta, objective = fresh(build, 0, CPU), GradientMatching()
    real, synthetic = (torch.randn(1, 4, 3, 224, 224) for _ in range(2))

    def match() -> None:
        pixels = synthetic.clone().requires_grad_()
        distances = objective.distances(theta, pixels, [0], objective.target(theta, real, [0]), [4]).distances
        torch.autograd.grad(distances.sum(), pixels)

    def train() -> None:
        loss = F.cross_entropy(theta(real[0]), torch.zeros(4, dtype=torch.long))
        torch.autograd.grad(loss, list(theta.parameters()))

    return {"match": match, "train": train}


PEAK_FLOPS = 2 * 64 * 16 * 16 * 128 * 128 * 9
EPOCHS = 4


def evaluation(engine: Engine) -> Evaluation:
    """An evaluation of a file of random images."""
    real = random_data()
    stored = real.train.images[: N * CLASSES].reshape(N, CLASSES, *SHAPE)
    return Evaluation(
        Artifact(stored, 2, real.mean, real.std, real.class_names),
        real,
        protocol("paper", epochs=EPOCHS),
        WIDE,
        engine=engine,
    )


def plain_evaluation(threads: int) -> dict[str, Work]:
    """Evaluate one network after the other."""
    torch.set_num_threads(threads)
    plain_torch = evaluation(Engine())
    return {"scores": lambda: list(plain_torch.scores(range(1, N + 1), networks=1, workers=1))}


def our_evaluation(workers: int) -> dict[str, Work]:
    """Evaluate as many networks at once as there are processes."""
    compiled = evaluation(native())
    return {"scores": lambda: list(compiled.scores(range(1, N + 1), networks=1, workers=workers))}


def relative_difference(value: Tensor, reference: Tensor) -> float:
    """The norm of the difference, divided by the norm of the reference."""
    return float((value - reference).norm() / reference.norm())


def shortest_seconds(command: list[str], repeats: int = 5) -> float:
    """The shortest time that a command takes."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return min(times)


Row = tuple[str, str, str]


def engine_rows(threads: int, rounds: int) -> list[Row]:
    """One inner iteration: the reference, ours in both precisions, the policies, and the rate in FLOP/s."""
    setups: list[tuple[Any, ...]] = [
        (plain_setup, threads),
        (our_setup, threads, {}),
        (our_setup, threads, {"train_precision": "bfloat16"}),
        (first_order_setup, threads),
        (peak_setup, threads),
    ]
    with contenders(*setups) as started:
        reference, ours, half, first_order, largest = started
        error = relative_difference(ours.result("gradient"), reference.result("gradient"))
        turns = [
            (reference, ["match", "train"]),
            (ours, ["match", "base", "every", "train"]),
            (half, ["train"]),
            (first_order, [*FIRST_ORDER, "base"]),
            (largest, ["channels first", "channels last"] * 9),
        ]
        r, o, h, f, p = best_times(turns, rounds)
    plain_total, total, half_total = r["match"] + r["train"], o["match"] + o["train"], o["match"] + h["train"]
    flops = cost(PAPER_CIFAR10, SHAPE, CLASSES, 50_000).inner_flops
    peak = PEAK_FLOPS / min(p.values()) / 1e9
    rate, plain_rate = flops / total / 1e9, flops / plain_total / 1e9
    return [
        ("plain reference", "", f"{plain_total:.2f} s: {r['match']:.2f} + {r['train']:.2f}"),
        ("ours, float32", ">= 1.8x", f"{plain_total / total:.2f}x: {total:.2f} s: {o['match']:.2f} + {o['train']:.2f}"),
        ("  difference of pixel gradients", "<= 5e-3", f"{error:.1e}"),
        (
            "ours, training in bfloat16",
            ">= 3.5x",
            f"{plain_total / half_total:.2f}x: {half_total:.2f} s: {o['match']:.2f} + {h['train']:.2f}",
        ),
        ("MDC against Baseline C", "<= 1.10x", f"{total / (o['base'] + o['train']):.2f}x"),
        ("every prefix against the base loss", "<= 1.35x", f"{o['every'] / o['base']:.2f}x"),
        ("  of feature matching", "<= 1.10x", f"{f['feature'] / f['base']:.2f}x"),
        *(
            (f"  {objective}", "", f"{o['every'] / f[name] * FIRST_ORDER_STEPS:.1f} steps for one of gradients")
            for name, objective in FIRST_ORDER.items()
        ),
        ("  its gradient against N losses", "<= 1e-4", f"{every_prefix_error():.1e}"),
        ("GFLOP/s of direct convolution", "60 % of peak", f"{rate:.0f} of {peak:.0f}: {100 * rate / peak:.0f} %"),
        ("  plain", "", f"{plain_rate:.0f}: {100 * plain_rate / peak:.0f} %"),
    ]


def residual_rows(threads: int, rounds: int) -> list[Row]:
    """The kernels against torch for ResNetAP at 224 pixels, in one run."""
    with contenders((residual_setup, threads, False), (residual_setup, threads, True)) as started:
        plain_times, ours = best_times([(contender, ["match", "train"]) for contender in started], rounds)
    return [
        (f"ResNetAP-10 at 224 pixels, {work}", ">= 1.5x", f"{plain_times[work] / ours[work]:.2f}x: {ours[work]:.2f} s")
        for work in ("match", "train")
    ]


def every_prefix_error() -> float:
    """The difference between the gradient of one pass for all sizes and of one pass for each, in plain torch."""
    parts = parts_of(PAPER_CIFAR10.replace(width=32), Engine())
    theta, per_image = parts.learner.start(1), parts.S.formation.images
    real = parts.sampler.sample(0, theta, 0)[None]
    target = parts.objective.target(theta, real, [0])

    def gradient(ends: list[list[int]]) -> Tensor:
        pixels = parts.S.of_class(0)
        decoded = parts.S.decode(pixels)[None]
        matches = [parts.objective.distances(theta, decoded[:, : some[-1]], [0], target, some) for some in ends]
        return torch.autograd.grad(torch.cat([match.distances for match in matches], dim=1).sum(), pixels)[0]

    sizes = [n * per_image for n in range(1, N + 1)]
    one_pass, separate_passes = gradient([sizes]), gradient([[size] for size in sizes])
    return relative_difference(one_pass, separate_passes)


def evaluation_rows(threads: int) -> list[Row]:
    """The evaluation of all sizes, one network after the other and in parallel processes."""
    with contenders((plain_evaluation, threads), (our_evaluation, threads)) as started:
        plain_times, our_times = best_times([(contender, ["scores"]) for contender in started], rounds=1, warmup=0)
    before, now = plain_times["scores"], our_times["scores"]
    return [("evaluation of sizes 1 to 10", ">= 2x", f"{before / now:.2f}x: {now:.1f} s, one by one {before:.1f} s")]


def processes_rows() -> list[Row]:
    """Two processes that share a condensation, against one."""
    best = processes.best_seconds(width=64)
    one, two = best[1][0], best[2][0]
    return [("two processes of one thread", ">= 1.7x", f"{one / two:.2f}x: {two:.2f} s, one process {one:.2f} s")]


def memory_rows() -> list[Row]:
    """The peak memory of a condensation."""
    peak, estimate = resident.peak_and_estimate("every-prefix")
    text = f"{peak / 1e6:.0f} MB; the estimate is {estimate / 1e6:.0f} MB"
    return [("peak memory on CIFAR-10, every prefix", "< 1.5 GB", text)]


def start_rows() -> list[Row]:
    """The time to start."""
    python = [sys.executable, "-X", "frozen_modules=on"]
    empty = shortest_seconds([*python, "-c", ""])
    return [
        ("mipset --help", "< 0.3 s", f"{shortest_seconds([*python, '-m', 'mipset', '--help']):.2f} s"),
        ("import mipset", "< 0.15 s", f"{shortest_seconds([*python, '-c', 'import mipset']) - empty:.2f} s"),
    ]


def main() -> None:
    threads, rounds = (int(value) for value in (*sys.argv[1:], "2", "3")[:2])
    sections: list[Callable[[], list[Row]]] = [
        lambda: engine_rows(threads, rounds),
        lambda: residual_rows(threads, rounds),
        lambda: evaluation_rows(threads),
        processes_rows,
        memory_rows,
        start_rows,
    ]
    print("one inner iteration of MDC with the paper's settings: matching + training")
    print(f"{threads} threads, best of {rounds} rounds")
    print(f"{'':38}{'wanted':14}measured")
    for section in sections:
        for title, wanted, measured in section():
            print(f"{title:38}{wanted:14}{measured}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(Path(folder))
        main()
