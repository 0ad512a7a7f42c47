"""Views of file sources' rows in the audit's database: which reader of its own each format has.

DuckDB reads Parquet and text. fastavro and pyarrow read Avro and ORC files whole, without the byte
ranges of the plan (:mod:`hybrid_extensions.audit.readers.own_columns`). For JSON lines and CSV see
:mod:`hybrid_extensions.audit.readers.text_rows.text_file_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import NamedTuple

import duckdb

from hybrid_extensions.audit.computed.computed_rules import rows_meeting_rules, within_sample
from hybrid_extensions.audit.computed.event_times import bounds_of
from hybrid_extensions.audit.computed.proven_expressions import (
    require_proven_rules,
    selected_columns,
)
from hybrid_extensions.audit.readers.drifted_parquet import drifted_rows, types_may_differ
from hybrid_extensions.audit.readers.file_search import matching_files
from hybrid_extensions.audit.readers.folder_values import options, values_in, with_values
from hybrid_extensions.audit.readers.local_copies import Copies
from hybrid_extensions.audit.readers.own_columns import own_rows
from hybrid_extensions.audit.readers.table_rows import delta_rows, load_batches
from hybrid_extensions.audit.readers.table_version import TableVersions
from hybrid_extensions.audit.readers.text_rows.text_file_rows import load_rows, load_texts
from hybrid_extensions.comparison.duckdb_database import (
    INSTANT,
    columns_of,
    duckdb_types,
    schema_of,
)
from sources.common.sql.sql_names import literal, quoted
from sources.common.times import now_ms, to_us
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.table.row_rules import RowRules
from sources.errors import HybridError, InputError
from sources.files.tables.lake import lake_of
from sources.hybrid import Boundedness
from sources.storage.stores import Stores

_NO_ZONE = re.compile(r"\bTIMESTAMP(_S|_MS|_NS)?(?=[,)\[]|$)")
_AS_TEXT = {"JSON": "VARCHAR"}
_NO_TYPE = '"NULL"'  # of columns that are null throughout


class LeftOut(NamedTuple):
    """SQL queries for the rows of files that the audit leaves out, as the runs do.

    Attributes:
        outside: Query of rows whose event time is out of bounds.
        before_rules: Query of the rows among which those that break a rule still are.
        columns: By column of ``select`` that these queries lack, why: only Spark evaluates it.
        rules: The rules for these rows.
    """

    outside: str
    before_rules: str
    columns: Mapping[str, str]
    rules: RowRules


class AuditFiles:
    """Finder and reader of the files of a pipeline's sources for the audit.

    Args:
        loaded: The pipeline.
        scratch: Local folder for copies of files from S3 and HDFS.
        clock_ms: The audit's clock, in ms since 1970; the present if None.

    Attributes:
        versions: At which version a source that is a Delta table is read.
    """

    def __init__(self, loaded: LoadedPipeline, scratch: Path, clock_ms: int | None = None) -> None:
        self._loaded = loaded
        self._clock_ms = now_ms() if clock_ms is None else clock_ms
        self._copies = Copies(loaded.pipeline, scratch / "objects")
        self.versions = TableVersions(loaded, self._copies)
        self._tables = 0

    @contextmanager
    def naming_originals(self) -> Iterator[AuditFiles]:
        """Let errors within ``with`` name files of stores by their URLs, not by paths of copies.

        They also tell that the audit has changed nothing and gives no verdict.
        """
        try:
            yield self
        except HybridError as error:
            error.message, error.hint = map(self._copies.as_declared, (error.message, error.hint))
            end = "" if error.message.endswith((".", "!", "?")) else "."
            error.message = f"{error.message}{end} Nothing was changed, and there is no verdict."
            error.args = (error.message,)
            if "file" in error.fields:
                error.fields["file"] = self._copies.as_declared(error.fields["file"])
            raise

    def find(self, source: FileSource) -> list[str]:
        """Return the local paths of all files that a source's globs match, sorted.

        A folder stands for all files below it; which names are no data, see
        :func:`~hybrid_extensions.audit.readers.file_search.matching_files`. Of a table in a format
        of tables, its own log names the files. Files in S3 and HDFS are copied. Empty if a source
        that is not bounded has no file yet, or a table no rows.

        Raises:
            InputError: The source is bounded and no file matches, its Delta table can't be opened,
                or a store refuses.
            StateError: The source is a Delta table, and the state, which knows its version, is
                damaged.
            UnavailableError: A store does not answer, also that of the state.
        """
        folder = self._loaded.folder
        if source.format == "delta":
            return sorted(self.versions.open(source).file_uris())
        if source.is_table:
            files = lake_of(source).data_files(source, *self._place_of(source))
            return sorted(map(self._copies.local_path, files))
        patterns = [self._copies.local_pattern(pattern) for pattern in source.patterns]
        paths = {str(file) for pattern in patterns for file in matching_files(pattern, folder)}
        if not paths and source.boundedness is Boundedness.BOUNDED:
            declared = ", ".join(source.patterns)
            is_remote = all("://" in each for each in source.patterns)
            where = "" if is_remote else f" (relative to {folder})"
            message = f"Source `{source.name}`: no file matches {declared}{where}."
            hint = "Correct the source's `path`, or restore the files there."
            raise InputError(message, hint, source=source.name, field="path", file=declared)
        return sorted(paths)

    def local_path(self, path: str) -> str:
        """Return the local path of a planned file: that of its copy if it is in a store.

        Nothing is copied, and nothing raised: of a file that :meth:`find` has not found, there is
        no copy at that path.
        """
        return self._copies.local_path(path)

    def create_view(
        self, connection: duckdb.DuckDBPyConnection, source: FileSource, paths: list[str], view: str
    ) -> LeftOut:
        """Create a view of the rows of files, read as the source declares.

        It has the source's columns after ``select``, within its range of event time, without rows
        whose event time is out of bounds (:mod:`hybrid_extensions.audit.computed.event_times`), and
        without those that break a rule (:mod:`hybrid_extensions.audit.computed.computed_rules`).
        Positions of bad rows go into
        :func:`~hybrid_extensions.audit.readers.topic_view.bad_records_table`,
        if they don't stop a run.

        Args:
            connection: The audit's database.
            source: The source.
            paths: Local paths of the files.
            view: Quoted name of the view; an existing one is replaced.

        Returns:
            Queries of the rows of these files that are left out.

        Raises:
            InputError: A file can't be read.
            StateError: The state is damaged.
            UnavailableError: A store does not answer.
            NotProvenError: An expression that only Spark evaluates decides about rows.
            duckdb.Error: A file can't be read, or its values do not fit the declared types.
        """
        # The log of a table has the values, not the names of its folders.
        partition_types = source.partitions
        self._tables += 1
        name = f"{source.name}.{self._tables}"
        is_lake = source.is_table
        values = {} if is_lake else {path: values_in(path, partition_types) for path in paths}
        if source.format in ("avro", "orc"):
            reader = own_rows(connection, source, values, name, self._loaded.pipeline.stores)
        elif source.format == "delta":
            table = f"audit.{quoted(name)}"
            delta = self.versions.open(source)
            reader = delta_rows(connection, source, delta, _parquet_reader(source, paths), table)
        elif is_lake:
            reader = f"audit.{quoted(name)}"
            batches = lake_of(source).rows(source, *self._place_of(source))
            load_batches(connection, batches, reader)
        elif source.format == "parquet" and (
            source.schema_drift is not None or types_may_differ(paths)
        ):
            reader = drifted_rows(connection, source, paths, partition_types)
        elif source.format in ("json", "csv"):
            reader = load_rows(connection, source, values, name)
        elif source.format == "text":
            reader = load_texts(connection, values, name)
        else:
            reader = with_values(_parquet_reader(source, paths), paths, [*partition_types])
        types = columns_of(connection, f"SELECT * FROM {reader}")
        partitions = duckdb_types(partition_types)
        schema = duckdb_types(source.columns) if source.columns else {}
        names = [*(schema or (name for name in types if name not in partitions)), *partitions]
        declared = {**schema, **partitions}
        selected = ", ".join(_cast(name, types.get(name, ""), declared) for name in names)
        rows = f"SELECT {selected} FROM {reader}"
        unproven: dict[str, str] = {}
        pipeline = self._loaded.pipeline
        if source.select:
            computed, unproven = selected_columns(pipeline, source, schema_of(connection, rows))
            rows = f"SELECT {', '.join(computed)} FROM ({rows})"
        generation = self._loaded.open_generation(create=False)
        bounds = bounds_of(pipeline.event_time, source, generation, self._clock_ms)
        counted = f"SELECT * FROM ({rows}) WHERE NOT {bounds.is_outside}"
        counted = f"SELECT * FROM ({counted}) {self._time_range(source)}"
        counted = f"SELECT * FROM {within_sample(pipeline.row_rules, f'({counted})')}"
        rules = pipeline.row_rules.over(schema_of(connection, counted))
        require_proven_rules(rules)
        connection.execute(
            f"CREATE OR REPLACE VIEW {view} AS {rows_meeting_rules(rules, f'({counted})')}"
        )
        outside = f"SELECT * FROM ({rows}) WHERE {bounds.is_outside}"
        return LeftOut(outside, counted, unproven, rules)

    def _place_of(self, source: FileSource) -> tuple[str, Stores]:
        """Return where a table is; its own library reads it, at the declared version."""
        return self._loaded.locate(source.patterns[0]), self._loaded.pipeline.stores

    def _time_range(self, source: FileSource) -> str:
        """Return an SQL WHERE clause for a source's declared range of event time, or no text.

        Rows without an event time remain.
        """
        event_time, declared = quoted(self._loaded.pipeline.event_time.column), source.time_range
        limits = [
            f"({event_time} IS NULL OR {event_time} {sign} make_timestamptz({to_us(moment)}))"
            for sign, moment in ((">=", declared.since), ("<", declared.until))
            if moment is not None
        ]
        return f"WHERE {' AND '.join(limits)}" if limits else ""


def _parquet_reader(source: FileSource, paths: list[str]) -> str:
    """Return the call of DuckDB's table function that reads Parquet files."""
    files = ", ".join(literal(escape(path)) for path in paths)
    return f"read_parquet([{files}], union_by_name = true, {options(source.partitions)})"


def _cast(name: str, kind: str, declared: dict[str, str]) -> str:
    """Return SQL for a column in its declared type; a timestamp without time zone is UTC.

    Args:
        name: Name of the column.
        kind: DuckDB type in which it is read.
        declared: DuckDB types of the declared columns, by name.
    """
    target = declared.get(name, _AS_TEXT.get(kind, _NO_ZONE.sub(INSTANT, kind)))
    if (stored := _stored(quoted(name), kind)) is not None:
        return f"{stored} AS {quoted(name)}"
    if kind == _NO_TYPE:
        target = declared.get(name, "INTEGER")
    return quoted(name) if target == kind else f"CAST({quoted(name)} AS {target}) AS {quoted(name)}"


def _stored(column: str, kind: str) -> str | None:
    """Return SQL for the bytes that Parquet stores, which runs read; None for other types."""
    if kind.startswith("GEOMETRY"):
        return f"ST_AsWKB({column})"
    return f"unhex(replace(CAST({column} AS VARCHAR), '-', ''))" if kind == "UUID" else None
