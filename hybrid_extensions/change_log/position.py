"""Which change a change log has already, by transaction and place; where it starts again.

A group is a transaction of the database. The engine is always started at the begin of one, from an
offset that this module makes, and sends all of it again, in the same order. So a change is known if
it is of the last group in the log and not behind the last place in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Offset = Mapping[str, Any]
Place = tuple[int, ...]
_BINLOG = ("file", "pos", "gtids", "server_id", "ts_sec")


class Position(NamedTuple):
    """Position of a change in the database's log: its transaction, and its place in that.

    Attributes:
        group: Where its transaction begins.
        place: Its place in the transaction: the last number distinguishes changes of one entry.
    """

    group: tuple[Any, ...]
    place: Place


def group_of(offset: Offset) -> tuple[Any, ...]:
    """Return where the transaction of an offset of Debezium begins.

    For PostgreSQL that is the end of the transaction before it, which Debezium knows. For binary
    logs these are the number of the file and the position in it.
    """
    if "lsn" in offset:
        return (offset.get("lsn_commit") or 0,)
    return (int(str(offset["file"]).rpartition(".")[2]), int(offset["pos"]))


def start_at(offset: Offset) -> dict[str, Any]:
    """Return the offset from which the engine sends the transaction of an offset from its begin.

    PostgreSQL's is a byte earlier: the first change may begin where the transaction before ends,
    and Debezium would take it for the one that it has read last. Without `lsn_proc`, which it would
    compare with the slot's begin, as that may be where the transaction before ends.
    """
    if "lsn" in offset:
        (commit,) = group_of(offset)
        return {"lsn": commit - 1, "lsn_commit": commit, "ts_usec": offset.get("ts_usec", 0)}
    return {name: offset[name] for name in _BINLOG if offset.get(name) is not None}


class Sequence:
    """Positions of the changes that one run of the engine sends, in their order."""

    def __init__(self) -> None:
        self._last: Position | None = None

    def next(self, offset: Offset) -> Position:
        """Return the position of the next change; called once for each change, in their order.

        Args:
            offset: Debezium's offset of it.
        """
        group = group_of(offset)
        if offset.get("messageType") == "MESSAGE" and group == (offset["lsn"],):
            # A message outside of any transaction: the next transaction's group begins with it.
            self._last = Position(group, ())
            return self._last
        names = ("lsn",) if "lsn" in offset else ("event", "row")
        entry = tuple(int(offset.get(name) or 0) for name in names)
        found = Position(group, (*entry, 0))
        last = self._last
        if last is not None and (last.group, last.place[:-1]) == (found.group, entry):
            found = Position(found.group, (*entry, last.place[-1] + 1))
        self._last = found
        return found


def is_known(found: Position, last: Position | None) -> bool:
    """Return whether a change is in a log already, by the position of the log's last change.

    Args:
        found: Position of the change.
        last: Position of the last change in the log; None, for False, if there is none.
    """
    return last is not None and found.group == last.group and found.place <= last.place
