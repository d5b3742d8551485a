"""Sets, logs and comparisons for the tests of the report: made up, so that they take no time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mipset.experiments.results import LOG, add_result
from mipset.file.artifact import Artifact
from mipset.file.audit_file import AuditFile, Neighbour, path_of, write_audit
from mipset.file.description import Accuracy
from mipset.file.run_log import SUFFIX, Entry, add, begin
from mipset.settings.catalogue import recipe
from toy_results import result

HOSTILE = ("</script><script>window.hacked = 1</script>", '"><img src=x onerror="window.hacked = 2">', "café & 猫")
NETWORK, PROTOCOL = "convnet-3, width 128", "standard, 200 epochs, at least 1000 steps, without mirrored images"


def made_up_set(
    policy: str = "mdc-per-class", ipc: int = 4, factor: int = 2, seed: int = 0, **changes: Any
) -> Artifact:
    """Noise with all that a file tells. Sizes 1, 2 and 4 were measured."""
    pixels = np.random.default_rng(seed).integers(0, 256, (ipc, 3, 3, 12, 12), dtype=np.uint8)
    data = "d" * 64
    points = [
        Accuracy(size, mean, std, 3, NETWORK, PROTOCOL, 0, data, 200, 1000, 64)
        for size, mean, std in ((1, 40.0, 2.0), (2, 50.0, 1.5), (4, 60.0, 1.0))
        if size <= ipc
    ]
    settings = vars(recipe("cifar10-cpu", policy=policy, ipc=ipc, factor=factor, outer=3))
    made = Artifact(
        images=pixels,
        factor=factor,
        mean=(0.5, 0.5, 0.5),
        std=(0.25, 0.25, 0.25),
        class_names=HOSTILE,
        recipe=settings,
        provenance={"mipset": "0.1.0", "dataset": "cifar10", "sha256": data, "engine": "plain torch", "split_seed": 0},
        accuracy=tuple(points),
    )
    return replace(made, **changes)


def write_log(path: Path, artifact: Artifact, outers: int = 3, class_wise: bool = True) -> None:
    """A log of some outer iterations, in which each class selects a size of its own."""
    about = {
        "outer": 3,
        "inner": 10,
        "class_names": list(artifact.class_names),
        "recipe": dict(artifact.recipe),
        "provenance": dict(artifact.provenance),
        "preparing_seconds": 2.5,
        "preparing_processor_seconds": 4.5,
        "threads": 1,
    }
    begin(path, about)
    for outer in range(1, outers + 1):
        selected = (outer, 1, 2) if class_wise else (outer,) * 3
        frozen = (0, 0, 1) if class_wise else (outer - 1,) * 3
        distances = tuple(10.0 / outer / n for n in range(1, artifact.ipc + 1))
        add(path, Entry(outer, 9.0 / outer, distances, selected, frozen, 10.0 * outer, 8.0 * outer, 10**8))


def write_file(folder: Path, name: str = "set.safetensors") -> Path:
    """A file with its log and its audit."""
    path, artifact = folder / name, made_up_set()
    artifact.write(path)
    write_log(path.with_name(path.name + SUFFIX), artifact)
    neighbours = [Neighbour(1, 1, 2, 7, 0, 3.5, 0.25, "cats/a <b>.png"), Neighbour(2, 0, 1, 9, 2, 12.0, 0.75)]
    names = artifact.class_names
    write_audit(path_of(path), AuditFile(artifact.images_sha256, "d" * 64, 8.0, names, neighbours))
    return path


def write_comparison(folder: Path) -> Path:
    """The folder of a comparison: three methods, one of them with two seeds and with moments."""
    ends = {"mdc": 1.0, "every-prefix": 3.0, "baseline-a": 8.0}
    for number, (method, more) in enumerate(ends.items()):
        run = folder / "runs" / f"{number}"
        run.mkdir(parents=True)
        artifact = made_up_set("every-prefix" if method == "every-prefix" else "mdc", seed=number, accuracy=())
        artifact.write(run / "3.safetensors")
        write_log(run / LOG, artifact, class_wise=False)
        files = [f"runs/{number}/3.safetensors"] * (2 if method == "baseline-a" else 1)
        for seed in (0, 1) if method == "mdc" else (0,):
            for outer in (1, 3) if method == "mdc" else (3,):
                gain = more + seed + outer
                scores = {size: [30 + 5 * size + gain, 32 + 5 * size + gain] for size in (1, 2, 4)}
                made = result(method, seed, scores, outer=outer, final=outer == 3, seconds=20.0 * outer, files=files)
                add_result(folder / "results.jsonl", replace(made, cell=f"{method}-{seed}-{outer}"))
    return folder
