"""Collection of staged bad records after a commit: each counted and quarantined exactly once.

:mod:`spark_jobs.inside.readers.staged_bad_records` stages them. Once a micro-batch is committed,
the driver counts each of its bad records once, however often it was staged, appends it to the
quarantine table, and removes the batch's folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from sources.config.pipeline import Pipeline
from sources.config.source.bad_record_policy import (
    BadRecordCount,
    BadRecords,
    bad_count_name,
    quarantine_folder,
)
from sources.config.source.event_time import EventTime
from sources.config.table.row_rules import NO_RULES, RULE_KIND, RowRules
from sources.errors import InputError
from sources.state.generation import Generation
from sources.storage.stores import Stores
from spark_jobs.checkpoint import offset_log
from spark_jobs.inside.readers.staged_bad_records import STAGED, staging_folder
from spark_jobs.inside.readers.topics.decode_records import REPAIRED
from spark_jobs.table.delta_table import commit_once

_PLACE = ["place", "partition", "offset"]
_COUNTED = [*_PLACE, "kind"]
_TABLE = pa.schema([("source", pa.string()), *STAGED, ("batch_id", pa.int64())])
_READ_ROWS = 10_000


class Collector:
    """Collector of the bad records of one source: counts what tasks have staged, and keeps it.

    Only one driver at a time may use it.

    Args:
        generation: State of the generation, which keeps staged records and their count.
        source: Name of the source.
        declared: Its ``on_bad_record``, and the quarantine table if it has one.
        event_time: The pipeline's event time with its policy ``outside``.
        stores: Stores that the quarantine table may be in.
        rules: The pipeline's rules.

    Raises:
        InputError: The scheme of the quarantine table's path is not supported.
    """

    def __init__(
        self,
        generation: Generation,
        source: str,
        declared: BadRecords,
        event_time: EventTime,
        stores: Stores,
        rules: RowRules = NO_RULES,
    ) -> None:
        self._generation = generation
        self._source = source
        self._recorded = pa.array(declared.recorded(event_time, rules), pa.string())
        self._table = quarantine_folder(source, declared.quarantine, generation, stores)
        self._folder = staging_folder(generation, source)

    def collect(self) -> BadRecordCount:
        """Count the staged bad records of committed micro-batches, then delete the staged files.

        Quarantined ones are appended to the quarantine table first. Records of micro-batches that
        are not committed stay staged. It can be called at any time, also again after a crash:
        nothing is counted or appended twice.

        Returns:
            The numbers of the source's bad records since the generation began.

        Raises:
            InputError: The quarantine table can't be written.
            StateError: The state is damaged, or can't be written.
            UnavailableError: The store of the state or of the quarantine table does not answer.
        """
        committed = offset_log.last_committed(self._generation.checkpoint)
        counted = self._generation.read(bad_count_name(self._source), BadRecordCount)
        counted = counted or BadRecordCount(source=self._source)
        for batch in sorted(int(name) for name in self._folder.folders() if name.isdigit()):
            if committed is None or batch > committed:
                break
            counted = self._take(batch, counted)
            # A task that was abandoned may still write there: the next call removes that.
            self._folder.folder(str(batch)).delete_all()
        return counted

    def _take(self, batch: int, counted: BadRecordCount) -> BadRecordCount:
        """Append to the table and count; each is skipped if it was done for this batch before."""
        files = self._folder.names(f"{batch}/*.parquet")
        tables = [self._file(name).read(columns=_COUNTED) for name in files]
        staged = pa.concat_tables([STAGED.empty_table().select(_COUNTED), *tables])
        # A good change may be staged, too, before its event time turns out to be out of bounds.
        # A row of a file that breaks a rule has a number, a line that can't be read its first byte.
        places = staged.select(_COUNTED).to_pandas()
        bad = places[(staged["kind"].to_pandas() != REPAIRED).to_numpy()]
        is_first = pa.array(places.index.isin(bad.drop_duplicates().index))
        selected = pc.and_(is_first, pc.is_in(staged["kind"].combine_chunks(), self._recorded))
        if pc.any(selected).as_py():
            self._append(batch, files, selected)
        if counted.last_batch >= batch:
            return counted
        kinds = Counter(staged["kind"].filter(is_first).to_pylist())
        met = {kind.removeprefix(RULE_KIND) for kind in kinds if kind.startswith(RULE_KIND)}
        rules = sorted({*counted.broken, *met})
        now = BadRecordCount(
            source=self._source,
            total=counted.total + kinds["unreadable"],
            outside=counted.outside + kinds["outside"],
            broken={
                rule: counted.broken.get(rule, 0) + kinds[f"{RULE_KIND}{rule}"] for rule in rules
            },
            last_batch=batch,
        )
        self._generation.replace(bad_count_name(self._source), now)
        return now

    def _file(self, name: str) -> pq.ParquetFile:
        return pq.ParquetFile(pa.BufferReader(self._folder.read_bytes(name)))

    def _append(self, batch: int, files: list[str], selected: pa.BooleanArray) -> None:
        application = f"{self._generation.info.transaction_id}/{self._source}"
        done = Transaction(application, batch)
        try:
            options = self._table.documents.delta_options
            table = DeltaTable.create(
                self._table.url, _TABLE, mode="ignore", storage_options=options
            )
            written = table.transaction_version(application)
            if written is not None and written >= batch:
                return
            rows = pa.RecordBatchReader.from_batches(_TABLE, self._rows(batch, files, selected))

            def append(properties: CommitProperties) -> None:
                write_deltalake(table, rows, mode="append", commit_properties=properties)

            commit_once(append, self._table, done)
        except DeltaError as error:
            message = (
                f"The quarantine table {self._table} of source `{self._source}` can't be written: "
                f"{str(error).rstrip('.')}. The bad records of micro-batch {batch} stay staged "
                f"in {self._folder}."
            )
            hint = (
                "Correct what the message says of the table, or name another folder under "
                "`quarantine` of the source; then run the pipeline again: `hybrid run P`."
            )
            raise InputError(
                message, hint, source=self._source, table=self._table.url, field="quarantine"
            ) from None

    def _rows(
        self, batch: int, files: list[str], selected: pa.BooleanArray
    ) -> Iterator[pa.RecordBatch]:
        at = 0
        for name in files:
            with self._file(name) as file:
                for rows in file.iter_batches(_READ_ROWS):
                    kept = rows.filter(selected.slice(at, rows.num_rows))
                    at += rows.num_rows
                    source = pa.repeat(pa.scalar(self._source), kept.num_rows)
                    number = pa.repeat(pa.scalar(batch, pa.int64()), kept.num_rows)
                    yield pa.RecordBatch.from_arrays([source, *kept.columns, number], schema=_TABLE)


class Collectors:
    """Collectors of all sources whose bad records are dropped or quarantined.

    Args:
        pipeline: The pipeline's declaration.
        generation: State of the generation, which keeps staged records and their counts.

    Raises:
        InputError: The scheme of a quarantine table's path is not supported.
    """

    def __init__(self, pipeline: Pipeline, generation: Generation) -> None:
        self._collectors = {
            source.name: Collector(
                generation,
                source.name,
                source,
                pipeline.event_time,
                pipeline.stores,
                pipeline.row_rules,
            )
            for source in pipeline.sources
            if source.left_out(pipeline.event_time, pipeline.row_rules)
        }

    def collect(self) -> dict[str, BadRecordCount]:
        """Count the staged bad records of committed micro-batches of all sources, and keep them.

        Called before, during and after a run; nothing is counted or quarantined twice.

        Returns:
            Numbers of bad records since the generation began, by name of the source; only sources
            that drop or quarantine some kind of record are in it.

        Raises:
            InputError, StateError, UnavailableError: As :meth:`Collector.collect`.
        """
        return {name: collector.collect() for name, collector in self._collectors.items()}
