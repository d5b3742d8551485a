"""Processes end with the process that started them, however that one ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import SOURCE

# A parent that starts a child as worker processes are started, and tells its number.
PARENT = """
import multiprocessing, os, time
from mipset.io.processes import end_with_parent

def child(told):
    end_with_parent()
    told.put(os.getpid())
    time.sleep(100)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    told = context.SimpleQueue()
    context.Process(target=child, args=(told,)).start()
    print(told.get(), flush=True)
    time.sleep(100)
"""


def runs(pid: int) -> bool:
    """Whether a process still runs; one that has ended and that nobody has asked about does not."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listed.stdout.strip()) and not listed.stdout.startswith("Z")


@pytest.mark.skipif(sys.platform == "win32", reason="has no signals")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_process_ends_with_its_parent(tmp_path: Path, ending: signal.Signals) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert runs(child)
        parent.send_signal(ending)
        parent.wait()
        end = time.monotonic() + 10
        while runs(child) and time.monotonic() < end:
            time.sleep(0.02)
        assert not runs(child)
