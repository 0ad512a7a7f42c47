"""What a driver prints, in a file that stays small however long the driver lives."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

MOST_BYTES = 4 << 20


def trim(log: Path) -> None:
    """Put what was printed aside once it is much; what was put aside before is gone then.

    The file is the same one: whoever appends to it goes on in it.
    """
    if size(log) > MOST_BYTES:
        shutil.copyfile(log, _older(log))
        os.truncate(log, 0)


def last_lines(log: Path, count: int) -> str:
    """The last lines that were printed; none before the file is made."""
    found: list[str] = []
    for path in (log, _older(log)):
        if len(found) < count and size(path):
            found = [*path.read_text(errors="replace").splitlines(), *found]
    return "\n".join(found[-count:])


def forget(log: Path) -> None:
    """Begin the file anew, for another launch."""
    _older(log).unlink(missing_ok=True)
    log.write_bytes(b"")


def size(log: Path) -> int:
    """Bytes in the file; 0 before it is made."""
    return log.stat().st_size if log.exists() else 0


def _older(log: Path) -> Path:
    return log.with_name(f"{log.name}.1")
