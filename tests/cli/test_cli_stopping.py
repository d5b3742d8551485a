"""Signals: what they interrupt, and what they leave alone."""

from __future__ import annotations

import signal

import pytest

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
