"""Processes that this process starts."""

from __future__ import annotations

import os
import time
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread

LOOK_SECONDS = 0.5


def end_with_parent() -> None:
    """Let this process, which `multiprocessing` has started, end as soon as the process that started it has ended.

    It makes no difference how that one ends: the system closes a pipe between the two then.
    """
    parent = parent_process()
    if parent is not None:
        Thread(target=_exit_after, args=(parent.sentinel,), daemon=True, name="end with parent").start()


def end_with_starter() -> None:
    """The same for a process that was started in another way: it looks now and then who its parent is."""
    Thread(target=_exit_without, args=(os.getppid(),), daemon=True, name="end with starter").start()


def _exit_without(starter: int) -> None:
    while os.getppid() == starter:
        time.sleep(LOOK_SECONDS)
    os._exit(1)


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
