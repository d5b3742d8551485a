"""Whatever comes in, what comes out is sound or one of our errors.

Sound files of several shapes are cut, flipped, spliced and made to lie: about lengths and offsets, with values that no
JSON should have, under names that are paths, as pickles that would run code and zips that would fill the memory. Each
case is opened in every way there is. Then, of every case:

- nothing is raised but a `MipsetError`, whose message is one line of bearable length;
- no byte is asked for outside of the file;
- memory stays within a small multiple of the bytes that came in;
- nothing is written outside of the folder that was named, and no code is run.

The same tests run a hundred cases each with the others, and 10,000 each with `make test-slow`.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import json
import mmap
import os
import pickle
import re
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import web
from mipset import Accuracy, Artifact, MipsetError, device, read
from mipset.device import places, remote
from mipset.exchange.exports import FORMATS, export
from mipset.exchange.published import as_artifact, open_published
from mipset.file import artifact

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
T = TypeVar("T")

FEW = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=10_000)

# What a case may take beside the bytes that it brings, and how often it may take those. Less than the longest header
# that a file can claim; more than the 4 MB by which Python's table of names grows when it happens to be full. And JSON
# of `{}` alone is 27 times as large once it is parsed.
SOME_MEMORY, TIMES = 6_000_000, 40
RESIDENT = 100_000_000  # what an allocator may add to it


def said(error: MipsetError) -> None:
    """An error is a sentence for people."""
    assert "\n" not in str(error)
    assert len(str(error)) < 1000


@contextmanager
def refusing() -> Iterator[None]:
    """A refusal is fine; any other exception is not."""
    try:
        yield
    except MipsetError as error:
        said(error)


CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def most_resident() -> int:
    """The most memory of the process, in bytes, since `CLEAR` was told 5; 0 where that is not known."""
    found = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    return 1000 * int(found[1]) if found else 0


@contextmanager
def little_memory(arrived: int) -> Iterator[None]:
    """Never more at once than a small multiple of what came in, as Python counts it and as the system does."""
    with suppress(OSError):  # what was there before counts too, where it cannot be cleared
        CLEAR.write_text("5")
    tracemalloc.reset_peak()
    before, (traced, _) = most_resident(), tracemalloc.get_traced_memory()
    yield
    assert tracemalloc.get_traced_memory()[1] - traced < SOME_MEMORY + TIMES * arrived
    assert most_resident() - before < RESIDENT + TIMES * arrived


pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a case that goes wrong


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Counting memory slows everything down, so only here."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


# hostile files of ours


def sound(shape: tuple[int, ...], factor: int = 1, points: int = 0) -> bytes:
    """A file of noise."""
    ranks, classes, channels = shape[:3]
    return Artifact(
        images=np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8),
        factor=factor,
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        class_names=("cat", "dög", "*/", "猫")[:classes] if classes <= 4 else tuple(map(str, range(classes))),
        recipe={"ipc": ranks, "network": "convnet", "width": 4, "depth": 2, "pixel_lr": 0.1},
        provenance={"dataset": "noise", "sha256": "00" * 32, "size": None},
        accuracy=tuple(
            Accuracy(n, 50.0, 1.5, 3, "convnet", "quick, 16 epochs, at least 100 steps", 0, "")
            for n in range(1, points)
        ),
    ).to_bytes()


SOUND = [
    sound((1, 1, 1, 1, 1)),
    sound((3, 2, 1, 4, 5), factor=2, points=3),
    sound((2, 3, 3, 8, 8), factor=3, points=2),
    sound((40, 1, 2, 3, 3)),
    sound((2, 60, 1, 2, 2), factor=2),
    sound((2, 4, 3, 64, 96), factor=2, points=3),  # longer than a block of reading
]

RAW = [  # JSON, or what somebody may take for it
    *("0", "-1", "1", "2", "3", "7", "255", "true", "false", "null", "1.0", "-0.0", "0.5", "1e-320", "1e308", "1e999"),
    *("NaN", "Infinity", "-Infinity", "1e", "01", "+1", "0x10", "1_000", "٣", "'a'", "", "]", "}", "{", "undefined"),
    *(str(2**power + more) for power in (15, 31, 32, 62, 63, 64, 70) for more in (-1, 0, 1)),
    *(str(-(2**power)) for power in (31, 63, 64)),
    *("9" * 30, "9" * 4299, "9" * 4301, "-" + "9" * 4299, "1" + "0" * 400, "0." + "1" * 3000),
    *('""', '"x"', '"U8"', '"\\ud800"', '"\\u0000"', '"../../x"', '"\\n"', '"猫"', '"1"', json.dumps("x" * 20_000)),
    *("[]", "{}", "[[]]", "[0]", "[1,1,1,1,1]", "[0,4]", '{"a":1,"a":2}', '{"factor":2}', '{"factor":1e3}', "[null]"),
    *("[" * 80 + "]" * 80, "[" * 5000 + "]" * 5000, '{"a":' * 980 + "1" + "}" * 980, "[" * 100_000),
    *("[" + "0," * 3000 + "0]", "[" + "{}," * 3000 + "{}]", json.dumps({str(n): n for n in range(500)})),
]
LENGTHS = [0, 1, 2, 7, 8, 9, 1 << 16, (1 << 23) - 8, 1 << 23, (1 << 23) + 1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1]
MARKER, TWICE = "\ue000", "\ue001"  # in a text: here comes raw text; this makes a key come twice


def one_of(things: list[T]) -> st.SearchStrategy[T]:
    """One of them, though not by showing all of them when something is wrong."""
    return st.integers(0, len(things) - 1).map(lambda number: things[number])


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
raw = st.one_of(one_of(RAW), anything.map(json.dumps))


def taken_apart(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Header, description and pixels of a sound file."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["mipset"]), content[8 + length :]


def redescribe(header: dict[str, Any], text: str) -> None:
    """Another description, under its own digest."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    header["__metadata__"] = {"mipset": text, "mipset_sha256": digest}


