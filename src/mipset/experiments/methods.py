"""Methods: the rows of a comparison. A method is settings of a recipe, and a way in which runs become sets.

    OneRun       one condensation, subsets by prefix: Baseline C, MDC, every prefix
    RunPerSize   Baseline A: a condensation for each size
    RunPerRank   Baseline B: condensations of size 1 from different real images, one behind the other
    Selected     no condensation: real images in an order whose prefixes are the subsets
    Reordered    one condensation, the images of which are put into another order

Every condensation is the same loop; no method has one of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mipset.errors import SettingError, choices
from mipset.settings.catalogue import settled
from mipset.settings.recipe import ONLY_FOR, Recipe, flag_of

if TYPE_CHECKING:  # methods can be listed where torch is not installed
    import torch

    from mipset.condensing.metrics import Passes
    from mipset.data import Dataset
    from mipset.file.artifact import Artifact
    from mipset.nn.engines import Engine


@dataclass(frozen=True)
class Run:
    """One condensation, from the real images of `rank` on where it does not start from the first."""

    recipe: Recipe
    rank: int = 0

    def start(self, data: Dataset) -> torch.Tensor:
        """Its first pixels."""
        from mipset.condensing.assembly import first_pixels

        return first_pixels(self.recipe.replace(ipc=self.rank + self.recipe.ipc), data)[self.rank :]


@dataclass(frozen=True)
class Bench:
    """What sets are made with, beside condensations."""

    data: Dataset
    device: torch.device
    engine: Engine
    origin: Mapping[str, Any]  # what else has to be known to load the data again
    report: Callable[[float], None] | None = None  # is told the share that is done


class Way(ABC):
    """How condensations become a set for each size."""

    @abstractmethod
    def runs(self, r: Recipe, sizes: Sequence[int]) -> list[Run]:
        """The condensations that it needs."""

    @abstractmethod
    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        """For each size the set that holds it as a prefix, from what the runs made, in their order."""

    def passes(self, r: Recipe, data: Dataset) -> Passes:
        """What it spends beside its condensations."""
        from mipset.condensing.metrics import Passes

        return Passes()


class OneRun(Way):
    """One condensation, and every size is a prefix of it."""

    def runs(self, r: Recipe, sizes: Sequence[int]) -> list[Run]:
        return [Run(r)]

    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        return dict.fromkeys(sizes, made[0])


class RunPerSize(Way):
    """A condensation for each size, each starting from the first real images."""

    def runs(self, r: Recipe, sizes: Sequence[int]) -> list[Run]:
        return [Run(r.replace(ipc=n)) for n in sizes]

    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        return dict(zip(sizes, made, strict=True))


class RunPerRank(Way):
    """As many condensations of size 1 as the largest size, from different real images; rank n is from the n-th."""

    def runs(self, r: Recipe, sizes: Sequence[int]) -> list[Run]:
        return [Run(r.replace(ipc=1), rank) for rank in range(max(sizes))]

    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        import numpy as np

        together = replace(
            made[0],
            images=np.concatenate([one.images for one in made]),
            recipe={**made[0].recipe, "ipc": len(made)},
            provenance={**made[0].provenance, "condensations": len(made)},
        )
        return dict.fromkeys(sizes, together)


@dataclass(frozen=True)
class Selected(Way):
    """Real images, chosen by an order that selection.py knows by name."""

    order: str

    def runs(self, r: Recipe, sizes: Sequence[int]) -> list[Run]:
        return []

    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        from mipset.evaluation.selection import select

        made_of = (bench.data, bench.device, bench.engine)
        found = select(self.order, r, *made_of, origin=bench.origin, progress=bench.report)
        return dict.fromkeys(sizes, found)

    def passes(self, r: Recipe, data: Dataset) -> Passes:
        from mipset.evaluation.selection import selection_passes

        return selection_passes(self.order, r, data)


class Reordered(OneRun):
    """One condensation whose images are put into the order of YOCO, by the protocol of the paper: easy ones first."""

    def sets(self, r: Recipe, sizes: Sequence[int], made: Sequence[Artifact], bench: Bench) -> dict[int, Artifact]:
        from mipset.evaluation.selection import reorder
        from mipset.settings.protocol import PROTOCOLS

        how = (PROTOCOLS["paper"], r.seed, bench.device, bench.engine)
        return dict.fromkeys(sizes, reorder(made[0], *how, progress=bench.report))

    def passes(self, r: Recipe, data: Dataset) -> Passes:
        from mipset.evaluation.selection import reordering_passes
        from mipset.settings.protocol import PROTOCOLS

        return reordering_passes(r.ipc * r.factor**2 * data.classes, PROTOCOLS["paper"])


@dataclass(frozen=True)
class Method:
    """A row of a table."""

    name: str  # as it was asked for
    kind: str  # its name in METHODS
    way: Way
    settings: Mapping[str, Any]
    text: str

    def reads(self, setting: str) -> bool:
        """Whether it uses a setting that is given to all methods."""
        policy = self.settings["policy"]
        return setting not in self.settings and policy in ONLY_FOR.get(setting, (policy,))

    def recipe(self, name: str, given: Mapping[str, Any]) -> Recipe:
        """What a named recipe becomes for this method, with settings `given` to all methods that read them."""
        read = {key: value for key, value in given.items() if self.reads(key)}
        return settled(name, (self.kind,), {**read, **self.settings})


def _method(kind: str, text: str, way: Way | None = None, policy: str = "baseline-c", **settings: Any) -> Method:
    return Method(kind, kind, way or OneRun(), {"policy": policy, **settings}, text)


NEVER_AGAIN = 10**9  # a Δt longer than any run: the first choice stays

METHODS = {
    method.kind: method
    for method in (
        _method("baseline-a", "Baseline A: a condensation for each size", RunPerSize()),
        _method("baseline-b", "Baseline B: condensations of size 1 from different real images", RunPerRank()),
        _method("baseline-c", "Baseline C: one condensation, subsets by prefix"),
        _method("mdc", "the paper's method, frozen as in its release (ratchet)", policy="mdc"),
        _method("mdc-predecessor", "frozen as in the paper's equation", policy="mdc", freeze="predecessor"),
        _method("mdc-no-freeze", "ablation: sizes are compared, nothing is frozen", policy="mdc", freeze="never"),
        _method(
            "mdc-smallest", "ablation: sizes are not compared, S_[1] always counts", policy="mdc", period=NEVER_AGAIN
        ),
        _method("mdc-gradient", "sizes compared by gradient distance", policy="mdc", metric="gradient"),
        _method("mdc-accuracy", "sizes compared by accuracy", policy="mdc", metric="accuracy"),
        _method("mdc-per-class", "a choice of its own for every class", policy="mdc-per-class"),
        _method("every-prefix", "every size counts always, with weight 1", policy="every-prefix", steps="balanced"),
        _method(
            "every-prefix-size",
            "with weight n / N",
            policy="every-prefix",
            steps="balanced",
            prefix_weights="size",
        ),
        _method(
            "every-prefix-plain",
            "with weight 1, pixels moved as their gradients say",
            policy="every-prefix",
            steps="plain",
        ),
        _method("random", "real images, drawn", Selected("random")),
        _method("herding", "real images whose mean features follow the class", Selected("herding")),
        _method("k-center", "real images that cover the class", Selected("k-center")),
        _method("yoco", "Baseline C with its images in the order of YOCO", Reordered()),
    )
}

GROUPS = {
    "baselines": ("baseline-a", "baseline-b", "baseline-c", "mdc"),
    "ablation": ("baseline-c", "mdc-smallest", "mdc-no-freeze", "mdc", "mdc-predecessor"),
    "metrics": ("baseline-c", "mdc", "mdc-gradient", "mdc-accuracy"),
    "class-wise": ("baseline-c", "mdc", "mdc-per-class"),
    "policies": ("baseline-c", "mdc", "mdc-per-class", "every-prefix", "every-prefix-size", "every-prefix-plain"),
    "selections": ("baseline-c", "random", "herding", "k-center", "yoco"),
}


def methods(text: str) -> list[Method]:
    """`baseline-c,mdc:pixel-lr=0.03,ablation` as methods; a group stands for its methods."""
    listed: list[str] = []
    for part in text.split(","):
        name = part.strip()
        if listed and "=" in listed[-1] and name.partition(":")[0] not in (*METHODS, *GROUPS):
            listed[-1] += f",{name}"  # a setting that is a list itself, such as weights
        elif name.partition(":")[0] in GROUPS:
            group, colon, settings = name.partition(":")
            listed += [f"{member}{colon}{settings}" for member in GROUPS[group]]
        else:
            listed.append(name)
    return [_parsed(name) for name in dict.fromkeys(listed)]


def _parsed(text: str) -> Method:
    kind, *parts = text.split(":")
    settings: list[str] = []
    for part in parts:
        if settings and "=" not in part:
            settings[-1] += f":{part}"  # a setting with colons of its own, such as shares
        else:
            settings.append(part)
    if kind not in METHODS:
        raise SettingError(
            f"there is no method {kind!r}: choose from {choices(METHODS)}, or a group of them: {choices(GROUPS)}."
        )
    method = METHODS[kind]
    own = dict(_setting(text, setting) for setting in settings)
    for name in own:
        if method.settings["policy"] not in ONLY_FOR.get(name, (method.settings["policy"],)):
            raise SettingError(f"--methods {text}: {kind} does not read {flag_of(name)}.")
    return replace(method, name=text, settings={**method.settings, **own})


def _setting(method: str, text: str) -> tuple[str, Any]:
    """`pixel-lr=0.03` as ("pixel_lr", 0.03)."""
    flag, equals, value = text.partition("=")
    name = flag.replace("-", "_")
    kinds = {f.name: {"int": int, "float": float, "str": str}[str(f.type)] for f in fields(Recipe)}
    if not equals or name not in kinds:
        raise SettingError(
            f"--methods {method}: {text!r} is no setting: write such as pixel-lr=0.03; "
            f"`mipset condense --help` lists all settings."
        )
    if name in ("seed", "policy"):
        raise SettingError(f"--methods {method}: {name} cannot be set for one method: leave it out.")
    try:
        return name, kinds[name](value)
    except ValueError:
        raise SettingError(f"--methods {method}: {flag} must be {kinds[name].__name__}, not {value!r}.") from None
