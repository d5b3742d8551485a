"""The card of a published set: Markdown, with the fields of a dataset card of Hugging Face at its top."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mipset.errors import brief, printable
from mipset.file.artifact import Artifact
from mipset.file.audit_file import AuditFile, suspicious
from mipset.file.description import Accuracy
from mipset.file.header import file_bytes
from mipset.file.measured import measured_curves, protocol_name
from mipset.settings.protocol import QUICK
from mipset.units import byte_count, spread

NEAREST = 5  # images of an audit that are listed
# The paper, as in CITATION.cff.
PAPER = "Yang He, Lingao Xiao, Joey Tianyi Zhou, Ivor W. Tsang: Multisize Dataset Condensation, ICLR 2024"
ARXIV = "arXiv:2403.06075"
# Settings that can name a class of the publisher's own, as module:Class, alone or in a sum.
OWN_SETTINGS = (
    *("objective", "policy", "sampler", "learner", "pixel_optimiser", "metric", "match_augment", "network"),
)
OWN = re.compile(r"\b([A-Za-z_][\w.]*):[A-Za-z_]\w*", re.ASCII)
MOST_ROWS = 20  # of the table of sizes, if every size has one
# Short names of licences that Hugging Face knows, as far as datasets have them.
LICENCES = (
    *("apache-2.0", "bsd-3-clause", "cc-by-3.0", "cc-by-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0"),
    *("cc-by-sa-3.0", "cc-by-sa-4.0", "cc0-1.0", "mit", "odbl", "odc-by", "other", "pddl", "unknown"),
)
# How Hugging Face names numbers of images, and the first number that is too large for each name.
SIZE_CATEGORIES = {"n<1K": 10**3, "1K<n<10K": 10**4, "10K<n<100K": 10**5, "100K<n<1M": 10**6, "1M<n<10M": 10**7}


@dataclass(frozen=True)
class Publication:
    """A set that is published, and what its card tells beside what its file holds."""

    name: str
    artifact: Artifact
    licence: str  # of the dataset: one of LICENCES
    licence_note: str  # the same in a sentence
    command: str = ""  # that makes the set again; empty if it is unknown
    fetch: str = ""  # the command that downloads a small size
    time: str = ""  # that it took to make, in words; empty if it is unknown
    audit: AuditFile | None = None
    in_memory: bool = False  # whether the data were given to mipset in Python, so that no command makes the set again

    @property
    def dataset(self) -> str:
        """The name of the dataset that was condensed."""
        return str(self.artifact.provenance.get("dataset") or "unknown")

    @property
    def images(self) -> int:
        """Training images of the whole set."""
        ranks, classes = self.artifact.images.shape[:2]
        return int(ranks * classes * self.artifact.factor**2)


def card(publication: Publication, parquet: Mapping[str, Sequence[str]], picture: str) -> str:
    """The text of the card.

    `parquet` has the paths of the Parquet files of each size; empty without them. `picture` is the path of the
    picture of the accuracy curve; empty without it.
    """
    artifact = publication.artifact
    ranks, classes, *shape = artifact.images.shape
    tiles = f" Each stored image holds {artifact.factor**2} training images." if artifact.factor > 1 else ""
    parts = [
        _front_matter(publication, parquet),
        f"# {_title(_text(publication.dataset), publication)}",
        f"{ranks} synthetic images for each of {classes} classes of {_text(publication.dataset)}, "
        f"{' x '.join(map(str, shape))} pixels, condensed with mipset. The first n images of each class are "
        f"a training set of their own, for every n from 1 to {ranks}.{tiles}",
        f"Classes: {', '.join(map(_name, artifact.class_names))}.",
        "## How good it is",
        *([f"![Accuracy by images per class]({picture})"] if picture else []),
        *_accuracies(artifact),
        "## How to use it",
        *_usage(publication, bool(parquet)),
        "## How it was made",
        _list(_origin(publication)),
        "## Nearest real images",
        *_nearest(publication),
        "## Licence of the source data",
        f"{_text(publication.dataset)}: {_text(publication.licence_note)}",
    ]
    return "\n\n".join(parts) + "\n"


def without_front_matter(text: str) -> str:
    """The part of a card for people."""
    if not text.startswith("---\n"):
        return text
    _, end, rest = text[4:].partition("\n---\n")
    return rest.lstrip("\n") if end else text


def recipe_summary(artifact: Artifact) -> str:
    """How a set was made, in a few words."""
    recipe, provenance = artifact.recipe, artifact.provenance
    for key, words in {
        "selection": "real images chosen by",
        "imported": "condensed by another program, file of kind",
    }.items():
        if provenance.get(key):
            return f"{words} {printable(str(provenance.get(key)))}"
    wanted = ("policy", "objective", "learner", "network", "width", "depth", "outer", "inner", "factor")
    return printable(", ".join(f"{key} {recipe[key]}" for key in wanted if key in recipe)) or "unknown"


def _front_matter(publication: Publication, parquet: Mapping[str, Sequence[str]]) -> str:
    """YAML. Every value is written as JSON, which is YAML too, so no text can break it."""
    configs: list[dict[str, Any]] = [
        {"config_name": size, "data_files": [{"split": "train", "path": list(paths)}]}
        for size, paths in parquet.items()
    ]
    if configs:
        configs[-1]["default"] = True
    categories = (name for name, end in SIZE_CATEGORIES.items() if publication.images < end)
    fields = {
        "pretty_name": _title(printable(publication.dataset), publication),
        "license": publication.licence,
        "task_categories": ["image-classification"],
        "size_categories": [next(categories, "n>10M")],
        "tags": ["dataset-condensation", "dataset-distillation", "mipset"],
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    # Without Parquet files, Hugging Face would take the index for the data.
    lines += ["configs:", *(f"- {json.dumps(config)}" for config in configs)] if configs else ["viewer: false"]
    return "\n".join(["---", *lines, "---"])


def _title(dataset: str, publication: Publication) -> str:
    return f"{dataset}, condensed to {publication.artifact.ipc} images per class"


def _accuracies(artifact: Artifact) -> Iterable[str]:
    """The accuracy of each size, with one column for each way of measuring it, the longest training first."""
    curves: dict[str, dict[int, Accuracy]] = {}
    for point in (point for curve in measured_curves(artifact.accuracy) for point in curve):
        other = "" if point.data == artifact.provenance.get("sha256") else f", tested with data {point.data[:12]}"
        networks = f"{point.networks} networks" if point.networks > 1 else "one network"
        way = f"{point.network}; protocol {point.protocol}; seed {point.seed}; {networks}{other}"
        curves.setdefault(way, {})[point.size] = point
    if not curves:
        yield "Its accuracy was not measured."
    else:
        yield (
            "Accuracy in % on the test images after the last epoch, for networks that were trained on the first n "
            "images of each class: mean and, over several networks, standard deviation."
        )
        if any(protocol_name(point.protocol) == QUICK.name for point in artifact.accuracy):
            yield (
                f"Networks of the protocol `{QUICK.name}` are far from converged: their accuracies are for a first "
                "look, and can be much lower than those of longer training."
            )
        yield _list({f"accuracy {number}": _code(way) for number, way in enumerate(curves, start=1)})
    rows = []
    for n in _listed(artifact):
        cells = [curve.get(n) for curve in curves.values()]
        texts = ["" if point is None else spread(point.mean, point.std, point.networks) for point in cells]
        rows.append([str(n), byte_count(file_bytes(artifact.description.prefix(n))), *texts])
    yield _table(["n", "file", *(f"accuracy {number}" for number in range(1, len(curves) + 1))], rows)


def _listed(artifact: Artifact) -> Iterable[int]:
    """The sizes that have a row: all, or of a large set the measured ones, the smallest and the largest."""
    sizes = range(1, artifact.ipc + 1)
    if len(sizes) <= MOST_ROWS:
        return sizes
    return sorted({1, artifact.ipc, *(point.size for point in artifact.accuracy)})


def _usage(publication: Publication, parquet: bool) -> Iterable[str]:
    yield (
        "mipset is a Python library that makes such sets and reads them. What follows needs it to be installed; to "
        f"read sets, it needs only numpy. It implements a paper; please cite it: {PAPER} ({ARXIV})."
    )
    yield (
        "This folder is a gallery of mipset: set `MIPSET_GALLERY` to it, or to the address of its `index.json` on a "
        "web server. Only the bytes of the wanted size are downloaded, and all of them are verified."
    )
    size = min(3, publication.artifact.ipc)
    if publication.fetch:
        yield f"```\n{publication.fetch}\n```"
    yield f'```python\nimport mipset\n\nsmall = mipset.read("gallery:{publication.name}")[:{size}]\n```'
    if parquet:
        yield "With Hugging Face `datasets`, a configuration is a size; images are decoded:"
        load = f'rows = load_dataset("PATH OR REPOSITORY", "{size}", split="train")'
        yield f"```python\nfrom datasets import load_dataset\n\n{load}\n```"


def _origin(publication: Publication) -> dict[str, str]:
    artifact = publication.artifact
    provenance: Mapping[str, Any] = artifact.provenance
    facts = {
        "dataset": _text(f"{publication.dataset}, sha256 {provenance.get('sha256', 'unknown')}"),
        "recipe": _code(recipe_summary(artifact)),
        "seed": _text(str(artifact.recipe.get("seed", "unknown"))),
        "time": publication.time or "not recorded",
        "mipset": _text(f"{provenance.get('mipset', 'unknown')}, {provenance.get('engine', 'unknown engine')}"),
    }
    if publication.in_memory:
        facts["command"] = "none: it was made in Python, from data in memory"
    elif publication.command:
        facts["command"] = _code(publication.command)
    own = _own_modules(artifact)
    if own:
        names = " and ".join(map(_code, own))
        facts["own classes"] = (
            f"of {names}, from the publisher and no part of mipset; needed to make the set again, not to read it"
        )
    return facts


def _own_modules(artifact: Artifact) -> list[str]:
    """The modules of classes that the recipe names and that are not those of mipset."""
    named = (found for key in OWN_SETTINGS for found in OWN.findall(str(artifact.recipe.get(key, ""))))
    return [module for module in dict.fromkeys(named) if module.partition(".")[0] != "mipset"]


def _nearest(publication: Publication) -> Iterable[str]:
    audit, names = publication.audit, publication.artifact.class_names
    if audit is None:
        yield "The images were not compared with the real ones. `mipset audit` does that."
        return
    yield (
        f"{len(suspicious(audit.neighbours))} of {len(audit.neighbours)} training images are nearer to a real training "
        f"image than half of the real ones are to each other ({audit.usual:.1f} grey levels). This compares pixels "
        "only, and is no proof of privacy. The nearest:"
    )
    rows = [
        [
            _name(names[each.label]),
            f"{each.rank}, tile {each.tile}" if publication.artifact.factor > 1 else str(each.rank),
            f"{each.distance:.1f}",
            f"{each.row} ({_name(audit.real_class_names[each.real_label])})",
        ]
        for each in audit.neighbours[:NEAREST]
    ]
    yield _table(["class", "image", "distance in grey levels", "real training image"], rows)


def _list(lines: Mapping[str, str]) -> str:
    return "\n".join(f"- {title}: {text}" for title, text in lines.items())


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _name(name: str) -> str:
    """The name of a class, which may be very long."""
    return _text(brief(name, str))


def _code(text: str) -> str:
    """Text as code, which stays as it is."""
    return "`{}`".format(printable(text).replace("`", "'"))


def _text(text: str) -> str:
    """Text from a file, in which nothing is markup for Markdown or HTML."""
    escaped = html.escape(printable(text), quote=False)
    return "".join(f"\\{letter}" if letter in "\\`*_[]|" else letter for letter in escaped)
