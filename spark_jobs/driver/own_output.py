"""Standard output and standard error, by thread: what one run prints is kept apart from others."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import TextIO

_own = threading.local()


class OwnOutput(TextIOBase):
    """Stream that writes to the thread's own stream, or to a default if it has none.

    Args:
        default: Stream for threads that belong to no run.
    """

    def __init__(self, default: TextIO) -> None:
        self._default = default

    @classmethod
    @contextmanager
    def installed(cls) -> Iterator[None]:
        """Use it for standard output and standard error as long as the ``with`` block runs."""
        with redirect_stdout(cls(sys.stdout)), redirect_stderr(cls(sys.stderr)):
            yield

    @staticmethod
    @contextmanager
    def into(stream: TextIO) -> Iterator[None]:
        """Write what this thread prints into a stream as long as the ``with`` block runs."""
        _own.stream = stream
        try:
            yield
        finally:
            del _own.stream

    def write(self, text: str) -> int:
        """Write a text to the thread's stream."""
        return self._stream().write(text)

    def flush(self) -> None:
        """Flush the thread's stream."""
        self._stream().flush()

    def _stream(self) -> TextIO:
        return getattr(_own, "stream", self._default)