def with_header(text: str, pixels: bytes) -> bytes:
    header = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(header)) + header + pixels


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container within a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from places_in(inner)


@st.composite
def twisted(draw: st.DrawFn, value: dict[str, Any]) -> str:
    """JSON text of a value with something hostile in place of a part of it, or with a key too few or too many."""
    texts = []
    for _ in range(draw(st.integers(0, 2))):
        container, key = draw(one_of(list(places_in(value)) or [(value, "x")]))
        texts.append(draw(raw))
        match draw(st.sampled_from(["replace", "replace", "remove", "add"])):
            case "replace":
                container[key] = MARKER
            case "remove" if isinstance(container, dict):
                container.pop(key, None)
            case _ if isinstance(container, dict):
                container[draw(st.sampled_from(["x", "images", "mipset", f"{key} ", f"{key}{TWICE}"]))] = MARKER
            case _:
                container.insert(key, MARKER)
    first, *pieces = json.dumps(value, ensure_ascii=False).replace(TWICE, "").split(f'"{MARKER}"')
    return first + "".join(text + piece for text, piece in zip([*texts, *["0"] * len(pieces)], pieces, strict=False))


@st.composite
def lying(draw: st.DrawFn) -> bytes:
    """A sound layout whose header says something else."""
    header, description, pixels = taken_apart(draw(one_of(SOUND)))
    redescribe(header, draw(twisted(description)))
    return with_header(draw(twisted(header)), pixels)


@st.composite
def reshaped(draw: st.DrawFn) -> bytes:
    """All agrees, digests too, but the shape is an odd one for as many bytes: classes of one pixel, one long row."""
    header, description, pixels = taken_apart(draw(one_of(SOUND)))
    left, shape = len(pixels), []
    for _ in range(4):
        shape.append(draw(one_of([n for n in range(1, min(left, 300) + 1) if left % n == 0])))
        left //= shape[-1]
    shape.append(left)  # the longest side is never that of ranks or classes, whose header would be slow to make
    description.update(
        formation={"factor": draw(st.integers(1, 4))},
        mean=[draw(st.floats(allow_nan=False, allow_infinity=False))] * shape[2],
        std=[draw(st.floats(1e-300, 1e300))] * shape[2],
        classes=["x"] * shape[1],
        accuracy=[],
        sha256=[hashlib.sha256(rank).hexdigest() for rank in np.frombuffer(pixels, np.uint8).reshape(shape)],
    )
    header["images"].update(shape=shape, data_offsets=[0, draw(one_of([len(pixels)] * 3 + [len(pixels) + 1, left]))])
    redescribe(header, json.dumps(description))
    return with_header(json.dumps(header), pixels)


