"""Log position of a change as text that sorts by commit: LSN, GTID, binlog file; initial rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from sources.common.conversion import BadValue, short_repr
from sources.common.database_snapshot import file_position, gtid_position, snapshot_position
from sources.decoding.batch_cursor import Mask, as_mask
from sources.decoding.open_positions import OPEN, padded

# `source.snapshot` of an initial snapshot's records; those of later ones have `incremental`.
_INITIAL = {"true", "first", "first_in_data_collection", "last_in_data_collection", "last"}
# Numbers of at most as many digits as 64 bits always hold.
_SEQUENCE = r'^\[(?:null|"(?P<before>[0-9]{1,19})"),"(?P<own>[0-9]{1,19})"\]$'
_GTID = r"^(?P<domain>[0-9]{1,10})-[0-9]{1,10}-(?P<sequence>[0-9]{1,20})$"
_FILE = r"\.(?P<number>[0-9]{1,12})$"
FAILOVER = "failover"
"""Field that the connector adds to the envelope (InsertField): how often its server was changed."""
# Members of `source` that say where a change is in the log.
_PLACES = ("sequence", "lsn", "gtid", "file", "pos", "row")
# More than any position in a binary log's file.
_FAILOVER_STEP = 10**15
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
# As many zeros as in tables of earlier versions.
_INITIAL_OF_MYSQL = "0" * 42


def position(envelope: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """Return a change's log position as a text; texts sort in the order of commits.

    The sink uses it as the sequence by which the latest change of a key wins. Rows of a connector's
    initial snapshot sort before every change.

    PostgreSQL: the end of the preceding transaction (``source.sequence``), then the change's own
    LSN; the LSN alone would sort changes as they were written, not as they were committed. MariaDB:
    domain and sequence number of the transaction (GTID), which a replica keeps, then the event and
    the row in it. MySQL: binlog file and position, comparable within one server, and `:`, behind
    which the record's offset belongs (:func:`.open_positions.with_offsets`).

    Args:
        envelope: The change event.
        origin: Its ``source`` block.

    Raises:
        BadValue: ``source`` does not contain the position, or the connector is not supported.
    """
    connector = origin.get("connector")
    locate = _POSITIONS.get(str(connector))
    if locate is None:
        of = "a change that names no connector" if connector is None else f"connector `{connector}`"
        reason = f"`position` is not supported for {of}, only for {', '.join(_POSITIONS)}"
        raise BadValue(reason)
    is_initial = envelope["op"] == "r" and is_of_snapshot(origin)
    try:
        return locate(origin, envelope, is_initial)
    except KeyError as error:
        reason = (
            f"`source` of the envelope lacks {error.args[0]!r}, which older versions of the "
            "connector do not write: update it"
        )
        if connector == "postgresql" and origin.get("lsn") is not None:
            reason += (
                ", or declare `include: {_lsn: lsn}` and `sink.sequence: _lsn` in place of the "
                "position, which orders the changes of each row as well"
            )
        raise BadValue(reason) from None
    except (TypeError, ValueError, IndexError):
        names = [name for name in _PLACES if origin.get(name) is not None]
        shown = ", ".join(f"`{name}` {short_repr(origin[name])}" for name in names)
        reason = f"`source` of the envelope contains no position; it has {shown or 'none'}"
        raise BadValue(reason) from None


def is_of_snapshot(origin: Mapping[str, Any]) -> bool:
    """Return whether a change event is a row of the connector's own initial snapshot.

    Args:
        origin: The ``source`` block of the event.
    """
    return str(origin.get("snapshot")) in _INITIAL


def _postgres_position(origin: Mapping[str, Any], _: Mapping[str, Any], is_initial: bool) -> str:
    """Return 32 hexadecimal digits: the end of the preceding transaction, and the change's LSN."""
    if is_initial:
        return "0" * 32
    before, own = orjson.loads(origin["sequence"])
    return f"{int(before or 0):016x}{int(own):016x}"


def _mysql_position(origin: Mapping[str, Any], _: Mapping[str, Any], is_initial: bool) -> str:
    """Return the binlog file and the position in it, for the record's offset to follow.

    A compressed transaction is one event to Debezium: all of its changes have the same position,
    and the numbers of their rows begin again with each statement. Nothing in a record shows that it
    is of one. The topic has its changes in order, also after a connector was started again, which
    then repeats all up to the end: so the last record of a key is its last change.
    """
    if is_initial:
        return _INITIAL_OF_MYSQL
    return file_position(_binlog_file(origin), int(origin["pos"])) + OPEN


