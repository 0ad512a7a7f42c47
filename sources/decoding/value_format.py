"""How the records of a topic become rows: the part of a source's declaration that is about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

import pyarrow as pa
from pydantic import Field, model_validator

from sources.common.fields import Columns, Declared
from sources.common.schema import parse_schema, parse_type, type_name
from sources.decoding.added_columns import Added, types_of
from sources.decoding.schema_registry import Registry
from sources.errors import InputError

RecordPart = Literal["key", "headers", "timestamp", "topic", "partition", "offset"]
"""What a record tells beside its value."""
EnvelopePart = Literal["op", "deleted", "position", "lsn", "transaction", "committed_at"]
"""What a change's envelope tells beside the row (:mod:`sources.decoding.debezium`)."""
Included = Literal[RecordPart, EnvelopePart]
RAW_COLUMN = "value"
# The first type is the one meant where none is declared.
_TYPES: dict[Included, list[str]] = {
    "key": ["binary", "string"],
    "headers": ["array<struct<key:string,value:binary>>"],
    "timestamp": ["timestamp"],
    "topic": ["string"],
    "partition": ["int"],
    "offset": ["bigint"],
    "op": ["string"],
    "deleted": ["boolean"],
    "position": ["string"],
    "lsn": ["bigint"],
    "transaction": ["bigint"],
    "committed_at": ["timestamp"],
}
_OWNERS = {
    "avro_schema": ("avro",),
    "registry": ("avro", "debezium"),
    "descriptor": ("protobuf",),
    "message": ("protobuf",),
    "wire_format": ("protobuf",),
    "table": ("debezium",),
    "ignored_columns": ("debezium",),
    "added_columns": ("debezium",),
    "dropped_columns": ("debezium",),
}


