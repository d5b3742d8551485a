"""Signals: what they interrupt, and what they leave alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from commands import SOURCE
from mipset.cli.stopping import Stopping
from mipset.errors import TeamError


def test_signal_interrupts_work_that_does_not_ask() -> None:
    with Stopping() as stopping:
        with pytest.raises(KeyboardInterrupt, match="Terminated"):
            signal.raise_signal(signal.SIGTERM)
        assert (stopping.asked, stopping.code) == (True, 143)


def test_signal_waits_for_work_that_asks() -> None:
    with Stopping() as stopping:
        with stopping.waiting():
            signal.raise_signal(signal.SIGTERM)
        assert stopping.asked


def test_signal_does_not_replace_the_message_of_an_error() -> None:
    """If a process dies, torchrun sends SIGTERM to the others, while they say how to continue."""
    with Stopping() as stopping:
        with pytest.raises(TeamError), stopping.waiting():
            raise TeamError("another process has ended")
        signal.raise_signal(signal.SIGTERM)
        assert stopping.asked


CHILD = {**os.environ, "PYTHONPATH": SOURCE}
IMPORTING = """
import os, signal, sys
from mipset import cli

class InTheMiddle:
    def find_spec(self, name, *_):
        if name == "torch.nn":
            os.kill(os.getpid(), signal.SIGTERM)
        if name == "torch.hub":  # later
            print("importing")

sys.meta_path.insert(0, InTheMiddle())
cli.main(sys.argv[1:])
"""


@pytest.mark.parametrize("words", [["condense", "fashion-mini", "--out", "x"], ["compare", "fashion-mini"]])
def test_sigterm_during_the_import_of_torch_waits_for_its_end(tmp_path: Path, words: list[str]) -> None:
    command = [sys.executable, "-c", IMPORTING, *words]
    ended = subprocess.run(command, cwd=tmp_path, env=CHILD, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (143, "importing\n")
    assert ended.stderr == "mipset: Terminated. Nothing was written.\n"
    assert not list(tmp_path.iterdir())
