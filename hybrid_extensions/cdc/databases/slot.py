"""State of a replication slot or of a connector's place: active, idle, lost; bytes not read."""

from __future__ import annotations

from typing import Literal, NamedTuple

State = Literal["active", "idle", "lost", "missing", "moved"]


class Slot(NamedTuple):
    """State of a PostgreSQL replication slot, or of a connector's place in a binary log.

    Positions are numbers: LSNs for PostgreSQL, sequence numbers of GTIDs for MariaDB, file and
    place in it for MySQL.

    Attributes:
        state: ``active``: a connector reads it; ``idle``: none does; ``lost``: the server removed
            the log that it needs; ``missing``: it does not exist, or was never read; ``moved``: it
            is in the log of another MySQL server than the snapshot's.
        retained_bytes: Bytes of the log that the server keeps for it; 0 if lost or missing.
        unread_bytes: Bytes of the log, up to its end, that no connector was sent; for MariaDB and
            MySQL, that the connector has not confirmed. None if the role may not see it, if the
            slot is lost or missing, and where ``log_end`` is 0.
        log_end: End of the log when the server was asked; 0 where the connector could not confirm
            it.
        received: Position up to which the connector has confirmed that it received the log, which
            it does every 10 s by default (``status.update.interval.ms``); None where
            ``unread_bytes`` is, and for MariaDB and MySQL, to which connectors confirm nothing.
        confirmed: Position up to which it has confirmed that the topics hold all changes. For
            PostgreSQL it stays where it is while only other tables change.
        failure: Why the declared connector, or its task, failed, so that somebody has to start it
            again; empty if it did not, or none is declared.
        silent: Why Kafka Connect does not say how the declared connector is; empty if it does, if
            none is declared, and where the connector is known to read.
        server: Id of the MySQL server whose log it is; empty for other databases.
    """

    state: State
    retained_bytes: int = 0
    unread_bytes: int | None = None
    log_end: int = 0
    received: int | None = None
    confirmed: int = 0
    failure: str = ""
    silent: str = ""
    server: str = ""
