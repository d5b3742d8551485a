"""Make the folder gallery/ of the source tree: publish sets into it, without Parquet, and write its index.

    python scripts/make_gallery.py cifar10=c10.safetensors mnist=mnist.safetensors

A set replaces the one of the same name; the others stay. Without a set, only the index is written again. The real
images of each set must be at hand: each is compared with them, unless `mipset audit` has saved that beside the file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mipset import read
from mipset.file.gallery import entries_of
from mipset.file.gallery_index import INDEX, Entry, index_bytes
from mipset.io.files import write_whole
from mipset.units import byte_count

GALLERY = Path(__file__).parents[1] / "gallery"
MOST_BYTES = 5_000_000  # of all files together: everybody downloads them with the source tree


def add(name: str, file: Path, gallery: Path, time: str | None) -> None:
    """Publish a file as gallery/NAME."""
    flags = ["--name", name, "--data", str(read(file).provenance.get("dataset")), "--no-parquet", "--force"]
    flags += ["--time", time] if time else []
    subprocess.run([sys.executable, "-m", "mipset", "publish", file, "--to", gallery / name, *flags], check=True)


def listed(gallery: Path) -> Iterator[Entry]:
    """The entries of all sets below the folder, with paths from there."""
    for index in sorted(gallery.glob(f"*/{INDEX}")):
        for entry in entries_of(index):
            folder = index.parent.name
            yield replace(entry, file=f"{folder}/{entry.file}", card=f"{folder}/{entry.card}")


def main() -> None:
    """Publish the sets, write the index, and print what the folder holds."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("sets", metavar="NAME=FILE", nargs="*", help="sets to publish")
    parser.add_argument("--to", metavar="DIR", type=Path, default=GALLERY, help="the folder (default: gallery)")
    parser.add_argument("--time", metavar="TIME", help="processor time of each, such as 24min (default: of its log)")
    arguments = parser.parse_args()

    gallery: Path = arguments.to
    gallery.mkdir(exist_ok=True)
    for given in arguments.sets:
        name, _, file = given.partition("=")
        add(name, Path(file), gallery, arguments.time)
    entries = list(listed(gallery))
    content = index_bytes(entries)
    write_whole(gallery / INDEX, lambda stream: stream.write(content))
    length = sum(path.stat().st_size for path in gallery.rglob("*") if path.is_file())
    print(f"{gallery}: {', '.join(entry.name for entry in entries)}; {byte_count(length)}")
    if length > MOST_BYTES:
        raise SystemExit(f"The folder may have at most {byte_count(MOST_BYTES)}. Remove a set.")


if __name__ == "__main__":
    main()
