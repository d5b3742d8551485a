"""What a condensation costs, before it runs: floating-point operations, memory, and time on this machine.

What is counted is what runs: `update` of condense.py and the learner's `advance`, with parts from assembly.py. On
the device "meta", tensors have shapes but no values, so the operations are counted without being computed. On a real
device the same functions are timed. Neither needs the data: their shape and number are enough.

A FLOP is one multiplication or one addition of a convolution or a matrix product. Norms, activations and augmentation
are not counted, but they take time: compare counts with counts, and times with times.
"""

from __future__ import annotations

import math
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

from mipset.condensing.assembly import connect, metric, objective, policy, training_rule
from mipset.condensing.condense import update
from mipset.condensing.learners import Learner, TrainedOnReal
from mipset.condensing.objectives import Match, Objective, Target
from mipset.condensing.passes import Passes
from mipset.condensing.policies import Policy
from mipset.condensing.states import weights_of
from mipset.condensing.synthetic import Synthetic, formation
from mipset.nn.engines import Engine
from mipset.nn.networks import Network, builder, fresh
from mipset.nn.threads import using_threads
from mipset.nn.training import Images, at_once
from mipset.settings.architecture import Architecture
from mipset.settings.choices import FROM_NOISE
from mipset.settings.recipe import NAMED_WEIGHTS, Recipe

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
PIXELS_COUNTED = 2000 * 32 * 32  # of a batch of real images, for the same reason
PROBE_FLOPS = 1e10  # a step that needs more is timed with fewer images
PROBE_SECONDS, PROBE_REPEATS = 0.4, 4  # of each kind of step


@dataclass(frozen=True)
class Cost:
    """The cost of a recipe for data of one shape. Tensors are of 32-bit floats, on one device."""

    sampling_flops: int  # of clustering real images, for one match
    target_flops: int  # one match, the part of the real images
    distances_flops: int  # one match, the rest: distances of the synthetic images and gradient of the pixels
    step_flops: int  # one training step of the network
    start_flops: int  # a look at every real image, if the first pixels are chosen by features
    classes: int
    steps: int  # training steps between two inner iterations
    training_steps: int  # in the whole run, with those of experts and those before a first match
    inner: int
    outer: int
    parameters: int  # of the network
    experts: int
    remembered: int  # values that the pixel optimiser keeps of each pixel
    stored_pixels: int  # of the whole synthetic set; each is one byte in the file
    data_bytes: int  # the dataset in memory: pixels as bytes, labels, and the indices of each class
    starting_bytes: int  # the copy of the training images that the first pixels are taken from
    working_bytes: int  # the most that tensors hold during one step, with network and optimiser
    trajectory_bytes: int = 0  # on disk, of the snapshots of all experts

    @property
    def match_flops(self) -> int:
        """One match: one class in one inner iteration."""
        return self.sampling_flops + self.compared_flops

    @property
    def compared_flops(self) -> int:
        """One match without the choice of its real images."""
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
        """The experts in memory: first and last weights, and two networks for each; of snapshots, those in use."""
        return 4 * 4 * self.parameters * self.experts

    @property
    def max_memory(self) -> int:
        """An estimate of the most resident bytes of the process, on a CPU."""
        working = max(self.starting_bytes, round(RESIDENT * self.working_bytes))
        return BASELINE + self.data_bytes + self.synthetic_bytes + self.expert_bytes + working

    def seconds(self, match: float, step: float) -> float:
        """The seconds of the run, if one match, its real images given, and one training step take so many seconds."""
        looking = (self.start_flops + self.matches * self.sampling_flops) * step / self.step_flops
        return self.matches * match + self.training_steps * step + looking


