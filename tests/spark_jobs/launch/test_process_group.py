"""End of a driver's process group: what has ended is not waited for, and the rest is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_jobs.launch.places import local
from tests.services.processes import NEVER_ENDS, wait_for

LAUNCHER = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True).pid, flush=True)
{NEVER_ENDS}
"""


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("program", "kept"), [("", [True, True]), (NEVER_ENDS, [False, True])], ids=["ended", "alive"]
)
def test_a_process_that_nobody_reaps_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, program: str, kept: list[bool]
) -> None:
    command = [sys.executable, "-c", LAUNCHER, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        group = int(launcher.stdout.readline())
        if not program:
            wait_for(lambda: state_of(group) == "Z", "it has not ended")
        met: list[bool] = []

        def look(condition: Callable[[], bool], _: float) -> None:
            if met:
                wait_for(lambda: state_of(group) == "Z", "it was not killed")
            met.append(condition())

        monkeypatch.setattr(local, "wait_until", look)
        local.end_group(group)
        launcher.kill()
    assert met == kept
