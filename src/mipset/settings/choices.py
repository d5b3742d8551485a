"""What a setting can be: every name that can be chosen, listed once, with one line that explains it.

Everybody reads these tables: `Recipe` checks its values against them, the help of `mipset condense` shows them, and the
tables in condensing/assembly.py have one entry for every name (a test compares them). Networks are in architecture.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from mipset.errors import SettingError, choices, choose
from mipset.settings.part import is_own

POLICIES: Mapping[str, str] = {
    "baseline-c": "only the whole set counts (the paper's Baseline C)",
    "mdc": "the whole set and one subset count; a metric chooses the subset (the paper's method)",
    "mdc-per-class": "as mdc, with one chosen subset for each class",
    "every-prefix": "every size counts at all times",
}
FREEZE_RULES: Mapping[str, str] = {
    "ratchet": "freeze the largest chosen size below the current one (the authors' code)",
    "predecessor": "freeze the size that was chosen before, if it is smaller (the paper's equation)",
    "never": "freeze nothing",
}
METRICS: Mapping[str, str] = {
    "feature": "distance between mean features",
    "gradient": "distance between gradients",
    "accuracy": "accuracy of a network that is trained on each size",
}
OBJECTIVES: Mapping[str, str] = {
    "gradient": "distance between gradients of the convolution weights",
    "feature": "squared distance between mean features",
    "characteristic": "distance between characteristic functions of the features",
    "layered": "as characteristic, for the features of the last two blocks of the network",
    "confidence": "cross-entropy of a trained network on the synthetic images; only beside another objective",
    "trajectory": "distance between the weights of a network that is trained on the synthetic images and those of an "
    "expert; only alone, with learner trajectories",
}
FIRST_ORDER = ("feature", "characteristic", "layered", "confidence")  # they need no gradients of gradients
MATCHED_LAYERS: Mapping[str, str] = {
    "convolutions": "the weights of the convolutions (IDC)",
    "all": "the weights of the convolutions and of the classifier (DC)",
}
SAMPLERS: Mapping[str, str] = {
    "shuffled-epochs": "all images of a class in shuffled order, then in another one (IDC)",
    "uniform": "drawn anew from the whole class each time (DC, DSA, DM)",
    "k-means": "those nearest to the centroids of k-means on the features of the network (DREAM)",
}
LEARNERS: Mapping[str, str] = {
    "trained": "trained on real images between the inner iterations",
    "experts": "between the first and last weights of networks that are trained once, before the condensation",
    "untrained": "new random weights in every inner iteration",
    "trajectories": "snapshots, on disk, of networks that are trained once, before the condensation",
    "trained-on-synthetic": "trained on the synthetic images between the inner iterations",
}
OPTIMISERS: Mapping[str, str] = {
    "sgd": "gradient descent with momentum",
    "adam": "Adam, with a rate that decays to zero",
}
STEP_AFTER: Mapping[str, str] = {
    "each-class": "one step after every class, so that momentum moves the other classes too (IDC, DREAM)",
    "all-classes": "one step after all classes (DC, DSA, DM)",
}
PIXEL_SPACES: Mapping[str, str] = {
    "unit": "of pixels from 0 to 1, scaled with the images per class and their resolution (IDC, DREAM)",
    "normalised": "of normalised pixels, not scaled (DC, DSA, DM)",
}
DISTANCES: Mapping[str, str] = {
    "squared": "sum of squared differences",
    "l1": "sum of absolute differences",
    "row-cosine": "sum of one minus the cosine, over output channels",
}
INITIALISATIONS: Mapping[str, str] = {
    "mix": "tiles of the first real images",
    "noise": "uniform noise",
    "herding": "tiles of real images whose mean features are near the mean of the class",
    "k-means": "tiles of the real images nearest to the centroids of k-means",
    "random": "tiles of random real images",
    "normal-noise": "normal noise: normalised pixels of mean 0 and deviation 1, clamped to the range of a pixel",
}
FROM_NOISE = ("noise", "normal-noise")  # the initialisations that need no real images
STEPS: Mapping[str, str] = {
    "balanced": "scale the steps so that every image moves as far as in baseline-c",
    "plain": "use the gradients without scaling",
}
FULL_PRECISION, HALF_PRECISION = "float32", "bfloat16"
PRECISIONS: Mapping[str, str] = {
    FULL_PRECISION: "multiply in 32 bits",
    HALF_PRECISION: "multiply in 16 bits, add in 32 bits; on processors with AMX, layers also store 16 bits",
}
AUGMENTATIONS: Mapping[str, str] = {
    "color": "change brightness, saturation and contrast",
    "crop": "shift by some pixels",
    "cutout": "erase a square",
    "flip": "mirror left and right",
    "scale": "stretch or shrink",
    "rotate": "rotate by some degrees",
    "zoom": "enlarge a part of half to all of the area (ImageNet)",
    "jitter": "scale brightness, contrast and saturation by 0.6 to 1.4 (ImageNet)",
    "lighting": "shift along the main colours of ImageNet",
}
NO_AUGMENTATION = "none"
FLIP = "flip"
COMPOSITIONS: Mapping[str, str] = {
    "idc": "flip and color, then one of crop, scale and rotate, then cutout: each if it is listed",
    "dsa": "one of the listed operations, drawn for each batch",
}
RESAMPLINGS: Mapping[str, str] = {
    "edges": "the edges of an image are fixed points of the grid, as in torch since 1.3 (IDC, DREAM, DSA, DM)",
    "centres": "the centres of its outer pixels are: align_corners of torch (MTT)",
}
MOST_COUNT = 1_000_000  # of images per class, channels or networks; memory sets the real limit (costs.py)
MOST_STUDENT_RATE = 10.0  # of a student, whose usual rate is about 0.01
MOST_AMOUNT = 1_000_000_000  # of iterations, steps, or images to learn from: more never ends
MOST_DEPTH = 1000  # of layers; the images set the real limit
MOST_RATE = 1000  # of learning and of weight decay: with more, everything diverges in the first steps
MOST = 1e30  # larger numbers overflow float32 during a run

# Settings that are read only if others have one of some values. All the rest is always read.
_MDC = {"policy": ("mdc", "mdc-per-class")}
_TRAINED, _EXPERTS = {"learner": ("trained",)}, {"learner": ("experts",)}
_NAMED_NETWORK = {"network": ("convnet", "resnet-ap")}  # those of CONDENSING_NETWORKS in architecture.py
_SYNTHETIC = {"learner": ("trained-on-synthetic",)}
_TRAJECTORIES, _STUDENTS = {"learner": ("trajectories",)}, {"objective": ("trajectory",)}
_LEARNING = {"learner": ("trained", "experts", "trajectories", "trained-on-synthetic")}
_BETWEEN = {"learner": ("trained", "trained-on-synthetic")}  # networks learn between inner iterations
_CLUSTERED = {"sampler": ("k-means",)}
_SGD = {"pixel_optimiser": ("sgd",)}
READ_IF: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("period", "freeze", "round_distances", "metric", "metric_epochs"), _MDC),
    **dict.fromkeys(("width", "depth"), _NAMED_NETWORK),
    "subset_weight": {"policy": ("mdc", "mdc-per-class", "every-prefix")},
    "prefix_weights": {"policy": ("every-prefix",)},
    "steps": {"policy": ("every-prefix",), "pixel_optimiser": ("sgd",)},
    "experts": {"learner": ("experts", "trajectories")},
    "expert_steps": _EXPERTS,
    **dict.fromkeys(("snapshot_steps", "expert_starts", "expert_ahead"), _TRAJECTORIES),
    **dict.fromkeys(("student_steps", "student_batch", "student_sizes"), _STUDENTS),
    **dict.fromkeys(("student_lr", "student_lr_lr", "student_lr_momentum"), _STUDENTS),
    **dict.fromkeys(("train_images", "early_epochs"), _TRAINED),
    "train_epochs": _SYNTHETIC,
    **dict.fromkeys(("pool", "life"), _BETWEEN),
    "match_precision": {"objective": FIRST_ORDER},
    **dict.fromkeys(("train_batch", "train_augment", "train_precision", "cutmix"), _LEARNING),
    **dict.fromkeys(("network_lr", "network_momentum", "network_decay"), _LEARNING),
    **dict.fromkeys(("step_after", "pixel_space"), _SGD),
    **dict.fromkeys(("cluster_every", "cluster_images", "cluster_steps"), _CLUSTERED),
}


def policies_reading(setting: str) -> tuple[str, ...]:
    """The policies of mipset that use a setting."""
    return READ_IF.get(setting, {}).get("policy", tuple(POLICIES))


def policy_reads(policy: str, setting: str) -> bool:
    """Whether a policy uses a setting; one of somebody's own uses those that all policies use."""
    needed = READ_IF.get(setting, {}).get("policy")
    return needed is None or policy in needed


