"""History in a SQLite file: the rows of a query, exported to Parquet page by page."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, PositiveInt

from sources.common.fields import Columns
from sources.common.schema import parse_schema
from sources.config.source.exported_source import Export, ExportedSource, ExportEnd
from sources.errors import InputError


class SqliteSource(ExportedSource):
    """The rows of a query over a SQLite file.

    Attributes:
        database: File of the database, relative to the pipeline's file.
        query: SELECT with the rows.
        key: Column of the query that identifies a row.
        columns: Column names of the query and their Spark SQL types. Times are texts with a time
            zone, such as ``2024-01-01T12:00:00Z``.
        page_rows: Number of rows of a file.
    """

    type: Literal["sqlite"]
    database: str
    query: str
    key: str
    columns: Columns = Field(alias="schema")
    page_rows: PositiveInt = 100_000

    def export(self, export: Export) -> ExportEnd:
        """Write a file for each page, all in one transaction, so that they are of one moment.

        An interrupted export begins again. The topic after it starts by the event times.

        Raises:
            InputError: ``key`` does not identify the rows, or a value does not fit its type.
        """
        path = export.locate(self.database)
        columns = parse_schema(self.columns)
        rows = 0
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            connection.execute("BEGIN")
            self._require_key(connection)
            for number, page in enumerate(self._pages(connection)):
                data = self._table(page, columns)
                out = pa.BufferOutputStream()
                pq.write_table(data, out)
                export.folder.replace_bytes(
                    f"page-{number:05}.parquet", out.getvalue().to_pybytes()
                )
                rows += len(data)
                export.report(f"{self.name}: {rows:,} rows")
        return ExportEnd()

    def _require_key(self, connection: sqlite3.Connection) -> None:
        """Refuse a key by whose order rows would be left out."""
        counts = f"SELECT count(*), count(DISTINCT `{self.key}`) FROM ({self.query})"
        rows, found = connection.execute(counts).fetchone()
        if rows != found:
            message = (
                f"Source `{self.name}`: `key: {self.key}` has {found:,} values in {rows:,} rows."
            )
            hint = "Declare a column that identifies each row, and is never null."
            raise InputError(message, hint, source=self.name, field="key")

    def _pages(self, connection: sqlite3.Connection) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield the rows page by page, in the order of the key; at least one page."""
        # In double quotes, SQLite takes a name that is no column for a text.
        names = ", ".join(f"`{name}`" for name in [*self.columns, self.key])
        after, where = (), ""
        while True:
            page = connection.execute(
                f"SELECT {names} FROM ({self.query}) {where} ORDER BY `{self.key}` LIMIT ?",
                (*after, self.page_rows),
            ).fetchall()
            if page or not after:
                yield page
            if len(page) < self.page_rows:
                return
            after, where = page[-1][-1:], f"WHERE `{self.key}` > ?"

    def _table(self, page: Sequence[Sequence[Any]], columns: pa.Schema) -> pa.Table:
        values = list(zip(*page, strict=True)) or [()] * len(columns)
        try:
            return pa.table(
                [_typed(of, field.type) for of, field in zip(values, columns, strict=False)],
                schema=columns,
            )
        except pa.ArrowInvalid as error:
            message = f"Source `{self.name}`: a value does not fit its type: {error}."
            raise InputError(message, "Correct `schema`, or the query.", field="schema") from None


def _typed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.string()).cast(kind)
    return pa.array(values, kind)


SOURCES: Mapping[str, type[ExportedSource]] = {"sqlite": SqliteSource}
