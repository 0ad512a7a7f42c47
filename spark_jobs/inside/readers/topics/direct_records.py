"""Which records tasks parse and write themselves: those certain to be good; Spark has the rest.

Tasks get the records from Spark, or read them themselves, which costs less where there are many:
:data:`spark_jobs.inside.query.places.followed_topic_stream.READ_OFFSETS`.

Only records that are certain to be good are written so: those that are decoded in whole batches,
JSON as Spark would read it, with an event time within its bounds. All others are returned as they
are, for :func:`spark_jobs.inside.readers.topics.parse_records.rows_of`, which decides about each of
them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import RowRules
from sources.decoding.batch_cursor import Int64Array, Mask, as_mask
from sources.decoding.json.batches import read_objects, supports_schema
from sources.decoding.row_decoder import RowDecoder
from sources.kafka.ranges.cut_ranges import Split
from spark_jobs.inside.arrow_map import map_in_arrow
from spark_jobs.inside.errors.error_reports import reporting
from spark_jobs.inside.readers.rows_written_by_tasks import RowWriters
from spark_jobs.inside.readers.topics.decode_records import KEY, RECORD, VALUE
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.fetched_columns import (
    BOUNDS,
    EARLIEST,
    LATEST,
    FetchedColumns,
)
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from spark_jobs.inside.readers.topics.parse_json import reads_times_as_arrow
from spark_jobs.inside.readers.topics.range_records import RECORDS, as_rows, fetcher

BatchParser = Callable[[pa.BinaryArray], pa.StructArray]
"""Turns values into rows; those that it can't decide about are null."""
Judge = Callable[[pa.RecordBatch], tuple[Mask, Mask]]
"""Tells of parsed rows which are certainly new, and which history certainly has."""
_Part = tuple[pa.RecordBatch, Callable[[Mask], pa.RecordBatch]]
_US = 1000  # microseconds in a millisecond


def batch_parser(
    spark: SparkSession, source: KafkaSource, columns: Mapping[str, str], rules: RowRules
) -> BatchParser | None:
    """Return a function by which tasks parse values in whole batches, to write the rows themselves.

    Args:
        spark: The Spark session.
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
        rules: Rules that the rows have to meet.

    Returns:
        A function from values (bytes) to rows, null where Spark has to decide; None if Spark has to
        see all records, or alone can parse them.

    Raises:
        InputError: The decoder of the value's format can't be built, as for a schema file that
            can't be read.
    """
    if not are_whole(source, rules) or source.value.has_tombstones:
        return None
    values = source.value_schema(columns)
    parser = source.value.parser
    if parser == "decoder":
        reader = source.reader()
        is_able = reader.rows(pa.array([], pa.binary()), values) is not None
        return RowDecoder(reader, values).rows if is_able else None
    return json_parser(spark, values) if parser == "json" else None


def are_whole(source: KafkaSource, rules: RowRules) -> bool:
    """Return whether a source's rows are decided by positions and values of its records alone.

    Args:
        source: The declaration.
        rules: Rules that the rows have to meet.
    """
    # Whether the bytes of a key are text has to be looked at; headers are nested.
    others = {"key", "headers", "tombstone"} & {*source.record_columns.values()}
    return not (others or source.selection.expressions or rules.rules or rules.sample is not None)


def json_parser(spark: SparkSession, values: pa.Schema) -> BatchParser | None:
    """Return the parser of JSON objects in whole batches; None if Spark alone reads such columns.

    Args:
        spark: The Spark session.
        values: Columns that are filled from a record's value.
    """
    is_able = supports_schema(values) and reads_times_as_arrow(spark)
    return partial(read_objects, columns=values) if is_able else None


