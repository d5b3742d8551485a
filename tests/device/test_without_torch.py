"""A device needs no torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import mipset
import web
from commands import GOLDEN, SOFTMAX
from noise_sets import RANK_BYTES, header_length


class TestWithoutTorch:
    def test_classifier_is_trained_over_http_without_torch(self, server: web.Server) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SOFTMAX, server.url],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.split("\n")[:2] == ["True", "[]"]
        assert server.sent == header_length(server.content) + 3 * RANK_BYTES

    def test_opening_a_path_imports_no_network_modules(self) -> None:
        code = f"import sys; from mipset import device; device.open({str(GOLDEN)!r}).prefix(1).arrays(); " + (
            "print([name for name in ('torch', 'urllib.request', 'http.client', 'ssl') if name in sys.modules])"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(Path(mipset.__file__).parents[1])},
        )
        assert done.stdout.strip() == "[]"
