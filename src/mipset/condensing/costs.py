"""What a condensation costs, before it runs: floating-point operations, memory, and time on this machine.

The steps of a recipe, one match of one class and one training step, are those of a real run. On the device `meta`
tensors have shapes but no values, so that the steps can be counted without being computed; on a real device the same
steps are timed. Neither needs the data: only their shape and number.

A FLOP is one multiplication or one addition of a convolution or a matrix product. Norms, activations and augmentation
are not counted, and take time all the same: compare counts with counts, and times with times.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from mipset.condensing.assembly import metric, objective, policy, training_rule
from mipset.condensing.metrics import Passes
from mipset.condensing.objectives import Target
from mipset.condensing.synthetic import Synthetic, formation
from mipset.nn.augment import augmentation
from mipset.nn.engines import Engine
from mipset.nn.networks import Network, builder
from mipset.nn.training import Images
from mipset.settings.recipe import Recipe

Shape = tuple[int, int, int]  # channels, height, width

# What a process holds before it has any data: Python, numpy, torch and its optimisers (torch 2.13 on Linux).
BASELINE = 350_000_000
# Resident bytes for each byte of tensors that are alive at once: convolutions rearrange what they are given, and freed
# memory is kept (memory.py). Measured from 1.4 to 2.9 over widths 16 to 128, 1 to 50 images per class and images of
# 32 and 64 pixels, on one and two cores; it was the most at width 128, which benchmarks/resident.py measures again.
RESIDENT = 2.6
PROBE_FLOPS = 1e10  # a step that needs more is timed with fewer images
PROBE_SECONDS, PROBE_REPEATS = 0.4, 4  # of each kind of step


@dataclass(frozen=True)
class Cost:
    """What a recipe costs for data of one shape. Bytes are those of 32-bit floats on one device."""

    target_flops: int  # the real images of one class, once
    distances_flops: int  # the synthetic images of one class, once: distances and gradient of the pixels
    step_flops: int  # one training step of the network
    classes: int
    steps: int  # training steps between two inner iterations
    inner: int
    outer: int
    parameters: int  # of the network
    stored_pixels: int  # of the whole synthetic set, a byte each in the file
    data_bytes: int  # the dataset as it is held: pixels as bytes, labels, where each class is
    starting_bytes: int  # the copy of the training images from which the first pixels are taken
    working_bytes: int  # the most that tensors of one step hold at once, network and optimiser included

    @property
    def match_flops(self) -> int:
        """One class in one inner iteration."""
        return self.target_flops + self.distances_flops

    @property
    def inner_flops(self) -> int:
        """One inner iteration: a match of every class, and the training after it."""
        return self.classes * self.match_flops + self.steps * self.step_flops

    @property
    def outer_flops(self) -> int:
        """One outer iteration: after its last inner iteration nothing is trained."""
        return self.inner * self.inner_flops - self.steps * self.step_flops

    @property
    def run_flops(self) -> int:
        """The whole run."""
        return self.outer * self.outer_flops

    @property
    def matches(self) -> int:
        """How often one class is matched in the whole run."""
        return self.outer * self.inner * self.classes

    @property
    def training_steps(self) -> int:
        """How often the network takes a step in the whole run."""
        return self.outer * (self.inner - 1) * self.steps

    @property
    def gradient_bytes(self) -> int:
        """The gradients of one training step."""
        return 4 * self.parameters

    @property
    def synthetic_bytes(self) -> int:
        """The synthetic set while it is made: pixels and their momentum."""
        return 2 * 4 * self.stored_pixels

    @property
    def max_memory(self) -> int:
        """An estimate of the most bytes that the process has resident on a CPU."""
        working = max(self.starting_bytes, round(RESIDENT * self.working_bytes))
        return BASELINE + self.data_bytes + self.synthetic_bytes + working

    def seconds(self, match: float, step: float) -> float:
        """The time of the run, from that of one match and of one training step."""
        return self.matches * match + self.training_steps * step


def cost(
    r: Recipe,
    shape: Shape,
    classes: int,
    images: int,
    test_images: int = 0,
    build: Callable[[], Network] | None = None,
) -> Cost:
    """Count what the recipe costs for `images` training images [ch, h, w] of so many classes.

    A policy that chooses subsets is counted as after its first choice. `build` makes another network than the recipe's.
    """
    with _Alive() as alive:
        steps = _Steps(r, shape, classes, torch.device("meta"), build)
        steps.train()  # from now on there are gradients and momentum
        step_flops = _flops(steps.train)
        target: list[Target] = []
        target_flops = _flops(lambda: target.append(steps.target()))
        distances_flops = _flops(lambda: steps.distances(target[0]))
    pixels = shape[0] * shape[1] * shape[2]
    return Cost(
        target_flops=target_flops,
        distances_flops=distances_flops,
        step_flops=step_flops,
        classes=classes,
        steps=r.train_steps,
        inner=r.inner,
        outer=r.outer,
        parameters=sum(weight.numel() for weight in steps.theta.parameters()),
        stored_pixels=r.ipc * classes * pixels,
        data_bytes=(images + test_images) * (pixels + LABEL_BYTES),
        starting_bytes=images * pixels if r.init == "mix" else 0,
        working_bytes=alive.most,
    )


LABEL_BYTES = 16  # a label, and the place of the image among those of its class


def passes(r: Recipe, shape: Shape, classes: int, images: int) -> Passes:
    """How often the run applies a network to a batch, and goes back through one.

    A match goes forward over real and over synthetic images, and back for the gradient of each and for that of the
    pixels. Whatever a policy measures comes on top.
    """
    matching = Passes(2, 3) * (r.outer * r.inner * classes)
    training = Passes(1, 1) * (r.outer * (r.inner - 1) * r.train_steps)
    return matching + training + measuring_passes(r, shape, classes, images)


def measuring_passes(r: Recipe, shape: Shape, classes: int, images: int) -> Passes:
    """Those of them that a policy spends on measuring sizes."""
    meta = torch.device("meta")
    with meta:
        real = Images.of(torch.empty(images, *shape), torch.empty(images), (0.5,), (0.5,), meta)
    build = builder(r.architecture, shape, classes)
    measured = sum(policy(r, classes).measures(t) for t in range(1, r.outer + 1))
    return metric(r, build, real).passes(r.ipc, classes * r.factor**2) * measured


def training_flops(build: Callable[[], Network], shape: Shape) -> int:
    """Of learning from one image [ch, h, w]."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        theta, image = build(), torch.zeros(1, *shape)
    return _flops(lambda: torch.autograd.grad(theta(image).sum(), list(theta.parameters())))


