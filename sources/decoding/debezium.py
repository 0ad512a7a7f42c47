"""Debezium's changes: the row that one leaves, and what its envelope tells of it.

Envelopes: https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from sources.common.schema import parse_schema
from sources.decoding.base import Typed
from sources.decoding.conversion import BadValue, shown
from sources.decoding.envelopes import AvroEnvelopes, Encoding, Envelopes, JsonEnvelopes
from sources.decoding.value_format import EnvelopePart, Values
from sources.errors import InputError

T = TypeVar("T")
# `unavailable.value.placeholder` of the connector, unless it was changed there.
PLACEHOLDER = "__debezium_unavailable_value"
_PLACEHOLDERS = (
    PLACEHOLDER,
    base64.b64encode(PLACEHOLDER.encode()).decode(),
    PLACEHOLDER.encode(),
)
_CAN_BE_LONG = (str, bytes, list)
# What an initial snapshot of the connector says of its records; later ones are `incremental`.
_INITIAL = {"true", "first", "first_in_data_collection", "last_in_data_collection", "last"}
_ROW_OF = {"c": "after", "u": "after", "r": "after", "d": "before"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "io.debezium.time.Timestamp": 1000,
    "org.apache.kafka.connect.data.Timestamp": 1000,
    "io.debezium.time.MicroTimestamp": 1,
    "io.debezium.time.NanoTimestamp": None,
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_NEW_START = "and begin a new generation (`hybrid generation new`) with a snapshot in a new folder"
_UNKNOWN = Encoding()


class DebeziumReader(Typed):
    """Takes envelopes apart, as one table's columns and what is asked for beside them.

    Args:
        source: The declaration.
    """

    def __init__(self, source: Values) -> None:
        assert source.columns is not None  # the declaration refuses it
        assert source.table is not None
        added = source.added_columns or {}
        of_table = {n: kind for n, kind in source.columns.items() if n not in source.include}
        columns = parse_schema({**of_table, **source.added_types})
        registry = source.registry
        self._envelopes: Envelopes = (
            JsonEnvelopes() if registry is None else AvroEnvelopes(registry)
        )
        self._table = source.table
        self._columns = [(field.name, _converter(field.type)) for field in columns]
        dropped = {*(source.dropped_columns or [])}
        self._required = set(of_table) - dropped
        # Older changes lack them; if another column is there instead, they may be renamed.
        self._added = set(added) - dropped
        self._known = {*columns.names, *(source.ignored_columns or [])}
        self._parts = source.of_envelope
        self._defaults = {name: added[name].value for name in self._added}
        self._untold = [name for name in added if "default" not in added[name].model_fields_set]
        # The same object for all records that share a schema.
        self._checked: Mapping[str, Encoding] = {}

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """The columns of the row that the change leaves, or removes, and what else is asked for.

        Raises:
            BadValue: The value is no envelope of this table, or holds what can't be read.
            InputError: The table was truncated, or has other columns than are declared: rows that
                follow would be wrong.
        """
        envelope, encodings = self._envelopes.open(value)
        origin = envelope.get("source")
        if not isinstance(origin, dict) or "op" not in envelope:
            reason = "the value is no change envelope: it lacks `op` or `source`"
            raise BadValue(reason)
        self._check_table(origin)
        op = envelope["op"]
        if op == "t":
            message = (
                f"Table `{self._table}` was truncated (op t); no row tells which keys are gone."
            )
            raise InputError(message, f"Remove the target's rows by hand, {_NEW_START}.")
        if op not in _ROW_OF:
            reason = f"op {shown(op)} is none of {', '.join(_ROW_OF)}"
            raise BadValue(reason)
        row = envelope.get(_ROW_OF[op])
        if not isinstance(row, dict):
            reason = f"a change of op {op} has no `{_ROW_OF[op]}`"
            if op == "d":
                reason += f": ALTER TABLE {self._table} REPLICA IDENTITY DEFAULT, or FULL"
            raise BadValue(reason)
        self._check_columns(row)
        if encodings is not self._checked:
            self._check_defaults(encodings)
        found = {name: self._column(name, row, encodings, read) for name, read in self._columns}
        for name, part in self._parts.items():
            found[name] = _PARTS[part](envelope, origin)
        return found

    def _check_table(self, origin: Mapping[str, Any]) -> None:
        owner = origin.get("schema") or origin.get("db")
        found = f"{owner}.{origin.get('table')}"
        if found != self._table:
            reason = f"the change is of table `{found}`, not of `{self._table}`"
            raise BadValue(reason)

    def _check_columns(self, row: Mapping[str, Any]) -> None:
        if row.keys() <= self._known and row.keys() >= self._required:
            return
        new = [name for name in row if name not in self._known]
        gone = sorted((self._required | (self._added if new else set())) - row.keys())
        if new and gone:
            message = (
                f"Table `{self._table}` has a column `{new[0]}` that nothing declares, and no "
                f"longer has `{gone[0]}`."
            )
            hint = (
                f"If `{gone[0]}` was renamed: correct the `schema`, list the old name in "
                f"`ignored_columns`, {_NEW_START}. If not: `{new[0]}` goes into `added_columns`, "
                f"`{gone[0]}` into `dropped_columns`, then `hybrid resume`."
            )
        elif new:
            message = f"Table `{self._table}` has a column `{new[0]}` that nothing declares."
            hint = (
                f"To take it in, declare `added_columns: {{{new[0]}: <type>}}`, with its default "
                "if it has one; to leave it out for good, list it in `ignored_columns`. Then "
                "`hybrid resume`."
            )
        else:
            message = f"Table `{self._table}` no longer has the column `{gone[0]}` of the `schema`."
            hint = "If it was dropped, list it in `dropped_columns`, then `hybrid resume`."
        raise InputError(message, hint)

    def _check_defaults(self, encodings: Mapping[str, Encoding]) -> None:
        """Refuse an added column whose default is not declared, where the envelope tells it."""
        for name in self._untold:
            default = encodings.get(name, _UNKNOWN).default
            if default is not None:
                message = (
                    f"Column `{name}` of table `{self._table}` has a default ({shown(default)} as "
                    "Debezium tells it, which knows constants only): rows from before may hold it."
                )
                hint = (
                    "What they hold tells `SELECT attmissingval FROM pg_attribute WHERE attrelid = "
                    f"'{self._table}'::regclass AND attname = '{name}'`: write `added_columns: "
                    f"{{{name}: {{type: …, default: …}}}}`, `null` for nothing. Then "
                    "`hybrid resume`."
                )
                raise InputError(message, hint)
        self._checked = encodings

    def _column(
        self,
        name: str,
        row: Mapping[str, Any],
        encodings: Mapping[str, Encoding],
        read: Callable[[Any, Encoding], Any],
    ) -> Any:
        raw = row.get(name)
        if raw is None:
            return None if name in row else self._defaults.get(name)
        if type(raw) in _CAN_BE_LONG and (raw in _PLACEHOLDERS or raw == [PLACEHOLDER]):
            reason = (
                f"`{name}` is a long value that the change left as it was, so the log does not "
                f"carry it: ALTER TABLE {self._table} REPLICA IDENTITY FULL, {_NEW_START}"
            )
            raise BadValue(reason)
        try:
            return read(raw, encodings.get(name, _UNKNOWN))
        except BadValue as error:
            reason = f"`{name}`: {error}"
            raise BadValue(reason) from None


def _converter(kind: pa.DataType) -> Callable[[Any, Encoding], Any]:
    """Return the function that turns an envelope's value into what `fitter` takes for a type."""
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_date(kind):
        return _date
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_binary(kind):
        return lambda raw, _: _bytes(raw)
    if pa.types.is_list(kind):
        item = _converter(kind.value_type)
        return lambda raw, _: [
            None if each is None else item(each, _UNKNOWN) for each in _listed(raw)
        ]
    return lambda raw, _: raw


