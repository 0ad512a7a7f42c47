"""Number by which a connector registers with a database server."""

from __future__ import annotations

import zlib


def server_id_of(connector: str) -> int:
    """Return a number by which a connector can register with a MariaDB or MySQL server.

    Made from its name, above 10,000, so that it differs from those of other connectors and
    replicas.

    Args:
        connector: Name of the connector.
    """
    return 10_000 + zlib.crc32(connector.encode()) % 1_000_000