class Content(bytes):
    """Bytes that are not shown whole where they are many."""

    def __repr__(self) -> str:
        return super().__repr__() if len(self) < 5000 else f"<{len(self)} bytes: {self[:200]!r}...>"


@st.composite
def spliced(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes cut off, flipped, put in, left out, doubled; or another length of the header."""
    content = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        stop = draw(st.integers(start, min(len(content), start + 40)))
        match draw(st.sampled_from(["cut", "flip", "flip", "insert", "remove", "double", "length"])):
            case "cut":
                del content[start:]
            case "flip":
                for place in range(start, min(stop, start + 3)):
                    content[place] ^= draw(st.integers(1, 255))
            case "insert":
                content[start:start] = draw(st.binary(max_size=12) | raw.map(lambda text: text.encode()[:2000]))
            case "remove":
                del content[start:stop]
            case "double":
                content[start:start] = content[start:stop]
            case "length":
                near = int.from_bytes(content[:8], "little") + draw(st.integers(-16, 16))
                chosen = draw(st.sampled_from([near, *LENGTHS]))
                content[:8] = struct.pack("<Q", min(max(0, chosen), (1 << 64) - 1))
    return bytes(content)


files = st.one_of(lying(), reshaped(), spliced(one_of(SOUND)), spliced(lying()), st.binary(max_size=60)).map(Content)


class Watched(io.BufferedReader):
    """A file that must not be read outside of itself."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._length = path.stat().st_size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        assert whence == os.SEEK_SET
        assert 0 <= offset <= self._length
        return super().seek(offset)

    def read(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        assert 0 <= size <= self._length - self.tell()
        return super().read(size)


@contextmanager
def watched(path: Path) -> Iterator[Watched]:
    with opened(path), Watched(path) as stream:
        yield stream


opened = artifact.opened

HABITS: list[web.Fault] = [
    lambda _: False,
    web.without_ranges,
    web.in_chunks,
    web.until_closed,
    web.in_a_negative_chunk,
    web.redirecting_at_length,
    web.hanging_up,
    *map(web.closing_after, (0, 1, 100)),
    *map(web.closing_whole_after, (0, 9, 900)),
    *map(web.at_most, (0, 1, 7, 50)),
    *(
        web.claiming(text)
        for text in (
            *("", "bytes", "bytes */8", "bytes 0-0/1", "bytes 0-7/8", "bytes 0-7/*", "bytes 8-0/9", "bytes -1-7/8"),
            *("bytes 0-7/" + "9" * 19, "bytes 0-7/" + "9" * 5000, "bytes 0-" + "9" * 19 + "/*", "lines 0-7/9", "٣"),
        )
        if text.isascii()
    ),
    *(web.with_status(code) for code in (204, 304, 403, 404, 412, 416, 418, 500, 503)),
    lambda handler: handler.answer(206, b"x", {"Content-Range": "bytes 0-7/9"}, length=8),
    lambda handler: handler.answer(200, handler.server.content, length=1 << 62),
    lambda handler: handler.part(length=str(1 << 62)),
    web.then(lambda server: setattr(server, "etag", '"second"')),
    web.then(lambda server: setattr(server, "content", server.content + b"x")),
]
habits = st.lists(one_of(HABITS), max_size=3)


@dataclass
class Opener:
    """Opens a case in every way, and compares what comes out."""

    folder: Path
    server: web.Server

    def check(self, content: bytes, faults: list[web.Fault]) -> None:
        path = self.folder / "set.safetensors"
        path.write_bytes(content)
        found: Artifact | None = None
        with little_memory(len(content)), refusing():
            found = read(path)
            assert found.to_bytes()[-found.images.nbytes :] == content[-found.images.nbytes :]
        with little_memory(len(content)), refusing():
            self.use(device.open(path), found)
        self.server.content, self.server.etag, self.server.faults = content, '"first"', list(faults)
        self.server.requests.clear()
        with little_memory(len(content)), refusing():
            self.use(device.open(self.server.url), found)
        self.check_requests(len(content), faults)

    def use(self, source: device.Source, whole: Artifact | None) -> None:
        """Everything that a device does with a file. Whoever reads all of it must find what `read` found."""
        ipc = source.about.ipc
        chosen = device.plan(source, memory=1e15, throughput=1.0)
        assert 1 <= chosen.size <= ipc
        for n in sorted({1, -(-ipc // 2), ipc}):
            subset = source.prefix(n)
            images, _ = subset.take([0, len(subset) - 1])
            assert np.isfinite(images).all()
            if whole is not None:
                np.testing.assert_array_equal(subset.artifact().images, whole.images[:n])
        assert whole is not None
        subset.shrink(1).write(self.folder / "part.safetensors")
        np.testing.assert_array_equal(read(self.folder / "part.safetensors").images, whole.images[:1])

    def check_requests(self, length: int, faults: list[web.Fault]) -> None:
        """Once an honest server has told the length, nothing beyond it is asked for."""
        if faults:
            return
        for number, request in enumerate(self.server.requests):
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request["Range"])
            assert asked is not None
            assert int(asked[1]) <= int(asked[2])
            assert number == 0 or int(asked[2]) < length


@pytest.fixture
def opener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    monkeypatch.setattr(remote, "PAUSE", 0.0)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for module in (artifact, places):
        monkeypatch.setattr(module, "opened", watched)
    with web.serving(b"") as server:
        yield Opener(tmp_path, server)


class TestFiles:
    @FEW
    @given(content=files, faults=habits)
    def test_are_sound_or_refused(self, opener: Opener, content: bytes, faults: list[web.Fault]) -> None:
        opener.check(content, faults)

    @pytest.mark.slow
    @MANY
    @given(content=files, faults=habits)
    def test_are_sound_or_refused_at_length(self, opener: Opener, content: bytes, faults: list[web.Fault]) -> None:
        opener.check(content, faults)


# exports of sets whose class names are hostile

NAMES = [
    *("", ".", "..", "/", "../../x", "/tmp/x", "~", "a/b\\c", "CON", "nul.png", "x\0y", "\0", "\x1b[2J", "two\nlines"),
    *(
        "cat",
        "Cat",
        "CAT ",
        "*/ #error",
        "/* x",
        "??/",
        '"',
        "\\",
        "%s{name}",
        "\ud800",
        "猫",
        "ﬁ",
        "\u202e",
        "classes.json",
    ),
    *("sheet.png", "$(reboot)", "<b>", "__mipset__", "é" * 300, "long " * 5000, "x" * 100_000, "\ufeff", "-rf", "0"),
]
names = st.one_of(one_of(NAMES), st.text(st.characters(), max_size=12))
name_lists = st.one_of(
    st.lists(names, min_size=1, max_size=6),
    st.tuples(names, st.integers(1, 100)).map(lambda many: [many[0][:300]] * many[1]),
    st.tuples(names, st.integers(1, 100)).map(lambda many: [many[0], *map(str, range(many[1]))]),
)


class Writes:
    """What is done to files and processes while it is watched: an audit hook of Python, which cannot be removed."""

    CHANGES = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "shutil.move", "shutil.copyfile")
    RUNS = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "pty.spawn", "socket.connect")

    def __init__(self) -> None:
        self.paths: list[str] | None = None
        sys.addaudithook(self._seen)

    def _seen(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.paths is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or set("wax+") & set(mode or "")
            if writing and not isinstance(path, int):
                self.paths.append(os.fsdecode(path))
        elif event in self.CHANGES:
            self.paths += [os.fsdecode(path) for path in arguments if isinstance(path, str | bytes)]
        elif event in self.RUNS:
            self.paths.append(f"{event} {arguments}")

    @contextmanager
    def only_in(self, folder: Path | None) -> Iterator[None]:
        """Nothing is written outside of a folder, or at all, and no other program is run."""
        self.paths = []
        try:
            yield
        finally:
            found, self.paths = self.paths, None
        assert [path for path in found if folder is None or not Path(path).resolve().is_relative_to(folder)] == []


@cache
def writes() -> Writes:
    return Writes()


def export_or_refuse(folder: Path, class_names: list[str], shape: tuple[int, ...], to: str) -> None:
    """Write a file with these class names, open it and export it: all that is there afterwards is the export."""
    ranks, channels, *size = shape
    whole = Artifact(
        images=np.zeros((ranks, len(class_names), channels, *size), np.uint8),
        factor=1,
        mean=(0.5,) * channels,
        std=(0.25,) * channels,
        class_names=tuple(class_names),
    )
    with TemporaryDirectory(dir=folder) as name:
        root = Path(name)
        whole.write(root / "set")
        length = (root / "set").stat().st_size
        found = read(root / "set")
        assert found.class_names == tuple(class_names)
        with little_memory(length + PICTURE * len(class_names) * ranks), writes().only_in(root), refusing():
            export(found, to, root / "out")
        assert {entry.name for entry in root.iterdir()} <= {"set", "out"}
        assert [entry.name for entry in folder.iterdir()] == [root.name]


PICTURE = 300  # bytes that a small PNG file, its place and its name take for each image
shapes = st.tuples(st.integers(1, 3), st.sampled_from([1, 1, 3, 3, 2]), st.integers(1, 4), st.integers(1, 4))


class TestExports:
    @pytest.fixture(autouse=True)
    def ready(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Whatever formats import or set up when they are first used."""
        for number, to in enumerate(FORMATS):
            export(read(GOLDEN), to, tmp_path_factory.mktemp("ready") / str(number))

    @FEW
    @given(class_names=name_lists, shape=shapes, to=st.sampled_from(FORMATS))
    def test_stay_in_their_folder(
        self, tmp_path: Path, class_names: list[str], shape: tuple[int, ...], to: str
    ) -> None:
        export_or_refuse(tmp_path, class_names, shape, to)

    @pytest.mark.slow
    @MANY
    @given(class_names=name_lists, shape=shapes, to=st.sampled_from(FORMATS))
    def test_stay_in_their_folder_at_length(
        self, tmp_path: Path, class_names: list[str], shape: tuple[int, ...], to: str
    ) -> None:
        export_or_refuse(tmp_path, class_names, shape, to)


# files of torch that others may have made


@dataclass(frozen=True)
class Toy:
    """A dataset of which only this is known."""

    name: str = "toy"
    class_names: tuple[str, ...] = ("a", "b", "c")
    shape: tuple[int, int, int] = (3, 4, 4)
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    sha256: str = "00" * 32


IMAGES = torch.rand(6, *Toy().shape, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(3).repeat_interleave(2)
MARKS: list[object] = []  # what was executed


def mark(*arguments: object) -> list[object]:
    """What no import may ever call."""
    MARKS.append(arguments)
    return [IMAGES, LABELS]


class Call:
    """In a pickle: call a function with these arguments, then give the result a state."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], state: Any = None) -> None:
        self._reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced

    def __repr__(self) -> str:
        return f"Call{self._reduced}"


def floats(tensor: torch.Tensor) -> torch.storage.TypedStorage:
    """The storage of a tensor, which a pickle has apart from it."""
    return torch.storage.TypedStorage(  # type: ignore[no-untyped-call]
        wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True
    )


# Some of these a file may call, since torch lets it; what they make of their arguments is another matter. Left out are
# `bytearray` and `_codecs.encode`, by which torch lets a file make as many bytes as it likes: we cannot tell it not to.
FUNCTIONS: list[Callable[..., Any]] = [
    *(
        mark,
        eval,
        exec,
        compile,
        getattr,
        __import__,
        open,
        os.mkdir,
        os.system,
        os.remove,
        Path.touch,
        subprocess.call,
    ),
    *(pickle.loads, torch.load, torch.storage._load_from_bytes, torch.hub.load, np.load, np.dtype, builtins.print),
    *(
        set,
        complex,
        OrderedDict,
        Counter,
        torch.Size,
        torch.device,
        torch.Tensor,
        torch.nn.Parameter,
        torch.FloatTensor,
    ),
    *(torch._utils._rebuild_tensor, torch._utils._rebuild_tensor_v2, torch._utils._rebuild_parameter),
    *(torch._utils._rebuild_qtensor, torch._utils._rebuild_sparse_tensor, torch._utils._rebuild_nested_tensor),
    *(torch._utils._rebuild_meta_tensor_no_storage, torch._tensor._rebuild_from_type_v2),
]
STATES: list[Any] = [
    None,
    {},
    {"get": 1},
    {"detach": 1},
    {"shape": 1},
    {"__class__": dict},
    {"data": []},
    (1, {"x": 2}),
    7,
    "x",
]
SIZES = [(), (6,), (6, 3, 4, 4), (12, 3, 4, 4), (0, 3, 4, 4), (10**9, 3, 4, 4), (-1,), (2**62, 2**62), (1.5,), "x"]
STRIDES = [(), (1,), (48, 16, 4, 1), (0, 0, 0, 0), (-1, -1, -1, -1), (2**62, 1, 1, 1), None]
TENSORS = [
    *(
        IMAGES,
        LABELS,
        IMAGES.double(),
        IMAGES.bfloat16(),
        IMAGES * 9 - 4,
        LABELS.byte(),
        LABELS.float(),
        LABELS.flip(0),
    ),
    *(IMAGES.to(torch.float8_e5m2), LABELS.byte().view(torch.bits8), LABELS.to(torch.uint64), torch.zeros(())),
    *(torch.zeros(1).expand(10**9), torch.zeros(1).expand(10**9, 3, 4, 4), IMAGES[:0], IMAGES.to_sparse()),
    *(torch.complex(IMAGES, IMAGES).conj().imag, IMAGES.to("meta"), torch.full_like(IMAGES, float("nan"))),
]


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch warns of these kinds when they are made
    TENSORS += [torch.quantize_per_tensor(LABELS.float(), 1.0, 0, torch.quint8), torch.nested.nested_tensor([*IMAGES])]

parts: st.SearchStrategy[Any] = st.one_of(
    one_of(TENSORS),
    one_of([floats(IMAGES), floats(IMAGES.double()), floats(LABELS.float())]),
    one_of(
        [*SIZES, *STRIDES, 0, 6, -1, 10**15, 2**70, False, 0.5, "x", "__import__('os')", b"x", "mark", OrderedDict()]
    ),
)
values = st.recursive(
    parts,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["images", "labels", "data", "x", 3]), inner, max_size=3),
        st.builds(Call, one_of(FUNCTIONS), st.lists(inner, max_size=3).map(tuple), one_of(STATES)),
    ),
    max_leaves=6,
)
rebuilt = st.builds(  # a tensor as torch has it in a file, with other numbers
    lambda size, stride, offset, hooks: Call(
        torch._utils._rebuild_tensor_v2, (floats(IMAGES), offset, size, stride, False, hooks)
    ),
    *(one_of(SIZES), one_of(STRIDES), one_of([0, 1, -1, 2**40]), one_of([OrderedDict(), 3, None])),
)
attributed = st.builds(  # a tensor with attributes of its own
    lambda state: Call(
        torch._tensor._rebuild_from_type_v2,
        (
            torch._utils._rebuild_tensor_v2,
            torch.Tensor,
            (floats(IMAGES), 0, (6, 3, 4, 4), (48, 16, 4, 1), False, OrderedDict()),
            state,
        ),
    ),
    one_of(STATES),
)
images = st.one_of(one_of(TENSORS), rebuilt, attributed, values)
layouts = st.one_of(
    st.tuples(images, one_of(TENSORS)).map(list),
    st.tuples(images, one_of(TENSORS)).map(lambda pair: {"data": [list(pair)], "more": 1}),
    st.tuples(images, one_of(TENSORS)).map(lambda pair: {"images": pair[0], "labels": pair[1]}),
    one_of(STATES).map(lambda state: Call(OrderedDict, (), state)),
    values,
)


@st.composite
def saved(draw: st.DrawFn) -> bytes:
    """A file of torch, of its older kind too, or a pickle."""
    content, stream = draw(layouts), io.BytesIO()
    how = draw(st.sampled_from(["zip", "zip", "legacy", "pickle"]))
    try:
        if how == "pickle":
            return pickle.dumps(content, draw(st.integers(0, 5)))
        torch.save(content, stream, _use_new_zipfile_serialization=how == "zip")
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, pickle.PicklingError):
        reject()  # what cannot be saved in this way
    return stream.getvalue()


