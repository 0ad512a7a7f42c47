"""A launch lock that a waiting driver holds from the moment on at which it is taken for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hybrid_extensions.waiting_drivers.inherited_lock import InheritedLock
from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.run_state.driver_lock import is_launched, take_launch_lock


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    return Generation(Folder(tmp_path / "state" / "g1"), info)


@contextmanager
def inherited(lock: InheritedLock) -> Iterator[subprocess.Popen[bytes]]:
    """A process that inherits the lock's file, and ends with the block."""
    command = [sys.executable, "-c", "input()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[lock.descriptor])
    try:
        yield process
    finally:
        process.communicate(b"\n")


@pytest.mark.parametrize("is_launched_before", [False, True])
def test_the_process_that_inherited_the_file_holds_the_lock(
    generation: Generation, is_launched_before: bool
) -> None:
    present = take_launch_lock(generation, "a") if is_launched_before else None
    lock = InheritedLock(generation.root.parent, generation if is_launched_before else None)
    with inherited(lock):
        if present is not None:
            assert lock.take(generation) is None
            present.release()
        assert not is_launched(generation)
        taken = lock.take(generation)
        assert taken is not None
        taken.release()
        assert is_launched(generation)
        assert take_launch_lock(generation, "b") is None
    assert not is_launched(generation)
    again = take_launch_lock(generation, "b")
    assert again is not None
    again.release()


def test_a_generation_that_was_launched_in_the_meantime_is_left_alone(
    generation: Generation,
) -> None:
    lock = InheritedLock(generation.root.parent, None)
    other = take_launch_lock(generation, "a")
    assert other is not None
    assert lock.take(generation) is None
    assert is_launched(generation)
    other.release()
    assert not is_launched(generation)
    os.close(lock.descriptor)


def test_the_file_of_a_lock_that_was_replaced_is_of_no_use(generation: Generation) -> None:
    first = take_launch_lock(generation, "a")
    assert first is not None
    lock = InheritedLock(generation.root.parent, generation)
    first.release()
    generation.path("run/launch.lock").unlink()
    assert lock.take(generation) is None
    second = take_launch_lock(generation, "b")
    assert second is not None
    assert lock.take(generation) is None
    second.release()
    os.close(lock.descriptor)
