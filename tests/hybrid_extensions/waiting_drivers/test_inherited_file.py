"""Files that are inherited before they have a name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hybrid_extensions.waiting_drivers.inherited_file import UnnamedFile


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
