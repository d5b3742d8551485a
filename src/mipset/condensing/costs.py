"""What a condensation costs, before it runs: floating-point operations, memory, and time on this machine.

What is counted is what runs: `update` of condense.py and the learner's `advance`, with parts from assembly.py. On
the device "meta", tensors have shapes but no values, so the operations are counted without being computed. On a real
device the same functions are timed. Neither needs the data: their shape and number are enough.

A FLOP is one multiplication or one addition of a convolution or a matrix product. Norms, activations and augmentation
are not counted, but they take time: compare counts with counts, and times with times.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from mipset.condensing.assembly import LEARNERS, connect, metric, objective, policy
from mipset.condensing.condense import update
from mipset.condensing.experts import ExpertFiles
from mipset.condensing.learners import Learner
from mipset.condensing.objectives import Match, Objective, Target
from mipset.condensing.passes import Passes
from mipset.condensing.policies import Policy
from mipset.condensing.synthetic import Synthetic, formation
from mipset.nn.distributed import ALONE
from mipset.nn.engines import Engine
from mipset.nn.networks import Network, builder, fresh
from mipset.nn.training import Images, at_once
from mipset.settings.architecture import Architecture
from mipset.settings.recipe import Recipe

Shape = tuple[int, int, int]  # channels, height, width
META = torch.device("meta")

# What a process holds before it has any data: Python, numpy, torch and its optimisers (torch 2.13 on Linux).
BASELINE = 350_000_000
# Resident bytes for each byte of tensors that are alive at once: convolutions rearrange their inputs, and freed memory
# is kept (memory.py). Measured from 1.4 to 2.9 over widths 16 to 128, 1 to 50 images per class and images of 32 and 64
# pixels, on one and two cores; the largest was at width 128, which benchmarks/resident.py measures again.
RESIDENT = 2.6
LEARNING_RESIDENT = 2.0  # the same for a network that only learns and is tested: measured 1.4
LABEL_BYTES = 16  # a label, and the index of the image among those of its class
MOST_COUNTED = 200  # images per class; counting takes longer with each
PROBE_FLOPS = 1e10  # a step that needs more is timed with fewer images
PROBE_SECONDS, PROBE_REPEATS = 0.4, 4  # of each kind of step


@dataclass(frozen=True)
class Cost:
    """The cost of a recipe for data of one shape. Tensors are of 32-bit floats, on one device."""

    target_flops: int  # one match, the part of the real images
    distances_flops: int  # one match, the rest: distances of the synthetic images and gradient of the pixels
    step_flops: int  # one training step of the network
    start_flops: int  # a look at every real image, if the first pixels are chosen by features
    classes: int
    steps: int  # training steps between two inner iterations
    training_steps: int  # in the whole run, those of experts included
    inner: int
    outer: int
    parameters: int  # of the network
    experts: int
    remembered: int  # values that the pixel optimiser keeps of each pixel
    stored_pixels: int  # of the whole synthetic set; each is one byte in the file
    data_bytes: int  # the dataset in memory: pixels as bytes, labels, and the indices of each class
    starting_bytes: int  # the copy of the training images that the first pixels are taken from
    working_bytes: int  # the most that tensors hold during one step, with network and optimiser

    @property
    def match_flops(self) -> int:
        """One match: one class in one inner iteration."""
        return self.target_flops + self.distances_flops

    @property
    def inner_flops(self) -> int:
        """One inner iteration: a match of every class, then the training steps."""
        return self.classes * self.match_flops + self.steps * self.step_flops

    @property
    def run_flops(self) -> int:
        """The whole run."""
        return self.matches * self.match_flops + self.training_steps * self.step_flops + self.start_flops

    @property
    def matches(self) -> int:
        """The number of matches of a class in the whole run."""
        return self.outer * self.inner * self.classes

    @property
    def gradient_bytes(self) -> int:
        """The gradients of one training step."""
        return 4 * self.parameters

    @property
    def synthetic_bytes(self) -> int:
        """The synthetic set in memory: pixels, and what the optimiser remembers of each."""
        return 4 * (1 + self.remembered) * self.stored_pixels

    @property
    def expert_bytes(self) -> int:
        """The experts in memory: first and last weights, and two networks for each."""
        return 4 * 4 * self.parameters * self.experts

    @property
    def max_memory(self) -> int:
        """An estimate of the most resident bytes of the process, on a CPU."""
        working = max(self.starting_bytes, round(RESIDENT * self.working_bytes))
        return BASELINE + self.data_bytes + self.synthetic_bytes + self.expert_bytes + working

    def seconds(self, match: float, step: float) -> float:
        """The seconds of the run, if one match and one training step take so many seconds."""
        start = step * self.start_flops / self.step_flops
        return self.matches * match + self.training_steps * step + start


def cost(r: Recipe, shape: Shape, classes: int, images: int, test_images: int = 0) -> Cost:
    """Count what the recipe costs for `images` training images [ch, h, w] of so many classes.

    A policy that chooses subsets is counted as after its first choice, in an iteration without measurements. If there
    are very many images per class, some are counted, and the rest is in proportion.
    """
    if r.ipc > MOST_COUNTED:
        part = cost(_with_ipc(r, MOST_COUNTED), shape, classes, images, test_images)
        share = r.ipc / MOST_COUNTED
        return replace(
            part,
            distances_flops=round(share * part.distances_flops),
            stored_pixels=r.ipc * part.stored_pixels // MOST_COUNTED,
            working_bytes=round(share * part.working_bytes),
        )
    with PeakBytes() as peak:
        sample = Sample(r, shape, classes, META)
        sample.train()  # from now on there are gradients and momentum
        with FlopCounterMode(display=False) as counter:
            sample.train()
        step_flops = int(counter.get_total_flops())
        with FlopCounterMode(display=False) as counter, sample.counting_target(counter) as target:
            sample.match_all()
        match_flops, target_flops = (count // sample.matches for count in (counter.get_total_flops(), target.flops))
    by_features = r.init in ("herding", "k-means")
    look_flops = feature_flops(builder(r.architecture, shape, classes), shape) if by_features else 0
    pixels = shape[0] * shape[1] * shape[2]
    return Cost(
        target_flops=target_flops,
        distances_flops=match_flops - target_flops,
        step_flops=step_flops,
        start_flops=images * look_flops,
        classes=classes,
        steps=r.train_steps if r.learner == "trained" else 0,
        training_steps=r.training_steps,
        inner=r.inner,
        outer=r.outer,
        parameters=sum(weight.numel() for weight in sample.theta.parameters()),
        experts=r.experts if r.learner == "experts" else 0,
        remembered=sum(t.numel() == sample.parts.S.pixels.numel() for t in sample.parts.optimiser.state.values()),
        stored_pixels=r.ipc * classes * pixels,
        data_bytes=(images + test_images) * (pixels + LABEL_BYTES),
        starting_bytes=images * pixels if r.init != "noise" else 0,
        working_bytes=peak.most,
    )


def passes(r: Recipe, shape: Shape, classes: int, images: int) -> Passes:
    """The forward and backward passes of a run: of matches, of training steps, and of the measurements of a policy."""
    with META:
        real = Images.of(torch.empty(images, *shape), torch.empty(images), (0.5,), (0.5,), META)
    compared = objective(r, _sampled_learner(r, builder(r.architecture, shape, classes), real))
    cycles, rest = divmod(r.outer * r.inner, compared.cycle)
    matching = sum((compared.at(n).passes * (cycles + (n < rest)) for n in range(compared.cycle)), Passes()) * classes
    return matching + Passes(1, 1) * r.training_steps + measuring_passes(r, shape, classes, images)


def measuring_passes(r: Recipe, shape: Shape, classes: int, images: int) -> Passes:
    """The passes that a policy spends on measuring sizes."""
    with META:
        real = Images.of(torch.empty(images, *shape), torch.empty(images), (0.5,), (0.5,), META)
    build = builder(r.architecture, shape, classes)
    measured = sum(policy(r, classes).measures(t) for t in range(1, r.outer + 1))
    return metric(r, build, real).passes(r.ipc, classes * r.factor**2) * measured


def feature_flops(build: Callable[[], Network], shape: Shape) -> int:
    """The FLOPs of the features of one image [ch, h, w]."""
    theta, image = fresh(build, 0, META), torch.zeros(1, *shape, device=META)
    with FlopCounterMode(display=False) as counter:
        theta.features(image)
    return int(counter.get_total_flops())


def learning_memory(architecture: Architecture, shape: Shape, classes: int, batch: int) -> int:
    """Resident bytes of a process that trains a network on batches of images [ch, h, w] and then tests it."""
    with PeakBytes() as peak:
        theta = fresh(builder(architecture, shape, classes), 0, META)
        optimiser = torch.optim.SGD(theta.parameters(), momentum=0.9, foreach=False)
        for _ in range(2):  # in the second step there are gradients and momentum
            theta(torch.empty(batch, *shape, device=META)).sum().backward()
            optimiser.step()
        with torch.no_grad():
            theta(torch.empty(at_once(shape[1:]), *shape, device=META))
    return BASELINE + round(LEARNING_RESIDENT * peak.most)


def timed(
    r: Recipe,
    shape: Shape,
    classes: int,
    device: torch.device,
    engine: Engine | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float]:
    """Seconds of one match and of one training step on this machine, from about a second of work.

    Steps that take longer are timed with fewer images, and the time is scaled by their FLOPs. `clock` can be
    `time.process_time`, which does not depend on other work on the machine.
    """
    whole = cost(r, shape, classes, 0)
    part = _cut(r, whole)
    small = whole if part is r else cost(part, shape, classes, 0)
    sample = Sample(part, shape, classes, device, engine)
    step = _fastest(sample.train, sample.wait, clock) * whole.step_flops / small.step_flops
    match = _fastest(sample.match_all, sample.wait, clock) / sample.matches * whole.match_flops / small.match_flops
    return match, step


def _cut(r: Recipe, whole: Cost) -> Recipe:
    """The same recipe with as many images as fit into a probe."""
    match, step = (min(1.0, PROBE_FLOPS / flops) for flops in (whole.match_flops, whole.step_flops))
    if match == step == 1.0:
        return r
    return _with_ipc(r, max(1, int(r.ipc * match))).replace(
        factor=r.factor if r.ipc * match >= 1 else 1,
        real_batch=max(1, int(r.real_batch * match)),
        train_batch=max(1, int(r.train_batch * step)),
    )


def _with_ipc(r: Recipe, ipc: int) -> Recipe:
    """The same recipe for another number of images per class."""
    keeps_weights = ipc == r.ipc or r.prefix_weights == "size"
    return r.replace(ipc=ipc, prefix_weights=r.prefix_weights if keeps_weights else "one")


def _fastest(work: Callable[[], object], wait: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of the fastest of a few repeats, but at least two: the first allocates its memory."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < PROBE_REPEATS and sum(times) < PROBE_SECONDS):
        start = clock()
        work()
        wait()
        times.append(clock() - start)
    return min(times)


def _sampled_learner(r: Recipe, build: Callable[[], Network], real: Images) -> Learner:
    """A learner whose `advance` is one training step: all learners train networks by the same rule."""
    once = r.replace(learner="trained", train_images=r.train_batch)
    return LEARNERS[once.learner](once, build, real, ALONE, ExpertFiles(None))


class Sample:
    """The smallest run that takes the two steps of a real one: a match of one group of classes, and a training step.

    It has one batch of real images, which are all the same. The pixels do not move.
    """

    def __init__(
        self, r: Recipe, shape: Shape, classes: int, device: torch.device, engine: Engine | None = None
    ) -> None:
        still = r.replace(pixel_lr=0.0)
        level = (0.5,) * shape[0]
        images = max(r.real_batch, r.train_batch)
        build = builder(r.architecture, shape, classes, engine)
        with device:
            pixels, labels = torch.zeros(images, *shape, dtype=torch.uint8), torch.zeros(images, dtype=torch.long)
        real = Images.of(pixels, labels, level, level, device)
        learner = _sampled_learner(r, build, real)
        pixels_per_class = (r.ipc * r.factor**2 + r.real_batch) * shape[1] * shape[2]
        self.group = objective(r, learner).groups(range(classes), pixels_per_class)[0]
        with device:
            first = torch.full((r.ipc, len(self.group), *shape), 0.5)
        S = Synthetic(first, formation(r.factor), level, level)
        parts = connect(still, S, real, [torch.arange(r.real_batch)] * len(self.group), build, learner)
        self.parts = replace(parts, policy=AfterFirstChoice(parts.policy, len(self.group), r.ipc))
        self.theta = parts.learner.start(1)

    def train(self) -> None:
        """One training step."""
        self.parts.learner.advance(self.theta, 0)

    def match_all(self) -> None:
        """One group of classes in as many inner iterations as the objective has different ones."""
        for e in range(1, self.parts.objective.cycle + 1):
            update(self.parts, self.theta, 1, e, self.group)

    @property
    def matches(self) -> int:
        """The number of matches of one class in `match_all`."""
        return len(self.group) * self.parts.objective.cycle

    def wait(self) -> None:
        """Wait until the device has finished."""
        for tensor in (self.parts.S.pixels, next(self.theta.parameters())):
            tensor.flatten()[0].item()

    @contextmanager
    def counting_target(self, counter: FlopCounterMode) -> Iterator[CountedTarget]:
        """Tell the FLOPs of the real side of a match apart, from what `counter` has counted."""
        parts = self.parts
        counted = CountedTarget(parts.objective, counter)
        self.parts = replace(parts, objective=counted)
        yield counted
        self.parts = parts


class CountedTarget(Objective[Target]):
    """Another objective, and the FLOPs of its real side."""

    def __init__(self, objective: Objective[Any], counter: FlopCounterMode) -> None:
        self._objective, self._counter = objective, counter
        self._now = objective
        self.cycle = objective.cycle
        self.flops = 0

    def at(self, number: int) -> CountedTarget:
        self._now = self._objective.at(number)
        return self

    def target(self, theta: Network, real: Tensor, labels: Sequence[int]) -> Target:
        before = self._counter.get_total_flops()
        target: Target = self._now.target(theta, real, labels)
        self.flops += int(self._counter.get_total_flops() - before)
        return target

    def distances(
        self, theta: Network, synthetic: Tensor, labels: Sequence[int], target: Target, ends: Sequence[int]
    ) -> Match:
        return self._now.distances(theta, synthetic, labels, target, ends)


class AfterFirstChoice(Policy):
    """Another policy between its first and its second choice, where it measures nothing."""

    def __init__(self, policy: Policy, classes: int, N: int) -> None:
        if policy.measures(1):
            policy.select(1, torch.zeros(classes, N))
        self._policy = policy

    def weights(self, c: int) -> Sequence[float]:
        return self._policy.weights(c)

    def frozen(self, c: int) -> int:
        return self._policy.frozen(c)

    def steps(self, c: int) -> Sequence[float] | None:
        return self._policy.steps(c)


class PeakBytes(TorchDispatchMode):
    """The most bytes that tensors on the device "meta" have held at once: it sees every tensor that is made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._now = 0
        self._alive: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.device.type == "meta":
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._alive:
            return
        self._alive[key] = storage.nbytes()
        self._now += storage.nbytes()
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._remove, key)

    def _remove(self, key: int) -> None:
        self._now -= self._alive.pop(key)
