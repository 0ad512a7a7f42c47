"""Database snapshots: which later changes one contains, by transaction ids or by log position.

One class for each way in which databases number their changes. Rules are SQL conditions over
columns of the changes that Spark and DuckDB understand alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from sources.common.times import EPOCH

# Transaction ids in PostgreSQL's log have 32 bits.
_WRAP = 1 << 32
_BEGAN_AGAIN = (
    "the connector has taken a snapshot of its own after the one in the files, so changes are "
    "missing from the log, and rows deleted in between stay in the table."
)


class PostgresSnapshot(BaseModel, frozen=True, extra="forbid"):
    """Transactions that a snapshot of a PostgreSQL database can see.

    A change's log position does not decide whether a snapshot holds it: a transaction that was in
    flight when the snapshot was taken wrote before it and committed after it. PostgreSQL itself
    decides by these transaction ids
    (https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT).

    Attributes:
        lsn: End of the log right after the snapshot was taken; nothing written later is in it.
        xmin: All transactions before this one had ended.
        xmax: This transaction and later ones had not begun, or were not known yet.
        in_progress: Transactions between the two that were in flight. All are 64-bit ids.
        taken_ms: When it was taken, by the clock of the database, in milliseconds.
    """

    lsn: int
    xmin: int
    xmax: int
    in_progress: list[int]
    taken_ms: int

    def holds(self, columns: Mapping[Any, str]) -> str:
        """Return an SQL condition that is true for changes which this snapshot already contains.

        Valid in Spark and in DuckDB, and never null. The hand-over drops such changes from the
        topic. A transaction id has 32 bits and wraps around; it decides only for changes up to
        ``lsn``, where it is near the snapshot's. A row of a connector's own snapshot has none and
        counts as contained.

        Args:
            columns: SQL expressions of a change's parts, by name: its own log position ``lsn``, as
                a number; and its ``transaction`` id of 32 bits, null if it has none.
        """
        lsn, transaction = columns["lsn"], columns["transaction"]
        half = _WRAP >> 1
        # Modulo of a negative number is negative in both.
        behind = f"(({transaction} - {self.xmax} + {half}) % {_WRAP} + {_WRAP}) % {_WRAP} - {half}"
        seen = f"{behind} < 0"
        if self.in_progress:
            others = ", ".join(str(each - self.xmax) for each in self.in_progress)
            seen += f" AND {behind} NOT IN ({others})"
        return f"coalesce({lsn} <= {self.lsn}, false) AND coalesce({seen}, true)"

    def refusals(self, columns: Mapping[Any, str]) -> dict[str, str]:
        """Return SQL conditions of changes that must end the run, by the reason, a sentence.

        Such a change shows that the snapshot can't be continued by the topic. Called when the query
        of the topic is built. They may be null, which counts as false.

        Args:
            columns: SQL expressions of a change's parts: ``lsn``, ``transaction``, ``position``.
        """
        position = columns["position"]
        again = (
            f"{columns['transaction']} IS NULL AND {columns['lsn']} > {self.lsn} "
            f"AND {position} = repeat('0', length({position}))"
        )
        return {_BEGAN_AGAIN: again}

    def envelope(self) -> dict[str, Any]:
        """Return what rows of the snapshot get as parts of a change's envelope, by part.

        ``op`` (``r``, a read), ``deleted`` (False), ``committed_at`` (when the snapshot was taken)
        and ``lsn``. They have no position, so that every change of the same row comes after them.
        """
        return {**_envelope(self.taken_ms), "lsn": self.lsn}

    def summary(self) -> dict[str, str | int]:
        """Return the snapshot's LSN and its number of open transactions, by label, for display."""
        return {"LSN": self.lsn, "transactions in flight": len(self.in_progress)}


