"""Methods: what `mipset compare` can compare, each a row of its tables.

A method is some settings of a recipe, and the key of the builder that turns condensations into a set for each size.
`mipset.experiments.builders` maps the keys to builders. The methods of other authors have recipes of their own: for the
dataset and the scale of the recipe that is compared, the one whose name has theirs. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from mipset.errors import SettingError, choices, choose
from mipset.settings.catalogue import RECIPES, settled
from mipset.settings.choices import policy_reads
from mipset.settings.part import is_own
from mipset.settings.recipe import Recipe

REFERENCE = "baseline-c"  # the method that the others are compared with, as in the paper
# The recipes with their authors' settings, for a dataset (*) and so many images per class (#). Those of the methods
# that are not here begin with the name of the method.
PUBLISHED = {"gradient": "paper-*-ipc#", "dream": "paper-*-ipc#-dream"}


@dataclass(frozen=True)
class Method:
    """A row of a table."""

    name: str  # as the user wrote it, such as "mdc:pixel-lr=0.03"
    kind: str  # its name in METHODS
    builder: str  # a key of `mipset.experiments.builders.BUILDERS`
    settings: Mapping[str, Any]
    text: str
    base: str = ""  # the name in its recipes, such as dsa in cifar10-dsa-cpu; empty: the recipe that is compared

    def reads(self, setting: str) -> bool:
        """Whether it uses a setting that is given for all methods."""
        return setting not in self.settings and self.knows(setting)

    def knows(self, setting: str) -> bool:
        """Whether its policy has this setting."""
        return policy_reads(self.settings["policy"], setting)

    def recipe(self, name: str, changes: Mapping[str, Any]) -> Recipe:
        """The named recipe for this method, with those `changes` for all methods that this method reads."""
        applied = {key: value for key, value in changes.items() if self.reads(key)}
        return settled(self._recipe_name(name), (self.kind,), {**applied, **self.settings})

    def _recipe_name(self, name: str) -> str:
        """The recipe of this method for the dataset of a named recipe."""
        if not self.base or name not in RECIPES:
            return name
        dataset, ipc = RECIPES[name].dataset, RECIPES[name].recipe.ipc
        published = f"{dataset}-ipc{ipc}" in name  # with its authors' settings; the others take minutes
        pattern = PUBLISHED.get(self.base, f"{self.base}-*-ipc#") if published else f"*-{self.base}-cpu"
        own = pattern.replace("*", dataset).replace("#", str(ipc))
        if own not in RECIPES:
            others = [other for other in RECIPES if fnmatchcase(other, pattern.replace("#", "[0-9]*"))]
            recipes = others if published else dict.fromkeys(f"{RECIPES[other].dataset}-cpu" for other in others)
            size = f" at `ipc` {ipc}" if published else ""
            raise SettingError(
                f"`methods`: {self.name} has no recipe for {dataset}{size}. Leave it out, or compare with the recipe "
                f"{choices(recipes)} and `data` {dataset}, at rates that were not chosen for these images."
            )
        return own


def _method(
    kind: str, text: str, *, builder: str = "one-run", policy: str = "baseline-c", base: str = "", **settings: Any
) -> tuple[str, Method]:
    return kind, Method(kind, kind, builder, {"policy": policy, **settings}, text, base)


# The methods that the paper compares with or builds on, with the name in their recipes (catalogue.py). Each is compared
# alone, with the paper's policy and with ours.
FIELD = {"dc": "dc", "dsa": "dsa", "dm": "dm", "mtt": "mtt", "idc": "gradient", "dream": "dream"}
FIELD_POLICIES = {"baseline-c": "alone", "mdc": "with the paper's policy", "every-prefix": "with our policy"}


def _field(name: str, policy: str) -> str:
    """The name of a method with a policy; alone it has its own name."""
    return name if policy == REFERENCE else f"{name}-{policy}"


PERIOD_WITHOUT_END = 10**9  # a Δt that is longer than any run: the first selection stays

METHODS: dict[str, Method] = dict(
    [
        _method("baseline-a", "Baseline A: one condensation for each size", builder="run-per-size"),
        _method("baseline-b", "Baseline B: condensations of one image per class, side by side", builder="run-per-rank"),
        _method("baseline-c", "Baseline C: one condensation of the full set, subsets by prefix"),
        _method("mdc", "the paper's method; it freezes as the released code does (ratchet)", policy="mdc"),
        _method("mdc-predecessor", "mdc; it freezes as the paper's equation says", policy="mdc", freeze="predecessor"),
        _method("mdc-no-freeze", "ablation: mdc without freezing", policy="mdc", freeze="never"),
        _method(
            "mdc-smallest",
            "ablation: mdc without selection, the subset is always S_[1]",
            policy="mdc",
            period=PERIOD_WITHOUT_END,
        ),
        _method("mdc-gradient", "mdc; it compares sizes by gradient distance", policy="mdc", metric="gradient"),
        _method("mdc-accuracy", "mdc; it compares sizes by accuracy", policy="mdc", metric="accuracy"),
        _method("mdc-per-class", "mdc with its own subset for every class", policy="mdc-per-class"),
        _method(
            "every-prefix",
            "ours: every size counts in every iteration, with the weights of the recipe",
            policy="every-prefix",
        ),
        _method(
            "every-prefix-one",
            "every-prefix with weight 1 for every size",
            policy="every-prefix",
            prefix_weights="one",
        ),
        _method(
            "every-prefix-size",
            "every-prefix with weight n / N for size n",
            policy="every-prefix",
            prefix_weights="size",
        ),
        _method(
            "every-prefix-inverse",
            "every-prefix with weight N / n for size n, which is better for one image per class",
            policy="every-prefix",
            prefix_weights="inverse",
        ),
        _method(
            "every-prefix-plain",
            "every-prefix with plain gradient steps of the pixels",
            policy="every-prefix",
            steps="plain",
        ),
        _method("random", "real images, drawn at random", builder="random"),
        _method("herding", "real images whose mean features are near the mean of the class", builder="herding"),
        _method("k-center", "real images that cover the class", builder="k-center"),
        _method("yoco", "Baseline C with its images in the order of YOCO", builder="yoco"),
        _method(
            "svd-truncate",
            "Baseline C without its smaller components; our stand-in for slimmable condensation without learning",
            builder="svd-truncate",
        ),
        _method(
            "recondense",
            "Baseline C condensed again for each smaller size, without the real images; our stand-in for slimmable "
            "condensation with learning",
            builder="recondense",
        ),
        *(
            _method(_field(name, policy), f"{name.upper()} {how}, by its own recipe", policy=policy, base=base)
            for name, base in FIELD.items()
            for policy, how in FIELD_POLICIES.items()
        ),
    ]
)

GROUPS = {
    "baselines": ("baseline-a", "baseline-b", "baseline-c", "mdc"),
    "ablation": ("baseline-c", "mdc-smallest", "mdc-no-freeze", "mdc", "mdc-predecessor"),
    "metrics": ("baseline-c", "mdc", "mdc-gradient", "mdc-accuracy"),
    "class-wise": ("baseline-c", "mdc", "mdc-per-class"),
    "policies": ("baseline-c", "mdc", "mdc-per-class", "every-prefix", "every-prefix-size"),
    "field": (*(_field(name, policy) for name in FIELD for policy in FIELD_POLICIES), *FIELD_POLICIES),
    "selections": ("baseline-c", "random", "herding", "k-center", "yoco"),
    "slimmable": ("baseline-c", "svd-truncate", "recondense", "mdc"),
}


def parse_methods(text: str) -> list[Method]:
    """`baseline-c,mdc:pixel-lr=0.03,ablation` as methods; a group stands for its methods."""
    names: list[str] = []
    for part in text.split(","):
        name = part.strip()
        kind, colon, settings = name.partition(":")
        if names and "=" in names[-1] and kind not in (*METHODS, *GROUPS) and not _own_policy(name):
            names[-1] += f",{name}"  # the value of a setting can be a list, such as weights
        elif kind in GROUPS:
            names += [f"{member}{colon}{settings}" for member in GROUPS[kind]]
        else:
            names.append(name)
    return [_parse_method(name) for name in dict.fromkeys(names)]


def _own_policy(text: str) -> str:
    """`module:Class` of a method that is a policy of somebody's own; otherwise empty."""
    name = ":".join(text.split(":")[:2])
    return name if is_own(name) and name.partition(":")[0] not in METHODS else ""


