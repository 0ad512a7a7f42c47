from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from hybrid_extensions.servers import guard
from tests.services.processes import NEVER_ENDS, runs, wait_for


def guarded(command: str, grace: float = 20.0) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", guard.__file__, "--grace", str(grace), "--", "sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


def test_the_guard_passes_on_the_status_of_its_command() -> None:
    with guarded("exit 7") as process:
        assert process.wait(20) == 7


@pytest.mark.parametrize("how", ["end of input", "SIGTERM"])
def test_the_guard_ends_a_command_and_its_children(how: str) -> None:
    with guarded("sleep 300 & echo $! $$; wait") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert all(map(runs, pids))
        if how == "SIGTERM":
            process.terminate()
        else:
            process.stdin.close()
        assert process.wait(20) == 128 + signal.SIGTERM
        wait_for(lambda: not any(map(runs, pids)), "the end of the command and its child")


def test_the_guard_kills_what_does_not_want_to_end() -> None:
    with guarded("trap '' TERM; sleep 300 & echo $! $$; wait; wait", grace=0.2) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.stdin.close()
        assert process.wait(20) == 128 + signal.SIGKILL
        wait_for(lambda: not any(map(runs, pids)), "the end of the command and its child")


def test_the_guard_sees_that_its_owner_is_gone_even_if_a_fork_holds_the_pipe() -> None:
    owner = (
        "import os, subprocess, sys\n"
        "limits = ['--owner', str(os.getpid())]\n"
        "run = [sys.executable, '-I', sys.argv[1], *limits, '--', 'sleep', '300']\n"
        "process = subprocess.Popen(run, stdin=subprocess.PIPE)\n"
        "fork = os.fork()\n"
        "if fork:\n"
        "    print(process.pid, fork, flush=True)\n"
        f"{NEVER_ENDS}\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", owner, guard.__file__], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        pid, fork = (int(part) for part in process.stdout.readline().split())
        try:
            wait_for(lambda: runs(pid), "the guard")
            process.kill()
            wait_for(lambda: not runs(pid), "the end of the guard")
            assert runs(fork)
        finally:
            os.kill(fork, signal.SIGKILL)
