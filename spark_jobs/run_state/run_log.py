"""Log file of a run's driver: rotated at 4 MiB, the previous launch's kept, 64 KiB in a store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sources.common.cache import cache_folder, make_private
from sources.storage.folder import Folder

_KEPT_BYTES = 64 << 10
MOST_BYTES = 4 << 20
"""Size in bytes beyond which the run's log file is rotated."""


def trim(log: Path) -> None:
    """Rotate the run's log file if it is larger than ``MOST_BYTES``; one older file is kept.

    The content is copied to the file with ``.1`` at its end, and the log is emptied. It stays the
    same file, so that a process that appends to it continues in it.

    Raises:
        OSError: The older file can't be written, as on a full disk.
    """
    if size(log) > MOST_BYTES:
        shutil.copyfile(log, _older(log))
        os.truncate(log, 0)


def last_lines(log: Path, count: int) -> str:
    """Return the last lines of a run's log file as one text, with the rotated file if needed.

    Empty before the file exists.

    Args:
        log: The log file.
        count: Most lines.
    """
    found: list[str] = []
    for path in (log, _older(log)):
        if len(found) < count and size(path):
            found = [*path.read_text(errors="replace").splitlines(), *found]
    return "\n".join(found[-count:])


def keep(folder: Folder, name: str, log: Path) -> None:
    """Copy the last 64 KiB of a local log to the state, if the state is in a store.

    Does nothing if the state is on this machine, or the log is empty.

    Args:
        folder: Folder of the state.
        name: Path of the log in it.
        log: The log file on this machine.

    Raises:
        UnavailableError: The store does not answer.
        InputError: The store refuses.
        OSError: The log can't be read.
    """
    if folder.is_local or not size(log):
        return
    with log.open("rb") as file:
        file.seek(max(size(log) - _KEPT_BYTES, 0))
        folder.replace_bytes(name, file.read())


def kept_lines(folder: Folder, name: str, count: int) -> str:
    """Return the last lines of the copy of a log that :func:`keep` made; empty without a copy.

    Args:
        folder: Folder of the state.
        name: Path of the log in it.
        count: Most lines.

    Raises:
        UnavailableError: The state's store does not answer.
    """
    data = None if folder.is_local else folder.read_bytes(name)
    return "" if data is None else "\n".join(data.decode(errors="replace").splitlines()[-count:])


def begin(log: Path) -> None:
    """Begin an empty log file for a launch; the file of the previous launch is kept aside.

    Creates its folder if it is missing; one in the cache folder only its owner can access.

    Raises:
        OSError: The folder or file can't be written.
    """
    if log.is_relative_to(cache_folder()):
        make_private(log.parent)
    else:
        log.parent.mkdir(parents=True, exist_ok=True)
    if size(log):
        log.replace(previous(log))
    _older(log).unlink(missing_ok=True)
    log.write_bytes(b"")


def previous(log: Path) -> Path:
    """Return the path of the previous launch's log file; it need not exist."""
    return log.with_name(f"{log.name}.previous")


def size(log: Path) -> int:
    """Return the size of the run's log file in bytes; 0 before the file exists."""
    return log.stat().st_size if log.exists() else 0


class Tail:
    """Follower of a log file, which yields new lines as they are appended.

    Args:
        log: The log file; it may not exist yet.
        position: Byte at which to begin; None: at its present end.
    """

    def __init__(self, log: Path, position: int | None = None) -> None:
        self._log = log
        self._position = size(log) if position is None else position

    def new_lines(self) -> Iterator[str]:
        """Yield the complete lines that were appended since the last call, without their line ends.

        Does not wait for lines. After a rotation reading resumes at the file's beginning; lines
        that were not read before that are missing.
        """
        length = size(self._log)
        if length < self._position:
            # The driver has rotated the log.
            self._position = 0
        if length == self._position:
            return
        with self._log.open("rb") as log:
            log.seek(self._position)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._position += len(line)
                yield line.decode(errors="replace").rstrip("\n")


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
