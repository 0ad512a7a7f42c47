"""Reading of a file source from its plan, in order: time range, bounds, rules, changed files.

For Parquet the log points at the files themselves (nothing is copied). For other formats it
points at small tables of splits, which tasks open and parse. Either way Delta's source reads
exactly what was planned, in the planned order, fails when a file is gone, and stays drained for
ever in the runs that follow. The plan comes first, each round or discovery after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl, parse_schema
from sources.common.sql.sql_names import in_backticks
from sources.config.source.event_time import EventTime
from sources.config.source.file_options import TimeRange
from sources.config.source.file_source import FileSource
from sources.config.source.rate_limit import Batch
from sources.config.table.row_rules import NO_RULES, RowRules
from sources.files.listing.changed_splits import refuse_changed
from sources.files.listing.new_files import require_readable_by_spark
from sources.planning.files.file_plan import FoundFiles, read_splits
from sources.state.generation import Generation
from sources.storage.folder import Folder
from sources.storage.stores import Stores
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.literals import literal
from spark_jobs.inside.readers.evaluate_select import select_columns
from spark_jobs.inside.readers.files.drifted_columns import as_one, other_names
from spark_jobs.inside.readers.files.entry_writer import EntryWriter
from spark_jobs.inside.readers.files.kept_batch import by_plan, keep_batch
from spark_jobs.inside.readers.files.parquet_rules import stage_broken
from spark_jobs.inside.readers.files.plan_entries import PlanEntries, PlannedPart, Version
from spark_jobs.inside.readers.files.plan_log import PlanLog
from spark_jobs.inside.readers.files.split_reader import PLACES, split_reader
from spark_jobs.inside.readers.files.staged_listings import folder_to_stage
from spark_jobs.inside.readers.files.staged_outside_rows import (
    BOUNDS,
    event_time_counts,
    stage_outside,
)
from spark_jobs.inside.readers.row_rules import (
    FILE,
    FILE_COLUMNS,
    ROW,
    leave_out,
    place_in_file,
    within_sample,
)
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.readers.staged_bad_records import staging_folder


class PlannedSource:
    """Reader of a file source's planned files, as a stream or as a batch.

    Args:
        source: The declaration.
        parts: Parts of its plan: the first listing, then one for each round (a further listing
            before the hand-over) or discovery (in a folder that keeps filling).
        generation: State of the generation, which keeps plan, Delta log and bad records.
        event_time: Declaration of the event time: its column, and what is done about rows whose
            event time does not count. Which do is part of the plan.
        stores: Access to the storage that holds the files.
        rules: Rules that its rows have to meet.

    Raises:
        InputError: Spark is to read the source's files, and can't read one that arrived after the
            plan.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(
        self,
        source: FileSource,
        parts: Sequence[FoundFiles],
        generation: Generation,
        event_time: EventTime,
        stores: Stores,
        rules: RowRules = NO_RULES,
    ) -> None:
        source = by_plan(source if parts[0].parsed is None else source.parsed(), generation)
        _require_readable(source, parts)
        self._source = source
        self._read = parse_schema(parts[0].read)
        self._columns = parse_schema(parts[0].columns)
        self._event_time = event_time
        self._stores = stores
        self._rules = rules
        self._partitions = parts[0].partitions
        self._generation = generation
        self._found = [*parts]
        self._entries = PlanEntries(
            tuple(PlannedPart(read_splits(part, generation), source) for part in parts)
        )
        self._writer = EntryWriter(source, self._read, self._partitions, event_time, stores)
        self._log = PlanLog(generation.folder(f"plan-log/{source.name}"))
        self._staging = staging_folder(generation, source.name)

    @property
    def entries(self) -> list[int]:
        """Number of entries (files) in each version of its Delta log, computed from the plan.

        Delta's offsets count them, so a committed offset is turned into a position by this list.
        """
        return [version.stop - version.first for version in self._entries.versions()]

    def extend(self, found: FoundFiles) -> None:
        """Add files that arrived while the stream runs to the Delta log, which it reads next.

        Args:
            found: The files, whose discovery is in the state folder already.

        Raises:
            InputError: Spark was to read the source's files, and can't read these.
            StateError: The state is damaged, or can't be written.
            UnavailableError: The state's store does not answer.
        """
        _require_readable(self._source, [found])
        part = PlannedPart(read_splits(found, self._generation), self._source)
        self._found.append(found)
        self._entries = self._entries.with_part(part)
        self.prepare()

    @property
    def is_parsed(self) -> bool:
        """Whether all rows have to be parsed to find those of a range of event times."""
        return not self._source.is_read_by_spark

    @property
    def is_read_as_it_is(self) -> bool:
        """Whether Spark itself reads files that others may write over: Parquet of no table."""
        return self._source.is_read_by_spark and not self._source.is_table

    @property
    def largest(self) -> Batch:
        """Highest numbers of bytes, splits (as ``files``) and rows that a micro-batch reads.

        Each number is a maximum of its own, maybe of different micro-batches. Rows are None if a
        split's number of rows is unknown.
        """
        return self._entries.largest

    def reached(self, entries: int) -> tuple[int, int | None, int | None]:
        """Return how far the source was read after the first entries of its log.

        Args:
            entries: Number of entries that were read.

        Returns:
            Number of splits; number of rows, None if unknown; highest event time in ms, None if
            unknown or nothing was read.
        """
        return self._entries.reached(entries)

    @property
    def read(self) -> pa.Schema:
        """Columns of the source before ``select``, partition columns included."""
        return self._read

    @property
    def partitions(self) -> Sequence[str]:
        """Names of the partition columns, which no file holds; often none."""
        return self._partitions

    def splits(self, first: int, stop: int) -> pa.Table:
        """Return the splits of some log entries, each of which is one.

        Args:
            first: Number of the first entry.
            stop: Number of the entry after the last.
        """
        return self._entries.splits().slice(first, stop - first)

    def require_unchanged(
        self, entries_done: int = 0, stop: int | None = None, *, is_read: bool = False
    ) -> None:
        """Refuse to read files that differ from what was planned.

        Looks at each of them in its storage. Called before a query is built, and before copies of
        the files are committed.

        Args:
            entries_done: Number of log entries that were read already: their files may be gone.
            stop: Number of the log entry before which to end; None for all of them.
            is_read: Whether they were read since, and their rows written.

        Raises:
            InputError: A planned file is missing or was rewritten; the message names up to five.
            UnavailableError: The storage does not answer.
        """
        done, end = self.reached(entries_done)[0], None if stop is None else self.reached(stop)[0]
        to_read = self._entries.splits()[done:end]
        what = "query was not started" if stop is None else "micro-batch was not written"
        what = "micro-batch was written and is given up" if is_read else what
        refuse_changed(self._source.name, to_read, self._stores, what)

    def prepare(self) -> None:
        """Write the versions of the source's Delta log that do not exist yet; it can be repeated.

        Call it before :meth:`stream` and :meth:`batch`. Rows of Parquet files that are left out for
        their event time or by a rule are staged as bad records before.

        Raises:
            InputError: Event times of rows do not count, and ``event_time.outside`` is ``fail`` by
                now; or Spark can't evaluate a rule.
            StateError: The state can't be written.
            UnavailableError: A storage does not answer.
        """
        keep_batch(self._source, self._generation)
        is_native = self._source.is_read_by_spark
        if is_native and self._event_time.outside != "keep":
            parts = zip(self._entries.parts, self._found, strict=True)
            for number, (part, found) in enumerate(parts):
                stage_outside(
                    self._source,
                    self._event_time,
                    self._generation,
                    (number, part.splits, found),
                    [*self._read.names, *other_names(self._source)],
                    self._stores,
                )
        if is_native and self._rules.left_out:
            for number in range(len(self._entries.parts)):
                self._stage_broken(number)
        self._write_log(self._log, [*self._entries.versions()])

    def _write_log(self, log: PlanLog, versions: Sequence[Version]) -> None:
        self._writer.write(log, versions, self._entries.parts, self._found)

    def _stage_broken(self, number: int) -> None:
        """Stage the rows of a listing of Parquet files that are left out by a rule, once."""
        name, generation = self._source.name, self._generation
        folder = folder_to_stage(generation, name, f"rules-{number}")
        if folder is None:
            return
        # A log of its own: once a version is in the source's log, a running stream reads it.
        log = PlanLog(generation.folder(f"plan-log/{name}-rules-{number}"))
        self._write_log(log, [each for each in self._entries.versions() if each.part == number])
        spark = SparkSession.active()
        listed = spark.read.format("delta").load(log.folder.hadoop_path)
        rows = self._read_rows(spark, listed.withColumn(FILE, F.col("_metadata.file_path")), [FILE])
        stage_broken(rows, self._rules, self._columns.names, folder, number)
        log.folder.delete_all()

    def complete(self, spark: SparkSession) -> None:
        """Tell a session that the plan's log is complete, so that later queries do not list it.

        For a source that was read to its end. Nothing is written; it has an effect in S3 only.
        """
        self._log.complete(spark, len(self.entries))

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the source's rows as a stream, in planned order; call :meth:`prepare` before.

        A missing or damaged file fails the query, as does a bad row under ``on_bad_record: fail``.

        Raises:
            InputError: Spark can't evaluate ``select``, or a type differs from the planned one.
        """
        batch = self._source.batch
        if self._source.is_read_by_spark:
            return self._rows(spark, self._log.stream(spark, batch.files, int(batch.bytes)))
        # Splits were grouped by the same limits when the log was written.
        return self._rows(spark, self._log.stream(spark, 1))

    @property
    def can_be_written(self) -> bool:
        """Whether tasks can write the rows that they read, without processing by Spark.

        So it is where Python workers parse the files, and nothing is computed, chosen or checked
        afterwards.
        """
        source, rules = self._source, self._rules
        return (
            not source.is_read_by_spark
            and not source.selection.expressions
            and source.time_range == TimeRange()
            and not rules.rules
            and rules.sample is None
        )

    def written(self, spark: SparkSession, writers: RowWriters) -> DataFrame:
        """Return a stream, in planned order, of the tasks' reports about the rows that they wrote.

        Only if :attr:`can_be_written`; call :meth:`prepare` before. A damaged file fails the query,
        and a bad row is treated as ``on_bad_record`` says.

        Args:
            spark: The Spark session.
            writers: How tasks write.
        """
        entries = self._spread(spark, self._log.stream(spark, 1))
        read = self._reader(self._read, self._staging)
        return entries.mapInArrow(writers.after(read), ddl(writers.told))

    def batch(self, spark: SparkSession) -> DataFrame:
        """Return all rows of the source as a batch; call :meth:`prepare` before.

        Bad rows are left out without being staged, unless ``on_bad_record`` is ``fail``.

        Raises:
            InputError: Spark can't evaluate ``select``, or a type differs from the planned one.
        """
        return self._rows(spark, spark.read.format("delta").load(self._log.folder.hadoop_path))

    def _rows(self, spark: SparkSession, entries: DataFrame) -> DataFrame:
        rules, columns = self._rules, self._columns.names
        if not rules.rules:
            return self._read_rows(spark, entries)
        if self._source.is_read_by_spark:
            # The driver has staged those that are left out.
            rows, staging = self._read_rows(spark, entries), None
            rows = rows.withColumn(FILE, F.input_file_name()).withColumn(ROW, F.lit(None))
        else:
            rows = self._read_rows(spark, entries, FILE_COLUMNS)
            staging = self._staging if entries.isStreaming else None
        return leave_out(rows, rules, place_in_file(columns), staging).drop(*FILE_COLUMNS)

    def _read_rows(
        self, spark: SparkSession, entries: DataFrame, places: Sequence[str] = ()
    ) -> DataFrame:
        """Return the rows before any rule; ``places`` are further columns to return."""
        rows, kept = entries, [*BOUNDS.names, *places]
        if not self._source.is_read_by_spark:
            kept = [*places]
            staging = self._staging if entries.isStreaming else None
            returned = pa.schema([*self._read, *(PLACES if places else [])])
            read = self._reader(returned, staging)
            rows = self._spread(spark, entries).mapInArrow(read, ddl(returned))
        elif not self._may_have_outside:
            rows, kept = rows.drop(*BOUNDS.names), [*places]
        if self._source.is_read_by_spark and self._source.schema_drift is not None:
            rows = as_one(rows, self._source, self._read, kept)
        rows = select_columns(rows, self._source.selection, self._columns, kept)
        column = self._event_time.column
        if BOUNDS.names[0] in kept:
            rows = rows.where(event_time_counts(column)).drop(*BOUNDS.names)
        time_range, at = self._source.time_range, F.col(in_backticks(column))
        # A row without an event time lies in no range and must not be lost: it is kept.
        if time_range.since is not None:
            rows = rows.where(at.isNull() | (at >= literal(time_range.since, "timestamp")))
        if time_range.until is not None:
            rows = rows.where(at.isNull() | (at < literal(time_range.until, "timestamp")))
        return within_sample(rows, self._rules)

    def _spread(self, spark: SparkSession, entries: DataFrame) -> DataFrame:
        """Divide splits among tasks."""
        # Round robin: a hash of the ranks would give some tasks twice the splits of others.
        tasks = 2 * spark.sparkContext.defaultParallelism
        return entries.repartitionById(tasks, F.col("rank").cast("int"))

    def _reader(self, returned: pa.Schema, staging: Folder | None) -> Step:
        return split_reader(returned, self._source, self._event_time, self._stores, staging)

    @property
    def _may_have_outside(self) -> bool:
        """Whether rows of Parquet files may have to be left out by their event time.

        Known from the plan, so that rows of others cost nothing. A folder that keeps growing may
        get such rows while it is read.
        """
        if self._event_time.outside == "keep":
            return False
        is_growing = self._source.discovery_interval is not None
        grows = is_growing and self._event_time.outside != "fail"
        return grows or any(found.times.outside for found in self._found)


def _require_readable(source: FileSource, parts: Sequence[FoundFiles]) -> None:
    """Refuse files that Spark does not read, if the plan has let it read the others."""
    if source.is_read_by_spark:
        found = next((part.parsed for part in parts if part.parsed is not None), None)
        require_readable_by_spark(source.name, found)
