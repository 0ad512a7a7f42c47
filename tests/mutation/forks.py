"""Work in copies of this process, which have imported all that it has, and end with their work."""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

_PR_SET_PDEATHSIG = 1
_LOOK_S = 0.5


class Work(NamedTuple):
    """What one copy of this process does.

    Attributes:
        name: What it is, for whoever gets its result.
        run: Called in the copy; returns what can be written as JSON.
        limit_s: After how many seconds the copy is killed.
    """

    name: Any
    run: Callable[[], Any]
    limit_s: float


class Done(NamedTuple):
    """What became of some work.

    Attributes:
        name: That of the work.
        result: What it returned; None if it did not end by itself.
        is_late: Whether it was killed after its limit.
        error: Why the copy broke down; empty if it did not.
    """

    name: Any
    result: Any
    is_late: bool
    error: str


class _Copy:
    """A copy of this process, which leads a process group of its own."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self.pid = os.fork()
        if self.pid == 0:
            self._be()
        self.descriptor = os.pidfd_open(self.pid)
        self._deadline = time.monotonic() + work.limit_s

    def _be(self) -> NoReturn:
        """Do the work, and end without what this process does at its end."""
        status = 1
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            with open(os.devnull, "r+b") as nothing:
                for descriptor in (0, 1, 2):
                    os.dup2(nothing.fileno(), descriptor)
            # Where pytest makes the folders of tests.
            os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.tempdir = str(self._folder)
            self._result.write_text(json.dumps(self._work.run()))
            status = 0
        except BaseException:
            self._error.write_text(traceback.format_exc())
        finally:
            os._exit(status)

    @property
    def _result(self) -> Path:
        return self._folder / "result.json"

    @property
    def _error(self) -> Path:
        return self._folder / "error.txt"

    @property
    def is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def end(self, *, is_late: bool) -> Done:
        """Kill what is left of the copy and of what it has started, and return its result."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)
        is_there = self._result.exists() and not is_late
        found = json.loads(self._result.read_text()) if is_there else None
        error = self._error.read_text() if self._error.exists() else ""
        shutil.rmtree(self._folder, ignore_errors=True)
        return Done(self._work.name, found, is_late, error)


def each_in_a_copy(works: Iterable[Work], jobs: int) -> Iterator[Done]:
    """Do all works, some at once, and yield what became of them as they end.

    This process must not have threads, which its copies would not have.
    """
    waiting = iter(works)
    running: dict[int, _Copy] = {}
    try:
        while True:
            while len(running) < jobs and (work := next(waiting, None)) is not None:
                made = _Copy(work)
                running[made.descriptor] = made
            if not running:
                return
            ended, _, _ = select.select(list(running), [], [], _LOOK_S)
            for descriptor, copy in list(running.items()):
                if descriptor in ended or copy.is_late:
                    del running[descriptor]
                    yield copy.end(is_late=descriptor not in ended)
    finally:
        for copy in running.values():
            copy.end(is_late=True)
