"""The driver is known by the lock that its process holds, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sources.state.generation import make_generation
from sources.storage.folder import Folder
from spark_jobs.run_state import driver_lock, lock
from spark_jobs.run_state.driver_process import is_driven_here, is_driver
from tests.services.processes import NEVER_ENDS

HOLD = f"""
import os, sys
lock = os.open(sys.argv[1], os.O_RDWR)
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
{NEVER_ENDS}
"""


def test_only_the_process_that_holds_the_lock_is_the_driver_and_a_killed_one_leaves_it(
    tmp_path: Path,
) -> None:
    generation = make_generation(Folder(tmp_path / "state"), "g1", {})
    path = generation.path("run/query.lock")
    os.close(lock.open_lock(path))
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert driver_lock.is_held(generation)
        assert is_driver(generation, other.pid)
        assert is_driven_here(generation)
        assert not is_driver(generation, os.getpid())
        assert not is_driver(generation, 2**22 + 1), "there is no such process"
        other.kill()
    assert not driver_lock.is_held(generation)
    assert not is_driver(generation, other.pid)
    assert not is_driven_here(generation)