SMALL = [b"", b"little", b"big", b"middle", b"0", b"-1", b"64", b"9" * 5000, b"1\n", b"\xff" * 8, b"\x80\x02N."]
RECORDS = ["../../x", "/tmp/x", "archive/../x", "x" * 300, "archive/data/9", "archive/constants.pkl", "archive/.data/x"]


@st.composite
def packed(draw: st.DrawFn) -> bytes:
    """A zip file of torch put together anew: compressed, with records renamed, doubled, replaced or left out."""
    stream = io.BytesIO()
    with zipfile.ZipFile(sound_zip()) as whole, zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that come twice
        for entry in whole.infolist():
            name, content = entry.filename, whole.read(entry)
            what = draw(
                st.sampled_from(["keep", "keep", "keep", "drop", "rename", "twice", "small", "longer", "shorter"])
            )
            if what == "drop":
                continue
            name = draw(one_of(RECORDS)) if what == "rename" else name
            content = draw(one_of(SMALL)) if what == "small" else content
            content = content + bytes(1000) if what == "longer" else content[:-1] if what == "shorter" else content
            for _ in range(2 if what == "twice" else 1):
                archive.writestr(name, content, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))
    return stream.getvalue()


def sound_zip() -> io.BytesIO:
    stream = io.BytesIO()
    torch.save([IMAGES, LABELS], stream)
    return stream


