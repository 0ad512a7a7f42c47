"""Snapshot of a PostgreSQL table in files: key ranges in parallel, all under one snapshot.

It can be interrupted: chunks that are written are kept, and the next call reads the others under a
new snapshot. The position of the whole is that of the first one; changes that later chunks already
hold are merged again.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sources.common.optional import needs_extra
from sources.common.positions import DatabaseSnapshot
from sources.common.schema import parse_schema
from sources.config.file_source import FileSource
from sources.config.kafka_source import KafkaSource
from sources.config.loader import LoadedPipeline
from sources.config.snapshot import (
    MANIFEST,
    Chunk,
    SnapshotManifest,
    SnapshotOptions,
    chunk_name,
    folder_of,
)
from sources.databases.postgres import answers, server_of
from sources.databases.postgres_rows import Database, Misfit, QueryError, selected
from sources.databases.replication_slot import find_slot
from sources.decoding.value_format import Included
from sources.errors import HybridError, InputError, RunError, UnavailableError
from sources.kafka.client import KafkaLog

with needs_extra("postgres", "A `snapshot` of PostgreSQL"):
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import make_conninfo

_SETTINGS = (
    "-c timezone=UTC -c datestyle=ISO "
    "-c idle_in_transaction_session_timeout=0 -c statement_timeout=0 "
    # An error instead of a part of the rows (https://www.postgresql.org/docs/current/ddl-rowsecurity.html).
    "-c row_security=off"
)


class TableSnapshot:
    """Copy of a PostgreSQL table, which a file source declares as ``snapshot``, into Parquet files.

    Args:
        loaded: The pipeline.
        source: File source with a ``snapshot``.
        report: Called with a text for each chunk (a key range of the table, one file) once it is
            written.

    Attributes:
        warnings: What the table's settings may cause later: sentences, filled by :meth:`take`.

    Raises:
        InputError: The source has no ``snapshot``, or no topic with the changes follows it.
    """

    def __init__(
        self, loaded: LoadedPipeline, source: FileSource, report: Callable[[str], None]
    ) -> None:
        topic = loaded.pipeline.topic_after(source.name)
        if source.snapshot is None or topic is None:
            lacks = "no `snapshot`" if source.snapshot is None else "no Kafka source after it"
            message = (
                f"Source `{source.name}` is not a `snapshot` with a topic after it: it has {lacks}."
            )
            hint = (
                f"Declare `snapshot` for source `{source.name}`, and the topic with the table's "
                "changes as the next source."
            )
            raise InputError(message, hint, source=source.name, field="snapshot")
        self._source_name = source.name
        self._options: SnapshotOptions = source.snapshot
        self._topic: KafkaSource = topic
        self._report = report
        self._folder = loaded.place(folder_of(source.patterns)).called("snapshot's folder")
        self._lock = threading.Lock()
        schema, _, table = str(topic.table).partition(".")
        self._table = sql.Identifier(schema, table)
        self._name = {"schema": schema, "table": table}
        self._columns = topic.value_columns
        self._types: dict[str, str] = {}
        self.warnings: list[str] = []

    def take(self) -> SnapshotManifest:
        """Copy the chunks of the table that are not written yet, under one new database snapshot.

        A chunk is a key range of the table and becomes one file; a complete copy is left as it is.

        Returns:
            The manifest of the copy, which is complete.

        Raises:
            InputError: The database refuses the login or a permission; the table, its publication
                or the slot does not fit; rows do not fit the ``schema``; or the broker refuses.
            UnavailableError: The database, before any chunk was begun, or the broker does not
                answer.
            RunError: Reading was interrupted; the written chunks are kept, and the next call copies
                the others.
        """
        manifest = self._read()
        if manifest is not None and not manifest.missing:
            return manifest
        # Before the snapshot: what it does not see is appended later.
        offsets = KafkaLog(self._topic).log_end()
        try:
            with self._connect() as connection:
                self._check_table(connection)
                self._check_slot(connection)
                self._check_publication(connection)
                name, snapshot = _export(connection)
                if manifest is None:
                    key, bounds = self._divide(connection)
                    manifest = SnapshotManifest(
                        table=str(self._topic.table),
                        key=key,
                        bounds=bounds,
                        snapshots=[],
                        offsets=offsets,
                        done={},
                    )
                taken = [*manifest.snapshots, snapshot]
                manifest = manifest.model_copy(update={"snapshots": taken})
                self._keep(manifest)
                return self._copy_all(manifest, name)
        except (psycopg.Error, QueryError) as error:
            kept = self._read()
            message = f"The snapshot of `{self._topic.table}` failed: {_text(error)}."
            if kept is None:
                raise self._refusal(error, message) from None
            total = len(kept.bounds) + 1
            hint = (
                f"{len(kept.done)} of {total} chunks are kept. Run it again with `hybrid snapshot "
                "PIPELINE`: the others are read under a new snapshot."
            )
            raise RunError(
                message,
                hint,
                transient=_is_connection_lost(error),
                source=self._source_name,
                table=str(self._topic.table),
            ) from None

    def _refusal(self, error: psycopg.Error | QueryError, message: str) -> HybridError:
        """Return the error of a statement: the server is lost, or refuses."""
        name, table = self._source_name, str(self._topic.table)
        if _is_connection_lost(error):
            hint = (
                "Check that the database server runs, then take the snapshot again: `hybrid "
                "snapshot PIPELINE`."
            )
            return UnavailableError(
                message, hint, source=name, table=table, server=server_of(self._options.dsn)
            )
        hint = (
            f"Grant the user of `snapshot.dsn` SELECT on `{table}`, correct `table` or the "
            "`schema`; then take the snapshot again: `hybrid snapshot PIPELINE`."
        )
        return InputError(message, hint, source=name, table=table)

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            return psycopg.connect(self._conninfo(), autocommit=True)
        except psycopg.Error as error:
            server = server_of(self._options.dsn)
            message = f"Connecting to the database {server} failed: {_text(error)}."
            if not answers(self._options.dsn):
                hint = (
                    "Start the server, or correct host and port in `snapshot.dsn`; then take the "
                    "snapshot again: `hybrid snapshot PIPELINE`."
                )
                raise UnavailableError(
                    message, hint, source=self._source_name, server=server
                ) from None
            hint = (
                "Correct database and user in `snapshot.dsn`, or set the environment variable "
                "PGPASSWORD to the password."
            )
            raise InputError(message, hint, source=self._source_name, server=server) from None

    def _conninfo(self) -> str:
        return make_conninfo(
            self._options.dsn, application_name="hybrid snapshot", options=_SETTINGS
        )

    def _check_table(self, connection: psycopg.Connection[Any]) -> None:
        rows = connection.execute(
            "SELECT a.attname, c.relreplident, a.attlen = -1 AND a.attstorage <> 'p' "
            "AND NOT (a.atttypid = 'numeric'::regtype AND a.atttypmod >= 0), "
            "a.atthasdef AND NOT a.attnotnull AND a.attgenerated = '', a.atttypid::regtype::text, "
            "row_security_active(c.oid), current_user "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid "
            "WHERE n.nspname = %(schema)s AND c.relname = %(table)s "
            "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            self._name,
        ).fetchall()
        table, there = self._topic.table, [row[0] for row in rows]
        if not rows:
            message = f"There is no table `{table}` in the database, or its columns can't be read."
            hint = (
                "Correct `table` of the topic, or the database in `snapshot.dsn`, or "
                "grant its user SELECT on the table."
            )
            raise InputError(
                message, hint, source=self._source_name, table=str(table), field="table"
            )
        *_, is_partial, role = rows[0]
        if is_partial:
            message = f"Row-level security hides rows of table `{table}` from `{role}`."
            hint = (
                f"Run `ALTER ROLE {role} BYPASSRLS` in the database, or name another user in "
                "`snapshot.dsn`, such as the owner of the table; then take the snapshot again: "
                "`hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, table=str(table))
        if lacking := [name for name in self._columns if name not in there]:
            message = f"Table `{table}` has no column `{lacking[0]}`, which the `schema` names."
            hint = f"Remove it from the `schema` of the topic; the table has {', '.join(there)}."
            raise InputError(
                message, hint, source=self._source_name, table=str(table), column=lacking[0]
            )
        ignored = self._topic.ignored_columns or []
        if extra := [name for name in there if name not in self._columns and name not in ignored]:
            message = f"Table `{table}` has a column `{extra[0]}` that the `schema` lacks."
            hint = (
                "Add it to the `schema`, or list it in `ignored_columns`; `added_columns` are "
                "those that are added after the snapshot. A snapshot that has begun has to be "
                "taken again, in another folder."
            )
            raise InputError(
                message, hint, source=self._source_name, table=str(table), column=extra[0]
            )
        self._types = {row[0]: row[4] for row in rows}
        if rows[0][1] == "n":
            message = f"Table `{table}` has REPLICA IDENTITY NOTHING: its deletes carry no key."
            hint = (
                f"Run `ALTER TABLE {table} REPLICA IDENTITY DEFAULT` (the table needs a primary "
                "key), or `… FULL`; then take the snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, table=str(table))
        long = [name for name, _, is_long, *_ in rows if is_long and name in self._columns]
        if rows[0][1] != "f" and long:
            self.warnings.append(
                f"Table `{table}` has no REPLICA IDENTITY FULL: an update that leaves a long value "
                f"as it was (of {', '.join(long)}; more than 2 kB) does not carry it, and stops "
                "the run."
            )

        defaults = [name for name, _, _, has_one, *_ in rows if has_one and name in self._columns]
        if defaults:
            self.warnings.append(
                f"Table `{table}` has defaults for columns that may be null "
                f"({', '.join(defaults)}): for a null Kafka Connect's converters write the default "
                "unless `value.converter.replace.null.with.default=false` is set for JSON, or "
                "`value.converter.ignore.default.for.nullables=true` for Confluent's Avro."
            )

    def _check_slot(self, connection: psycopg.Connection[Any]) -> None:
        name = self._options.slot
        state = find_slot(connection, name).state
        if state == "missing":
            message = (
                f"There is no replication slot `{name}` that is ready: changes made before are "
                "in no log, and would be missing from the table."
            )
            hint = (
                "Start the connector first and wait until it has read from the slot, or correct "
                "`snapshot.slot`; then take the snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, value=name)
        if state == "lost":
            message = (
                f"Replication slot `{name}` is lost: the server removed its log, and changes "
                "in it reach no connector."
            )
            hint = (
                "Create the connector again, with a new slot, and declare that under "
                "`snapshot.slot`; then take the snapshot: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, value=name)

    def _check_publication(self, connection: psycopg.Connection[Any]) -> None:
        """Refuse a table that no publication includes: its changes would be missing silently."""
        found = connection.execute(
            "SELECT s.plugin <> 'pgoutput' OR EXISTS (SELECT FROM pg_publication_tables "
            "WHERE schemaname = %(schema)s AND tablename = %(table)s) "
            "FROM pg_replication_slots s WHERE slot_name = %(slot)s",
            {**self._name, "slot": self._options.slot},
        ).fetchone()
        if found is not None and not found[0]:
            table = str(self._topic.table)
            message = f"Table `{table}` is in no publication: its changes reach no connector."
            hint = (
                "Add the table to the connector's `table.include.list`, and restart the connector; "
                "then take the snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, table=table)

    def _divide(
        self, connection: psycopg.Connection[Any]
    ) -> tuple[tuple[str, str] | None, list[str]]:
        """Return the column that divides chunks, its type, and the first key of all but one."""
        row = connection.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), c.reltuples, "
            "s.histogram_bounds::text::text[] "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
            "LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname "
            "AND s.attname = a.attname AND NOT s.inherited "
            "WHERE n.nspname = %(schema)s AND c.relname = %(table)s",
            self._name,
        ).fetchone()
        if row is None or not row[3]:
            return None, []
        name, kind, rows, histogram = row
        inner = histogram[1:-1]
        count = min(math.ceil(rows / self._options.chunk_rows) - 1, len(inner))
        at = [(number + 1) * len(inner) // (count + 1) for number in range(count)]
        return (name, kind), list(dict.fromkeys(inner[number] for number in at))

    def _copy_all(self, manifest: SnapshotManifest, exported: str) -> SnapshotManifest:
        current = manifest

        def copy(number: int) -> None:
            nonlocal current
            rows = self._copy(manifest, number, database, exported)
            with self._lock:
                chunk = Chunk(rows=rows, snapshot=len(manifest.snapshots) - 1)
                current = current.model_copy(update={"done": {**current.done, number: chunk}})
                self._keep(current)
                done, total = len(current.done), len(current.bounds) + 1
                self._report(f"{manifest.table}: chunk {done} of {total}, {rows:,} rows")

        with (
            Database(self._conninfo()) as database,
            ThreadPoolExecutor(self._options.workers) as pool,
        ):
            futures = [pool.submit(copy, number) for number in manifest.missing]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return current

    def _copy(
        self, manifest: SnapshotManifest, number: int, database: Database, exported: str
    ) -> int:
        """Read one chunk, write its file, and return the number of rows."""
        columns = parse_schema(self._columns)
        all_columns = parse_schema(self._topic.declared_columns or {})
        rows = 0
        try:
            query = sql.SQL("SELECT {} FROM {} WHERE {}").format(
                selected(columns, self._types), self._table, _range(manifest, number)
            )
            with TemporaryDirectory(prefix="hybrid-snapshot-") as scratch:
                draft = Path(scratch) / chunk_name(number)
                with pq.ParquetWriter(draft, all_columns) as file:
                    for batch in database.rows(exported, query, columns):
                        file.write_batch(
                            self._with_envelope_parts(batch, all_columns, manifest.snapshots[-1])
                        )
                        rows += batch.num_rows
                # Compressed, a chunk fits in memory.
                self._folder.replace_bytes(draft.name, draft.read_bytes())
        except Misfit as error:
            message = f"Rows of `{self._topic.table}` do not fit the `schema`: {error}."
            table = str(self._topic.table)
            hint = (
                "Correct the column's type in the `schema` of the topic, or the rows in the "
                "database; then take the snapshot again: `hybrid snapshot PIPELINE`."
            )
            raise InputError(message, hint, source=self._source_name, table=table) from None
        return rows

    def _with_envelope_parts(
        self, rows: pa.RecordBatch, columns: pa.Schema, snapshot: DatabaseSnapshot
    ) -> pa.RecordBatch:
        """Return rows with the columns of ``include``, too, in the order of all columns."""
        parts = _envelope_parts(snapshot)
        values_of = {name: rows[name] for name in rows.schema.names}
        for name, part in self._topic.include.items():
            kind = columns.field(name).type
            values_of[name] = pa.repeat(pa.scalar(parts.get(part), kind), rows.num_rows)
        return pa.record_batch([values_of[name] for name in columns.names], schema=columns)

    def _read(self) -> SnapshotManifest | None:
        return self._folder.read(MANIFEST, SnapshotManifest)

    def _keep(self, manifest: SnapshotManifest) -> None:
        self._folder.replace(MANIFEST, manifest)


def _export(connection: psycopg.Connection[Any]) -> tuple[str, DatabaseSnapshot]:
    """Export a snapshot, which other sessions can use while this one lives; return its name too."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    row = connection.execute(
        "SELECT pg_export_snapshot(), pg_snapshot_xmin(s)::text, pg_snapshot_xmax(s)::text, "
        "ARRAY(SELECT x::text FROM pg_snapshot_xip(s) x), "
        # Read after the snapshot was taken, so that it is not before it.
        "(pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint, "
        "(extract(epoch FROM clock_timestamp()) * 1000)::bigint "
        "FROM pg_current_snapshot() s"
    ).fetchone()
    if row is None:
        message = "PostgreSQL returned no row for pg_current_snapshot()."
        hint = (
            "Take the snapshot again: `hybrid snapshot PIPELINE`. If this happens again, check "
            "that `snapshot.dsn` leads to a PostgreSQL server."
        )
        raise RunError(message, hint)
    name, xmin, xmax, running, lsn, taken_ms = row
    return name, DatabaseSnapshot(
        lsn=lsn,
        xmin=int(xmin),
        xmax=int(xmax),
        in_progress=sorted(map(int, running)),
        taken_ms=taken_ms,
    )


