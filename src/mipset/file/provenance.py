"""Where a condensed set comes from: the one list of keys that mipset writes into the field `provenance` of a file.

All keys are optional. A file from elsewhere may hold other keys and other types: a reader checks the types of the
values that it uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict


class Provenance(TypedDict, total=False):
    """What mipset records about the origin of a set."""

    # Every set.
    mipset: str  # version of the library that made the images
    dataset: str  # name of the dataset; of a path only the last part, because files are published
    sha256: str  # digest of the dataset
    # What `mipset.load` needs to load the dataset again.
    size: int | None  # `resolution` in pixels, under its old name; None for the dataset's own
    split_seed: int  # seed that draws the test images of a dataset which has none
    skip_bad: bool  # True if pictures that could not be read were left out
    held_out: float | None  # share of the training images that `mipset compare` kept for testing
    # A condensed set.
    engine: str  # what computed the networks, such as "compiled kernels" or "plain torch"
    parts: dict[str, str]  # descriptions of parts that are not those of the recipe, or not of mipset
    student_rates: list[
        float | None
    ]  # objective `trajectory`: learned rate of sizes 1..N; None if a size never counted
    start: str  # SHA-256 of the images of the set that the condensation started from
    rank: int | None  # Baseline B: rank of the real images that this condensation started from; None for the first
    condensations: int  # Baseline B: number of condensations that were put together
    grown_from: int  # images per class before `mipset grow` added images or classes
    # Real images.
    selection: str  # name of the method that chose the real images
    # A set whose order was changed.
    reordered: str  # name of the method, such as "yoco"
    reordered_with: str  # settings of that method
    # A set that was made from a condensed set alone.
    components: int  # svd-truncate: components that the images of each class are made of
    recondensed_from: int  # recondense: images per class of the set that stood for the real images
    # A set that another program condensed.
    imported: str  # kind of file: "mdc" or "dc"
    imported_sha256: str  # digest of that file
    experiment: int  # number of the experiment, if the file holds several
    order: str  # what a prefix is a prefix of: "tiles" or "images"


# Why one run from its own start did not make a set, by the key of its provenance that tells it.
NOT_ONE_RUN = {
    "start": "it started from the images of another set",
    "grown_from": "it was grown from a smaller set",
    "imported": "another program condensed it",
    "selection": "it has real images, and was not condensed",
    "reordered": "its images were put into another order",
    "condensations": "it was put together from several condensations",
}


def public_name(dataset: str) -> str:
    """The name of a dataset as it is published: `folder:pets` for `folder:/home/me/pets`.

    Data of a user always have a whole path in their name. `hf:somebody/pets` has none, and stays as it is.
    """
    kind, colon, place = dataset.partition(":")
    return kind + colon + (Path(place).name if Path(place).is_absolute() else place)