def timed(
    r: Recipe, shape: Shape, classes: int, device: torch.device, engine: Engine | None = None
) -> tuple[float, float]:
    """Seconds of one match and of one training step on this machine, from about a second of work.

    Steps too large for that are timed with fewer images and scaled by their FLOPs.
    """
    whole = cost(r, shape, classes, 0)
    part = _cut(r, whole)
    small = whole if part is r else cost(part, shape, classes, 0)
    build = builder(r.architecture, shape, classes, engine)
    steps = _Steps(part, shape, classes, device, build)
    step = _best(steps.train, steps.wait) * whole.step_flops / small.step_flops
    match = _best(lambda: steps.distances(steps.target()), steps.wait) * whole.match_flops / small.match_flops
    return match, step


def _cut(r: Recipe, whole: Cost) -> Recipe:
    """The same recipe with as many images as fit into a probe."""
    match, step = (min(1.0, PROBE_FLOPS / flops) for flops in (whole.match_flops, whole.step_flops))
    if match == step == 1.0:
        return r
    ipc = max(1, int(r.ipc * match))
    return r.replace(
        ipc=ipc,
        prefix_weights=r.prefix_weights if ipc == r.ipc or r.prefix_weights == "size" else "one",
        factor=r.factor if r.ipc * match >= 1 else 1,
        real_batch=max(1, int(r.real_batch * match)),
        train_batch=max(1, int(r.train_batch * step)),
    )


