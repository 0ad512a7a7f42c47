"""Folders that the project makes for itself are their owner's, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from sources.common.cache import make_private
from sources.state.local_copy import local_copy
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder
from spark_jobs.run_state import run_log


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder that is not there yet, under a umask that lets everybody write."""
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    before = os.umask(0)
    yield tmp_path / "cache"
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_folder_that_is_missing_is_made_for_its_owner_alone(cache: Path) -> None:
    assert make_private(cache / "a" / "b") == cache / "a" / "b"
    assert [mode(path) for path in (cache, cache / "a", cache / "a" / "b")] == [0o700] * 3


def test_a_folder_that_exists_stays_as_it_is(cache: Path) -> None:
    cache.mkdir(mode=0o755)
    make_private(cache / "a")
    assert mode(cache) == 0o755
    (cache / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_private(cache / "file" / "b")


def test_copies_of_modules_and_logs_are_the_owners(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Folder, "is_local", False)
    (tmp_path / "definition").mkdir()
    (tmp_path / "definition" / "transforms.py").write_text("")
    copy = local_copy(Folder(tmp_path / "definition", LocalDocuments()))
    assert (copy / "transforms.py").exists()
    assert [mode(path) for path in (cache, copy)] == [0o700] * 2
    run_log.begin(cache / "state" / "own" / "live.log")
    assert mode(cache / "state" / "own") == 0o700
    # A state folder on a disk is the user's, with the access that the user declares.
    run_log.begin(tmp_path / "state" / "live.log")
    assert mode(tmp_path / "state") == 0o777
