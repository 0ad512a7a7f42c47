"""Captured table as it is declared: key, columns that must be there, chunks; what readers offer.

A kind is an extension of its own; :func:`hybrid_extensions.cdc.databases.kinds.access_to` chooses
it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.table_definition import TableDefinition
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import SnapshotOptions
from sources.config.table.sink import Sink
from sources.decoding.changes.added_columns import AddedColumn
from sources.errors import InputError


class Misfit(Exception):  # noqa: N818 - a verdict on data, as `KeyError` is not
    """Error that values of a database column do not have its declared type; names the column."""


class UnknownDefault(Exception):  # noqa: N818 - a verdict on data, as `KeyError` is not
    """Error: what a change of columns did to older rows can't be known; the text says why."""


class NewColumns(NamedTuple):
    """Question to a database about columns that its captured table got later.

    Attributes:
        options: How the database is reached.
        source: The topic of the changes; for MariaDB its brokers also have the reported statements.
        connector: Name of the connector in its changes, which is the prefix of its topics.
        names: Names of the new columns.
        known: Names of the columns that the table had before.
        renamed: Names that columns in ``known`` have got since.
        snapshot: What the snapshot contains; None if it is not known.
        definition: The table in the catalog at the snapshot; None if that is not known.
    """

    options: SnapshotOptions
    source: KafkaSource
    connector: str
    names: Collection[str]
    known: Collection[str]
    renamed: Collection[str]
    snapshot: DatabaseSnapshot | None
    definition: TableDefinition | None = None

    @property
    def table(self) -> str:
        """Name of the table, ``schema.table`` or ``database.table``."""
        assert self.source.changes is not None  # only such a topic tells of new columns
        return self.source.changes.table


class GoneColumns(NamedTuple):
    """Question about columns that a change of a captured table lacks, for its database.

    Columns are named as in the ``schema``; their names in the table are those known so far.

    Attributes:
        new: The columns that the change has and nothing declares, and how the database is reached.
        gone: Names in the table of the columns that it lacks.
        present: Names in the table of the declared columns that it has.
        position: Position of the change in the database's log; None if that is not known.
    """

    new: NewColumns
    gone: Mapping[str, str]
    present: Mapping[str, str]
    position: str | None


class QueryError(Exception):
    """The database refused a query, or the connection was lost; the text is the driver's.

    Args:
        text: The driver's message.
        is_connection_lost: Whether the connection or the server is gone, so that waiting may help.

    Attributes:
        is_connection_lost: The same.
    """

    def __init__(self, text: str, *, is_connection_lost: bool) -> None:
        super().__init__(text)
        self.is_connection_lost = is_connection_lost


class DatabaseTable(NamedTuple):
    """A table found in a database, as a pipeline that captures it would declare it.

    Attributes:
        name: ``schema.table``, or ``database.table``.
        columns: Spark SQL type by name of the column.
        key: Columns of its primary key; empty without one.
        left_out: Columns that can't be captured, by name, and why, as a phrase.
        is_partitioned: Whether it has partitions.
    """

    name: str
    columns: dict[str, str]
    key: list[str]
    left_out: dict[str, str]
    is_partitioned: bool = False

    def type_of(self, column: str) -> str:
        """Return the Spark SQL type of a column that was added to the captured table.

        Names are case-sensitive.

        Raises:
            UnknownDefault: The table no longer has the column, or it can't be captured.
        """
        if (kind := self.columns.get(column)) is None:
            reason = f"`{column}` can't be added: "
            reason += self.left_out.get(column, "the table no longer has it")
            raise UnknownDefault(reason)
        return kind


def added_column(name: str, kind: str, default: bool | int | float | str | None) -> AddedColumn:
    """Make the declaration of a column that was added to a captured table.

    Args:
        name: Its name.
        kind: Its Spark SQL type.
        default: Value of the column in older rows; None for null.

    Raises:
        UnknownDefault: The default does not fit the type, such as ``infinity``.
    """
    try:
        return AddedColumn(type=kind, default=default)
    except ValueError:
        reason = f"the default of `{name}`, {default}, can't be stored as {kind}"
        raise UnknownDefault(reason) from None


