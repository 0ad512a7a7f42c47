"""Positions of changes in the log of their database, as texts that sort in commit order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from sources.common.database_snapshot import file_position, gtid_position, snapshot_position
from sources.decoding.conversion import BadValue, short_repr

# `source.snapshot` of an initial snapshot's records; those of later ones have `incremental`.
_INITIAL = {"true", "first", "first_in_data_collection", "last_in_data_collection", "last"}


def position(envelope: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return a text that sorts the changes of a database in commit order.

    Used as the sequence by which the latest change of a key wins. Rows of an initial snapshot sort
    before every change.

    PostgreSQL: the end of the preceding transaction (``source.sequence``), then the change's own
    LSN; the LSN alone would sort changes as they were written, not as they were committed. MariaDB:
    domain and sequence number of the transaction (GTID), then the event and the row in it; a
    replica keeps them. MySQL: binlog file, position and row, comparable within one server.

    Args:
        envelope: The change event.
        origin: Its ``source`` block.

    Raises:
        BadValue: ``source`` does not contain the position, or the connector is not supported.
    """
    connector = origin.get("connector")
    locate = _POSITIONS.get(str(connector))
    if locate is None:
        reason = (
            f"`position` is not supported for connector {short_repr(connector)}, only for "
            f"{', '.join(_POSITIONS)}"
        )
        raise BadValue(reason)
    is_initial = envelope["op"] == "r" and str(origin.get("snapshot")) in _INITIAL
    try:
        return locate(origin, envelope, is_initial)
    except (KeyError, TypeError, ValueError, IndexError):
        reason = f"`source` of the envelope contains no position: {short_repr(dict(origin))}"
        raise BadValue(reason) from None


def _postgres_position(origin: Mapping[str, Any], _: Mapping[str, Any], is_initial: bool) -> str:
    """Return 32 hexadecimal digits: the end of the preceding transaction, and the change's LSN."""
    if is_initial:
        return "0" * 32
    before, own = orjson.loads(origin["sequence"])
    return f"{int(before or 0):016x}{int(own):016x}"


def _mysql_position(origin: Mapping[str, Any], _: Mapping[str, Any], is_initial: bool) -> str:
    """Return the binlog file, the position in it, and the row of the event, as one text."""
    if is_initial:
        return "0" * len(file_position(0, 0, 0))
    return file_position(_binlog_file(origin), int(origin["pos"]), int(origin.get("row") or 0))


def _mariadb_position(
    origin: Mapping[str, Any], envelope: Mapping[str, Any], is_initial: bool
) -> str:
    """Return the GTID, event and row of a change as one text; file and position of a snapshot.

    With transaction metadata, the number of the event is that in its transaction. It stays the same
    if a connector that lost its server in the midst of a transaction reads the rest from another.
    """
    if is_initial:
        return snapshot_position(_binlog_file(origin), int(origin["pos"]))
    domain, _, sequence = map(int, str(origin["gtid"]).split("-"))
    transaction = envelope.get("transaction")
    event = origin["pos"] if transaction is None else transaction["total_order"]
    return gtid_position(domain, sequence, int(event), int(origin.get("row") or 0))


def _binlog_file(origin: Mapping[str, Any]) -> int:
    return int(str(origin["file"]).rpartition(".")[2])


_POSITIONS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], bool], str]] = {
    "postgresql": _postgres_position,
    "mysql": _mysql_position,
    "mariadb": _mariadb_position,
}
