"""The images that a condensation started from, computed again from its recipe and the real images.

They are not in the file: they are real images, or tiles of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch

from mipset.condensing.assembly import assemble, expert_files
from mipset.data import Dataset
from mipset.errors import MipsetError, SettingError
from mipset.file.artifact import Artifact
from mipset.file.pixels import Pixels
from mipset.file.provenance import NOT_ONE_RUN
from mipset.nn.engines import Engine, native
from mipset.nn.pixels import to_uint8
from mipset.nn.threads import using_threads
from mipset.reporting import Report, silent
from mipset.settings.recipe import Recipe

NEED_A_NETWORK = ("herding", "k-means")  # starts that choose real images by their features


def first_images(artifact: Artifact, data: Dataset, threads: int | None = None, report: Report = silent) -> Pixels:
    """The first images of the condensation that made a set. A SettingError says why they are not known.

    Starts that look at features need the experts of the run, which are in the cache folder of the machine that trained
    them, with `threads` threads: they are not trained again for this.
    """
    for key, reason in NOT_ONE_RUN.items():
        if artifact.provenance.get(key) is not None:
            raise SettingError(f"{reason}.")
    if data.sha256 != artifact.provenance.get("sha256") or data.class_names != artifact.class_names:
        raise SettingError("the data are not those that it was condensed from.")
    r = _recipe(artifact.recipe)
    if (r.ipc, r.factor) != (artifact.ipc, artifact.factor):
        raise SettingError("the recipe in the file is for a set of another size.")
    with using_threads(threads or torch.get_num_threads()):
        engine = native() if artifact.provenance.get("engine") == "compiled kernels" else Engine()
        if r.learner == "experts" and r.init in NEED_A_NETWORK:
            _check_experts(r, data, engine)
        else:
            r = r if r.init in NEED_A_NETWORK else r.replace(learner="untrained", objective="feature")
        rank = artifact.provenance.get("rank") or 0
        parts = assemble(r, data, engine=engine, first_rank=rank, report=report)
        return to_uint8(parts.S.pixels).numpy()


def _recipe(stored: Mapping[str, Any]) -> Recipe:
    """The recipe of a file. Nothing that a file names is imported."""
    names = {f.name for f in fields(Recipe)}
    settings = {name: value for name, value in stored.items() if name in names}
    if "ipc" not in settings:
        raise SettingError("the file does not say how it was condensed.")
    for name in ("policy", "objective"):
        if ":" in str(settings.get(name, "")):
            settings[name] = {"policy": "baseline-c", "objective": "feature"}[name]  # the start does not depend on it
    try:
        return Recipe(**settings)
    except (MipsetError, TypeError, ValueError) as error:
        raise SettingError("the recipe in the file is not possible.") from error


def _check_experts(r: Recipe, data: Dataset, engine: Engine) -> None:
    files = expert_files(r, data, torch.device("cpu"), engine)
    kept = (files.read(number, torch.device("cpu")) for number in range(r.experts))
    if any(each.get("steps") != r.expert_steps for each in kept):
        raise SettingError(f"the start {r.init} needs the experts of the run, which are not in the cache folder.")
