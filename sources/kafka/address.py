"""Where the broker is: an address, or `local` for the one that runs on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sources.errors import InputError

LOCAL = "local"


def cache_folder() -> Path:
    """Where downloads and the local broker's address live: ``HYBRID_CACHE``, or below ``~``."""
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")


def local_address_file() -> Path:
    """Where the local broker writes its address: ``HYBRID_BROKER_FILE``, or in the cache."""
    return Path(os.environ.get("HYBRID_BROKER_FILE") or cache_folder() / "broker.json")


def resolve_bootstrap(servers: str) -> str:
    """The ``host:port`` list behind a pipeline's ``bootstrap_servers``.

    Raises:
        InputError: ``local`` was asked for and no local broker runs.
    """
    if servers != LOCAL:
        return servers
    try:
        return str(json.loads(local_address_file().read_text())["bootstrap_servers"])
    except (OSError, ValueError, KeyError):
        message = "No local Kafka broker is running."
        hint = "Start one with `hybrid broker`, or name `bootstrap_servers`."
        raise InputError(message, hint) from None
