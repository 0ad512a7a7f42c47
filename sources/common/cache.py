"""The folder of this machine for what can be had again: jars, copies, the laptop's broker."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the cache folder: ``$HYBRID_CACHE``, or ``~/.cache/hybrid-backfill``.

    It need not exist.
    """
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")
