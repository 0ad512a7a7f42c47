"""Cache folder of this machine for what can be downloaded again: jars, copies, the local broker."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$HYBRID_CACHE``, or ``~/.cache/hybrid-backfill``.

    It need not exist.
    """
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")


def make_private(folder: Path) -> Path:
    """Create a folder, and its missing parents, that only its owner can access; return it.

    For what is run later: jars, class archives, modules, sockets of drivers. Folders that exist
    keep their permissions.

    Raises:
        OSError: It can't be made, or is a file.
    """
    for each in [*reversed(folder.parents), folder]:
        if not each.is_dir():
            # Another process may make it at the same time.
            each.mkdir(mode=0o700, exist_ok=True)
    return folder


def make_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; create and fill it first if it does not exist.

    Several processes may call this at once: one fills the folder while the others wait, without a
    limit of time. The folder appears by one rename, when it is complete.

    Args:
        folder: The folder.
        fill: Called with an empty folder next to it, which is renamed afterwards. Its errors are
            raised, and the folder does not appear.

    Raises:
        OSError: The cache can't be written.
    """
    if folder.is_dir():
        return folder
    make_private(folder.parent)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have finished while this one waited.
        if not folder.is_dir():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o700)
            fill(part)
            part.rename(folder)
    return folder
