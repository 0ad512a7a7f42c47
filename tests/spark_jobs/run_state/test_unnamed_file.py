"""Files that are inherited before they have a name."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sources.state.generation import Generation, GenerationInfo
from sources.storage.folder import Folder
from spark_jobs.run_state.lock import is_launched, name_launch_lock, take_launch_lock
from spark_jobs.run_state.unnamed_file import UnnamedFile


@pytest.fixture
def generation(tmp_path: Path) -> Generation:
    info = GenerationInfo(generation="g1", transaction_id="t", created_ms=0, contract={})
    return Generation(Folder(tmp_path / "state" / "g1"), info)


def test_a_file_without_a_name_leaves_nothing_behind(tmp_path: Path) -> None:
    file = UnnamedFile(tmp_path / "not" / "there")
    os.write(file.descriptor, b"said")
    assert file.path.read_bytes() == b"said"
    os.close(file.descriptor)
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_its_name_with_what_was_written_to_it(tmp_path: Path) -> None:
    file = UnnamedFile(tmp_path)
    os.write(file.descriptor, b"before ")
    file.name(tmp_path / "run" / "log")
    os.write(file.descriptor, b"after")
    os.close(file.descriptor)
    assert (tmp_path / "run" / "log").read_bytes() == b"before after"


def test_a_name_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("other")
    file = UnnamedFile(tmp_path)
    with pytest.raises(FileExistsError):
        file.name(tmp_path / "log")
    os.close(file.descriptor)
    assert (tmp_path / "log").read_text() == "other"


def test_a_launch_lock_is_held_by_the_process_that_inherited_its_file(
    generation: Generation, tmp_path: Path
) -> None:
    file = UnnamedFile(tmp_path)
    waiting = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[file.descriptor]
    )
    lock = name_launch_lock(generation, file)
    assert lock is not None
    lock.release()
    assert is_launched(generation)
    assert take_launch_lock(generation, "b") is None
    waiting.communicate(b"\n")
    assert not is_launched(generation)
    again = take_launch_lock(generation, "b")
    assert again is not None
    again.release()


def test_the_lock_of_a_generation_that_was_launched_before_is_left_alone(
    generation: Generation, tmp_path: Path
) -> None:
    first = take_launch_lock(generation, "a")
    assert first is not None
    file = UnnamedFile(tmp_path)
    assert name_launch_lock(generation, file) is None
    os.close(file.descriptor)
    with pytest.raises(BlockingIOError):
        fcntl.flock(generation.path("run/launch.lock").open("rb"), fcntl.LOCK_SH | fcntl.LOCK_NB)
    first.release()
