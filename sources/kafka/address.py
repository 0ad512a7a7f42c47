"""Address of the broker: a list of servers, or `local` for the one that runs on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sources.errors import UnavailableError

LOCAL = "local"


def cache_folder() -> Path:
    """Return the folder of downloads and the local broker's address: ``HYBRID_CACHE`` if set."""
    return Path(os.environ.get("HYBRID_CACHE") or Path.home() / ".cache" / "hybrid-backfill")


def local_address_file() -> Path:
    """Return the file with the local broker's address: ``HYBRID_BROKER_FILE``, or in the cache."""
    return Path(os.environ.get("HYBRID_BROKER_FILE") or cache_folder() / "broker.json")


def resolve_bootstrap(servers: str) -> str:
    """Return the ``host:port`` list that a source's ``bootstrap_servers`` stands for.

    Raises:
        UnavailableError: It is ``local``, and no local broker is running.
    """
    if servers != LOCAL:
        return servers
    try:
        return str(json.loads(local_address_file().read_text())["bootstrap_servers"])
    except (OSError, ValueError, KeyError):
        message = "No local Kafka broker is running."
        hint = "Start one with `hybrid broker`, or declare `bootstrap_servers`."
        raise UnavailableError(message, hint, server=LOCAL) from None
