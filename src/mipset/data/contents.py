"""What each official file of a dataset holds, as digests: they tell which file is not the official one, in any form."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from mipset.data.dataset import Split


@dataclass(frozen=True)
class Content:
    """The part of a dataset that one file holds: images, labels, or images and then labels, of some rows of a split.

    The digest is SHA-256 of their bytes in the order of the rows; a label is one byte.
    """

    file: str  # its name without a suffix
    sha256: str
    test: bool = False
    images: bool = True
    labels: bool = True
    rows: tuple[int, int | None] = (0, None)

    def is_in(self, train: Split, test: Split) -> bool:
        """Whether these splits have this content."""
        split, rows, digest = test if self.test else train, slice(*self.rows), hashlib.sha256()
        if self.images:
            digest.update(split.images[rows].reshape(-1).data)
        if self.labels:
            digest.update(split.labels[rows].astype("u1").data)
        return digest.hexdigest() == self.sha256


def wrong_files(contents: Sequence[Content], train: Split, test: Split) -> list[str]:
    """The files whose content is not in the splits. Empty if that is unknown, or if no file is right."""
    wrong = [each.file for each in contents if not each.is_in(train, test)]
    return wrong if len(wrong) < len(contents) else []


def of_idx_files(digests: Sequence[str]) -> tuple[Content, ...]:
    """The four files of MNIST and of datasets in the same form."""
    titles = [(f"{split}-{part}-ubyte", split, part) for split in ("train", "t10k") for part in PARTS]
    return tuple(
        Content(file, digest, split == "t10k", part == PARTS[0], part == PARTS[1])
        for (file, split, part), digest in zip(titles, digests, strict=True)
    )


def of_batches(digests: Sequence[str], count: int) -> tuple[Content, ...]:
    """The training batches of CIFAR-10, of `count` images each, and the test batch."""
    *train, test = digests
    return (
        *(
            Content(f"data_batch_{number}", digest, rows=((number - 1) * count, number * count))
            for number, digest in enumerate(train, start=1)
        ),
        Content("test_batch", test, test=True),
    )


PARTS = ("images-idx3", "labels-idx1")

CIFAR10 = of_batches(
    (
        "ba52cb2d72c412975d7556bb26bd094956f1c002d1937053f6f1252f2ac17114",
        "350ff9000489d02f2568c0dcf4912ffdbae9e50932147905fb1b8159ad54f0ac",
        "a2b8653fc457df407af6c38b7e0d1a12530f3b5f81fce9f81516efd065daf722",
        "133e6292c377755074c305db8a684d48d5397372cb0aba34f52b4335eab35d97",
        "eb08cdc11fd1267ef871cf4790f193684b3f556d13317be68f4eb374a078ea87",
        "9a4c74f5c8b6f2c4e13d3a1dfb43a5a8cda8a9da515e99fd620d2013a1a6287a",
    ),
    10_000,
)
FASHION_MNIST = of_idx_files(
    (
        "2e487a6c89124f78f2d7521542223cafe96f7123c3ca13d447772ac6ecbb3012",
        "657fbd221bfc9f4198cc14b5619cc33ec57c58dd0e47af4d99d6650759e869a7",
        "c867c93ff95360594e8ec3287995350b824dd110b11595c0e13d5423f621867a",
        "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    )
)
MNIST = of_idx_files(
    (
        "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "1feba77c54802fa5339a11837ea4b2866434b83314ec45192930f1df69120c13",
        "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    )
)
