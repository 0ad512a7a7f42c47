"""Server id: the number by which a connector registers with a MariaDB or MySQL server."""

from __future__ import annotations

import zlib


def server_id_of(connector: str) -> int:
    """Return the server id by which a connector registers with a MariaDB or MySQL server.

    Always the same for a name: a hash of it, from 10,000 to 1,009,999, so that it most likely
    differs from those of other connectors and of replicas.

    Args:
        connector: Name of the connector.
    """
    return 10_000 + zlib.crc32(connector.encode()) % 1_000_000