@dataclass(frozen=True)
class DirectRecords:
    """Records of a topic with their parser and writers, for tasks that write rows past Spark.

    The reports of tasks on the records that they write, and the records that they leave to Spark,
    are rows of one DataFrame: a row has either columns of ``writers.told``, or those of a record,
    as ``records_of`` in :mod:`spark_jobs.inside.readers.topics.parse_records` returns them; the
    others are null. A task that leaves records reports their number in a row of its own
    (``writers.left``); one that leaves rows out, as ``judge`` says, reports their number by
    partition in another one (``writers.held``).

    Errors of reading and writing come from the tasks, once the frame is evaluated, as
    :func:`spark_jobs.inside.errors.error_reports.reporting` passes them on: for example a
    ``SeamError`` if Kafka has deleted records of a split.

    Attributes:
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
        event_time: Check of the event times.
        parse: How tasks parse, from :func:`batch_parser`.
        writers: How tasks write.
        judge: Which parsed rows, with their places in the log, may be written, as history has
            certainly not delivered them, and which are left out, as it certainly has. None if all
            may be written.
    """

    source: KafkaSource
    columns: Mapping[str, str]
    event_time: EventTimeCheck
    parse: BatchParser
    writers: RowWriters
    judge: Judge | None = None

    def of_stream(self, records: DataFrame) -> DataFrame:
        """Return the reports of tasks that write records which Spark's Kafka source reads.

        A report tells of written rows, or is a record that its task has left to Spark.

        Args:
            records: From :func:`spark_jobs.inside.readers.topics.parse_records.records_of`.
        """
        bounds = zip(self.event_time.bounds_ms, BOUNDS, strict=True) if self._is_checked else ()
        columns = [self._given_as(name).alias(name) for name in self._names]
        given = records.select(*columns, *(bound.alias(name) for bound, name in bounds))
        write = self._writer

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return write((batch, partial(_where, batch)) for batch in batches)

        return map_in_arrow(given, reporting(read), ddl(write.returned))

    def of_splits(self, splits: DataFrame) -> DataFrame:
        """Return the reports of tasks that read and write the records of splits themselves.

        A report tells of written rows, or is a record that its task has left to Spark. The check of
        event times has to have a clock of its own.

        Args:
            splits: Topic, partition, first offset and the one after the last.

        Raises:
            UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        return self._read(splits, self.event_time.clock_ms or 0, lambda batch: batch)

    def of_numbered(self, splits: Sequence[Split], numbers: DataFrame, clock_ms: int) -> DataFrame:
        """Return the reports of tasks that read and write the records of numbered splits.

        A report tells of written rows, or is a record that its task has left to Spark.

        Args:
            splits: The splits.
            numbers: One column: for each split its index in ``splits``.
            clock_ms: Clock of the micro-batch, in Unix milliseconds, for a check without its own.

        Raises:
            UnavailableError: ``bootstrap_servers`` is ``local``, and no local broker is running.
        """
        rows = as_rows(splits)
        clock_ms = self.event_time.clock_ms or clock_ms
        return self._read(numbers, clock_ms, lambda batch: rows.take(batch.column(0)))

    def _read(
        self,
        given: DataFrame,
        clock_ms: int,
        splits_of: Callable[[pa.RecordBatch], pa.RecordBatch],
    ) -> DataFrame:
        bounds_ms = self.event_time.declared.bounds_ms(clock_ms) if self._is_checked else None
        columns = FetchedColumns(self.source.record_columns, bounds_ms)
        left = partial(FetchedColumns(self.source.record_columns).left, self._names)
        places = [] if self.judge is None else LOG_COLUMNS
        needed = [VALUE, *places, *self.source.record_columns]
        fetch, write = fetcher(self.source), self._writer

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            fetched = fetch(map(splits_of, batches))
            return write((columns.of(needed, each), partial(left, each)) for each in fetched)

        return given.mapInArrow(reporting(read), ddl(write.returned))

    @property
    def _is_checked(self) -> bool:
        return self.event_time.declared.outside != "keep"

    def _given_as(self, name: str) -> Column:
        """Return a column of a record as a task gets it.

        Keys cost time: only a quarantine keeps them all, and those without a value tell more.
        """
        kept = (self.source.on_bad_record, self.event_time.declared.outside)
        if name != KEY or "quarantine" in kept:
            return F.col(name)
        return F.when(F.col(VALUE).isNull(), F.col(KEY))

    @property
    def _names(self) -> list[str]:
        return [*LOG_COLUMNS, *self.source.record_columns, *RECORD]

    @property
    def _writer(self) -> _Writer:
        origin = FetchedColumns(self.source.record_columns).origin
        record = [RECORDS.field(origin(name)).with_name(name) for name in self._names]
        column = self.event_time.declared.column if self._is_checked else None
        returned = pa.schema([*self.writers.told, *record])
        names = self.source.value_schema(self.columns).names
        return _Writer(self.parse, names, column, self.judge, self.writers, returned)


def count_as_times(times: pa.Array, low_ms: Int64Array | int, high_ms: Int64Array | int) -> Mask:
    """Return which event times are null or within bounds, as the check in Spark decides it.

    Args:
        times: Timestamps in microseconds.
        low_ms: Lowest time that counts, in Unix milliseconds: one for all, or one for each.
        high_ms: Highest time that counts, in the same form.
    """
    micros = times.cast(pa.int64()).fill_null(0).to_numpy()
    # As Spark's `unix_millis`, which rounds down; both bounds are inclusive.
    within: Mask = (micros >= low_ms * _US) & (micros < (high_ms + 1) * _US)
    return within | as_mask(times.is_null())


def _by_partition(rows: pa.RecordBatch) -> Counter[tuple[str, int]]:
    """Return the number of rows by topic and partition."""
    topic, partition, _ = LOG_COLUMNS
    places = pa.Table.from_batches([rows.select([topic, partition])])
    counted = places.group_by([topic, partition]).aggregate([([], "count_all")])
    return Counter({(row[topic], row[partition]): row["count_all"] for row in counted.to_pylist()})


def _where(batch: pa.RecordBatch, mask: Mask) -> pa.RecordBatch:
    return batch.filter(pa.array(mask))


@dataclass(frozen=True)
class _Writer:
    """Function that writes good records, and returns the others and what was written.

    Its input are batches of records, each with a function that returns those of a mask as they are.

    Attributes:
        parse: How values are parsed.
        columns: Names of the columns of a value.
        event_time: Column whose bounds are looked at; None for none.
        judge: Which parsed rows may be written, and which are left out; None if all are written.
        writers: How tasks write.
        returned: Columns of its result: what writers tell, and those of a record.
    """

    parse: BatchParser
    columns: Sequence[str]
    event_time: str | None
    judge: Judge | None
    writers: RowWriters
    returned: pa.Schema

    def __call__(self, parts: Iterator[_Part]) -> Iterator[pa.RecordBatch]:
        writer, left, held = self.writers.writer(), 0, Counter[tuple[str, int]]()
        for batch, where in parts:
            rows, good, old = self._rows(batch)
            if not good.all():
                if old.any():
                    held += _by_partition(rows.filter(pa.array(old)))
                if (unclear := ~(good | old)).any():
                    others = where(unclear)
                    left += len(others)
                    yield self._filled(others)
                rows = rows.filter(pa.array(good))
            yield from map(self._filled, writer.add(rows))
        yield from map(self._filled, writer.close())
        if left:
            yield self._filled(pa.RecordBatch.from_pydict({self.writers.left: [left]}))
        if held:
            told = json.dumps([[*at, count] for at, count in held.items()])
            yield self._filled(pa.RecordBatch.from_pydict({self.writers.held: [told]}))

    def _rows(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mask, Mask]:
        """Return the records with the columns of their values, which are good, and which old."""
        objects = self.parse(batch.column(VALUE))
        arrays = [*batch.columns, *objects.flatten()]
        rows = pa.RecordBatch.from_arrays(arrays, [*batch.schema.names, *self.columns])
        good = as_mask(objects.is_valid())
        if self.event_time is not None:
            low_ms, high_ms = (batch.column(name).to_numpy() for name in (EARLIEST, LATEST))
            good &= count_as_times(rows.column(self.event_time), low_ms, high_ms)
        if self.judge is None:
            return rows, good, np.zeros(len(rows), bool)
        new, old = self.judge(rows)
        return rows, good & new, good & old

    def _filled(self, part: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with all columns of the result; those that they lack are null."""
        there = {*part.schema.names}
        arrays = [
            part.column(field.name) if field.name in there else pa.nulls(len(part), field.type)
            for field in self.returned
        ]
        return pa.RecordBatch.from_arrays(arrays, self.returned.names)