def require_key(table: DatabaseTable) -> Sequence[str]:
    """Return the columns of a table's primary key; refuse a table without one.

    Raises:
        InputError: It has none, or a column of it can't be captured.
    """
    lacking = [name for name in table.key if name not in table.columns]
    if table.key and not lacking:
        return table.key
    what, way = "no primary key", f"Run `ALTER TABLE {table.name} ADD PRIMARY KEY (…)`"
    if lacking:
        why = table.left_out.get(lacking[0], "it is not captured")
        what = f"the key column `{lacking[0]}`, which can't be captured ({why})"
        way = "Let the table have a primary key of other columns"
    message = f"Table `{table.name}` has {what}, so its changes can't be merged."
    hint = (
        f"{way}; or keep every change of it, with a pipeline written by hand: docs/cdc.md, `mode: "
        "append`."
    )
    raise InputError(message, hint, table=table.name)


class Exported(NamedTuple):
    """Database snapshot in which several tables are read, at one point in time.

    Attributes:
        snapshot: Which changes it contains.
        name: PostgreSQL: name by which other sessions use it.
        sessions: MariaDB and MySQL: connections whose transactions all see this snapshot, which
            other sessions can't use.
    """

    snapshot: DatabaseSnapshot
    name: str = ""
    sessions: Sequence[Any] = ()


@dataclass(frozen=True)
class CapturedTable:
    """Database table whose snapshot is taken or which is inspected, as the pipeline declares it.

    Attributes:
        source: Name of the file source with the ``snapshot``, for messages.
        name: Name of the table, ``schema.table``.
        options: The declared ``snapshot``: how the database is reached.
        columns: Names and Spark SQL types of the columns that are read.
        ignored: Names of columns of the table that are declared to be left out.
        sink: The declaration of the target; its key without a column that names the shard.
        truncates: Whether a TRUNCATE of the table is followed.
        exported: Database snapshot in which it is read; None to take one.
        may_have_more: Whether columns that nothing declares are left out rather than refused.
    """

    source: str
    name: str
    options: SnapshotOptions
    columns: Mapping[str, str]
    ignored: Collection[str]
    sink: Sink
    truncates: bool = False
    exported: Exported | None = None
    may_have_more: bool = False

    @classmethod
    def of(cls, loaded: LoadedPipeline, source: FileSource, topic: KafkaSource) -> CapturedTable:
        """Collect what a pipeline declares about the table that it captures.

        Args:
            loaded: The pipeline.
            source: File source, which has to declare a ``snapshot``.
            topic: The topic of the table's changes.
        """
        assert source.snapshot is not None
        assert topic.changes is not None  # the declaration refuses another topic
        return cls(
            source=source.name,
            name=topic.changes.table,
            options=source.snapshot,
            columns=topic.value_columns,
            ignored=topic.changes.ignored_columns,
            sink=loaded.pipeline.sink.of_table(topic.topic_columns),
            truncates=topic.changes.follows_truncates,
        )

    @property
    def is_merged(self) -> bool:
        """Whether the target has one row per key, so that a change may be merged twice.

        Not with ``sink.history``, where the value from before the change would lack its version.
        """
        return self.sink.mode == "merge" and self.sink.history is None

    @property
    def parts(self) -> tuple[str, str]:
        """Name of the schema (or database), and name of the table in it."""
        schema, _, table = self.name.partition(".")
        return schema, table

    def require_columns(self, there: Sequence[str]) -> None:
        """Refuse a table whose columns are not those that are declared.

        The order does not matter, and a column in ``ignored_columns`` counts as declared. Names are
        case-sensitive.

        Args:
            there: Names of the table's columns, in its order.

        Raises:
            InputError: A declared column is missing, or the table has one that nothing declares
                and must not have one (:attr:`may_have_more`).
        """
        if lacking := [name for name in self.columns if name not in there]:
            message = f"Table `{self.name}` has no column `{lacking[0]}`, which the `schema` names."
            hint = (
                "Correct its name in the `schema` of the topic, or remove it; the table has "
                f"{', '.join(there)}."
            )
            raise InputError(message, hint, source=self.source, table=self.name, column=lacking[0])
        known = {*self.columns, *self.ignored}
        if (extra := [name for name in there if name not in known]) and not self.may_have_more:
            message = f"Table `{self.name}` has a column `{extra[0]}` that the `schema` lacks."
            hint = (
                "Add it to the `schema`, or list it in `ignored_columns`; `added_columns` are "
                "those that are added after the snapshot. A snapshot that has begun goes on if "
                "`on_schema_change` follows or ignores added columns; else it has to be taken "
                "again, in another folder."
            )
            raise InputError(message, hint, source=self.source, table=self.name, column=extra[0])

    def warn_of_defaults(self, columns: Collection[str]) -> list[str]:
        """Warn that Kafka Connect's converters may write a column's default for a null.

        One sentence, which names the columns and the setting; empty if no declared column is
        concerned.

        Args:
            columns: Columns of the table that may be null and have a default.
        """
        defaults = [name for name in columns if name in self.columns]
        if not defaults:
            return []
        return [
            f"Table `{self.name}` has defaults for columns that may be null "
            f"({', '.join(defaults)}): for a null Kafka Connect's converters write the default "
            "unless `value.converter.replace.null.with.default=false` is set for JSON, or "
            "`value.converter.ignore.default.for.nullables=true` for Confluent's Avro."
        ]


