"""The folder of this machine for what can be had again: jars, copies, the laptop's broker."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$HYBRID_CACHE``, or ``~/.cache/hybrid-backfill``.

    It need not exist.
    """
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")


def make_private(folder: Path) -> Path:
    """Make a folder, and all that are missing above it, so that only its owner gets in.

    What the cache holds is run later: jars, archives of classes, modules of transforms, and the
    sockets of drivers, which run what they are told. Folders that exist stay as they are.

    Returns:
        The folder.

    Raises:
        OSError: It can't be made, or is a file.
    """
    for each in [*reversed(folder.parents), folder]:
        if not each.is_dir():
            # Another process may make it at the same time.
            each.mkdir(mode=0o700, exist_ok=True)
    return folder
