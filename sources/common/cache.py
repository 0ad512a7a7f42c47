"""Cache folder of this machine (jars, copies, local broker); folders that only their owner sees."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$HYBRID_CACHE``, or ``~/.cache/hybrid-backfill``.

    It need not exist. An empty variable counts as not set.
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