def _mariadb_position(
    origin: Mapping[str, Any], envelope: Mapping[str, Any], is_initial: bool
) -> str:
    """Return the GTID, event and row of a change as one text; file and position of a snapshot.

    The position of an event orders a transaction within one server. If a connector reads the rest
    of a transaction from another server, the field `failover` puts it behind what was read before.
    The number of the event in transaction metadata does not: Debezium counts from one again when a
    connector is started in the midst of a transaction.
    """
    if is_initial:
        return snapshot_position(_binlog_file(origin), int(origin["pos"]))
    domain, _, sequence = map(int, str(origin["gtid"]).split("-"))
    event = int(envelope.get(FAILOVER) or 0) * _FAILOVER_STEP + int(origin["pos"])
    return gtid_position(domain, sequence, event, int(origin.get("row") or 0))


def _binlog_file(origin: Mapping[str, Any]) -> int:
    return int(str(origin["file"]).rpartition(".")[2])


_POSITIONS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any], bool], str]] = {
    "postgresql": _postgres_position,
    "mysql": _mysql_position,
    "mariadb": _mariadb_position,
}


def positions_of(
    op: pa.StringArray, origin: Mapping[str, pa.Array], failovers: pa.StringArray
) -> tuple[pa.StringArray, Mask]:
    """Return the log positions of many changes of one connector at once, as texts.

    They sort in the order of commits, like those of :func:`position`, which computes one.

    Args:
        op: The envelopes' ``op``.
        origin: Members of the envelopes' ``source``, by name.
        failovers: The envelopes' :data:`FAILOVER`; null without one.

    Returns:
        The positions; and a mask of those that are certain. The others mean nothing, and have to be
        computed by :func:`position`.
    """
    connector = str(origin["connector"][0])
    is_initial = pc.and_(
        pc.equal(op, "r"), pc.is_in(origin["snapshot"], pa.array(sorted(_INITIAL), pa.string()))
    )
    is_initial = pc.fill_null(is_initial, fill_value=False)
    if connector == "postgresql":
        parts = pc.extract_regex(origin["sequence"], _SEQUENCE)
        before, own = (pc.struct_field(parts, name) for name in ("before", "own"))
        texts = pc.binary_join_element_wise(*map(_hexadecimal, (before, own)), "")
        found = pc.if_else(is_initial, "0" * 32, texts)
        return found, as_mask(pc.or_(is_initial, parts.is_valid()))
    if connector not in ("mysql", "mariadb"):
        return pa.nulls(len(op), pa.string()), np.zeros(len(op), np.bool_)
    if connector == "mysql":
        files = pc.extract_regex(origin["file"], _FILE)
        parts = [padded(pc.struct_field(files, "number"), 12), padded(origin["pos"], 20)]
        found = pc.binary_join_element_wise(*parts, OPEN, "")
    else:
        row = padded(pc.coalesce(origin["row"], 0), 10)
        gtids = pc.extract_regex(origin["gtid"], _GTID)
        domain, sequence = (pc.struct_field(gtids, name) for name in ("domain", "sequence"))
        # A number of up to three digits: others are read one by one.
        is_few = pc.match_substring_regex(pc.fill_null(failovers, "0"), "^[0-9]{1,3}$")
        few = pc.if_else(is_few, pc.fill_null(failovers, "0"), pa.scalar(None, pa.string()))
        before = pc.multiply(few.cast(pa.int64()), _FAILOVER_STEP)
        event = padded(pc.add(before, origin["pos"]), 20)
        parts = [padded(domain, 10), padded(sequence, 20), event, row]
        found = pc.binary_join_element_wise("g", *parts, "")
    # Numbers that are not negative; those of a connector's own snapshot are rare.
    sure = pc.and_(found.is_valid(), pc.invert(is_initial))
    is_number = pc.match_substring_regex(pc.fill_null(found, fill_value=""), f"^g?[0-9]+{OPEN}?$")
    return found, as_mask(pc.and_(sure, is_number))


def _hexadecimal(texts: pa.StringArray) -> pa.StringArray:
    """Return decimal numbers of up to 19 digits as 16 hexadecimal digits; nulls as 0."""
    numbers = texts.fill_null("0").cast(pa.uint64()).to_numpy()
    halves = numbers.astype(">u8").view(np.uint8)
    digits = _DIGITS[np.stack([halves >> 4, halves & 15], axis=1)].reshape(-1)
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int32)
    return pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(digits))