def parse_objective(text: str) -> list[tuple[float, str, int]]:
    """`feature+10*confidence/2` as [(1.0, "feature", 1), (10.0, "confidence", 2)]: the terms of a sum.

    Each has its weight, its name, and its period: it is computed in every so many-th inner iteration.
    """
    terms: list[tuple[float, str, int]] = []
    for part in text.split("+"):
        weight, star, rest = part.rpartition("*")
        name, slash, period = rest.partition("/")
        if name not in OBJECTIVES and not is_own(name):
            raise SettingError(
                f"`objective` is {text!r}, and there is no objective {name!r}. {choose(name, OBJECTIVES)}, or a sum "
                f"such as feature+10*confidence, or a class of your own as module:Class."
            )
        try:
            terms.append((float(weight) if star else 1.0, name, int(period) if slash else 1))
        except ValueError:
            terms.append((0.0, name, 0))
    valid = all(0 < weight <= MOST and 1 <= period <= MOST for weight, _, period in terms)
    if not valid or len({name for _, name, _ in terms}) < len(terms) or terms[0][2] != 1:
        raise SettingError(
            f"`objective` is {text!r}: the weight of each term must be a number larger than 0, its period a whole "
            f"number from 1 on (1 for the first term), and each term may be named once. Write a sum such as "
            f"feature+10*confidence/2."
        )
    if "trajectory" in [name for _, name, _ in terms] and text != "trajectory":
        raise SettingError(
            f"`objective` is {text!r}: trajectory has one distance for all classes together, so it can only stand "
            f"alone. Choose trajectory, or a sum without it."
        )
    if terms[0][1] == "confidence":
        raise SettingError(
            f"`objective` is {text!r}: the first term must compare real and synthetic images. "
            f"Put {choices(name for name in OBJECTIVES if name not in ('confidence', 'trajectory'))} before confidence."
        )
    return terms


def augmentation_names(text: str) -> list[str]:
    """`color_crop` as ["color", "crop"], and `none` as an empty list; other names are refused."""
    names = [] if text == NO_AUGMENTATION else text.split("_")
    for name in names:
        if name not in AUGMENTATIONS:
            raise SettingError(
                f"There is no augmentation {name!r}. Choose from {choices(AUGMENTATIONS)}, joined by underscores, "
                f"or {NO_AUGMENTATION}."
            )
    return names


def unmirrored(text: str) -> str:
    """The same augmentation without `flip`, for images that change their class when they are mirrored."""
    return "_".join(name for name in augmentation_names(text) if name != FLIP) or NO_AUGMENTATION
