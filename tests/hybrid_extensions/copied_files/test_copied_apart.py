"""Copies of files that share nothing with the original."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hybrid_extensions.copied_files.copied_apart import copy_apart


@pytest.mark.parametrize("call", ["as it is", "of no use", "refused"])
def test_a_copy_has_all_bytes_and_stays_when_the_original_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: int) -> int:
        raise OSError(errno.EXDEV, "another file system")

    if call != "as it is":
        monkeypatch.setattr(
            os, "copy_file_range", (lambda *_: 0) if call == "of no use" else refuse
        )
    original, copy = tmp_path / "original", tmp_path / "folder" / "copy"
    content = os.urandom(3_000_000)
    original.write_bytes(content)
    copy_apart(str(original), str(copy))
    with original.open("r+b") as file:
        file.write(bytes(1000))
    assert copy.read_bytes() == content
    with pytest.raises(FileExistsError):
        copy_apart(str(original), str(copy))
