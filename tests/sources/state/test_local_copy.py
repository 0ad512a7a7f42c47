"""Files of a state in a store, for readers that need a path on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from sources.state.local_copy import local_copy, local_path
from sources.storage.documents import LocalDocuments
from sources.storage.folder import Folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HYBRID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def in_store(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder of which only its documents can be read."""
    monkeypatch.setattr(Folder, "is_local", False)
    return Folder(tmp_path / "state", LocalDocuments())


def test_a_folder_of_this_machine_is_read_where_it_is(tmp_path: Path, cache: Path) -> None:
    folder = Folder(tmp_path / "state")
    assert local_copy(folder) == tmp_path / "state"
    assert local_path(folder, "run/a.log") == tmp_path / "state" / "run" / "a.log"
    assert not cache.exists()


def test_files_of_a_store_are_copied_once_for_each_content(in_store: Folder, cache: Path) -> None:
    for name, data in (("a.py", b"a"), ("b/c.py", b"c")):
        in_store.replace_bytes(name, data)
    copy = local_copy(in_store)
    assert copy.is_relative_to(cache)
    assert (copy / "a.py").read_bytes() + (copy / "b" / "c.py").read_bytes() == b"ac"
    assert copy.stat().st_mode & 0o077 == 0, "what users wrote is for nobody else"
    assert local_copy(in_store) == copy
    in_store.replace_bytes("a.py", b"b")
    other = local_copy(in_store)
    assert other != copy
    assert (copy / "a.py").read_bytes() == b"a"
    assert sorted(path.name for path in copy.parent.iterdir()) == sorted([copy.name, other.name])


def test_a_log_of_a_store_is_kept_on_this_machine_by_the_name_of_its_folder(
    in_store: Folder, cache: Path
) -> None:
    log = local_path(in_store, "run/a.log")
    assert log.is_relative_to(cache)
    assert log == local_path(in_store, "run/a.log")
    assert log != local_path(in_store.folder("g1"), "run/a.log")
    assert log.parts[-2:] == ("run", "a.log")
