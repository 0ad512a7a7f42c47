"""A process that does the work of one contender, and what that costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.processes import cpu_s_of, memory_mb_of, processes_under

_SAMPLE_S = 0.25
_LOG_LINES = 30


@dataclass(frozen=True)
class Cost:
    """What a piece of work cost.

    Attributes:
        seconds: Time from its begin to its last commit, or to the end of its process.
        cpu_s: CPU time of all its processes, in core-seconds.
        memory_mb: Their highest memory, in MB; shared pages count once.
        load: Load average of the machine when it began.
    """

    seconds: float
    cpu_s: float
    memory_mb: int
    load: float


class Contender:
    """A process that answers each line of options, in JSON, by a line of results.

    Args:
        command: Its command.
        log: File for what it writes to standard error.
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )

    def __enter__(self) -> Self:
        """Return the contender."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process, which ends by itself when nothing is left to do."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def jvm_pid(self) -> int:
        """Return the process id of its JVM, once it has one."""
        (pid,) = (
            pid
            for pid in processes_under(self._process.pid)
            if Path(f"/proc/{pid}/comm").read_text().strip() == "java"
        )
        return pid

    def work(self, options: Mapping[str, Any]) -> Cost:
        """Have a piece of work done, and measure it.

        Raises:
            RuntimeError: The process ended; the message has the end of its log.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pid, load = self._process.pid, os.getloadavg()[0]
        before = cpu_s_of(processes_under(pid))
        with highest_memory(lambda: processes_under(pid)) as highest:
            self._process.stdin.write(f"{json.dumps(dict(options))}\n".encode())
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(_end_of(self._log))
        cpu_s = cpu_s_of(processes_under(pid)) - before
        seconds = json.loads(answer)["seconds"]
        return Cost(round(seconds, 3), round(cpu_s, 2), highest[0], round(load, 2))


def whole_process(
    command: Sequence[str], log: Path, options: Mapping[str, Any] | None = None
) -> tuple[Cost, str]:
    """Run a command from its launch to the end of all its processes; return also what it printed.

    Args:
        command: The command.
        log: File for what it writes to standard error.
        options: Options for its standard input, in JSON.

    Raises:
        RuntimeError: It failed; the message has the end of its log.
    """
    load = os.getloadavg()[0]
    given = json.dumps(dict(options or {})).encode() + b"\n"
    with tempfile.NamedTemporaryFile() as report, log.open("wb") as errors:
        wrapped = [sys.executable, "-m", "benchmarks.flink.whole_process", report.name, *command]
        process = subprocess.Popen(
            wrapped, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )
        with highest_memory(lambda: processes_under(process.pid) - {process.pid}) as highest:
            printed, _ = process.communicate(given)
        if process.returncode:
            raise RuntimeError(_end_of(log))
        usage = json.loads(Path(report.name).read_text())
    cost = Cost(round(usage["seconds"], 3), round(usage["cpu_s"], 2), highest[0], round(load, 2))
    return cost, printed.decode()


@contextmanager
def highest_memory(pids: Callable[[], set[int]]) -> Iterator[list[int]]:
    """Yield a list of one number, the highest memory of processes in MB until the end.

    Args:
        pids: Returns the processes that there are.
    """
    highest, is_over = [0], threading.Event()

    def sample() -> None:
        while True:
            highest[0] = max(highest[0], memory_mb_of(pids()))
            if is_over.wait(_SAMPLE_S):
                return

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield highest
    finally:
        is_over.set()
        thread.join()


def _end_of(log: Path) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
