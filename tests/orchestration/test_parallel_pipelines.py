"""Work for several pipelines at a time: its results, its errors, and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from hybrid_extensions.cdc.parallel_pipelines import AT_ONCE, run_in_threads
from tests.services.processes import wait_for

_PATIENCE_S = 60
_POLL_S = 0.01
_ENDING_S = 0.1
"""How long it takes to end a Spark run."""


class Runs:
    """Runs that are started and watched until they are live, as a command does it.

    Args:
        interrupt_at: Number of runs that have begun when this process is interrupted, by Ctrl-C.
    """

    def __init__(self, interrupt_at: int | None = None) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []
        self._interrupt_at = interrupt_at
        self._lock = threading.Lock()

    def watch(self, number: int) -> None:
        with self._lock:
            self.begun.append(number)
            if len(self.begun) == self._interrupt_at:
                os.kill(os.getpid(), signal.SIGINT)
        deadline = time.monotonic() + _PATIENCE_S
        try:
            while time.monotonic() < deadline:
                time.sleep(_POLL_S)
        except BaseException:
            time.sleep(_ENDING_S)
            self.ended.append(number)
            raise


def test_so_many_are_worked_on_at_a_time_and_each_result_is_known_at_once() -> None:
    together = threading.Barrier(AT_ONCE, timeout=_PATIENCE_S)
    held = threading.Event()

    def work(number: int) -> int:
        if number < AT_ONCE:
            together.wait()
        if number == 0:
            held.wait(_PATIENCE_S)
        return number

    with run_in_threads(work, range(AT_ONCE + 3)) as results:
        first = {next(results) for _ in range(AT_ONCE + 2)}
        held.set()
        assert first == set(range(1, AT_ONCE + 3))
        assert list(results) == [0]


def test_an_interrupt_ends_what_was_begun_and_begins_nothing_more() -> None:
    runs = Runs(interrupt_at=AT_ONCE)
    with pytest.raises(KeyboardInterrupt), run_in_threads(runs.watch, range(20)) as results:
        list(results)
    assert sorted(runs.ended) == sorted(runs.begun) == list(range(AT_ONCE))


def test_an_error_ends_the_others_and_is_raised() -> None:
    runs = Runs()

    def work(number: int) -> None:
        if number == 1:
            message = "a bug"
            raise ValueError(message)
        runs.watch(number)

    with pytest.raises(ValueError, match="a bug"), run_in_threads(work, range(20)) as results:
        list(results)
    assert sorted(runs.ended) == sorted(runs.begun)


def test_a_second_interrupt_does_not_wait_for_what_is_deaf_to_the_first() -> None:
    script = (
        "import threading\n"
        "from hybrid_extensions.cdc.parallel_pipelines import run_in_threads\n"
        "def work(_):\n"
        "    print('begun', flush=True)\n"
        "    threading.Event().wait()\n"
        "with run_in_threads(work, [1]) as results:\n"
        "    list(results)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"

        def has_ended() -> bool:
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        try:
            wait_for(has_ended, "the end of the process", _PATIENCE_S)
        finally:
            process.kill()