class Values(Declared):
    """The part of a topic's declaration that is about what its records hold.

    Attributes:
        format: How a record's value is written; ``raw`` leaves it as it is, in a column ``value``.
        columns: All columns of a row and their Spark SQL types; those of the source before, if
            left out. Fields of a value that are no columns are passed over. Needed by ``select``.
        include: Columns that are filled from the record itself rather than from its value: its
            key (binary, or a string if declared so), headers, timestamp, topic, partition, offset.
            Or from a change's envelope: op, deleted, position, lsn, transaction, committed_at.
        select: Columns as Spark SQL expressions of those above; all as they are, if left out.
            ``CAST(… AS <type>)`` around an expression tells its type.
        avro_schema: Avro: file with the schema of all values, which have no frame. Relative to the
            pipeline's file.
        registry: Avro, instead: the schema registry that the ids in front of the values refer to.
            Debezium: the same, where its envelopes are in Avro rather than in JSON.
        descriptor: Protobuf: file with the message's ``FileDescriptorSet``, imports included
            (``protoc --include_imports -o``). Relative to the pipeline's file.
        message: Protobuf: the full name of the message.
        wire_format: Protobuf: ``confluent`` where a registry's frame is in front of the values.
        table: Debezium: the table whose changes these are, ``schema.table``; of MySQL
            ``database.table``.
        ignored_columns: Debezium: columns of the table that no column here is made of. One that is
            neither here nor in the ``schema`` stops the run: it was added.
        added_columns: Debezium: columns beside those of the ``schema`` that the table got later, by
            name: a type, or ``{type: …, default: …}``. They may be declared while a generation is
            in use; the target gets them, and its rows the default.
        dropped_columns: Debezium: declared columns that the table no longer has; null in changes
            without them. Likewise.

    """

    format: Literal["json", "avro", "protobuf", "debezium", "raw"] = "json"
    columns: Columns | None = Field(default=None, alias="schema")
    include: dict[str, Included] = Field(default_factory=dict)
    select: dict[str, str] = Field(default_factory=dict)
    avro_schema: str | None = None
    registry: Registry | None = None
    descriptor: str | None = None
    message: str | None = None
    wire_format: Literal["plain", "confluent"] | None = None
    table: str | None = None
    ignored_columns: list[str] | None = None
    added_columns: dict[str, Added] | None = None
    dropped_columns: list[str] | None = None

    @model_validator(mode="after")
    def _format_has_what_it_needs(self) -> Values:
        for name, owners in _OWNERS.items():
            if getattr(self, name) is not None and self.format not in owners:
                message = f"`{name}` has no meaning with `format: {self.format}`"
                raise ValueError(message)
        if self.format == "avro" and (self.avro_schema is None) == (self.registry is None):
            message = "`format: avro` needs either `avro_schema` or `registry`"
            raise ValueError(message)
        if self.format == "protobuf" and (self.descriptor is None or self.message is None):
            message = "`format: protobuf` needs `descriptor` and `message`"
            raise ValueError(message)
        if self.format == "debezium":
            self._check_changes()
        elif self.of_envelope:
            name, what = next(iter(self.of_envelope.items()))
            message = f"`include.{name}: {what}` is told by `format: debezium` only"
            raise ValueError(message)
        return self

    def _check_changes(self) -> None:
        if self.columns is None or self.table is None:
            message = "`format: debezium` needs a `schema` and the `table`, as in `public.orders`"
            raise ValueError(message)
        known = set(self.columns) - set(self.include)
        for name in self.dropped_columns or []:
            if name not in known and name not in (self.added_columns or {}):
                message = f"`dropped_columns`: no column `{name}` is declared"
                raise ValueError(message)
        if self.added_columns and self.select:
            message = "`added_columns` has no meaning with `select`, which makes all columns"
            raise ValueError(message)
        for name in self.added_columns or {}:
            if name in known or name in self.include:
                message = f"`added_columns`: there is a column `{name}` already"
                raise ValueError(message)
        for name in self.ignored_columns or []:
            if name in known or name in (self.added_columns or {}):
                message = f"`ignored_columns`: the column `{name}` is declared"
                raise ValueError(message)

    @model_validator(mode="after")
    def _included_columns_do_not_clash(self) -> Values:
        if self.columns is not None:
            self._check_included(self.columns)
        if self.format == "raw":
            if RAW_COLUMN in self.include:
                message = f"`include.{RAW_COLUMN}`: `format: raw` has a column of this name"
                raise ValueError(message)
            of_value = self.of_value(self.columns or {RAW_COLUMN: "binary"})
            if of_value != parse_schema({RAW_COLUMN: "binary"}):
                message = f"`format: raw` gives one column, `{RAW_COLUMN}: binary`, to the `schema`"
                raise ValueError(message)
        return self

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """All columns of a row, those of ``include`` too; None if the source before tells them."""
        columns = self.columns or ({RAW_COLUMN: "binary"} if self.format == "raw" else None)
        if columns is None:
            return None
        return {**{name: _TYPES[what][0] for name, what in self.include.items()}, **columns}

    def columns_after(self, before: Mapping[str, str]) -> dict[str, str]:
        """All columns of a row.

        Args:
            before: Those of the source before, where there is one.

        Raises:
            InputError: ``include`` does not fit them.
        """
        if (declared := self.declared_columns) is not None:
            return declared
        for name in self.include:
            if name not in before:
                message = f"`include.{name}`: the source before has no column `{name}`."
                raise InputError(message, f"It has {', '.join(before)}.")
        self._check_included(before)
        return dict(before)

    @property
    def of_record(self) -> dict[str, RecordPart]:
        """Columns that are filled from what a record tells beside its value."""
        parts: dict[str, RecordPart] = {part: part for part in get_args(RecordPart)}
        return {name: parts[what] for name, what in self.include.items() if what in parts}

    @property
    def of_envelope(self) -> dict[str, EnvelopePart]:
        """Columns that are filled from what an envelope tells beside the row."""
        parts: dict[str, EnvelopePart] = {part: part for part in get_args(EnvelopePart)}
        return {name: parts[what] for name, what in self.include.items() if what in parts}

    @property
    def added_types(self) -> dict[str, str]:
        """Columns that the table got later, and their Spark SQL types."""
        return types_of(self.added_columns or {})

    def envelope_column(self, part: EnvelopePart) -> str | None:
        """The column that a part of the envelope fills; None if nobody asked for it."""
        return next((name for name, what in self.of_envelope.items() if what == part), None)

    @property
    def value_columns(self) -> dict[str, str]:
        """Declared columns that ``include`` does not fill; none if the source before tells them."""
        columns = self.declared_columns or {}
        return {name: kind for name, kind in columns.items() if name not in self.include}

    def of_value(self, columns: Mapping[str, str]) -> pa.Schema:
        """Those of all columns that are filled from a record's value, its envelope included."""
        beside = self.of_record
        return parse_schema({n: kind for n, kind in columns.items() if n not in beside})

    def meaning(self) -> dict[str, object]:
        """What of this may not change while a checkpoint is in use; empty for plain JSON."""
        told = self.model_dump(
            mode="json",
            include={"include", "message", "select", "table", "wire_format"},
            exclude_defaults=True,
        )
        return {**told, "framed": True} if self.registry is not None else told

    def values_located(self, locate: Callable[[str], str]) -> dict[str, object]:
        """The changes that make the paths of files absolute."""
        changes: dict[str, object] = {
            name: locate(path)
            for name in ("avro_schema", "descriptor")
            if (path := getattr(self, name)) is not None
        }
        if self.registry is not None:
            changes["registry"] = self.registry.located(locate)
        return changes

    def _check_included(self, columns: Mapping[str, str]) -> None:
        for name, what in self.include.items():
            kinds = _TYPES[what]
            if name in columns and type_name(parse_type(columns[name])) not in kinds:
                message = (
                    f"`include.{name}: {what}` is of type {' or '.join(kinds)}, but there is a "
                    f"column `{name}` of type {columns[name]}."
                )
                raise InputError(message, "Give one of them another name.")