class Division(NamedTuple):
    """Division of a table into chunks: key ranges, one file each.

    Attributes:
        key: Column that divides the chunks, and its SQL type; None if the table can't be divided,
            so that it is one chunk.
        bounds: First key of each chunk but the first, as text, in the order of the database.
    """

    key: tuple[str, str] | None
    bounds: Sequence[str]

    def ends(self, chunk: int) -> tuple[str | None, str | None]:
        """Return the first key of a chunk, and of the chunk after it (its exclusive end).

        None in place of a key where the chunk has no such bound. Both are None for a table of one
        chunk.

        Args:
            chunk: Number of the chunk, from 0.
        """
        first = self.bounds[chunk - 1] if chunk else None
        return first, self.bounds[chunk] if chunk < len(self.bounds) else None

    def extended(self, keys: Iterable[str]) -> Division:
        """Return this division with its last chunk divided further.

        Without keys, or with one, nothing changes.

        Args:
            keys: First keys of whole chunks after the last bound. The last one is left out: a few
                rows more are no chunk of their own, so the last one may be twice as long.
        """
        return self._replace(bounds=[*self.bounds, *[*keys][:-1]])


class SnapshotReader(Protocol):
    """Interface of a reader of a table's chunks, in a snapshot of the database."""

    @property
    def snapshot(self) -> DatabaseSnapshot:
        """Database snapshot of the rows: it says which changes they contain."""

    def rows(self, division: Division, chunk: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk with the declared columns; one call at a time.

        Args:
            division: Division of the table.
            chunk: Number of the chunk, from 0.

        Raises:
            Misfit: A value does not have its column's declared type.
            QueryError: The query fails, or the connection ends.
        """


class OpenTable(Protocol):
    """Interface of a database table that is connected and whose changes can be followed.

    Its connections end with the context manager that has opened it.
    """

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the table's settings, as sentences.

        Empty if there are none.
        """

    @property
    def definition(self) -> TableDefinition | None:
        """Catalog entry of the table at its snapshot or before; available after :meth:`readers`."""

    def readers(self, count: int) -> Sequence[SnapshotReader]:
        """Begin snapshots of the database, which last as long as the table is open.

        Called once, before :meth:`divide`. Readers share one snapshot where the database can. Where
        each has its own, a row that changed in between may be in the later ones as it is after the
        change, which is then merged a second time.

        Args:
            count: Number of chunks that are to be read at the same time.

        Returns:
            Up to so many readers, the one with the earliest snapshot first.

        Raises:
            InputError: The database can't take a snapshot whose position is known.
            QueryError: The database refuses, or the connection ends.
        """

    def divide(self, known: Division | None = None) -> Division:
        """Return how the table is divided into chunks of about ``snapshot.chunk_rows`` rows.

        Args:
            known: An earlier division, whose last chunk is not read yet. It has no upper bound, so
                it is divided further by the rows that it has now.

        Raises:
            QueryError: The database refuses, or the connection ends.
        """