def _is_connection_lost(error: psycopg.Error | QueryError) -> bool:
    """Return whether a statement failed because the connection or the server is gone.

    https://www.psycopg.org/psycopg3/docs/api/errors.html
    """
    if isinstance(error, QueryError):
        return error.is_connection_lost
    return isinstance(error, psycopg.OperationalError)


def _envelope_parts(snapshot: DatabaseSnapshot) -> dict[Included, Any]:
    """Return the parts of a change's envelope that rows of a snapshot have.

    They have no position, so every change of a row comes after it.
    """
    return {
        "op": "r",
        "deleted": False,
        "lsn": snapshot.lsn,
        "committed_at": datetime.fromtimestamp(snapshot.taken_ms / 1000, UTC),
    }


def _range(manifest: SnapshotManifest, number: int) -> sql.Composable:
    if manifest.key is None:
        return sql.SQL("true")
    name, kind = manifest.key
    # The type's name comes from PostgreSQL itself.
    cast_to = sql.SQL(kind)
    parts = []
    for sign, at in ((">=", number - 1), ("<", number)):
        if 0 <= at < len(manifest.bounds):
            bound = sql.Literal(manifest.bounds[at])
            compare = sql.SQL(f"{{}} {sign} {{}}::{{}}")
            parts.append(compare.format(sql.Identifier(name), bound, cast_to))
    return sql.SQL(" AND ").join(parts) if parts else sql.SQL("true")


def _text(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
