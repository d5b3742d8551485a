"""Hostile input: whatever is read, the result is sound or one of our errors.

Sound files of several shapes are truncated, changed, spliced, and given false headers: wrong lengths and offsets,
values that no JSON should have, names that are paths, pickles that would run code, and zip files that would fill the
memory. Each case is opened in every way that mipset has. These rules hold for every case:

- The only exception is a `MipsetError`. Its message is one line of readable length.
- No byte outside of the file is requested.
- Memory stays within a small multiple of the bytes that came in.
- Nothing is written outside of the folder that was named, and no code is run.

The usual test run uses a hundred cases for each test, and `make test-slow` uses 10,000.
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
from mipset.device import places
from mipset.exchange.exports import export
from mipset.exchange.published import as_artifact, open_published
from mipset.file import artifact
from mipset.settings.exchange_choices import EXPORT_FORMATS

GOLDEN = Path(__file__).parent / "data" / "golden.safetensors"
T = TypeVar("T")

FEW = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(FEW, max_examples=10_000)

# A case may use FREE_MEMORY bytes, and MULTIPLE times the bytes of its input. FREE_MEMORY is less than the longest
# header that a file can claim, and more than the 7.7 MB by which Python's table of names grows when it is full with
# 175,000 names, as many as a long test run has. MULTIPLE is large because JSON that consists of `{}` becomes 27 times
# as large when it is parsed.
FREE_MEMORY, MULTIPLE = 8_000_000, 40
ALLOCATOR_MEMORY = 100_000_000  # what the system may count in addition


def check_message(error: MipsetError) -> None:
    """The message must be one line of readable length."""
    assert "\n" not in str(error)
    assert len(str(error)) < 1000


@contextmanager
def accepting_refusals() -> Iterator[None]:
    """Accept a MipsetError, and no other exception."""
    try:
        yield
    except MipsetError as error:
        check_message(error)


CLEAR, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def peak_resident() -> int:
    """The peak memory of the process in bytes, since "5" was written to `CLEAR`. 0 if the system does not tell."""
    peak = re.search(r"VmHWM:\s*(\d+) kB", STATUS.read_text()) if STATUS.exists() else None
    return 1000 * int(peak[1]) if peak else 0


@contextmanager
def limited_memory(input_bytes: int) -> Iterator[None]:
    """Limit the peak memory to a small multiple of the input, as Python counts it and as the system counts it."""
    with suppress(OSError):  # without it, the peak of earlier work counts too
        CLEAR.write_text("5")
    tracemalloc.reset_peak()
    before, (traced, _) = peak_resident(), tracemalloc.get_traced_memory()
    yield
    assert tracemalloc.get_traced_memory()[1] - traced < FREE_MEMORY + MULTIPLE * input_bytes
    assert peak_resident() - before < ALLOCATOR_MEMORY + MULTIPLE * input_bytes


pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a case that goes wrong


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    """Count memory only in this file, since it is slow."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


# -- hostile condensed sets


def sound_file(shape: tuple[int, ...], factor: int = 1, points: int = 0) -> bytes:
    """The bytes of a valid file with random pixels."""
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
    sound_file((1, 1, 1, 1, 1)),
    sound_file((3, 2, 1, 4, 5), factor=2, points=3),
    sound_file((2, 3, 3, 8, 8), factor=3, points=2),
    sound_file((40, 1, 2, 3, 3)),
    sound_file((2, 60, 1, 2, 2), factor=2),
    sound_file((2, 4, 3, 64, 96), factor=2, points=3),  # longer than one block that is read
]