def cost(r: Recipe, shape: Shape, classes: int, images: int, test_images: int = 0) -> Cost:
    """Count what the recipe costs for `images` training images [ch, h, w] of so many classes.

    A policy that chooses subsets is counted as after its first choice, in an iteration without measurements. If there
    are very many images per class, or in a batch, some are counted, and the rest is in proportion. So are the steps of
    students.
    """
    if r.reads("student_sizes") and r.student_sizes:
        whole = cost(r.replace(student_sizes=0), shape, classes, images, test_images)
        drawn = sum(students(r).values()) / sum(students(r.replace(student_sizes=0)).values())
        return replace(whole, distances_flops=round(drawn * whole.distances_flops))
    if r.reads("student_steps") and r.student_steps > 2:
        one, two = (cost(r.replace(student_steps=k), shape, classes, images, test_images) for k in (1, 2))
        more = r.student_steps - 1
        return replace(
            one,
            distances_flops=one.distances_flops + more * (two.distances_flops - one.distances_flops),
            working_bytes=one.working_bytes + more * one.gradient_bytes,  # a copy of the weights before each step
        )
    if r.ipc > MOST_COUNTED:
        part = cost(_with_ipc(r, MOST_COUNTED), shape, classes, images, test_images)
        share = r.ipc / MOST_COUNTED
        return replace(
            part,
            distances_flops=round(share * part.distances_flops),
            stored_pixels=r.ipc * part.stored_pixels // MOST_COUNTED,
            working_bytes=round(share * part.working_bytes),
        )
    fewer = _fewer_real_images(r, shape)
    if fewer != r:
        part = cost(fewer, shape, classes, images, test_images)
        more = r.real_batch - fewer.real_batch + r.train_batch - fewer.train_batch
        return replace(
            part,
            target_flops=round(part.target_flops * r.real_batch / fewer.real_batch),
            step_flops=round(part.step_flops * r.train_batch / fewer.train_batch),
            sampling_flops=sampling_flops(r, images // classes, builder(r.architecture, shape, classes), shape),
            steps=r.train_steps(classes),
            training_steps=r.training_steps(classes) + r.networks * r.early_steps(images),
            working_bytes=part.working_bytes + 2 * 4 * math.prod(shape) * more,  # their pixels, and augmented ones
        )
    with PeakBytes() as peak:
        sample = Sample(r, shape, classes, META)
        sample.train()  # from now on there are gradients and momentum
        with FlopCounterMode(display=False) as counter:
            sample.train()
        filled = r.images_per_step(classes) / _train_batch(r, classes)
        step_flops = round(int(counter.get_total_flops()) * filled)
        with FlopCounterMode(display=False) as counter, sample.counting_target(counter) as target:
            sample.match_all()
        match_flops, target_flops = (count // sample.matches for count in (counter.get_total_flops(), target.flops))
    build = builder(r.architecture, shape, classes)
    pixels = shape[0] * shape[1] * shape[2]
    parameters = sum(weight.numel() for weight in sample.theta.parameters())
    return Cost(
        sampling_flops=sampling_flops(r, images // classes, build, shape),
        target_flops=target_flops,
        distances_flops=match_flops - target_flops,
        step_flops=step_flops,
        start_flops=start_flops(r, images, build, shape),
        classes=classes,
        steps=r.train_steps(classes),
        training_steps=r.training_steps(classes) + r.networks * r.early_steps(images),
        inner=r.inner,
        outer=r.outer,
        parameters=parameters,
        experts={"experts": r.experts, "trajectories": 1}.get(r.learner, 0),
        remembered=sum(t.numel() == sample.parts.S.pixels.numel() for t in sample.parts.optimiser.state.values()),
        stored_pixels=r.ipc * classes * pixels,
        data_bytes=(images + test_images) * (pixels + LABEL_BYTES),
        starting_bytes=images * pixels if r.init not in FROM_NOISE else 0,
        working_bytes=peak.most,
        trajectory_bytes=4 * parameters * r.snapshots * r.experts if r.learner == "trajectories" else 0,
    )


def _fewer_real_images(r: Recipe, shape: Shape) -> Recipe:
    """The recipe with batches of real images that are counted in moments. The rest of them is in proportion."""
    most = max(1, PIXELS_COUNTED // (shape[1] * shape[2]))
    train_batch = r.train_batch if r.learner == "trained-on-synthetic" else min(r.train_batch, most)
    return r.replace(real_batch=min(r.real_batch, most), train_batch=train_batch)


def _train_batch(r: Recipe, classes: int) -> int:
    """Images of a full training step."""
    return min(r.train_batch, r.decoded_images(classes)) if r.learner == "trained-on-synthetic" else r.train_batch


def start_flops(r: Recipe, images: int, build: Callable[[], Network], shape: Shape) -> int:
    """The FLOPs of a look at every real image, if the first pixels are chosen by features."""
    return images * feature_flops(build, shape) if r.init in ("herding", "k-means") else 0


def sampling_flops(r: Recipe, members: int, build: Callable[[], Network], shape: Shape) -> int:
    """The FLOPs of clustering for one match: features of real images, and distances from centroids.

    This is the most that it can be: k-means often ends before its last step.
    """
    if r.sampler != "k-means":
        return 0
    looked_at = min(r.cluster_images or members, members)
    features = fresh(build, 0, META).features(torch.zeros(1, *shape, device=META)).shape[1]
    looks = (looked_at + r.real_batch) * feature_flops(build, shape)
    distances = 2 * features * looked_at * r.real_batch * (r.cluster_steps + 1)
    clusterings = -(-r.inner // r.cluster_every)
    return round((looks + distances) * clusterings / r.inner)


def passes(r: Recipe, shape: Shape, classes: int, images: int) -> Passes:
    """The forward and backward passes of a run: of matches, of training steps, and of the measurements of a policy."""
    with META:
        real = Images.of(torch.empty(images, *shape), torch.empty(images), (0.5,), (0.5,), META)
    compared = objective(r, _sampled_learner(r, builder(r.architecture, shape, classes), real))
    cycles, rest = divmod(r.outer * r.inner, compared.cycle)
    matching = sum((compared.at(n).passes * (cycles + (n < rest)) for n in range(compared.cycle)), Passes())
    matching *= round(sum(students(r).values())) if compared.joint else classes
    steps = r.training_steps(classes) + r.networks * r.early_steps(images)
    return matching + Passes(1, 1) * steps + measuring_passes(r, shape, classes, images)


def students(r: Recipe) -> dict[int, float]:
    """For each size that has a student of its own (objective `trajectory`): in how many inner iterations, as a share.

    A policy that chooses subsets is counted as after its first choice.
    """
    weights = AfterFirstChoice(policy(r, 1), 1, r.ipc).weights(0)
    sizes = [n for n, weight in enumerate(weights, start=1) if weight or n == r.ipc]
    return dict.fromkeys(sizes, min(r.student_sizes or len(sizes), len(sizes)) / len(sizes))


def student_flops(r: Recipe, whole: Cost) -> dict[int, float]:
    """About how many FLOPs the student of each size costs in an inner iteration that it has a part in."""
    images = {n: min(r.student_batch or math.inf, n * r.factor**2 * whole.classes) for n in students(r)}
    expected = sum(images[n] * share for n, share in students(r).items())
    return {n: whole.classes * whole.distances_flops * images[n] / expected for n in images}


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
    return BASELINE + int(LEARNING_RESIDENT * peak.most)


def timed(
    r: Recipe,
    shape: Shape,
    classes: int,
    device: torch.device,
    engine: Engine | None = None,
) -> tuple[float, float]:
    """Seconds of one match, its real images given, and of one training step here, from about a second of work.

    Steps that take longer are timed with fewer images, and the time is scaled by their FLOPs.
    """
    return _timed(r, shape, classes, device, engine, time.perf_counter)


def processor_seconds(
    r: Recipe, shape: Shape, classes: int, device: torch.device, engine: Engine | None = None
) -> tuple[float, float]:
    """The same in processor time, which hardly depends on other work on the machine; on a GPU, in seconds.

    It is measured with one thread: several spend processor time on waiting for each other.
    """
    if device.type != "cpu":
        return timed(r, shape, classes, device, engine)
    with using_threads(1):
        return _timed(r, shape, classes, device, engine, time.process_time)


def _timed(
    r: Recipe, shape: Shape, classes: int, device: torch.device, engine: Engine | None, clock: Callable[[], float]
) -> tuple[float, float]:
    whole = cost(r, shape, classes, 0)
    part = _cut(r, whole)
    small = whole if part is r else cost(part, shape, classes, 0)
    sample = Sample(part, shape, classes, device, engine)
    step = _fastest(sample.train, sample.wait, clock) * whole.step_flops / small.step_flops
    compared = _fastest(sample.match_all, sample.wait, clock) / sample.matches
    return compared * whole.compared_flops / small.compared_flops, step


def _cut(r: Recipe, whole: Cost) -> Recipe:
    """The same recipe with as many images as fit into a probe, and with as many steps of students."""
    match, step = (min(1.0, PROBE_FLOPS / flops) for flops in (whole.compared_flops, whole.step_flops))
    if match == step == 1.0 and not r.student_sizes:
        return r
    if r.reads("student_steps"):
        fewer = max(1, int(r.student_steps * match))
        r, match = r.replace(student_steps=fewer, student_sizes=0), min(1.0, match * r.student_steps / fewer)
    return _with_ipc(r, max(1, int(r.ipc * match))).replace(
        factor=r.factor if r.ipc * match >= 1 else 1,
        real_batch=max(1, int(r.real_batch * match)),
        train_batch=max(1, int(r.train_batch * step)),
    )


def _with_ipc(r: Recipe, ipc: int) -> Recipe:
    """The same recipe for another number of images per class."""
    keeps_weights = ipc == r.ipc or r.prefix_weights in NAMED_WEIGHTS
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
    return OneStep(build, real, training_rule(r), batch=r.train_batch, batches=1, seed=r.seed)


class OneStep(TrainedOnReal):
    """Networks that are trained once; where they would go is invented."""

    def later(self, theta: Network) -> Tensor:
        return weights_of(theta) + 1


class Sample:
    """The smallest run that takes the two steps of a real one: a match of one group of classes, and a training step.

    It has one batch of real images, which are all the same. The pixels do not move.
    """

    def __init__(
        self, r: Recipe, shape: Shape, classes: int, device: torch.device, engine: Engine | None = None
    ) -> None:
        r = r.replace(train_batch=_train_batch(r, classes))
        still = r.replace(pixel_lr=0.0, student_lr_lr=0.0, sampler="shuffled-epochs")  # see `sampling_flops`
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
        self.joint, self.cycle = objective.joint, objective.cycle
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
