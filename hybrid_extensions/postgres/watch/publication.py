"""Publication through which a connector reads the log of a PostgreSQL database."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

_COMMAND = (
    "SELECT a.query FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid "
    "WHERE s.slot_name = %s"
)
# As replication begins: https://www.postgresql.org/docs/current/protocol-replication.html
_NAMES = re.compile(r"\"?publication_names\"?\s+'((?:[^']|'')+)'", re.IGNORECASE)


def read_publication(connection: psycopg.Connection[Any], slot: str) -> str | None:
    """Return the publication that a slot's present reader names in its command.

    Args:
        connection: Open connection to the database.
        slot: Name of the replication slot.

    Returns:
        None if nobody reads the slot, its reader names several or none, or the role may not see its
        command: that of others takes ``pg_read_all_stats``.

    Raises:
        psycopg.Error: The server does not answer, or refuses.
    """
    row = connection.execute(_COMMAND, [slot]).fetchone()
    found = None if row is None or row[0] is None else _NAMES.search(row[0])
    if found is None:
        return None
    name = found[1].replace("''", "'")
    if name.startswith('"') and name.endswith('"') and name.count('"') == 2:
        return name[1:-1]
    # Names that are not quoted are in lower case, as in SQL.
    return None if any(sign in name for sign in ',"') else name.strip().lower()