RAW = [  # JSON, or text that resembles it
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
MARKER, TWICE = "\ue000", "\ue001"  # in a text: replaced by raw text; removed, so that a key comes twice


def one_of(things: list[T]) -> st.SearchStrategy[T]:
    """One of them. Unlike sampled_from, a failing test does not print all of them."""
    return st.integers(0, len(things) - 1).map(lambda number: things[number])


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
raw = st.one_of(one_of(RAW), anything.map(json.dumps))


def parse_file(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """The header, description and pixels of a valid file."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["mipset"]), content[8 + length :]


def replace_description(header: dict[str, Any], text: str) -> None:
    """Put another description into the header, with the digest that belongs to it."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    header["__metadata__"] = {"mipset": text, "mipset_sha256": digest}


def with_header(text: str, pixels: bytes) -> bytes:
    header = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(header)) + header + pixels


def json_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value, with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from json_places(inner)


@st.composite
def hostile_json(draw: st.DrawFn, value: dict[str, Any]) -> str:
    """The JSON text of a value, with hostile text in place of some parts, or with a key removed or added."""
    texts = []
    for _ in range(draw(st.integers(0, 2))):
        container, key = draw(one_of(list(json_places(value)) or [(value, "x")]))
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
def lying_files(draw: st.DrawFn) -> bytes:
    """A valid layout with false statements in its header."""
    header, description, pixels = parse_file(draw(one_of(SOUND)))
    replace_description(header, draw(hostile_json(description)))
    return with_header(draw(hostile_json(header)), pixels)


@st.composite
def reshaped_files(draw: st.DrawFn) -> bytes:
    """A consistent file with valid digests but an unusual shape: images of one pixel, or one long row."""
    header, description, pixels = parse_file(draw(one_of(SOUND)))
    left, shape = len(pixels), []
    for _ in range(4):
        shape.append(draw(one_of([n for n in range(1, min(left, 300) + 1) if left % n == 0])))
        left //= shape[-1]
    shape.append(left)  # the last side: many ranks or classes would make a long header, which is slow
    description.update(
        formation={"factor": draw(st.integers(1, 4))},
        mean=[draw(st.floats(allow_nan=False, allow_infinity=False))] * shape[2],
        std=[draw(st.floats(1e-300, 1e300))] * shape[2],
        classes=["x"] * shape[1],
        accuracy=[],
        sha256=[hashlib.sha256(rank).hexdigest() for rank in np.frombuffer(pixels, np.uint8).reshape(shape)],
    )
    header["images"].update(shape=shape, data_offsets=[0, draw(one_of([len(pixels)] * 3 + [len(pixels) + 1, left]))])
    replace_description(header, json.dumps(description))
    return with_header(json.dumps(header), pixels)


class Content(bytes):
    """Bytes whose repr is short even if they are many."""

    def __repr__(self) -> str:
        return super().__repr__() if len(self) < 5000 else f"<{len(self)} bytes: {self[:200]!r}...>"


@st.composite
def spliced_files(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Files with bytes cut off, changed, inserted, removed or doubled; or with another length of the header."""
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


hostile_files = st.one_of(
    lying_files(), reshaped_files(), spliced_files(one_of(SOUND)), spliced_files(lying_files()), st.binary(max_size=60)
).map(Content)


class BoundedReader(io.BufferedReader):
    """A file whose reader asserts that it never reads outside of the file."""

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
def open_bounded(path: Path) -> Iterator[BoundedReader]:
    with opened(path), BoundedReader(path) as stream:
        yield stream


opened = artifact.opened

SERVER_FAULTS: list[web.Fault] = [
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
server_faults = st.lists(one_of(SERVER_FAULTS), max_size=3)


@dataclass
class Opener:
    """Opens a case in every way that mipset has, and compares the results."""

    folder: Path
    server: web.Server

    def check(self, content: bytes, faults: list[web.Fault]) -> None:
        path = self.folder / "set.safetensors"
        path.write_bytes(content)
        whole: Artifact | None = None
        with limited_memory(len(content)), accepting_refusals():
            whole = read(path)
            assert whole.to_bytes()[-whole.images.nbytes :] == content[-whole.images.nbytes :]
        with limited_memory(len(content)), accepting_refusals():
            self.use(device.open(path), whole)
        self.server.content, self.server.etag, self.server.faults = content, '"first"', list(faults)
        self.server.requests.clear()
        with limited_memory(len(content)), accepting_refusals():
            self.use(device.open(self.server.url), whole)
        self.check_requests(len(content), faults)

    def use(self, source: device.Source, whole: Artifact | None) -> None:
        """Use a file as a device does. If all of it can be read, the images must equal those of `read`."""
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
        """After the server told the length, no byte beyond it is requested."""
        if faults:
            return
        for number, request in enumerate(self.server.requests):
            requested = re.fullmatch(r"bytes=(\d+)-(\d+)", request["Range"])
            assert requested is not None
            assert int(requested[1]) <= int(requested[2])
            assert number == 0 or int(requested[2]) < length


@pytest.fixture
def opener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    for module in (artifact, places):
        monkeypatch.setattr(module, "opened", open_bounded)
    with web.serving(b"") as server:
        yield Opener(tmp_path, server)


class TestFiles:
    @FEW
    @given(content=hostile_files, faults=server_faults)
    def test_hostile_file_is_read_soundly_or_refused(
        self, opener: Opener, content: bytes, faults: list[web.Fault]
    ) -> None:
        opener.check(content, faults)

    @pytest.mark.slow
    @MANY
    @given(content=hostile_files, faults=server_faults)
    def test_hostile_file_is_read_soundly_or_refused_in_many_cases(
        self, opener: Opener, content: bytes, faults: list[web.Fault]
    ) -> None:
        opener.check(content, faults)


# -- exports of sets with hostile class names

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


class WriteWatch:
    """Records writes to files and starts of programs, by an audit hook of Python. Such a hook cannot be removed."""

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
        """Assert that nothing is written outside of a folder (None: at all), and that no program is started."""
        self.paths = []
        try:
            yield
        finally:
            paths, self.paths = self.paths, None
        assert [path for path in paths if folder is None or not Path(path).resolve().is_relative_to(folder)] == []


@cache
def write_watch() -> WriteWatch:
    return WriteWatch()


def export_or_refuse(folder: Path, class_names: list[str], shape: tuple[int, ...], to: str) -> None:
    """Write a file with these class names, read it and export it. Nothing but the export may be there afterwards."""
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
        hostile = read(root / "set")
        assert hostile.class_names == tuple(class_names)
        with (
            limited_memory(length + PICTURE_BYTES * len(class_names) * ranks),
            write_watch().only_in(root),
            accepting_refusals(),
        ):
            export(hostile, to, root / "out")
        assert {entry.name for entry in root.iterdir()} <= {"set", "out"}
        assert [entry.name for entry in folder.iterdir()] == [root.name]


PICTURE_BYTES = 300  # of memory for each image: a small PNG file, its path and its name
shapes = st.tuples(st.integers(1, 3), st.sampled_from([1, 1, 3, 3, 2]), st.integers(1, 4), st.integers(1, 4))


class TestExports:
    @pytest.fixture(autouse=True)
    def ready(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        """Export in every format once, since the first use imports modules, which takes memory."""
        for number, to in enumerate(EXPORT_FORMATS):
            export(read(GOLDEN), to, tmp_path_factory.mktemp("ready") / str(number))

    @FEW
    @given(class_names=name_lists, shape=shapes, to=st.sampled_from(list(EXPORT_FORMATS)))
    def test_export_with_hostile_class_names_stays_in_its_folder(
        self, tmp_path: Path, class_names: list[str], shape: tuple[int, ...], to: str
    ) -> None:
        export_or_refuse(tmp_path, class_names, shape, to)

    @pytest.mark.slow
    @MANY
    @given(class_names=name_lists, shape=shapes, to=st.sampled_from(list(EXPORT_FORMATS)))
    def test_export_with_hostile_class_names_stays_in_its_folder_in_many_cases(
        self, tmp_path: Path, class_names: list[str], shape: tuple[int, ...], to: str
    ) -> None:
        export_or_refuse(tmp_path, class_names, shape, to)


# -- hostile torch files


@dataclass(frozen=True)
class ToySpec:
    """The facts about a dataset that importing needs."""

    name: str = "toy"
    class_names: tuple[str, ...] = ("a", "b", "c")
    shape: tuple[int, int, int] = (3, 4, 4)
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.25, 0.25, 0.25)
    sha256: str = "00" * 32


IMAGES = torch.rand(6, *ToySpec().shape, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(3).repeat_interleave(2)
MARKS: list[object] = []  # the arguments of every call of `mark`


def mark(*arguments: object) -> list[object]:
    """A function that no import may call."""
    MARKS.append(arguments)
    return [IMAGES, LABELS]


class Call:
    """Pickled as a call of a function with these arguments, and optionally a state for the result."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...], state: Any = None) -> None:
        self._reduced = (function, arguments) if state is None else (function, arguments, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduced

    def __repr__(self) -> str:
        return f"Call{self._reduced}"


def storage_of(tensor: torch.Tensor) -> torch.storage.TypedStorage:
    """The storage of a tensor, which a pickle holds separately."""
    return torch.storage.TypedStorage(  # type: ignore[no-untyped-call]
        wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True
    )


# Torch allows a file to call some of these functions, with any arguments. `bytearray` and `_codecs.encode` are left
# out: torch allows a file to create any number of bytes with them, and we cannot prevent that.
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
    warnings.simplefilter("ignore")  # torch warns when tensors of these kinds are created
    TENSORS += [torch.quantize_per_tensor(LABELS.float(), 1.0, 0, torch.quint8), torch.nested.nested_tensor([*IMAGES])]

parts: st.SearchStrategy[Any] = st.one_of(
    one_of(TENSORS),
    one_of([storage_of(IMAGES), storage_of(IMAGES.double()), storage_of(LABELS.float())]),
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
rebuilt = st.builds(  # a tensor as torch stores it in a file, with other numbers
    lambda size, stride, offset, hooks: Call(
        torch._utils._rebuild_tensor_v2, (storage_of(IMAGES), offset, size, stride, False, hooks)
    ),
    *(one_of(SIZES), one_of(STRIDES), one_of([0, 1, -1, 2**40]), one_of([OrderedDict(), 3, None])),
)
attributed = st.builds(  # a tensor with attributes of its own
    lambda state: Call(
        torch._tensor._rebuild_from_type_v2,
        (
            torch._utils._rebuild_tensor_v2,
            torch.Tensor,
            (storage_of(IMAGES), 0, (6, 3, 4, 4), (48, 16, 4, 1), False, OrderedDict()),
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
def saved_files(draw: st.DrawFn) -> bytes:
    """A torch file, also in the legacy format, or a pickle."""
    content, stream = draw(layouts), io.BytesIO()
    how = draw(st.sampled_from(["zip", "zip", "legacy", "pickle"]))
    try:
        if how == "pickle":
            return pickle.dumps(content, draw(st.integers(0, 5)))
        torch.save(content, stream, _use_new_zipfile_serialization=how == "zip")
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, pickle.PicklingError):
        reject()  # it cannot be saved in this way
    return stream.getvalue()


SMALL = [b"", b"little", b"big", b"middle", b"0", b"-1", b"64", b"9" * 5000, b"1\n", b"\xff" * 8, b"\x80\x02N."]
RECORDS = ["../../x", "/tmp/x", "archive/../x", "x" * 300, "archive/data/9", "archive/constants.pkl", "archive/.data/x"]


@st.composite
def repacked_files(draw: st.DrawFn) -> bytes:
    """A torch file whose zip archive is rebuilt: compressed, with records renamed, doubled, replaced or removed."""
    stream = io.BytesIO()
    with zipfile.ZipFile(sound_zip()) as whole, zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that come twice
        for entry in whole.infolist():
            name, content = entry.filename, whole.read(entry)
            change = draw(
                st.sampled_from(["keep", "keep", "keep", "drop", "rename", "twice", "small", "longer", "shorter"])
            )
            if change == "drop":
                continue
            name = draw(one_of(RECORDS)) if change == "rename" else name
            content = draw(one_of(SMALL)) if change == "small" else content
            content = content + bytes(1000) if change == "longer" else content[:-1] if change == "shorter" else content
            for _ in range(2 if change == "twice" else 1):
                archive.writestr(name, content, draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])))
    return stream.getvalue()


def sound_zip() -> io.BytesIO:
    stream = io.BytesIO()
    torch.save([IMAGES, LABELS], stream)
    return stream


@cache
def zip_bomb(name: str) -> bytes:
    """A small zip file that unpacks to a large record."""
    stream = io.BytesIO()
    with zipfile.ZipFile(sound_zip()) as whole, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in whole.infolist():
            filler = bytes(BOMB_BYTES) if entry.filename.endswith(name) else b""
            archive.writestr(entry.filename, whole.read(entry) + filler)
    return stream.getvalue()


BOMB_BYTES = 300_000_000
zip_bombs = one_of(["data.pkl", "data/0", "byteorder"]).map(zip_bomb)
torch_files = st.one_of(
    saved_files(), repacked_files(), spliced_files(saved_files()), spliced_files(repacked_files()), zip_bombs
).map(Content)


def import_or_refuse(folder: Path, content: bytes) -> None:
    """Import a file or refuse it. Nothing may be written or run, and the memory is limited."""
    path = folder / "images.pt"
    path.write_bytes(content)
    MARKS.clear()
    with limited_memory(len(content)), write_watch().only_in(None), accepting_refusals():
        published = open_published(path)
        for kind, factor in (("mdc", 1), ("mdc", 2), ("dc", None)):
            with accepting_refusals():
                imported = as_artifact(published, kind, ToySpec(), factor=factor).artifact
                assert imported.images.shape[1:] == (3, 3, 4, 4)
    assert MARKS == []
    assert [entry.name for entry in folder.iterdir()] == [path.name]


class TestImports:
    @FEW
    @given(content=torch_files)
    def test_importing_a_hostile_torch_file_runs_no_code(self, tmp_path: Path, content: bytes) -> None:
        import_or_refuse(tmp_path, content)

    @pytest.mark.slow
    @MANY
    @given(content=torch_files)
    def test_importing_a_hostile_torch_file_runs_no_code_in_many_cases(self, tmp_path: Path, content: bytes) -> None:
        import_or_refuse(tmp_path, content)


class TestChecks:
    """The checks that the tests above rely on notice what they must notice."""

    def test_memory_limit_notices_a_large_allocation(self) -> None:
        with pytest.raises(AssertionError), limited_memory(1000):
            bytearray(FREE_MEMORY + MULTIPLE * 2000)
        with limited_memory(1000):
            bytearray(FREE_MEMORY)

    @pytest.mark.skipif(not CLEAR.exists(), reason="only Linux tells")
    def test_memory_limit_notices_memory_that_python_does_not_count(self) -> None:
        def touch(pages: mmap.mmap) -> None:
            for place in range(0, BOMB_BYTES, mmap.PAGESIZE):
                pages[place] = 1

        with mmap.mmap(-1, BOMB_BYTES) as pages, pytest.raises(AssertionError), limited_memory(1000):  # fresh pages
            touch(pages)

    def test_bounded_reader_notices_reading_outside_of_the_file(self) -> None:
        with BoundedReader(GOLDEN) as stream:
            stream.read(8)
            for size in (-1, None, GOLDEN.stat().st_size):
                with pytest.raises(AssertionError):
                    stream.read(size)
            with pytest.raises(AssertionError):
                stream.seek(GOLDEN.stat().st_size + 1)

    def test_write_watch_notices_writing_outside_of_the_folder(self, tmp_path: Path) -> None:
        inside = tmp_path / "inside"
        inside.mkdir()
        with write_watch().only_in(inside):
            (inside / "x").touch()
            (inside / "y").write_bytes(b"")
        for harm in (
            (tmp_path / "x").touch,
            (inside / ".." / "y").touch,
            (tmp_path / "z").mkdir,
            lambda: (inside / "x").rename(tmp_path / "x"),
            lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        ):
            with pytest.raises(AssertionError), write_watch().only_in(inside):
                harm()

    def test_pickle_with_a_marked_call_runs_it(self) -> None:
        MARKS.clear()
        pickle.loads(pickle.dumps([Call(mark, (1, 2))]))
        assert MARKS == [(1, 2)]

    def test_files_that_the_cases_start_from_are_sound(self, tmp_path: Path) -> None:
        for content in SOUND:
            (tmp_path / "set").write_bytes(content)
            assert read(tmp_path / "set").to_bytes() == content
        (tmp_path / "images.pt").write_bytes(sound_zip().getvalue())
        assert as_artifact(open_published(tmp_path / "images.pt"), "mdc", ToySpec(), factor=2).artifact.ipc == 2