@cache
def bomb(name: str) -> bytes:
    """A small zip file with a large record."""
    stream = io.BytesIO()
    with zipfile.ZipFile(sound_zip()) as whole, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in whole.infolist():
            filler = bytes(BOMB) if entry.filename.endswith(name) else b""
            archive.writestr(entry.filename, whole.read(entry) + filler)
    return stream.getvalue()


BOMB = 300_000_000
bombs = one_of(["data.pkl", "data/0", "byteorder"]).map(bomb)
torch_files = st.one_of(saved(), packed(), spliced(saved()), spliced(packed()), bombs).map(Content)


def import_or_refuse(folder: Path, content: bytes) -> None:
    """Import a file, if it can be: nothing is written or run, and it takes no more memory than it says."""
    path = folder / "images.pt"
    path.write_bytes(content)
    MARKS.clear()
    with little_memory(len(content)), writes().only_in(None), refusing():
        found = open_published(path)
        for kind, factor in (("mdc", 1), ("mdc", 2), ("dc", None)):
            with refusing():
                imported = as_artifact(found, kind, Toy(), factor=factor).artifact
                assert imported.images.shape[1:] == (3, 3, 4, 4)
    assert MARKS == []
    assert [entry.name for entry in folder.iterdir()] == [path.name]


class TestImports:
    @FEW
    @given(content=torch_files)
    def test_run_no_code(self, tmp_path: Path, content: bytes) -> None:
        import_or_refuse(tmp_path, content)

    @pytest.mark.slow
    @MANY
    @given(content=torch_files)
    def test_run_no_code_at_length(self, tmp_path: Path, content: bytes) -> None:
        import_or_refuse(tmp_path, content)


