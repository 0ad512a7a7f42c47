"""Debezium's change to a row: which op, table or columns are refused; defaults, TRUNCATE.

Envelopes: https://debezium.io/documentation/reference/stable/connectors/postgresql.html
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from hybrid_extensions.cdc.debezium.batches import Model, ModelColumn, read_envelopes
from hybrid_extensions.cdc.debezium.changed_columns_errors import (
    ChangedTable,
    changed_columns,
    where_defaults_are,
    widened_column,
)
from hybrid_extensions.cdc.debezium.json_envelopes import JsonEnvelopes, envelopes_by
from hybrid_extensions.cdc.debezium.positions import position
from hybrid_extensions.cdc.debezium.renaming import Renaming
from hybrid_extensions.cdc.debezium.unchanged_long_values import Placeholder, require_kept
from hybrid_extensions.cdc.debezium.values import (
    NO_ENCODING,
    require_integer,
    value_converter,
)
from sources.common.conversion import BadValue, converter, short_repr
from sources.common.schema import may_be_long, parse_schema, parse_type, type_name
from sources.common.times import EPOCH
from sources.decoding.base import BaseReader
from sources.decoding.changes.declared_table import DeclaredTable
from sources.decoding.changes.envelopes import Encoding
from sources.decoding.changes.record_keys import NEW_START
from sources.decoding.record_columns import EnvelopePart, RecordColumns
from sources.errors import HybridError, InputError

_ROW_OF = {"c": "after", "u": "after", "r": "after", "d": "before"}


class DebeziumReader(BaseReader):
    """Decoder of one table's Debezium events to rows, with the declared parts of the envelope.

    Args:
        table: The table as it is declared.
        declared: The declared columns.
    """

    def __init__(self, table: DeclaredTable, declared: RecordColumns) -> None:
        # A declaration without them is refused.
        assert declared.columns is not None
        added = table.added_columns
        kinds = declared.columns.items()
        table_columns = {name: kind for name, kind in kinds if name not in declared.include}
        columns = parse_schema(table.current(table_columns))
        self._envelopes = envelopes_by(table.registry)
        self._table = table.table
        self._renaming = Renaming(table.table, table.renamed_columns, NEW_START)
        self._columns = [
            (field.name, value_converter(field.type, table.binary_handling_mode))
            for field in columns
        ]
        self._integers = {
            field.name: field.type for field in columns if pa.types.is_integer(field.type)
        }
        dropped = set(table.gone_columns)
        self._required = set(table_columns) - dropped
        # Older changes do not contain them; a change with an unknown column instead is a renaming.
        self._added = set(added) - dropped
        self._known = {*columns.names, *table.ignored_columns}
        self._follows_truncates = table.follows_truncates
        self._placeholder = Placeholder(table.unavailable_value_placeholder)
        self._unchanged = declared.envelope_column("unchanged")
        self._long = {field.name for field in columns if may_be_long(field.type)}
        self._declared_parts = declared.envelope_columns
        self._parts = {n: part for n, part in self._declared_parts.items() if part != "unchanged"}
        self._defaults = {name: added[name].value for name in self._added}
        self._without_default = [
            name for name in added if "default" not in added[name].model_fields_set
        ]
        # A wider type is looked up once a value does not fit, or the schema reports another type.
        self._follows = table.policies.widened == "follow"
        self._kinds = {field.name: type_name(field.type) for field in columns}
        self._decimals = {
            field.name: converter(field.type)
            for field in columns
            if pa.types.is_decimal(field.type)
        }
        self._floats = [field.name for field in columns if pa.types.is_float32(field.type)]
        # Changes from before a `float` became a double have the digits of a `float`.
        self._were_floats = {
            name
            for name in table.widened_columns
            if pa.types.is_float32(parse_type(table_columns[name]))
        }
        # Encodings that were checked last: the same object for all records that share a schema.
        self._checked: Mapping[str, Encoding] = {}

    def fields(self, value: bytes) -> Mapping[str, Any]:
        """Decode a change event into the row after it (the deleted row for deletes) and metadata.

        Args:
            value: Value of a Kafka record: Debezium's envelope, in JSON or Avro.

        Returns:
            The table's columns by name, not yet converted to column types, and the parts of the
            envelope that ``include`` names.

        Raises:
            BadValue: The value is not a change event of this table, has an unknown op, lacks the
                row, or a column can't be converted.
            InputError: The source database's table was truncated and `on_truncate` is not
                `follow`, or its columns or their defaults are not those that are declared, so
                that later rows would be wrong. Or the schema registry refuses the login or the
                request.
            UnavailableError: The schema registry does not answer.
        """
        envelope, encodings = self._envelopes.open(value)
        origin = envelope.get("source")
        if not isinstance(origin, dict) or "op" not in envelope:
            reason = (
                "the value is not a change envelope: it lacks `op` or `source`, as after the "
                "transform ExtractNewRecordState, which the connector must not use"
            )
            raise BadValue(reason)
        self._check_table(origin)
        op = envelope["op"]
        if op == "t":
            return self._truncate(envelope, origin)
        if op not in _ROW_OF:
            reason = f"op {short_repr(op)} is not one of {', '.join(_ROW_OF)}"
            raise BadValue(reason)
        row = envelope.get(_ROW_OF[op])
        if not isinstance(row, dict):
            reason = f"a change of op {op} has no `{_ROW_OF[op]}`"
            if op == "d" and origin.get("connector") == "postgresql":
                reason += (
                    f": run ALTER TABLE {self._table} REPLICA IDENTITY DEFAULT if the table has a "
                    "primary key, or FULL if not"
                )
            raise BadValue(reason)
        fields: dict[str, Any] = {}
        lacking: dict[str, None] = {}
        try:
            row, encodings = self._renaming.apply(row, encodings)
            self._check_columns(row, encodings, origin)
            if encodings is not self._checked:
                self._check_encodings(encodings, origin)
            for name, read in self._columns:
                if self._placeholder.stands_for(row.get(name)):
                    keeps, is_long = self._unchanged is not None, name in self._long
                    require_kept(name, self._table, op, keeps=keeps, is_long=is_long)
                    fields[name] = lacking[name] = None
                else:
                    fields[name] = self._column(name, row, encodings, read)
        except InputError as error:
            # Where it happened, as far as that is known: the error counts.
            error.fields["connector"] = str(origin.get("name", ""))
            with suppress(BadValue):
                error.fields["position"] = position(envelope, origin)
            raise
        if self._unchanged is not None:
            fields[self._unchanged] = lacking or None
        for name, part in self._parts.items():
            fields[name] = _PARTS[part](envelope, origin)
        return fields

    def rows(self, values: pa.BinaryArray, columns: pa.Schema) -> pa.StructArray | None:
        """Decode many JSON envelopes at once into structs of the columns.

        A value that only :meth:`fields` can decode or refuse becomes null. None for Avro, whose
        values have to be decoded one by one.
        """
        if not isinstance(self._envelopes, JsonEnvelopes):
            return None
        return read_envelopes(values, columns, self._model)

    def _model(self, value: bytes) -> Model | None:
        """Return how changes like one are decoded; None if each is to be decoded alone."""
        assert isinstance(self._envelopes, JsonEnvelopes)
        try:
            self.fields(value)
            envelope, encodings = self._envelopes.open(value)
            side = _ROW_OF.get(envelope["op"])
            head = self._envelopes.head_of(value)
            if side is None or head is None:
                return None
            by_name = {name: name for name in envelope[side]}
            members, encodings = self._renaming.apply(by_name, encodings)
        except (BadValue, HybridError):
            return None
        columns = [
            ModelColumn(
                name,
                member := members.get(name),
                None if member is None else envelope[side].get(member),
                encodings.get(name, NO_ENCODING),
                read,
                self._defaults.get(name),
            )
            for name, read in self._columns
        ]
        is_narrow = {each.name for each in columns if each.encoding.kind == "float"}
        is_wide = {each.name for each in columns if each.encoding.kind == "double"}
        if is_narrow & self._were_floats or is_wide & {*self._floats}:
            return None
        return Model(head, columns, self._declared_parts, self._placeholder)

    def _truncate(
        self, envelope: Mapping[str, Any], origin: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Return a TRUNCATE as a row without values: a delete of no key, at its position.

        Raises:
            BadValue: The envelope lacks its position.
            InputError: TRUNCATEs are not followed.
        """
        if self._follows_truncates:
            parts = {name: _PARTS[part](envelope, origin) for name, part in self._parts.items()}
            return {**dict.fromkeys(name for name, _ in self._columns), **parts}
        message = (
            f"The source database's table `{self._table}` was truncated (op t): all its older rows "
            "are gone, and the target still has them. The run stops before this event."
        )
        hint = (
            "If the target merges changes, declare `on_truncate: follow` for this source, which "
            "removes them in order, and run `hybrid resume P`. If it appends, in this order: "
            f"{NEW_START}."
        )
        raise InputError(message, hint, table=self._table, value="t")

    def _check_table(self, origin: Mapping[str, Any]) -> None:
        """Refuse a Debezium change of another table than the declared one.

        Raises:
            BadValue: It is of another table, or of none.
        """
        parts = (origin.get("schema") or origin.get("db"), origin.get("table"))
        table = ".".join(str(part) for part in parts if part)
        if table != self._table:
            of = f"table `{table}`" if table else "no table"
            reason = (
                f"the change is of {of}, not of `{self._table}`, which the source "
                "declares in `table`: correct `table` or `topic`, or let the connector write each "
                "table to a topic of its own"
            )
            raise BadValue(reason)

    def _check_columns(
        self,
        row: Mapping[str, Any],
        encodings: Mapping[str, Encoding],
        origin: Mapping[str, Any],
    ) -> None:
        """Refuse a change whose row has undeclared columns, or lacks declared ones.

        Raises:
            InputError: Contains the columns, and what to declare.
        """
        if row.keys() <= self._known and row.keys() >= self._required:
            return
        new = [name for name in row if name not in self._known]
        missing = sorted((self._required | (self._added if new else set())) - row.keys())
        table = ChangedTable(self._table, encodings, origin, NEW_START)
        raise changed_columns(table, new, missing, [name for name in row if name in self._known])

    def _check_encodings(
        self, encodings: Mapping[str, Encoding], origin: Mapping[str, Any]
    ) -> None:
        """Refuse an added column without a declared default if the envelope's schema has one.

        And a column whose values would be rounded.

        Raises:
            InputError: Contains the default, and the SQL that finds what older rows hold; or the
                column that was widened.
        """
        for name in self._floats:
            # MariaDB's `float(M,D)` is a double in the schema: only the values show which it is.
            is_sure = origin.get("connector") == "postgresql"
            if is_sure and encodings.get(name, NO_ENCODING).kind == "double":
                raise widened_column(self._table, name, "float", "a double", NEW_START)
        for name in self._without_default:
            default = encodings.get(name, NO_ENCODING).default
            if default is not None:
                message = (
                    f"Column `{name}` of table `{self._table}` has a default "
                    f"({short_repr(default)} as Debezium reports it, which knows constants only), "
                    "and `added_columns` declares none: rows from before the column was added may "
                    "hold that default in the database, and would get null in the target."
                )
                hint = (
                    "Look up what these rows hold: "
                    f"{where_defaults_are(self._table, [name], origin)}. "
                    "Declare it: "
                    f"`added_columns: {{{name}: {{type: …, default: …}}}}`, with `null` if they "
                    "hold none. Then run `hybrid resume P`."
                )
                raise InputError(message, hint, table=self._table, column=name)
        self._checked = encodings

    def _column(
        self,
        name: str,
        row: Mapping[str, Any],
        encodings: Mapping[str, Encoding],
        read: Callable[[Any, Encoding], Any],
    ) -> Any:
        """Convert one column of a change's row; if the row lacks it, return its declared default.

        Raises:
            BadValue: It can't be converted.
            InputError: Its number does not fit the column, and wider types are followed.
        """
        raw = row.get(name)
        if raw is None:
            return None if name in row else self._defaults.get(name)
        value = None
        try:
            encoding = encodings.get(name, NO_ENCODING)
            value = read(raw, encoding)
            if type(value) is int and (kind := self._integers.get(name)) is not None:
                require_integer(value, kind, encoding)
            elif name in self._floats and encoding.kind == "double" and not _is_float(value):
                raise widened_column(self._table, name, "float", str(value), NEW_START)
            elif name in self._were_floats and encoding.kind == "float" and type(value) is float:
                value = struct.unpack("f", struct.pack("f", value))[0]
            elif value is not None and self._follows and (fits := self._decimals.get(name)):
                fits(value)
            return value
        except BadValue as error:
            if self._follows and type(value) in (int, Decimal):
                shown = short_repr(value) if type(value) is int else str(value)
                raise widened_column(
                    self._table, name, self._kinds[name], shown, NEW_START
                ) from None
            reason = f"`{name}`: {error}"
            raise BadValue(reason) from None


def _is_float(value: Any) -> bool:
    """Return whether a number of 32 bits is this one, exactly or in its shortest digits."""
    if type(value) is not float or not math.isfinite(value):
        return True
    try:
        narrow = np.float32(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return False
    return value in (float(narrow), float(str(narrow)))


def _committed_at(_: Mapping[str, Any], origin: Mapping[str, Any]) -> datetime | None:
    """Return the time at which the database committed the change; None if the envelope lacks it."""
    commit_ms = origin.get("ts_ms")
    return None if commit_ms is None else EPOCH + timedelta(milliseconds=commit_ms)


_PARTS: dict[EnvelopePart, Callable[[Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "op": lambda envelope, _: envelope["op"],
    "deleted": lambda envelope, _: envelope["op"] in ("d", "t"),
    "position": position,
    "lsn": lambda _, origin: origin.get("lsn"),
    # Rows of a snapshot have the id of the reading transaction, which changed nothing.
    "transaction": lambda envelope, origin: None if envelope["op"] == "r" else origin.get("txId"),
    "committed_at": _committed_at,
}
