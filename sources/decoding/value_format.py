"""Declaration of how the records of a Kafka topic become rows: format, schema, metadata."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, get_args

import pyarrow as pa
from pydantic import Field, model_validator

from sources.common.fields import Columns, Declared
from sources.common.schema import parse_schema, parse_type, type_name
from sources.decoding.changes.added_columns import AddedColumnOrType, types_of
from sources.decoding.changes.renamed_columns import NewNames, all_names, check_renamed
from sources.decoding.changes.widened_columns import is_widened, widened
from sources.decoding.schema_registry import Registry
from sources.errors import InputError

RecordPart = Literal["key", "headers", "timestamp", "topic", "partition", "offset"]
"""Parts of a Kafka record other than its value."""
EnvelopePart = Literal[
    "op", "deleted", "position", "lsn", "transaction", "committed_at", "unchanged"
]
"""Parts of a Debezium envelope other than the row (:mod:`sources.decoding.changes.reader`)."""
Included = Literal[RecordPart, EnvelopePart]
RAW_COLUMN = "value"
# Types that a column of each part may have; the first is the default.
_PART_TYPES: dict[Included, list[str]] = {
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
    # By column: the position of the change that its value is of; null as a change arrives.
    "unchanged": ["map<string,string>"],
}
_FORMATS_OF_FIELD = {
    "avro_schema": ("avro",),
    "registry": ("avro", "debezium"),
    "descriptor": ("protobuf",),
    "message": ("protobuf",),
    "wire_format": ("protobuf",),
    "table": ("debezium",),
    "ignored_columns": ("debezium",),
    "added_columns": ("debezium",),
    "dropped_columns": ("debezium",),
    "widened_columns": ("debezium",),
    "renamed_columns": ("debezium",),
    "on_truncate": ("debezium",),
    "on_schema_change": ("debezium",),
}


class ValueFormat(Declared):
    """Part of a topic's declaration: how its records become rows.

    Attributes:
        format: Encoding of a record's value; ``raw`` keeps the bytes, in a column ``value``.
        columns: All columns of a row and their Spark SQL types; those of the preceding source if
            left out. Fields of a value that are not columns are ignored. Required by ``select``.
        include: Columns that are filled from the record rather than from its value, by name: its
            key (binary, or a string if declared so), headers, timestamp, topic, partition or
            offset. Or, with Debezium, from a change's envelope: op, deleted, position, lsn,
            transaction, committed_at, or unchanged (a map whose keys are the columns with a long
            value that an update left as it was, so that the log lacks it; for `sink.unchanged`).
        select: Columns as Spark SQL expressions over those above; all as they are if left out.
            ``CAST(… AS <type>)`` around an expression declares its type.
        avro_schema: Avro: file with the schema of all values, which carry no schema id. Relative to
            the pipeline's file.
        registry: Avro: the schema registry of the ids in front of the values, instead of
            ``avro_schema``. Debezium: the same, where envelopes are Avro rather than JSON.
        descriptor: Protobuf: file with the message's ``FileDescriptorSet``, imports included
            (``protoc --include_imports -o``). Relative to the pipeline's file.
        message: Protobuf: full name of the message type, with its package.
        wire_format: Protobuf: ``confluent`` if values are in Confluent's wire format, with a schema
            id in front; ``plain`` or left out if not.
        table: Debezium: the table that the changes are of, ``schema.table``; for MySQL
            ``database.table``.
        ignored_columns: Debezium: columns of the table that are left out. A column that is neither
            here nor in the ``schema`` was added later, and stops the run.
        added_columns: Debezium: columns that the table got after the ``schema`` was written, by
            name: a type, or ``{type: …, default: …}``. May be declared while a generation is in
            use: the target gets the columns, and its older rows the defaults.
        dropped_columns: Debezium: declared columns that the table no longer has; null in changes
            without them. May be declared while a generation is in use.
        widened_columns: Debezium: new types of columns that the table has widened after the
            ``schema`` was written, by name, such as ``{amount: "decimal(14,2)"}``: integers to
            wider ones, ``float`` to ``double``, decimals to ones with as many or more digits before
            and after the point. May be declared while a generation is in use: the target is
            rewritten with the new type, in one commit. No columns of ``sink.key``.
        renamed_columns: Debezium: new names of columns that the table has renamed after the
            ``schema`` was written, by the name there, such as ``{name: full_name}``; a list, the
            newest last, of a column that was renamed several times. The target keeps the name of
            the ``schema``. May be declared while a generation is in use.
        on_truncate: Debezium: what a TRUNCATE of the table does: ``stop`` ends the run before it,
            ``follow`` removes all older rows from a target that merges changes. ``stop`` by
            default. May be declared while a generation is in use.
        on_schema_change: Debezium: what a column does that the table got, or whose type it has
            widened: ``stop`` ends the run before the first such change, and names what to declare;
            ``follow`` adds the column to the target in place, with the type and the default that
            the database has for it, or widens it, and stops where that can't be exact. ``stop`` by
            default. Needs a source with a ``snapshot`` before it, and a sink that merges changes.
            May be declared while a generation is in use.
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
    added_columns: dict[str, AddedColumnOrType] | None = None
    dropped_columns: list[str] | None = None
    widened_columns: Columns | None = None
    renamed_columns: dict[str, NewNames] | None = None
    on_truncate: Literal["stop", "follow"] | None = None
    on_schema_change: Literal["stop", "follow"] | None = None

    @model_validator(mode="after")
    def _fields_match_the_format(self) -> ValueFormat:
        for name, formats in _FORMATS_OF_FIELD.items():
            if getattr(self, name) is not None and self.format not in formats:
                allowed = " or ".join(f"`format: {each}`" for each in formats)
                message = (
                    f"`{name}` has no meaning with `format: {self.format}`. Remove it, or declare "
                    f"{allowed}."
                )
                raise ValueError(message)
        if self.format == "avro" and (self.avro_schema is None) == (self.registry is None):
            both = self.avro_schema is not None
            message = (
                "`format: avro` needs either `avro_schema` or `registry`; "
                f"{'both are' if both else 'neither is'} declared. Declare `registry` if each "
                "value has a schema id in front, and `avro_schema` if one schema is that of all "
                "values."
            )
            raise ValueError(message)
        if self.format == "protobuf" and (self.descriptor is None or self.message is None):
            message = (
                "`format: protobuf` needs `descriptor` and `message`: the file of a "
                "FileDescriptorSet (`protoc --include_imports -o`) and the full name of the "
                "message type, such as `shop.Order`. Declare both."
            )
            raise ValueError(message)
        if self.format == "debezium":
            self._check_changes()
        elif self.envelope_columns:
            name, what = next(iter(self.envelope_columns.items()))
            message = (
                f"`include.{name}: {what}` is available with `format: debezium` only; here it is "
                f"`format: {self.format}`. Remove it, or name a part of the Kafka record: "
                f"{', '.join(get_args(RecordPart))}."
            )
            raise ValueError(message)
        return self

    def _check_changes(self) -> None:
        if self.columns is None or self.table is None:
            missing = "schema" if self.columns is None else "table"
            message = (
                "`format: debezium` needs a `schema`, and the `table`, such as `public.orders`. "
                f"Declare `{missing}`."
            )
            raise ValueError(message)
        known = set(self.columns) - set(self.include)
        for name in self.dropped_columns or []:
            if name not in known and name not in (self.added_columns or {}):
                message = (
                    f"`dropped_columns`: no column `{name}` is declared in the `schema`. Correct "
                    f"the name, or remove it; the declared columns are {', '.join(sorted(known))}."
                )
                raise ValueError(message)
        if self.select and self.on_truncate == "follow":
            message = (
                "`on_truncate: follow` has no meaning with `select`, which may leave out the event "
                "or give it a key. Remove one of the two."
            )
            raise ValueError(message)
        if self.select and self.on_schema_change == "follow":
            message = (
                "`on_schema_change: follow` has no meaning with `select`, which defines all "
                "columns. Remove one of the two."
            )
            raise ValueError(message)
        if self.select and self.envelope_column("unchanged") is not None:
            message = (
                f"`include.{self.envelope_column('unchanged')}: unchanged` has no meaning with "
                "`select`, which may compute columns from a value that the change lacks. Remove "
                "one of the two."
            )
            raise ValueError(message)
        if self.added_columns and self.select:
            message = (
                "`added_columns` has no meaning with `select`, which defines all columns. Remove "
                "`added_columns`, or remove `select`."
            )
            raise ValueError(message)
        for name in self.added_columns or {}:
            if name in known or name in self.include:
                message = (
                    f"`added_columns`: there is a column `{name}` already, in `schema` or "
                    "`include`. Remove it in one of the two places."
                )
                raise ValueError(message)
        self._check_widened(known)
        taken = {*self.columns, *self.include, *(self.added_columns or {})}
        ignored = self.ignored_columns or []
        check_renamed(self.renamed_columns or {}, known, {*taken, *ignored})
        for name in self.ignored_columns or []:
            if name in known or name in (self.added_columns or {}):
                message = (
                    f"`ignored_columns`: column `{name}` is declared, so it can't be ignored. "
                    "Remove it there, or from `schema` and `added_columns`."
                )
                raise ValueError(message)

    def _check_widened(self, known: Collection[str]) -> None:
        """Refuse wider types of what is no column of the table, or that are no wider ones."""
        types = self.columns or {}
        for name, kind in (self.widened_columns or {}).items():
            if self.select:
                message = (
                    "`widened_columns` has no meaning with `select`, which defines all columns. "
                    "Remove one of the two."
                )
                raise ValueError(message)
            if name not in known:
                message = (
                    f"`widened_columns`: no column `{name}` is declared in the `schema`. Correct "
                    f"the name, or remove it; the declared columns are {', '.join(sorted(known))}."
                )
                raise ValueError(message)
            if not is_widened(types[name], kind):
                message = (
                    f"`widened_columns`: {kind} does not hold every {types[name]}, the type of "
                    f"column `{name}` in the `schema`. Correct it; another type needs a new "
                    "generation with a new snapshot."
                )
                raise ValueError(message)

    @model_validator(mode="after")
    def _included_columns_do_not_clash(self) -> ValueFormat:
        if self.columns is not None:
            self._check_included(self.columns)
        if self.format == "raw":
            if RAW_COLUMN in self.include:
                message = (
                    f"`include.{RAW_COLUMN}`: `format: raw` has a column of this name, the "
                    "record's bytes. Choose another name for the included column."
                )
                raise ValueError(message)
            schema = self.value_schema(self.columns or {RAW_COLUMN: "binary"})
            if schema != parse_schema({RAW_COLUMN: "binary"}):
                message = (
                    f"`format: raw` has one column next to those of `include`. Declare `schema: "
                    f"{{{RAW_COLUMN}: binary}}`, or leave `schema` out."
                )
                raise ValueError(message)
        return self

    @property
    def declared_columns(self) -> dict[str, str] | None:
        """All declared columns of a row and their Spark SQL types, those of ``include`` first.

        Computed; None if none are declared, so that those of the preceding source apply.
        """
        columns = self.columns or ({RAW_COLUMN: "binary"} if self.format == "raw" else None)
        if columns is None:
            return None
        return {**{name: _PART_TYPES[what][0] for name, what in self.include.items()}, **columns}

    def columns_after(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return all columns of a row and their Spark SQL types.

        Args:
            before: Columns of the preceding source, used if this one declares none; empty if it is
                the first source.

        Raises:
            InputError: A column of ``include`` is not among them, or has another type.
        """
        if (declared := self.declared_columns) is not None:
            return declared
        for name in self.include:
            if name not in before:
                message = f"`include.{name}`: the preceding source has no column `{name}`."
                hint = (
                    f"Name one of its columns ({', '.join(before)}), or declare all columns of "
                    "this source in `schema`."
                )
                if not before:
                    hint = "Declare all columns of this source in `schema`."
                raise InputError(message, hint, field=f"include.{name}", column=name)
        self._check_included(before)
        return dict(before)

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

    @property
    def added_types(self) -> dict[str, str]:
        """Spark SQL types of the columns in ``added_columns``, by name; computed, may be empty."""
        return types_of(self.added_columns or {})

    def current(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return columns as the captured table has them now: with those that were added, widened.

        Args:
            columns: Names and Spark SQL types of the columns as the generation began.
        """
        return {**widened(columns, self.widened_columns), **self.added_types}

    def name_in_table(self, column: str) -> str:
        """Return the name that the captured table has now for a column of the ``schema``."""
        return all_names((self.renamed_columns or {}).get(column, column))[-1]

    def envelope_column(self, part: EnvelopePart) -> str | None:
        """Return the column that ``include`` fills from an envelope part; None if there is none."""
        return next((name for name, what in self.envelope_columns.items() if what == part), None)

    @property
    def value_columns(self) -> dict[str, str]:
        """Declared columns that are filled from a record's value, and their Spark SQL types.

        Computed; empty if no columns are declared, so that those of the preceding source apply.
        """
        columns = self.declared_columns or {}
        return {name: kind for name, kind in columns.items() if name not in self.include}

    def value_schema(self, columns: Mapping[str, str]) -> pa.Schema:
        """Return the Arrow schema of the columns that are decoded from a record's value.

        Args:
            columns: All columns of a row, as :meth:`columns_after` returns them.
        """
        others = self.record_columns
        return parse_schema({n: kind for n, kind in columns.items() if n not in others})

    def checkpoint_contract(self) -> dict[str, object]:
        """Return the settings that must not change while a streaming checkpoint is in use.

        They decide what a record means: rows from before and after a change would not agree. The
        caller compares them with those that were recorded when the checkpoint began. Empty for
        plain JSON.
        """
        settings = self.model_dump(
            mode="json",
            include={"include", "message", "select", "table", "wire_format"},
            exclude_defaults=True,
        )
        return {**settings, "framed": True} if self.registry is not None else settings

    def values_located(self, locate: Callable[[str], str]) -> dict[str, object]:
        """Return this declaration's fields that hold paths, with the paths made absolute.

        Args:
            locate: Makes a path absolute that is relative to the pipeline's file.
        """
        changes: dict[str, object] = {
            name: locate(path)
            for name in ("avro_schema", "descriptor")
            if (path := getattr(self, name)) is not None
        }
        if self.registry is not None:
            changes["registry"] = self.registry.located(locate)
        return changes

    def _check_included(self, columns: Mapping[str, str]) -> None:
        """Refuse columns whose declared type is not that of the part that fills them.

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
                hint = (
                    f"Give one of them another name, or declare column `{name}` as "
                    f"{' or '.join(types)}."
                )
                raise InputError(message, hint, field=f"include.{name}", column=name)
