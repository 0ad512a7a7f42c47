"""Where programs of servers come from; programs of a test's own stand in for apt."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from hybrid_extensions.servers.debian import has_apt
from hybrid_extensions.servers.server_programs import (
    REDIS,
    MissingServerError,
    Server,
    make_once,
    obtain,
)
from tests.services.processes import wait_for


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def write(program: Path, lines: str) -> None:
    program.write_text(f"#!/bin/sh\n{lines}\n")
    program.chmod(0o755)


def test_without_apt_a_program_on_the_path_is_used(programs: Path) -> None:
    write(programs / "redis-server", "exit 0")
    found = obtain(REDIS)
    assert found.paths == {"redis-server": programs / "redis-server"}
    assert found.root == Path("/")


def test_without_apt_and_program_the_server_and_the_command_are_named(programs: Path) -> None:
    missing = Server("Oracle", ("oracle-server", "oracle-client"), ("usr/sbin/oracled-0",))
    write(programs / "dpkg-deb", "exit 0")
    with pytest.raises(MissingServerError) as caught:
        obtain(missing)
    assert "Oracle is not available" in str(caught.value)
    assert "no program `oracled-0`" in str(caught.value)
    assert caught.value.command == "apt-get install oracle-server oracle-client"


def test_where_apt_fails_its_words_and_the_command_to_try_again_are_named(
    programs: Path, cache: Path
) -> None:
    write(programs / "apt-get", "echo 'E: The archive does not answer.'; exit 100")
    write(programs / "dpkg-deb", "exit 0")
    with pytest.raises(MissingServerError, match="The archive does not answer") as caught:
        obtain(REDIS)
    assert (
        caught.value.command
        == f"{sys.executable} -m hybrid_extensions.servers.server_programs Redis"
    )
    assert {path.suffix for path in (cache / "servers").iterdir()} == {".lock", ".part"}


@pytest.mark.slow
@pytest.mark.skipif(not has_apt(), reason="this machine has no apt")
def test_unpacked_programs_are_found_again_without_running_anything(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", os.defpath)
        first = obtain(REDIS)
    for name in ("apt-get", "dpkg-deb"):
        write(programs / name, "exit 1")
    try:
        again = obtain(REDIS)
    except MissingServerError as error:
        # Otherwise the test would be skipped.
        pytest.fail(str(error))
    assert again == first
    assert [path.stat().st_mode & 0o111 for path in first.paths.values()] == [0o111]


def test_of_several_that_want_a_folder_one_fills_it_and_the_others_wait(tmp_path: Path) -> None:
    everybody, filled = Barrier(4), []

    def others_wait() -> bool:
        inode = (tmp_path / "whole.lock").stat().st_ino
        locks = Path("/proc/locks").read_text().splitlines()
        return sum("->" in line and f":{inode} " in line for line in locks) == 3

    def fill(folder: Path) -> None:
        filled.append(folder)
        wait_for(others_wait, "the others to wait")
        assert not (tmp_path / "whole").exists()
        (folder / "file").write_text("complete")

    def want(_: int) -> str:
        everybody.wait()
        return (make_once(tmp_path / "whole", fill) / "file").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(want, range(4))) == ["complete"] * 4
    assert len(filled) == 1


def test_a_folder_that_was_not_filled_is_not_there_and_is_begun_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        make_once(tmp_path / "whole", fail)
    assert not (tmp_path / "whole").exists()
    assert list(make_once(tmp_path / "whole", lambda _: None).iterdir()) == []
