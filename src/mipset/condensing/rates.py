"""What the named recipes would cost on this machine, at a glance: counted FLOPs over a rate that is measured once.

A count is that of `work`, and of what depends on the number of real images: early training, clustering, and the choice
of first pixels. The rate is that of one small network, from about a second of work; it and the counts are kept in the
cache folder. The functions of costs.py measure a recipe itself, and are closer.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import torch

from mipset import __version__
from mipset.condensing.assembly import work
from mipset.condensing.costs import Shape, cost, processor_seconds, sampling_flops, start_flops
from mipset.io.files import home, write_whole
from mipset.nn.engines import default_engine
from mipset.nn.flops import learning_flops
from mipset.nn.networks import builder
from mipset.reporting import Report, silent
from mipset.settings.recipe import Recipe

SHAPE, CLASSES = (3, 32, 32), 10
SMALL = Recipe(ipc=2, width=64, policy="baseline-c", real_batch=32, train_batch=32)  # whose rate is measured
FILE = "rates.json"
USUAL = 1280  # training images of a class, if their number is not known: about those of a class of ImageNet


@dataclass(frozen=True)
class Job:
    """A recipe and what must be known of its data."""

    recipe: Recipe
    shape: Shape
    classes: int
    images: int  # for training; 0 is unknown

    @property
    def flops(self) -> float:
        """About how many FLOPs it has."""
        r, images = self.recipe, self.images or USUAL * self.classes
        build, matches = builder(r.architecture, self.shape, self.classes), r.outer * r.inner * self.classes
        early = r.networks * r.early_steps(images) * r.train_batch
        return (
            work(r, self.shape, self.classes)
            + early * learning_flops(r.architecture, self.shape, self.classes)
            + matches * sampling_flops(r, images // self.classes, build, self.shape)
            + start_flops(r, images, build, self.shape)
        )


def measured_rate() -> float:
    """FLOPs per second of processor time on this machine: a match and a training step together."""
    cpu = torch.device("cpu")
    counted = cost(SMALL, SHAPE, CLASSES, 0)
    match, step = processor_seconds(SMALL, SHAPE, CLASSES, cpu, default_engine(cpu, lambda: math.inf))
    return (counted.match_flops + counted.step_flops) / (match + step)


def seconds_of(jobs: Mapping[str, Job], report: Report = silent) -> tuple[dict[str, float], float]:
    """About how many seconds of processor time each job takes, and the FLOPs per second that this was computed with."""
    known = json.dumps([__version__, torch.__version__, os.cpu_count(), repr(dict(jobs))])
    key, path = hashlib.sha256(known.encode()).hexdigest(), home() / FILE
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["key"] == key:
            return {name: float(kept["flops"][name]) / kept["rate"] for name in jobs}, float(kept["rate"])
    flops = {}
    for number, (name, job) in enumerate(jobs.items()):
        report("counting the work of recipes", number, len(jobs))
        flops[name] = job.flops
    rate = measured_rate()
    report("counting the work of recipes", len(jobs), len(jobs))
    text = json.dumps({"key": key, "rate": rate, "flops": flops})
    with suppress(OSError):  # then the next call measures again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda stream: stream.write(text.encode()))
    return {name: count / rate for name, count in flops.items()}, rate
