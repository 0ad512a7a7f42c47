"""SIGTERM interrupts a command as Ctrl-C does, so that it can report its state."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Make SIGTERM interrupt the body of ``with`` like Ctrl-C, so that it can report its state."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