class BinlogSnapshot(BaseModel, frozen=True, extra="forbid"):
    """Position of a snapshot in the binary log of MariaDB or MySQL.

    The log contains transactions in the order of their commits, so a snapshot holds exactly those
    up to its position. MariaDB numbers them (GTID: domain, server, sequence number), and a replica
    keeps the number; file and position mean something on one server only.

    Attributes:
        file: Number of the file of the log.
        offset: Position in this file, in bytes, up to which the snapshot contains the log.
        domain: GTID domain of all changes; None for MySQL, whose changes are ordered by file and
            position.
        sequence: GTID sequence number of the last transaction that the snapshot contains.
        taken_ms: When it was taken, by the clock of the database, in milliseconds.
        server: Id of the MySQL server that the position belongs to (``server_uuid``); empty for
            MariaDB, and in snapshots of earlier versions.
    """

    file: int
    offset: int
    domain: int | None
    sequence: int
    taken_ms: int
    server: str = ""

    def holds(self, columns: Mapping[Any, str]) -> str:
        """Return an SQL condition that is true for changes which this snapshot already contains.

        Valid in Spark and in DuckDB, and never null. The hand-over drops such changes from the
        topic.

        Args:
            columns: SQL expressions of a change's parts, by name: its ``position``, as
                :func:`gtid_position` or :func:`file_position` writes it.
        """
        return f"coalesce({columns['position']} < '{self.beyond}', false)"

    @property
    def beyond(self) -> str:
        """Position that is higher than those of all changes that this snapshot includes.

        It is not higher than that of any other change.
        """
        if self.domain is None:
            # A file's first event is after its first 4 bytes; a position is where an event begins.
            return file_position(self.file, self.offset)
        return gtid_position(self.domain, self.sequence + 1, 0, 0)

    def refusals(self, columns: Mapping[Any, str]) -> dict[str, str]:
        """Return SQL conditions of changes that must end the run, by the reason, a sentence.

        Such a change shows that the snapshot can't be continued by the topic. They may be null,
        which counts as false.

        Args:
            columns: SQL expressions of a change's parts, by name: its ``position``.
        """
        position = columns["position"]
        if self.domain is None:
            return {_BEGAN_AGAIN: f"{position} = repeat('0', length({position}))"}
        domain = gtid_position(self.domain, 0, 0, 0)[:_DOMAIN_END]
        other = (
            f"the change has a GTID of another domain than {self.domain}, in which the snapshot "
            "was taken: the order of changes of different domains is not known."
        )
        later = snapshot_position(self.file, self.offset)
        return {
            _BEGAN_AGAIN: f"substring({position}, 1, 1) = '0' AND {position} > '{later}'",
            other: f"substring({position}, 1, 1) = 'g' "
            f"AND substring({position}, 1, {_DOMAIN_END}) <> '{domain}'",
        }

    def envelope(self) -> dict[str, Any]:
        """Return what rows of the snapshot get as parts of a change's envelope, by part.

        ``op`` (``r``, a read), ``deleted`` (False) and ``committed_at`` (when the snapshot was
        taken). They have no position, so that every change of the same row comes after them.
        """
        return _envelope(self.taken_ms)

    def summary(self) -> dict[str, str | int]:
        """Return the snapshot's position in the binary log, by label, for display."""
        found: dict[str, str | int] = {"binary log": f"file {self.file}, position {self.offset}"}
        if self.domain is not None:
            found["GTID domain"] = self.domain
            found["GTID sequence number"] = self.sequence
        return found


DatabaseSnapshot = PostgresSnapshot | BinlogSnapshot
"""What a snapshot of a database of any kind contains."""

_DOMAIN_END = 1 + 10


def gtid_position(domain: int, sequence: int, event: int, row: int) -> str:
    """Return a MariaDB change's position as a text that sorts in the order of commits.

    Within one GTID domain; it sorts behind each :func:`snapshot_position`.

    Args:
        domain: Domain of the GTID, of 32 bits.
        sequence: Sequence number of the GTID, of 64 bits.
        event: Number by which the events of one transaction are ordered.
        row: Number of the row in the event.
    """
    return f"g{domain:010d}{sequence:020d}{event:020d}{row:010d}"


def snapshot_position(file: int, offset: int) -> str:
    """Return the position, as a text, of rows of a connector's own snapshot in MariaDB.

    It sorts before each :func:`gtid_position`.

    Args:
        file: Number of the binary log's file at the snapshot.
        offset: Position in the file, in bytes.
    """
    return f"0{file:012d}{offset:020d}"


def file_position(file: int, offset: int) -> str:
    """Return a MySQL event's position as a text that sorts in the order of the binary log.

    The position of a change begins with it; what follows orders the changes of one event, and those
    of a compressed transaction, which is one event.

    Args:
        file: Number of the binary log's file.
        offset: Position of the event in the file, in bytes.
    """
    return f"{file:012d}{offset:020d}"


def _envelope(taken_ms: int) -> dict[str, Any]:
    return {"op": "r", "deleted": False, "committed_at": EPOCH + timedelta(milliseconds=taken_ms)}
