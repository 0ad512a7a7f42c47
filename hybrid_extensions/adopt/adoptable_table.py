"""Table to adopt, refused for Delta features, other columns, partitions, or a key's second row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable

from hybrid_extensions.generations.files.table_protocol import CARRIED, Protocol
from sources.common.counting import counted
from sources.common.schema import names_and_types, normalize_schema
from sources.common.sql.sql_names import column_list, quoted
from sources.common.times import iso, now_ms
from sources.config.loader import LoadedPipeline
from sources.config.table.sink import VALID_FROM, VALID_TO
from sources.errors import InputError, StateError
from sources.planning.transform_analysis import TransformAnalysis
from sources.storage.tables.delta import query_rows
from sources.storage.tables.delta_log import has_log
from spark_jobs.table.delta_table import open_table, paths_of

_EXAMPLES = 3


class FoundTable(NamedTuple):
    """Version of a table that may be adopted.

    Attributes:
        opened: The table at that version.
        newest: Number of its newest version.
        rows: Number of its rows.
        files: Number of its files.
    """

    opened: DeltaTable
    newest: int
    rows: int
    files: int

    @property
    def version(self) -> int:
        """Number of the version."""
        return int(self.opened.version())


def find_table(loaded: LoadedPipeline, version: int | None) -> FoundTable:
    """Return the table at `sink.path`; refuse one that this project can't continue.

    Args:
        loaded: The pipeline.
        version: Version of the table; None for the newest.

    Raises:
        InputError: There is no table, it can't be read, it needs features of Delta that this
            project does not know, or it is partitioned otherwise than declared.
        UnavailableError: The table's store does not answer.
    """
    target, sink = loaded.target, loaded.pipeline.sink
    if not has_log(target):
        message = f"There is no Delta table at `sink.path` ({target})."
        hint = "Name the table to adopt in `sink.path`; without one, run `hybrid run P`."
        raise InputError(message, hint, table=target.url, field="sink.path")
    opened = open_table(target, version)
    if unknown := sorted(_protocol(opened).features - CARRIED):
        names = ", ".join(f"`{each}`" for each in unknown)
        message = (
            f"The table {target} has Delta features that this project does not know: {names}. "
            "Nothing was adopted."
        )
        hint = (
            f"Remove each with Spark (ALTER TABLE delta.`{target}` DROP FEATURE {unknown[0]}), "
            "then try again."
        )
        raise InputError(message, hint, table=target.url)
    if (found := list(opened.metadata().partition_columns)) != list(sink.partition_by):
        message = (
            f"The table {target} is partitioned by {', '.join(found) or 'nothing'}, and "
            f"`sink.partition_by` declares {', '.join(sink.partition_by) or 'nothing'}."
        )
        hint = f"Declare `sink.partition_by: [{', '.join(found)}]`."
        raise InputError(message, hint, table=target.url, field="sink.partition_by")
    rows = query_rows(opened, "SELECT count(*) AS n FROM target").read_all()["n"][0].as_py()
    newest = int(open_table(target).version())
    return FoundTable(opened, newest, rows, len(paths_of(opened)))


def require_stateless(loaded: LoadedPipeline, analysis: TransformAnalysis) -> None:
    """Refuse a transform whose operators keep state, which no table has.

    Raises:
        StateError: It is stateful, or that is not known.
    """
    name = loaded.pipeline.transform.name
    if analysis.columns is None:
        message = f"Whether `transform: {name}` keeps state is unknown. {analysis.warning}"
        hint = "Adopt the table on a machine where Spark can run the transform."
        raise StateError(message, hint, field="transform", value=name)
    if analysis.stateful:
        message = (
            f"`transform: {name}` keeps {analysis.stateful[0]}. A table has rows, not this state, "
            "so what comes next can't be computed from it."
        )
        hint = (
            "Compute the table again from all of history: name another `sink.path`, and run "
            "`hybrid run P`."
        )
        raise StateError(message, hint, field="transform", value=name)


def require_same_columns(
    loaded: LoadedPipeline, table: FoundTable, analysis: TransformAnalysis
) -> None:
    """Refuse a table with other columns or types than those that the pipeline writes.

    Their order, and whether they may be null, are not compared. Names are case-sensitive.

    Raises:
        InputError: Names each column that differs.
    """
    sink = loaded.pipeline.sink
    made = {each.name: each.type for each in analysis.columns or []}
    if sink.deleted is not None and sink.removes_rows:
        made.pop(sink.deleted, None)
    if sink.history is not None:
        made |= dict.fromkeys((VALID_FROM, VALID_TO), "timestamp")
    there = _columns(table.opened)
    lines = [
        f"  {name}: {there.get(name, 'missing')} in the table, {made.get(name, 'not')} returned"
        for name in {**there, **made}
        if there.get(name) != made.get(name)
    ]
    if not lines:
        return
    said = f"The transform's columns differ from those of the table {loaded.target}:"
    hint = "Let the transform return the table's columns, with their types."
    raise InputError("\n".join([said, *lines]), hint, table=loaded.target.url, field="transform")


def require_possible_rows(
    loaded: LoadedPipeline, table: FoundTable, analysis: TransformAnalysis
) -> None:
    """Refuse rows that the pipeline could not have written.

    Those are several rows of one key where keys identify rows, and, if the transform passes rows on
    as they are, event times that do not count.

    Raises:
        InputError: Names how many there are, and up to three of them.
    """
    pipeline, there = loaded.pipeline, _columns(table.opened)
    passed = analysis.passed or []
    sink = pipeline.sink
    key = sink.row_key if sink.mode == "merge" else pipeline.key if passed else []
    if key and set(key) <= set(there):
        names = column_list(key)
        twice = (
            f"SELECT {names}, count(*) AS _copies FROM target GROUP BY {names} HAVING count(*) > 1"
        )
        if found := _first(table, twice):
            message = (
                f"The table {loaded.target} has several rows of one key ({', '.join(key)}), which "
                f"identifies a row by the declaration: {found}."
            )
            field = "sink.key" if sink.mode == "merge" else "key"
            hint = (
                f"Delete the copies, or declare the `{field}` that identifies a row of this table."
            )
            raise InputError(message, hint, table=loaded.target.url, field=field)
    time = pipeline.event_time
    if time.outside == "keep" or time.column not in passed or time.column not in there:
        return
    low, high = map(iso, time.bounds_ms(now_ms()))
    column = quoted(time.column)
    outside = (
        f"SELECT {column} FROM target WHERE {column} < timestamp '{low}' "
        f"OR {column} > timestamp '{high}'"
    )
    if found := _first(table, outside):
        message = (
            f"The table {loaded.target} has rows with a `{time.column}` that does not count, as it "
            f"is not from {low} to {high}: {found}."
        )
        hint = (
            "Correct or delete these rows, or declare `event_time.not_before`, "
            "`event_time.not_after` or `event_time.outside: keep`."
        )
        raise InputError(message, hint, table=loaded.target.url, column=time.column)


def _first(table: FoundTable, query: str) -> str:
    """Return how many rows a query has, and the first of them, as text; empty for none."""
    total = f"SELECT count(*) AS n FROM ({query})"
    count = query_rows(table.opened, total).read_all()["n"][0].as_py()
    if not count:
        return ""
    rows = query_rows(table.opened, f"{query} LIMIT {_EXAMPLES}").read_all().to_pylist()
    return f"{counted(count, 'case')}, such as {'; '.join(map(_shown, rows))}"


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if name != "_copies")


def _columns(opened: DeltaTable) -> dict[str, str]:
    return names_and_types(normalize_schema(pa.schema(opened.schema().to_arrow())))


def _protocol(opened: DeltaTable) -> Protocol:
    found = opened.protocol()
    return Protocol.of(
        {
            "minReaderVersion": found.min_reader_version,
            "minWriterVersion": found.min_writer_version,
            "readerFeatures": found.reader_features,
            "writerFeatures": found.writer_features,
        }
    )
