"""Seam of a topic: which filter it needs, when it is passed, and how many rows it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.types import StructType

from sources.common.positions import EndPosition, Offsets, StartPosition, TopicPartition
from sources.config.source.kafka_source import KafkaSource
from sources.errors import StateError
from sources.kafka.seam import held_snapshot, seam_rule
from sources.ledger import SeamCount, count_name
from sources.planning.context import PipelineContext
from sources.planning.topics.topic_range import find_range
from sources.storage.folder import Folder
from spark_jobs.inside.query.places.history import EarlierSources
from spark_jobs.inside.query.seam.certain_rows import CertainRows, are_compared_exactly
from spark_jobs.inside.query.seam.driver_filter import DriverFilter
from spark_jobs.inside.query.seam.duplicate_filters import (
    IS_NEW,
    KEYS,
    MOST_BROADCAST,
    RECENT,
    EventTimeFilter,
    KeyColumns,
    KeyFilter,
    SeamFilter,
    SequenceFilter,
    SnapshotFilter,
    kept_name,
)
from spark_jobs.inside.query.seam.metrics import SeamMetrics, observe_seam
from spark_jobs.inside.query.seam.row_cache import KeptRows, find_kept, publish_rows, write_table
from spark_jobs.inside.query.seam.rows_in_seam import NUMBER, POSITION, SeamOffsets
from spark_jobs.inside.query.seam.same_rows import SameRows
from spark_jobs.inside.query.seam.table_rows import HistoryTable, is_in_table, table_of_history
from spark_jobs.inside.query.seam.task_counts import TaskCounts
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import PARTITION, TOPIC, read_topics
from spark_jobs.inside.readers.topics.parse_records import parse_values, record_columns


class Seam:
    """Seam between history and one topic: the offsets whose rows history may also contain.

    Args:
        context: The pipeline, and the state that keeps keys and counts.
        source: The topic's source.
        ends: End positions of all sources before the topic, in order.
        start: Start position of the topic.
        seam_end: First offset beyond the seam, by partition.
        history: The sources before the topic that are read from a plan.

    Attributes:
        start: Start position of the topic, as given.
        seam_end: First offset beyond the seam, by partition, as given.
        rule: By what rows that history has delivered are recognized: ``key``, ``event_time``,
            ``sequence``; or ``none``, ``off`` or ``replay`` if no row is filtered.
        counts: Row counts of micro-batches whose tasks write what is certainly new.

    Raises:
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer.
    """

    def __init__(
        self,
        context: PipelineContext,
        source: KafkaSource,
        *,
        ends: Sequence[EndPosition],
        start: StartPosition,
        seam_end: Offsets,
        history: EarlierSources,
    ) -> None:
        self._context = context
        self._pipeline = context.pipeline
        self._source = source
        self._generation = context.generation
        self._ends = ends
        self.seam_end = seam_end
        self._columns = record_columns(context.plan, source)
        decided = find_range(context.generation, source.name)
        clock_ms = None if decided is None else decided.clock_ms
        self._event_time = EventTimeCheck(context.pipeline.event_time, clock_ms)
        self._history = history
        self.start = start
        self.rule = seam_rule(context.pipeline, ends, start, seam_end)
        self.counts = TaskCounts(self._offsets, seam_end)
        self._keys: KeyFilter | None = None
        self._looked_up: tuple[KeptRows | None, HistoryTable | None] | None = None

    @property
    def _folder(self) -> Folder:
        """Folder of the kept keys; history that has grown since has another one."""
        splits = sum(end.splits for end in self._ends)
        name = f"{splits}-splits-with-content-from-{self._keys_from_ms}"
        return self._generation.folder(f"seam/{self._source.name}/{name}")

    @property
    def _keys_from_ms(self) -> int:
        """Event time from which on the keys of history are kept."""
        times = [self._ends[-1].complete_through_ms]
        if self.start.time_ms is not None:
            times.append(self.start.time_ms)
        return min(times) - self._pipeline.lateness_ms

    def is_passed(self, reached: Mapping[TopicPartition, int]) -> bool:
        """Return whether a stream that has read so far no longer needs the seam filter.

        Args:
            reached: First offset not yet read, by partition; a partition that is missing counts as
                not read. Empty for a stream that has read nothing.

        Returns:
            Always False under the rule ``sequence``, whose filter stays for ever; always True under
            the rules that filter nothing.
        """
        if self.rule == "sequence":
            return False
        if self.rule in ("none", "off", "replay"):
            return True
        # A partition that appeared after the hand-over has nothing that history could hold.
        starts = self.start.offsets()
        return all(
            reached.get(at, starts[at]) >= end
            for at, end in self.seam_end.items()
            if at in starts and starts[at] < end
        )

    def is_to_count(self) -> bool:
        """Return whether the seam is filtered and the state has no count of its rows yet.

        Raises:
            StateError: The count is damaged, or of an unknown version.
            UnavailableError: The state's store does not answer.
        """
        name = count_name(self._source.name)
        return self._ends_with_seam and self._generation.read(name, SeamCount) is None

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return the topic's rows without those in the seam that history contains.

        Only for a seam that is not passed yet: rules that remove nothing have no filter.
        The keys of history are written first if they are needed and not kept yet, which reads
        history. The micro-batches of a stream report what they remove (:class:`SeamMetrics`).

        Args:
            rows: Parsed records with their topic, partition and offset (``LOG_COLUMNS``).

        Raises:
            InputError: History is needed, and a planned file is missing or was rewritten, or the
                target can't be read.
            SeamError: History is needed, and Kafka has deleted records of it.
            StateError: The rule is ``sequence``, and the pipeline or the end position has none; or
                the state is damaged.
            UnavailableError: History is needed, and a storage does not answer.
        """
        return self._without_held(rows, self._mark(rows))

    def certain_rows(self, spark: SparkSession, columns: pa.Schema) -> CertainRows | None:
        """Return the check by which tasks find rows of the seam that are certainly new, or old.

        The keys of history are written first if they are not kept yet, as by :meth:`apply`.

        Args:
            spark: The Spark session.
            columns: Columns of the topic's rows.

        Returns:
            None if only the filter can decide which rows are new.

        Raises:
            InputError: History is needed, and a planned file is missing or was rewritten, or the
                target can't be read.
            SeamError: History is needed, and Kafka has deleted records of it.
            StateError: The state is damaged.
            UnavailableError: History is needed, and a storage does not answer.
        """
        if self.rule != "key":
            return None
        names = self._pipeline.key
        if (recent := self._known(spark)[0]) is not None:
            known = recent.columns(self._folder, sorted(self._key_columns.all))
        else:
            kept = self._keys_of_history(spark).keep()
            if kept.rows > MOST_BROADCAST:
                return None
            known = kept.columns(self._folder, [kept_name(name) for name in names])
            known = known.rename_columns(names)
        keys = known.select(names).combine_chunks()
        if not are_compared_exactly(keys.schema, columns):
            return None
        values = {name: pc.unique(keys[name]) for name in names}
        starts = self.start.offsets()
        ends = {at: end for at, end in self.seam_end.items() if starts.get(at, 0) < end}
        return CertainRows(
            ends,
            values,
            self._pipeline.event_time.column,
            self._keys_from_ms,
            None if recent is None else SameRows.of(known, [*names, *self._compared()], columns),
        )

    def in_driver(self, spark: SparkSession, columns: pa.Schema) -> DriverFilter | None:
        """Return the filter for rows in the driver's memory; None if only Spark can decide.

        Args:
            spark: The Spark session.
            columns: Columns of the topic's rows.

        Raises:
            InputError: History is needed, and a planned file is missing or was rewritten, or the
                target can't be read.
            SeamError: History is needed, and Kafka has deleted records of it.
            StateError: The rule is ``sequence``, and the pipeline or the end position has none; or
                the state is damaged.
            UnavailableError: History is needed, and a storage does not answer.
        """
        return None if self._ends_with_seam else DriverFilter.of(self._filter(spark), columns)

    def apply_to_left(self, rows: DataFrame, batch_id: int) -> DataFrame:
        """Return the rows without those that history contains, of records that tasks have left.

        Only for a seam that is not passed yet.

        Args:
            rows: As for :meth:`apply`, of a micro-batch.
            batch_id: Its number; those of a seam that ends are counted in ``counts``.

        Raises:
            InputError, SeamError, StateError, UnavailableError: As :meth:`apply`.
        """
        marked = self._mark(rows)
        return _new(self.counts.observe(marked, batch_id) if self._ends_with_seam else marked)

    def waits_for_table(self, spark: SparkSession) -> bool:
        """Return whether the filter's keys will be read from the target, once it has history.

        They are if the transform passes on history's rows, and to parse them again would take long.

        Raises:
            InputError: The transform's function can't be imported or is not callable, or its query
                file can't be read.
            StateError: The state is damaged.
            UnavailableError: The state's store does not answer.
        """
        is_due = self._needs_keys() and self._history.is_parsed
        return is_due and is_in_table(spark, self._context, self._key_columns.all)

    def keep_keys(self, spark: SparkSession) -> None:
        """Write the keys of history that the seam filter compares, as Parquet, unless they exist.

        So a later query need not read history. Nothing is done under a rule other than ``key``.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of history.
            StateError: The state is damaged, or can't be written.
            UnavailableError: A storage does not answer.
        """
        if self._needs_keys() and not self.waits_for_table(spark):
            self._history.require_unchanged()
            self._key_filter(spark).keep()

    def look_up_older(self, spark: SparkSession) -> int:
        """Find the rows of the seam that are older than the kept keys and are in history.

        Called after a query failed with :class:`OlderThanKeysError`. Reads all of history; the
        filter drops these rows from then on.

        Returns:
            The number of these rows.

        Raises:
            InputError: A planned file is missing or was rewritten.
            SeamError: Kafka has deleted records of history, or history holds the key of such a row
                with other values only.
            UnavailableError: A storage does not answer.
        """
        self._history.require_unchanged()
        rows = self._rows(spark)
        return 0 if rows is None else self._key_filter(spark).look_up_older(rows)

    def count(self, spark: SparkSession, metrics: SeamMetrics) -> SeamCount:
        """Count the rows of a passed seam and those that the filter removes; record both.

        They are kept in the state folder. Where the stream's own counts are not known to be exact,
        the seam's offsets are read again as a batch, once.

        Args:
            spark: The Spark session.
            metrics: What the micro-batches that have read the seam have reported.

        Returns:
            The counts by partition; those of another process if it has recorded them first.

        Raises:
            InputError: The schema of the values can't be obtained, or the target can't be read.
            StateError: The rule is ``sequence``, and the pipeline or the end position has none; or
                the state is damaged, or can't be written.
            UnavailableError: A store does not answer.
        """
        found = metrics.by_partition(spark, self._offsets)
        if found is None:
            rows = self._rows(spark)
            found = {} if rows is None else _by_partition(self._mark(rows))
        count = SeamCount(
            source=self._source.name,
            rows={at: read for at, (read, _) in found.items()},
            removed={at: read - new for at, (read, new) in found.items()},
        )
        return self._generation.put_if_absent(count_name(self._source.name), count)

    @property
    def _ends_with_seam(self) -> bool:
        """Whether rows are removed, and only inside the seam."""
        return self.rule in ("key", "event_time")

    @property
    def _offsets(self) -> SeamOffsets:
        return SeamOffsets(self.start.offsets(), self.seam_end)

    def _mark(self, rows: DataFrame) -> DataFrame:
        """Mark the rows that history has not delivered; before that, those that are in the seam."""
        placed = self._offsets.mark(rows) if self._ends_with_seam else rows
        return self._filter(rows.sparkSession).mark(placed)

    def _without_held(self, rows: DataFrame, marked: DataFrame) -> DataFrame:
        """Return the rows that are marked as new; of a stream, report how many are not."""
        # A query has one report of this name: the seams of several inputs are counted afterwards.
        if rows.isStreaming and self._ends_with_seam and self._context.input is None:
            marked = observe_seam(marked, self._offsets)
        return _new(marked)

    def _needs_keys(self) -> bool:
        """Whether keys of history have to be looked up for the filter: none are kept yet."""
        return self.rule == "key" and not any(find_kept(self._folder, n) for n in (KEYS, RECENT))

    def _filter(self, spark: SparkSession) -> SeamFilter:
        """The filter that the rule asks for."""
        if self.rule == "sequence":
            return self._sequence_filter()
        if self.rule == "event_time":
            end_ms = max(each.event_time_ms for each in self._ends)
            return EventTimeFilter(self._pipeline.event_time.column, end_ms)
        return self._keys_of_history(spark)

    def _keys_of_history(self, spark: SparkSession) -> KeyFilter:
        if self._keys is None:
            recent, table = self._known(spark)
            rows = None if table is None or recent is not None else table.rows(spark)
            self._keys = self._key_filter(spark, rows, recent)
        return self._keys

    def _known(self, spark: SparkSession) -> tuple[KeptRows | None, HistoryTable | None]:
        """Return the rows of history that are compared, if few, and the target if it has them."""
        if self._looked_up is None:
            recent, table = find_kept(self._folder, RECENT), None
            if recent is None and find_kept(self._folder, KEYS) is None:
                table = self._table(spark)
                recent = None if table is None else self._keep_recent(table)
            self._looked_up = (recent, table)
        return self._looked_up

    def _sequence_filter(self) -> SeamFilter:
        end = self._ends[-1]
        if (snapshot := held_snapshot(self._pipeline, self._ends)) is not None:
            columns = {part: name for name, part in self._source.include.items()}
            return SnapshotFilter(columns, snapshot)
        if end.sequence is None or self._pipeline.sequence is None:
            lacking = "the pipeline declares no `sequence`"
            if self._pipeline.sequence is not None:
                lacking = f"the end position of source `{end.source}` contains no log position"
            message = (
                f"Rows of source `{self._source.name}` that history has delivered are recognized "
                f"by their log position, but {lacking}. The query was not started."
            )
            hint = (
                "Declare `sequence` as it was when the generation began, or begin a new generation "
                "with the `sequence` declared now: `hybrid generation new P`."
            )
            raise StateError(message, hint, source=self._source.name, field="sequence")
        return SequenceFilter(self._pipeline.sequence, end.sequence)

    def _rows(self, spark: SparkSession) -> DataFrame | None:
        raw = read_topics(spark, self._source, self.start.offsets(), self.seam_end)
        if raw is None:
            return None
        return parse_values(
            raw,
            self._source,
            self._columns,
            self._generation,
            self._event_time,
            self._pipeline.row_rules,
        )

    def _key_filter(
        self, spark: SparkSession, table: DataFrame | None = None, recent: KeptRows | None = None
    ) -> KeyFilter:
        history, rows = self._history.batch(spark), None
        if recent is not None:
            schema = StructType([history.schema[name] for name in sorted(self._key_columns.all)])
            rows = recent.read(spark, self._folder, schema)
        return KeyFilter(
            self._folder,
            history,
            self._key_columns,
            keys_from_ms=self._keys_from_ms,
            table=table,
            recent=rows,
        )

    def _table(self, spark: SparkSession) -> HistoryTable | None:
        """Return the target if history's rows are to be read from there."""
        table = None
        if self._history.is_parsed:
            name, columns = self._source.name, self._key_columns.all
            table = table_of_history(spark, self._context, name, columns)
        if table is None:
            self._history.require_unchanged()
        return table

    def _keep_recent(self, table: HistoryTable) -> KeptRows | None:
        """Keep the rows of history that are compared, and return them; None if they are many."""
        columns = self._key_columns
        made_of = (columns.all, columns.event_time, self._keys_from_ms, MOST_BROADCAST)
        if (rows := table.recent(*made_of)) is None:
            return None
        return publish_rows(self._folder, RECENT, write_table(self._folder, RECENT, rows))

    @property
    def _key_columns(self) -> KeyColumns:
        return KeyColumns(self._pipeline.key, self._compared(), self._pipeline.event_time.column)

    def _compared(self) -> list[str]:
        """Columns by which rows of one key are compared; none if the key was declared to decide.

        What a record's own position and time fill differs between two copies of one row.
        """
        if self._pipeline.seam_filter == "key":
            return []
        own = {name for name, part in self._source.record_columns.items() if part != "key"}
        return [
            name
            for name in self._history.columns
            if name not in self._pipeline.key and not own & self._source.selection.inputs(name)
        ]


def _new(marked: DataFrame) -> DataFrame:
    return marked.where(IS_NEW).drop(IS_NEW, NUMBER, POSITION)


def _by_partition(marked: DataFrame) -> dict[TopicPartition, tuple[int, int]]:
    """Return the number of rows of each partition, and of those that are new."""
    counted = marked.groupBy(TOPIC, PARTITION).agg(F.count(F.lit(1)), F.count_if(IS_NEW))
    return {TopicPartition(row[0], row[1]): (row[2], row[3]) for row in counted.collect()}