def _best(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """Seconds of the fastest of a few repeats, but at least two: the first has to find its memory."""
    times: list[float] = []
    while len(times) < 2 or (len(times) < PROBE_REPEATS and sum(times) < PROBE_SECONDS):
        start = time.perf_counter()
        work()
        wait()
        times.append(time.perf_counter() - start)
    return min(times)


class _Steps:
    """The two steps that a run is made of, as condense.py and learners.py take them, on images that do not matter."""

    def __init__(
        self,
        r: Recipe,
        shape: Shape,
        classes: int,
        device: torch.device,
        build: Callable[[], Network] | None = None,
    ) -> None:
        self._size = shape[1:]
        level = (0.5,) * shape[0]
        build = build or builder(r.architecture, shape, classes)
        with torch.random.fork_rng(devices=[]), device:
            self.theta = build()
            self._real, self._learned = (
                Images.of(
                    torch.zeros(batch, *shape, dtype=torch.uint8), torch.zeros(batch).long(), level, level, device
                )
                for batch in (r.real_batch, r.train_batch)
            )
            first = torch.full((r.ipc, 1, *shape), 0.5)
        self._S = Synthetic(first, formation(r.factor), level, level, rate=0.0, momentum=r.pixel_momentum)
        self._objective, self._rule = objective(r), training_rule(r)
        self._optimiser = self._rule.optimiser(self.theta)
        self._augmentation = augmentation(r.match_augment)
        self._weights = _weights(r)

    def train(self) -> None:
        """One training step."""
        images, labels = self._learned.batch(slice(None))
        self._rule.step(self.theta, self._optimiser, images, labels, torch.Generator().manual_seed(0))

    def target(self) -> Target:
        """The real side of one class."""
        target: Target = self._objective.target(self.theta, self._draw(self._real.batch(slice(None))[0]), 0)
        return target

    def distances(self, target: Target) -> None:
        """The synthetic side of one class, and its step."""
        S_c = self._S.of_class(0)
        sizes = [n for n, weight in enumerate(self._weights, start=1) if weight or n == self._S.N]
        ends = [n * self._S.formation.images for n in sizes]
        match = self._objective.distances(self.theta, self._draw(self._S.decode(S_c)), 0, target, ends)
        loss = match.distances @ match.distances.new_tensor([self._weights[n - 1] for n in sizes])
        (gradient,) = torch.autograd.grad(loss, S_c)
        self._S.step(0, gradient, 0)

    def wait(self) -> None:
        """Until the device has done what it was asked for."""
        for tensor in (self._S.pixels, next(self.theta.parameters())):
            tensor.flatten()[0].item()

    def _draw(self, images: Tensor) -> Tensor:
        return self._augmentation.draw(torch.Generator().manual_seed(0), self._size)(images)


def _weights(r: Recipe) -> Sequence[float]:
    """How much each size counts, after the first choice of a policy that chooses."""
    chooser = policy(r, classes=1)
    if chooser.measures(1):
        chooser.select(1, torch.zeros(1, r.ipc))
    return chooser.weights(0)


def _flops(work: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


class _Alive(TorchDispatchMode):
    """Sees every tensor that is made and knows when its memory is free again: how much was in use at most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._now = 0
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, Tensor) and tensor.device.type == "meta":
                self._see(tensor.untyped_storage())
        return made

    def _see(self, storage: torch.UntypedStorage) -> None:
        name = storage._cdata
        if name in self._known:
            return
        self._known[name] = storage.nbytes()
        self._now += storage.nbytes()
        self.most = max(self.most, self._now)
        weakref.finalize(storage, self._forget, name)

    def _forget(self, name: int) -> None:
        self._now -= self._known.pop(name)
