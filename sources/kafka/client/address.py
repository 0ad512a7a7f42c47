"""Address of the broker: a list of servers, or `local` for the one that runs on this machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

from sources.common.cache import cache_folder
from sources.errors import UnavailableError

LOCAL = "local"
"""Value of ``bootstrap_servers`` that stands for the broker of ``hybrid broker``."""


def local_address_file() -> Path:
    """Return the file to which `hybrid broker` writes the address of the broker that it runs.

    That is ``$HYBRID_BROKER_FILE``, or ``broker.json`` in the cache folder. It need not exist.
    """
    return Path(os.environ.get("HYBRID_BROKER_FILE") or cache_folder() / "broker.json")


def resolve_bootstrap(servers: str) -> str:
    """Return the ``host:port`` list that a source's ``bootstrap_servers`` stands for.

    ``local`` stands for the broker that `hybrid broker` runs on this machine; any other value is
    returned as it is, without connecting to it.

    Raises:
        UnavailableError: The value is ``local``, and no local broker has written its address,
            or the file can't be read.
    """
    if servers != LOCAL:
        return servers
    file = local_address_file()
    try:
        return str(json.loads(file.read_text())["bootstrap_servers"])
    except (OSError, ValueError, KeyError, TypeError):
        lack = "contains no address" if file.exists() else "is not there"
        message = (
            "No local Kafka broker is running, which `bootstrap_servers: local` (the default) "
            f"stands for: {file} {lack}."
        )
        hint = (
            "Start one with `hybrid broker`, which runs until Ctrl-C (with `--data FOLDER` if its "
            "records are in another folder than the usual one); or declare the address of "
            "another broker, such as `bootstrap_servers: kafka:9092`."
        )
        raise UnavailableError(message, hint, server=LOCAL) from None
