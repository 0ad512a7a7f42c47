"""Copy of a database table into Parquet files: chunks in parallel, interrupted and resumed.

It can be interrupted: chunks that are written are kept, and the next call reads the others under a
new snapshot. The position of the whole is that of the first one; changes that later chunks already
hold are merged again. A target that keeps every change would have them twice: its chunks are all of
one snapshot, and an interrupted copy begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from hybrid_extensions.cdc.databases.captured_table import (
    CapturedTable,
    Division,
    Exported,
    Misfit,
    QueryError,
    SnapshotReader,
)
from hybrid_extensions.cdc.databases.connector_settings import require_settings
from hybrid_extensions.cdc.databases.kinds import access_to
from sources.common.counting import counted
from sources.common.database_snapshot import DatabaseSnapshot
from sources.common.positions import Offsets
from sources.common.schema import parse_schema
from sources.config.loader import LoadedPipeline
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.config.source.snapshot import (
    MANIFEST,
    Chunk,
    SnapshotManifest,
    chunk_name,
    folder_of,
)
from sources.errors import HybridError, InputError, RunError, StateError, UnavailableError
from sources.kafka.client.create_topics import create_missing_topics
from sources.kafka.client.kafka_log import KafkaLog

T = TypeVar("T")
_NOTHING_READ = "This attempt has read no row of the table."


class SnapshotCopy:
    """Copy of a database table, as declared under ``snapshot`` of a file source, to Parquet files.

    The constructor checks the declaration only; :meth:`take` reads the database.

    Args:
        loaded: The pipeline.
        source: File source with a ``snapshot``.
        report: Called with a line of text for each chunk (a key range, one file) that is written.

    Attributes:
        folder: Folder of the chunks' files and their manifest. Only one process at a time may call
            :meth:`take` for it: whoever calls it holds a lock there.
        warnings: Sentences about settings of the table that may cause trouble later, filled by
            :meth:`take`.

    Raises:
        InputError: The source has no ``snapshot``, or no topic with the changes follows it.
    """

    def __init__(
        self, loaded: LoadedPipeline, source: FileSource, report: Callable[[str], None]
    ) -> None:
        topic = loaded.pipeline.changes_after(source.name)
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
        self._topic: KafkaSource = topic
        self._table = CapturedTable.of(loaded, source, topic)
        self._report = report
        self.folder = loaded.place(folder_of(source.patterns)).called("snapshot's folder")
        self._lock = threading.Lock()
        self._log_end: Offsets | None = None
        self.warnings: list[str] = []

    def is_done(self, *, first_only: bool = False) -> bool:
        """Return whether nothing of the database's table is left to copy, by the manifest.

        The manifest is the document next to the copied chunks that says which are complete.

        Args:
            first_only: Whether one copied chunk is enough, as a run may begin with it.

        Raises:
            InputError: The folder has the snapshot of another table.
            StateError: The manifest is damaged.
        """
        manifest = self._read()
        return manifest is not None and _is_done(manifest, first_only=first_only)

    def note_log_end(self) -> None:
        """Ask Kafka for the log end of the topic of changes, and keep it for :meth:`take`.

        Call it before a snapshot that several tables share. Creates a topic that is missing, if
        declared.

        Raises:
            UnavailableError: The broker does not answer.
            InputError: The broker refuses.
        """
        create_missing_topics(self._topic)
        # Before the snapshot: what it does not see is appended later.
        self._log_end = KafkaLog(self._topic).log_end()

    def require_table(self) -> None:
        """Refuse a table that can't be captured as declared; reads no row, and writes nothing.

        Asks nothing if the copy is complete: then nothing more of the table is read.

        Raises:
            InputError: The database refuses the login or a permission; or the table, its log, or
                its connector or the settings of that, do not fit.
            StateError: The manifest of a copy that was begun is damaged.
            UnavailableError: The database does not answer.
        """
        if self.is_done():
            return
        require_settings(self._table.options, self._topic)
        try:
            begun = self._begun(self._read())
            with _opened(access_to(begun.options.dsn).open_table(begun)):
                pass
        except QueryError as error:
            text = " ".join(str(error).split()).rstrip(".")
            message = f"The snapshot of `{self._table.name}` can't be taken: {text}."
            raise self._refusal(error, message) from None

    def take(
        self, exported: Exported | None = None, *, first_only: bool = False
    ) -> SnapshotManifest:
        """Copy the chunks of the table that are not written yet, under a new database snapshot.

        A chunk is a key range of the table and becomes one file; a complete copy is left as it is.
        All are copied again for a target that keeps every change.

        Args:
            exported: A snapshot that several tables share (:func:`snapshot_of`), before which
                :meth:`note_log_end` was called; by default one of its own.
            first_only: Copy one chunk, and leave a copy that has one as it is.

        Returns:
            The manifest of the copy, which is complete unless ``first_only``.

        Raises:
            InputError: The database refuses the login or a permission; the table, its log or its
                connector does not fit; rows do not fit the ``schema``; or the broker refuses.
            StateError: Another process has written the manifest meanwhile (transient).
            UnavailableError: The database, before any chunk was begun, or the broker does not
                answer.
            RunError: Reading was interrupted; the written chunks are kept, and the next call copies
                the others.
        """
        known = manifest = self._read()
        if manifest is not None and _is_done(manifest, first_only=first_only):
            return manifest
        require_settings(self._table.options, self._topic)
        if exported is None or self._log_end is None:
            self.note_log_end()
        try:
            shared = replace(self._begun(manifest), exported=exported)
            with _opened(access_to(shared.options.dsn).open_table(shared)) as table:
                self.warnings += table.warnings
                readers = table.readers(1 if first_only else self._table.options.workers)
                if manifest is None:
                    key, bounds = table.divide()
                    manifest = SnapshotManifest(
                        table=self._table.name,
                        key=key,
                        bounds=list(bounds),
                        snapshots=[],
                        offsets=self._log_end or {},
                        done={},
                        definition=table.definition,
                    )
                elif manifest.key is not None and manifest.total - 1 in manifest.missing:
                    # The rows that the table got since are in the last chunk.
                    division = table.divide(Division(manifest.key, manifest.bounds))
                    manifest = manifest.model_copy(update={"bounds": list(division.bounds)})
                if not shared.is_merged:
                    # Rows of a later snapshot would come by the topic once more.
                    manifest = manifest.model_copy(
                        update={
                            "snapshots": [],
                            "offsets": self._log_end or {},
                            "done": {},
                            "definition": table.definition,
                        }
                    )
                snapshots = list(manifest.snapshots)
                # Earlier ones first: the first of all is the position of the whole.
                numbers = [_number(each.snapshot, snapshots) for each in readers]
                manifest = manifest.model_copy(update={"snapshots": snapshots})
                self._keep(known, manifest)
                chunks = manifest.missing[:1] if first_only else manifest.missing
                return self._copy_all(manifest, chunks, list(zip(readers, numbers, strict=True)))
        except QueryError as error:
            kept = self._read()
            text = " ".join(str(error).split()).rstrip(".")
            message = f"The snapshot of `{self._table.name}` failed: {text}."
            if kept is None:
                raise self._refusal(error, message) from None
            first = "" if error.is_connection_lost else "Correct what the database refuses. "
            hint = (
                f"{first}{len(kept.done)} of {kept.total} chunks are kept. Run it again with "
                "`hybrid snapshot P`: the others are read under a new snapshot."
            )
            if not self._table.is_merged:
                hint = (
                    f"{first}Run it again with `hybrid snapshot P`: all chunks are read anew, as "
                    "the table keeps every change, and so has to be of one snapshot."
                )
            raise RunError(
                message,
                hint,
                transient=error.is_connection_lost,
                source=self._table.source,
                table=self._table.name,
            ) from None

    def _begun(self, manifest: SnapshotManifest | None) -> CapturedTable:
        """Return the table as it may be now: with columns of later, if its copy is begun.

        Those are left to the topic, where ``on_schema_change`` follows or ignores them: rows that
        no change is of hold their default, as rows of chunks from before do.
        """
        changes = self._topic.changes
        is_left = changes is not None and changes.policies.added != "stop"
        return replace(self._table, may_have_more=manifest is not None and is_left)

    def _refusal(self, error: QueryError, message: str) -> HybridError:
        """Return the error of a statement before any chunk: the server is lost, or refuses."""
        table, message = self._table, f"{message} {_NOTHING_READ}"
        if error.is_connection_lost:
            hint = (
                "Check that the database server runs, then take the snapshot: `hybrid snapshot P`."
            )
            server = access_to(table.options.dsn).server_of(table.options.dsn)
            return UnavailableError(
                message, hint, source=table.source, table=table.name, server=server
            )
        hint = (
            "Correct what the database names: the user of `snapshot.dsn` needs SELECT on "
            f"`{table.name}`, and `table` and `schema` have to fit it. Then take the snapshot: "
            "`hybrid snapshot P`."
        )
        return InputError(message, hint, source=table.source, table=table.name)

    def _copy_all(
        self,
        manifest: SnapshotManifest,
        chunks: Sequence[int],
        readers: Sequence[tuple[SnapshotReader, int]],
    ) -> SnapshotManifest:
        current = manifest
        idle: SimpleQueue[tuple[SnapshotReader, int]] = SimpleQueue()
        for each in readers:
            idle.put(each)

        def copy(chunk: int) -> None:
            nonlocal current
            reader, snapshot = idle.get()
            try:
                rows = self._copy(manifest, chunk, reader)
            finally:
                idle.put((reader, snapshot))
            with self._lock:
                done = {**current.done, chunk: Chunk(rows=rows, snapshot=snapshot)}
                changed = current.model_copy(update={"done": done})
                self._keep(current, changed)
                current = changed
                self._report(
                    f"{manifest.table}: chunk {len(done)} of {current.total}, "
                    f"{counted(rows, 'row')}"
                )

        with ThreadPoolExecutor(len(readers)) as pool:
            futures = [pool.submit(copy, chunk) for chunk in chunks]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return current

    def _copy(self, manifest: SnapshotManifest, chunk: int, reader: SnapshotReader) -> int:
        """Read one chunk, write its file, and return the number of rows."""
        columns = parse_schema(self._topic.declared_columns or {})
        rows = 0
        try:
            with TemporaryDirectory(prefix="hybrid-snapshot-") as scratch:
                draft = Path(scratch) / chunk_name(chunk)
                with pq.ParquetWriter(draft, columns) as file:
                    for batch in reader.rows(Division(manifest.key, manifest.bounds), chunk):
                        file.write_batch(self._complete(batch, columns, reader.snapshot))
                        rows += batch.num_rows
                # Compressed, a chunk fits in memory.
                self.folder.replace_bytes(draft.name, draft.read_bytes())
        except Misfit as error:
            message = (
                f"Rows of `{self._table.name}` do not fit the `schema`: {error}. Their chunk was "
                "not written; chunks that were written stay."
            )
            hint = (
                "Correct the rows in the database, then take the snapshot again: `hybrid snapshot "
                "P`. Or correct the column's type in the `schema` of the topic: chunks that are "
                "written have the old one, so take the snapshot then in another folder (`path`)."
            )
            raise InputError(
                message, hint, source=self._table.source, table=self._table.name
            ) from None
        return rows

    def _complete(
        self, rows: pa.RecordBatch, columns: pa.Schema, snapshot: DatabaseSnapshot
    ) -> pa.RecordBatch:
        """Return rows with the columns of ``include``, too, in the order of all columns."""
        parts = {**snapshot.envelope(), "topic": self._table.options.topic}
        values_of = {name: rows[name] for name in rows.schema.names}
        for name, part in self._topic.include.items():
            kind = columns.field(name).type
            values_of[name] = pa.repeat(pa.scalar(parts.get(part), kind), rows.num_rows)
        return pa.record_batch([values_of[name] for name in columns.names], schema=columns)

    def _read(self) -> SnapshotManifest | None:
        """Return the manifest; refuse one of another table, whose rows would be taken for these."""
        found = self.folder.read(MANIFEST, SnapshotManifest)
        if found is None or found.table == self._table.name:
            return found
        message = (
            f"{self.folder} has the snapshot of table `{found.table}`, and the topic after source "
            f"`{self._table.source}` is of `{self._table.name}`."
        )
        hint = (
            f"Give source `{self._table.source}` another `path`, or correct `table` of the topic; "
            "then take the snapshot: `hybrid snapshot P`."
        )
        raise InputError(message, hint, source=self._table.source, table=self._table.name)

    def _keep(self, known: SnapshotManifest | None, manifest: SnapshotManifest) -> None:
        """Write the manifest over the one that this process knows.

        So all chunks are of the same key ranges, even if this process slept until its lease in a
        store had expired, and another one goes on.
        """
        if self.folder.replace_known(MANIFEST, known, manifest):
            return
        path = self.folder.location(MANIFEST)
        message = (
            f"Another process has written {path} in the meantime: it copies table "
            f"`{self._table.name}` now, and this one stops."
        )
        hint = "Nothing is lost: the other process reads all chunks that the manifest lacks."
        raise StateError(message, hint, transient=True, file=path)


def _is_done(manifest: SnapshotManifest, *, first_only: bool) -> bool:
    return not manifest.missing or (first_only and bool(manifest.done))


def _number(snapshot: DatabaseSnapshot, known: list[DatabaseSnapshot]) -> int:
    """Return the index of a snapshot in a list, to which it is appended if it is new."""
    if snapshot not in known:
        known.append(snapshot)
    return known.index(snapshot)


@contextmanager
def _opened(table: AbstractContextManager[T]) -> Iterator[T]:
    """Open a table; an error of the checks before it is read says that no row was read."""
    with ExitStack() as opened:
        try:
            entered = opened.enter_context(table)
        except HybridError as error:
            error.message = f"{error.message} {_NOTHING_READ}"
            raise
        yield entered


@contextmanager
def snapshot_of(tables: Sequence[SnapshotCopy]) -> Iterator[Exported]:
    """Take one database snapshot for several tables of a database, for the body of ``with``.

    All tables are then of one point in time. The log ends of their topics are noted first.

    Args:
        tables: Copies of the tables, at least one.

    Yields:
        The snapshot, for :meth:`SnapshotCopy.take`; it is valid until the block ends.

    Raises:
        InputError: The database or the broker refuses.
        UnavailableError: The database or the broker does not answer.
    """
    for each in tables:
        each.note_log_end()
    first = tables[0]
    with ExitStack() as opened:
        try:
            exported = opened.enter_context(
                _opened(access_to(first._table.options.dsn).export(first._table))
            )
        except QueryError as error:
            text = " ".join(str(error).split()).rstrip(".")
            raise first._refusal(error, f"The database's snapshot failed: {text}.") from None
        yield exported