def _parse_method(text: str) -> Method:
    own = _own_policy(text)
    kind, *parts = (own, *text.split(":")[2:]) if own else text.split(":")
    settings: list[str] = []
    for part in parts:
        if settings and "=" not in part:
            settings[-1] += f":{part}"  # the value of a setting can have colons, such as shares of devices
        else:
            settings.append(part)
    if kind not in METHODS and not own:
        raise SettingError(
            f"`methods`: there is no method {kind!r}. {choose(kind, METHODS)}, or a group: {choices(GROUPS)}, or a "
            f"policy of your own as module:Class."
        )
    method = _method(own, "a policy of one's own", policy=own)[1] if own else METHODS[kind]
    given = dict(_parse_setting(text, setting) for setting in settings)
    for name in given:
        if not method.knows(name):
            raise SettingError(f"`methods`: {text!r} sets `{name}`, which {kind} does not use. Leave it out.")
    return replace(method, name=text, settings={**method.settings, **given})


def _parse_setting(method: str, text: str) -> tuple[str, Any]:
    """`pixel-lr=0.03` as ("pixel_lr", 0.03)."""
    written, equals, value = text.partition("=")
    name = written.replace("-", "_")
    types = {f.name: {"int": int, "float": float, "str": str}[str(f.type)] for f in fields(Recipe)}
    if not equals or name not in types:
        raise SettingError(
            f"`methods`: {text!r} in {method!r} is not a setting of a recipe. Write a name and a value, "
            "such as pixel-lr=0.03; `mipset condense -h` lists the names."
        )
    if name == "policy":
        raise SettingError(
            f"`methods`: {method!r} sets `policy`, which the name of the method decides. Choose another method."
        )
    if name == "seed":
        raise SettingError(f"`methods`: {method!r} sets `seed`, which all methods share. Leave it out.")
    try:
        return name, types[name](value)
    except ValueError:
        raise SettingError(
            f"`methods`: {text!r} in {method!r} is not possible: `{name}` is {types[name].__name__}. Write a number."
        ) from None
