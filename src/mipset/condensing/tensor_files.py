"""One float32 matrix in a safetensors file, written once and read row by row: a snapshot of a network is a row.

Any reader of safetensors opens it. The metadata has some notes, and a SHA-256 digest of every row, which is checked
whenever the row is read. The digest of the notes covers the digests of the rows.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from mipset.errors import ArtifactError
from mipset.io.files import write_whole

LENGTH = struct.Struct("<Q")  # a file begins with the length of its header
FLOAT_BYTES = 4


@dataclass(frozen=True)
class TensorFile:
    """The file at `path`, with one tensor called `name`, [rows, columns]."""

    path: Path
    name: str
    shape: tuple[int, int]

    @property
    def bytes(self) -> int:
        """The length of the file, without its short header."""
        rows, columns = self.shape
        return FLOAT_BYTES * rows * columns

    def write(self, rows: Tensor, notes: Mapping[str, Any]) -> None:
        """Write the matrix completely or not at all; `notes` are plain JSON."""
        matrix = rows.detach().to("cpu", torch.float32).contiguous().numpy()
        digests = [hashlib.sha256(row.tobytes()).hexdigest() for row in matrix]
        header = json.dumps(self._header({**notes, "sha256": digests})).encode()
        header += b" " * (-len(header) % 8)

        def fill(stream: BinaryIO) -> None:
            stream.write(LENGTH.pack(len(header)) + header)
            stream.write(matrix.data)

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, fill)
        except OSError as error:
            raise ArtifactError(
                f"{self.path} cannot be written: {error.strerror or error}. Free some space, or choose another folder "
                f"with the variable MIPSET_HOME; the same command goes on."
            ) from error

    def _header(self, notes: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(dict(notes))
        metadata = {"notes": text, "notes_sha256": hashlib.sha256(text.encode()).hexdigest()}
        tensor = {"dtype": "F32", "shape": list(self.shape), "data_offsets": [0, self.bytes]}
        return {"__metadata__": metadata, self.name: tensor}

    def notes(self) -> dict[str, Any]:
        """The notes; an ArtifactError if there is no such file, or if it is damaged or holds another tensor."""
        with self._opened() as stream:
            return self._read_notes(stream)[0]

    def row(self, number: int) -> Tensor:
        """One row [columns]; an ArtifactError if it cannot be read, or if a bit of it has changed."""
        columns = self.shape[1]
        with self._opened() as stream:
            notes, start = self._read_notes(stream)
            stream.seek(start + FLOAT_BYTES * columns * number)
            content = bytearray(stream.read(FLOAT_BYTES * columns))
        if hashlib.sha256(content).hexdigest() != notes["sha256"][number]:
            raise self._damaged()
        return torch.frombuffer(content, dtype=torch.float32)

    def _opened(self) -> BinaryIO:
        try:
            return self.path.open("rb")
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be read: {error.strerror or error}.") from error

    def _read_notes(self, stream: BinaryIO) -> tuple[dict[str, Any], int]:
        """The notes, and where the tensor begins."""
        try:
            (length,) = LENGTH.unpack(stream.read(LENGTH.size))
            header = json.loads(stream.read(min(length, 1 << 23)))
            notes: dict[str, Any] = json.loads(header["__metadata__"]["notes"])
            fits = header == self._header(notes) and len(notes["sha256"]) == self.shape[0]
        except (OSError, ValueError, LookupError, TypeError, struct.error) as error:
            raise self._damaged() from error
        if not fits:
            raise self._damaged()
        return notes, LENGTH.size + length

    def _damaged(self) -> ArtifactError:
        return ArtifactError(f"{self.path} is damaged. The next run makes it again.")