class TestTraps:
    """What the tests above rely on: each trap snaps."""

    def test_for_memory(self) -> None:
        with pytest.raises(AssertionError), little_memory(1000):
            bytearray(SOME_MEMORY + TIMES * 2000)
        with little_memory(1000):
            bytearray(SOME_MEMORY)

    @pytest.mark.skipif(not CLEAR.exists(), reason="only Linux tells")
    def test_for_memory_that_python_does_not_know(self) -> None:
        def touch(pages: mmap.mmap) -> None:
            for place in range(0, BOMB, mmap.PAGESIZE):
                pages[place] = 1

        with mmap.mmap(-1, BOMB) as pages, pytest.raises(AssertionError), little_memory(1000):  # never used before
            touch(pages)

    def test_for_reading_outside(self) -> None:
        with Watched(GOLDEN) as stream:
            stream.read(8)
            for size in (-1, None, GOLDEN.stat().st_size):
                with pytest.raises(AssertionError):
                    stream.read(size)
            with pytest.raises(AssertionError):
                stream.seek(GOLDEN.stat().st_size + 1)

    def test_for_writing_outside(self, tmp_path: Path) -> None:
        inside = tmp_path / "inside"
        inside.mkdir()
        with writes().only_in(inside):
            (inside / "x").touch()
            (inside / "y").write_bytes(b"")
        for harm in (
            (tmp_path / "x").touch,
            (inside / ".." / "y").touch,
            (tmp_path / "z").mkdir,
            lambda: (inside / "x").rename(tmp_path / "x"),
            lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        ):
            with pytest.raises(AssertionError), writes().only_in(inside):
                harm()

    def test_for_code(self) -> None:
        MARKS.clear()
        pickle.loads(pickle.dumps([Call(mark, (1, 2))]))
        assert MARKS == [(1, 2)]

    def test_the_files_to_start_from_are_sound(self, tmp_path: Path) -> None:
        for content in SOUND:
            (tmp_path / "set").write_bytes(content)
            assert read(tmp_path / "set").to_bytes() == content
        (tmp_path / "images.pt").write_bytes(sound_zip().getvalue())
        assert as_artifact(open_published(tmp_path / "images.pt"), "mdc", Toy(), factor=2).artifact.ipc == 2