def _listed(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        reason = f"{shown(raw)} is no array"
        raise BadValue(reason)
    return raw


def _timestamp(raw: Any, encoding: Encoding) -> datetime:
    if isinstance(raw, datetime):
        return raw
    if isinstance(raw, str):
        return _parsed(datetime.fromisoformat, raw, "timestamp")
    if not isinstance(raw, int) or encoding.name not in _UNITS:
        reason = (
            f"nothing tells the unit of {shown(raw)}: let the converter send schemas "
            "(`value.converter.schemas.enable=true`), or declare the column as bigint and write "
            "`select` with timestamp_micros or timestamp_millis"
        )
        raise BadValue(reason)
    unit = _UNITS[encoding.name]
    if unit is None and raw % 1000:
        reason = f"{raw} ns is finer than a microsecond"
        raise BadValue(reason)
    micros = raw // 1000 if unit is None else raw * unit
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        reason = f"{raw} is beyond the year 9999"
        raise BadValue(reason) from None


def _date(raw: Any, encoding: Encoding) -> date:
    del encoding
    if isinstance(raw, date):
        return raw
    if isinstance(raw, str):
        return _parsed(date.fromisoformat, raw, "date")
    if isinstance(raw, bool) or not isinstance(raw, int):
        reason = f"{shown(raw)} is no date"
        raise BadValue(reason)
    try:
        return _EPOCH.date() + timedelta(days=raw)
    except OverflowError:
        reason = f"{raw} days are beyond the year 9999"
        raise BadValue(reason) from None


def _parsed(parse: Callable[[str], T], text: str, what: str) -> T:
    try:
        return parse(text)
    except ValueError:
        reason = f"{shown(text)} is no {what}"
        raise BadValue(reason) from None


def _decimal(raw: Any, encoding: Encoding) -> Decimal | int:
    if isinstance(raw, dict) and raw.keys() == {"scale", "value"}:
        # io.debezium.data.VariableScaleDecimal, of a numeric without a scale
        return _unscaled(raw["value"], raw["scale"])
    if isinstance(raw, str) and encoding.name == _DECIMAL and encoding.scale is not None:
        return _unscaled(raw, encoding.scale)
    if isinstance(raw, int | Decimal):
        return raw
    try:
        number = Decimal(raw) if isinstance(raw, str) else None
    except ArithmeticError:
        number = None
    if number is None or not number.is_finite():
        reason = (
            f"{shown(raw)} is no decimal: let the connector write `decimal.handling.mode=string`, "
            "or the converter send schemas"
        )
        raise BadValue(reason)
    return number


def _unscaled(text: Any, scale: int) -> Decimal:
    # Not `scaleb`, which rounds to the 28 digits of Python's own context.
    number = int.from_bytes(_bytes(text), "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _bytes(raw: Any) -> bytes:
    if isinstance(raw, bytes):
        return raw
    try:
        return base64.b64decode(raw, validate=True)
    except (binascii.Error, TypeError, ValueError):
        reason = f"{shown(raw)} is no base64"
        raise BadValue(reason) from None


def position(envelope: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    """A text that sorts as a database committed its changes; all zeros for an initial snapshot.

    PostgreSQL: the end of the transaction before (``source.sequence``), then the change's own LSN.
    The LSN alone would sort changes as they were made, not as they were committed.
    MySQL and MariaDB: binlog file, position, row. It holds within one server.

    Raises:
        BadValue: The envelope does not tell, or is from another database.
    """
    connector = origin.get("connector")
    width, locate = _POSITIONS.get(str(connector), (0, None))
    if locate is None:
        reason = f"`position` is not known for connector {shown(connector)}"
        raise BadValue(reason)
    if envelope["op"] == "r" and str(origin.get("snapshot")) in _INITIAL:
        return "0" * width
    try:
        return locate(origin)
    except (KeyError, TypeError, ValueError, IndexError):
        reason = f"`source` of the envelope tells no position: {shown(dict(origin))}"
        raise BadValue(reason) from None


def _postgres_position(origin: Mapping[str, Any]) -> str:
    before, own = orjson.loads(origin["sequence"])
    return f"{int(before or 0):016x}{int(own):016x}"


def _mysql_position(origin: Mapping[str, Any]) -> str:
    file = int(str(origin["file"]).rpartition(".")[2])
    return f"{file:012d}{int(origin['pos']):020d}{int(origin.get('row') or 0):010d}"


_POSITIONS: dict[str, tuple[int, Callable[[Mapping[str, Any]], str]]] = {
    "postgresql": (32, _postgres_position),
    "mysql": (42, _mysql_position),
    "mariadb": (42, _mysql_position),
}


def _committed_at(_: Mapping[str, Any], origin: Mapping[str, Any]) -> datetime | None:
    at = origin.get("ts_ms")
    return None if at is None else _EPOCH + timedelta(milliseconds=at)


_PARTS: dict[EnvelopePart, Callable[[Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "op": lambda envelope, _: envelope["op"],
    "deleted": lambda envelope, _: envelope["op"] == "d",
    "position": position,
    "lsn": lambda _, origin: origin.get("lsn"),
    # The one that a connector's snapshot is read in has changed nothing.
    "transaction": lambda envelope, origin: None if envelope["op"] == "r" else origin.get("txId"),
    "committed_at": _committed_at,
}
