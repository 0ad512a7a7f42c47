"""Output of runs that share a driver: what a thread prints goes to the log of its own run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import TextIO

_own = threading.local()
Stream = TextIO | TextIOBase
"""Where text is written to."""


class OwnOutput(TextIOBase):
    """Stream in place of standard output or error that writes to the calling thread's own stream.

    So each run of a shared driver, which has a thread of its own, has a log of its own.

    Args:
        default: Stream for threads that belong to no run.
        name: What it stands for: ``stdout`` or ``stderr``.
    """

    def __init__(self, default: TextIO, name: str) -> None:
        self._default = default
        self._name = name

    @classmethod
    @contextmanager
    def installed(cls) -> Iterator[None]:
        """Let ``sys.stdout`` and ``sys.stderr`` write to each thread's own streams in ``with``.

        Threads without streams of their own (:meth:`into`) write where they did before.
        """
        out, err = cls(sys.stdout, "stdout"), cls(sys.stderr, "stderr")
        with redirect_stdout(out), redirect_stderr(err):
            yield

    @staticmethod
    @contextmanager
    def into(out: Stream, err: Stream | None = None) -> Iterator[None]:
        """Send what the calling thread prints to given streams within the ``with`` block.

        It has an effect only while :meth:`installed` is in force; other threads are not affected.

        Args:
            out: Stream for standard output.
            err: Stream for standard error; None for the same one.
        """
        _own.stdout, _own.stderr = out, out if err is None else err
        try:
            yield
        finally:
            del _own.stdout, _own.stderr

    def write(self, text: str) -> int:
        """Write a text to the calling thread's stream; return the number of characters."""
        return self._stream().write(text)

    def flush(self) -> None:
        """Flush the calling thread's stream, or the default one."""
        self._stream().flush()

    def _stream(self) -> Stream:
        return getattr(_own, self._name, self._default)
