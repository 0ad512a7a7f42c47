"""Declaration of a topic's columns: `schema`, `select`, and `include` of keys or metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import pyarrow as pa
from pydantic import Field

from sources.common.fields import Columns, Declared
from sources.common.schema import parse_schema, parse_type, type_name
from sources.errors import InputError

RecordPart = Literal["key", "headers", "timestamp", "topic", "partition", "offset", "tombstone"]
"""Parts of a Kafka record other than its value; ``tombstone`` is whether it has none."""
EnvelopePart = Literal[
    "op", "deleted", "position", "lsn", "transaction", "committed_at", "unchanged"
]
"""Parts of a Debezium envelope other than the row (:mod:`sources.decoding.changes`)."""
Included = Literal[RecordPart, EnvelopePart]
"""All parts that ``include`` may name."""
# Types that a column of each part may have; the first is the default.
_PART_TYPES: dict[Included, list[str]] = {
    "key": ["binary", "string"],
    "headers": ["array<struct<key:string,value:binary>>"],
    "timestamp": ["timestamp"],
    "topic": ["string"],
    "partition": ["int"],
    "offset": ["bigint"],
    "tombstone": ["boolean"],
    "op": ["string"],
    "deleted": ["boolean"],
    "position": ["string"],
    "lsn": ["bigint"],
    "transaction": ["bigint"],
    "committed_at": ["timestamp"],
    # By column: the position of the change that its value is of; null as a change arrives.
    "unchanged": ["map<string,string>"],
}


class RecordColumns(Declared):
    """Part of a topic's declaration: columns, and what fills them.

    Attributes:
        columns: All columns of a row and their Spark SQL types; those of the preceding source if
            left out. Fields of a value that are not columns are ignored. Required by ``select``.
        include: Columns that are filled from the record rather than from its value, by name: its
            key (binary, or a string if declared so), headers, timestamp, topic, partition, offset,
            or tombstone (whether the record has no value; for `sink.deleted`). Or, with Debezium,
            from a change's envelope: op, deleted, position, lsn, transaction, committed_at, or
            unchanged (a map whose keys are the columns with a long value that an update left as it
            was, so that the log lacks it; for `sink.unchanged`).
        select: Columns as Spark SQL expressions over those above; all as they are if left out.
            ``CAST(… AS <type>)`` around an expression declares its type.
    """

    columns: Columns | None = Field(default=None, alias="schema")
    include: dict[str, Included] = Field(default_factory=dict)
    select: dict[str, str] = Field(default_factory=dict)

    @property
    def included_types(self) -> dict[str, str]:
        """Spark SQL types of the columns of ``include`` by default; ``schema`` may give others.

        By name of the column; empty without ``include``.
        """
        return {name: _PART_TYPES[what][0] for name, what in self.include.items()}

    @property
    def record_columns(self) -> dict[str, RecordPart]:
        """Columns filled from a record's key or metadata: the part (``offset`` …) by column.

        Computed from ``include``; empty if it names no such part.
        """
        parts: dict[str, RecordPart] = {part: part for part in get_args(RecordPart)}
        return {name: parts[what] for name, what in self.include.items() if what in parts}

    @property
    def envelope_columns(self) -> dict[str, EnvelopePart]:
        """Columns filled from a Debezium envelope: the part, such as ``op``, by column.

        Computed from ``include``; empty if it names no such part.
        """
        parts: dict[str, EnvelopePart] = {part: part for part in get_args(EnvelopePart)}
        return {name: parts[what] for name, what in self.include.items() if what in parts}

    def envelope_column(self, part: EnvelopePart) -> str | None:
        """Return the column that ``include`` fills from a part of Debezium's envelope; else None.

        Args:
            part: Part of the envelope, such as ``position``.
        """
        return next((name for name, what in self.envelope_columns.items() if what == part), None)

    @property
    def position_columns(self) -> list[str]:
        """Columns that hold the log position of a change; usually one or none."""
        return [name for name, part in self.envelope_columns.items() if part == "position"]

    def value_schema(self, columns: Mapping[str, str]) -> pa.Schema:
        """Return the columns that a record's value or envelope fills, as an Arrow schema.

        Without those that key or metadata of the record fill.

        Args:
            columns: All columns of a row and their Spark SQL types.

        Raises:
            InputError: A type is not known.
        """
        others = self.record_columns
        return parse_schema({n: kind for n, kind in columns.items() if n not in others})

    def check_included(self, columns: Mapping[str, str]) -> None:
        """Refuse columns whose declared type is not that of the part which ``include`` names.

        Columns of ``include`` that are not among them pass.

        Args:
            columns: All columns of a row and their Spark SQL types.

        Raises:
            InputError: Contains the column and both types.
        """
        for name, part in self.include.items():
            types = _PART_TYPES[part]
            if name in columns and type_name(parse_type(columns[name])) not in types:
                message = (
                    f"`include.{name}: {part}` is of type {' or '.join(types)}, but there is a "
                    f"column `{name}` of type {columns[name]}."
                )
                hint = f"Rename one of them, or declare column `{name}` as {' or '.join(types)}."
                raise InputError(message, hint, field=f"include.{name}", column=name)
