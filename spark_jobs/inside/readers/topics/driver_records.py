"""Small micro-batches (5,000 offsets, 16 MiB, 8 partitions) that the driver reads without Spark.

A Spark job takes some hundred milliseconds, however few records it reads. The driver parses them
by the same decoders as a task. It answers only if every record of the micro-batch is certain to be
a good row, or to be none; any other micro-batch is Spark's, which decides about each record, names
the bad one, and reports what Kafka no longer holds. So either of them may read any micro-batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from sources.common.schema import parse_schema
from sources.config.source.event_time import EventTime
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import RowDecoder
from sources.errors import HybridError
from sources.kafka.client.consumer import consumer_settings
from sources.kafka.ranges.cut_ranges import Ranges, Split, size_of
from sources.kafka.ranges.range_reader import RangeReader
from sources.state.generation import Generation
from spark_jobs.checkpoint import offset_log
from spark_jobs.checkpoint.batch_ranges import BatchRanges
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.readers.topics.decode_records import REASON, RECORD, VALUE, decoding
from spark_jobs.inside.readers.topics.direct_records import BatchParser, count_as_times, json_parser
from spark_jobs.inside.readers.topics.fetched_columns import FetchedColumns
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS
from spark_jobs.inside.readers.topics.parse_records import watches_of
from spark_jobs.inside.readers.topics.range_records import Fetched

MOST_OFFSETS = 5_000
"""Offsets of a micro-batch up to which the driver reads it."""
MOST_BYTES = 16 << 20
"""Bytes of the values of a micro-batch up to which the driver reads it."""
MOST_PARTITIONS = 8
"""Partitions with new records up to which the driver reads a micro-batch: one after the other."""
_SILENCE_S = 2.0
_MOST_IDLE = 4


class DriverRecords:
    """Reader of a followed topic's small micro-batches in the driver.

    Args:
        generation: State of the generation, whose checkpoint has the micro-batches' offsets.
        source: The declaration.
        columns: Names and types of all columns of a record; there is no ``select``.
        event_time: The pipeline's event time, with the bounds that its times have to be in.
        place: Number of the topic's place in the query's union, from 0.
        decode: Parses records, as :func:`decoding` does: adds ``REASON``.

    Raises:
        InputError: A file of the declaration can't be read, or a library is not installed.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer, or ``bootstrap_servers`` is ``local``,
            and no local broker is running.
    """

    def __init__(
        self,
        generation: Generation,
        source: KafkaSource,
        columns: Mapping[str, str],
        event_time: EventTime,
        place: int,
        decode: Step,
    ) -> None:
        self._generation = generation
        self._source = source
        self._schema = parse_schema(columns)
        self._event_time = event_time
        self._decode = decode
        self._ranges = BatchRanges(generation.checkpoint, place)
        repaired = watches_of(generation, source).repaired
        self._watch = None if source.on_bad_record == "fail" else repaired
        self._consumers = _consumers_of(source)
        self._names = [*LOG_COLUMNS, *source.record_columns, *RECORD]

    def rows(self, batch_id: int) -> pa.RecordBatch | None:
        """Return the rows of a micro-batch that has begun; None if Spark has to read it.

        Spark has to if it has many records or partitions, if anything else than these records is
        to be read, or unless each record is certain to be a good row, or a tombstone that is left
        out.

        Args:
            batch_id: Number of the micro-batch.

        Returns:
            Rows with all columns of a record, in order of the partitions and their offsets.

        Raises:
            StateError: The file with the micro-batch's offsets is missing or damaged.
        """
        ranges = self._ranges.of(batch_id)
        if ranges is None or len(ranges) > MOST_PARTITIONS or size_of(ranges) > MOST_OFFSETS:
            return None
        try:
            fetched = self._fetch(ranges)
            return None if fetched is None else self._rows(fetched, batch_id)
        except (HybridError, KafkaException):
            # Spark meets the same, and says it with the record's place; or it has passed by then.
            return None

    def _fetch(self, ranges: Ranges) -> list[Fetched] | None:
        """Return the records of some ranges; None if they are too large."""
        found, size = [], 0
        with self._consumers.one() as reader:
            for partition, (first, end) in sorted(ranges.items()):
                for messages in reader.read(Split(partition, first, end)):
                    size += sum(len(each.value() or b"") for each in messages)
                    if size > MOST_BYTES:
                        return None
                    found.append(Fetched(partition, messages))
        return found

    def _rows(self, fetched: list[Fetched], batch_id: int) -> pa.RecordBatch | None:
        of = FetchedColumns(self._source.record_columns)
        records = [of.of(self._names, each) for each in fetched]
        if self._source.skips_tombstones:
            records = [each.filter(pc.is_valid(each.column(VALUE))) for each in records]
        records = [each for each in records if each.num_rows]
        if not records:
            return pa.RecordBatch.from_pylist([], self._schema)
        if self._watch is not None and self._watch.wrong_keys():
            # A good change may repair a row that is wrong.
            return None
        (batch,) = pa.Table.from_batches(records).combine_chunks().to_batches()
        reasons = pa.nulls(len(batch), pa.string())
        (rows,) = self._decode(iter([batch.append_column(REASON, reasons)]))
        if rows.column(REASON).null_count < len(rows):
            return None
        if self._event_time.outside != "keep":
            clock_ms = offset_log.clock_ms(self._generation.checkpoint, batch_id)
            times = rows.column(self._event_time.column)
            if not count_as_times(times, *self._event_time.bounds_ms(clock_ms)).all():
                return None
        return rows.select(self._schema.names).cast(self._schema)


def driver_records(
    spark: SparkSession,
    generation: Generation,
    source: KafkaSource,
    columns: Mapping[str, str],
    event_time: EventTime,
    place: int,
) -> DriverRecords | None:
    """Return the reader of a topic's small micro-batches in the driver; None if Spark reads all.

    Call it for rows that are decided by their own records alone
    (:func:`spark_jobs.inside.readers.topics.direct_records.are_whole`).

    Args:
        spark: The Spark session.
        generation: State of the generation.
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
        event_time: The pipeline's event time.
        place: Number of the topic's place in the query's union, from 0.

    Raises:
        InputError: A file of the declaration can't be read, or a library is not installed.
        StateError: The state is damaged.
        UnavailableError: The state's store does not answer, or ``bootstrap_servers`` is ``local``,
            and no local broker is running.
    """
    values = source.value_schema(columns)
    decode: Step | None = None
    if source.value.parser == "decoder":
        tombstones = source.tombstones(values)
        decoder = RowDecoder(source.reader(), values, tombstones, source.position_columns)
        key = watches_of(generation, source).key
        decode = decoding(decoder, values, [*source.record_columns], key=key)
    elif source.value.parser == "json" and source.tombstones(values) is None:
        parse = json_parser(spark, values)
        decode = None if parse is None else _parsing(parse, values, [*source.record_columns])
    if decode is None:
        return None
    return DriverRecords(generation, source, columns, event_time, place, decode)


def _parsing(parse: BatchParser, values: pa.Schema, included: list[str]) -> Step:
    """Return a function like that of :func:`decoding` which parses in whole batches only."""
    kept = [*LOG_COLUMNS, *included]

    def step(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = parse(batch.column(VALUE))
            reasons = pc.if_else(found.is_valid(), pa.scalar(None, pa.string()), "Spark decides")
            arrays = [*(batch.column(name) for name in kept), *found.flatten(), reasons]
            yield pa.RecordBatch.from_arrays(arrays, [*kept, *values.names, REASON])

    return step


class _Consumers:
    """Consumers of one broker, which stay connected between micro-batches; up to four idle ones.

    Args:
        settings: librdkafka's settings.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._idle: list[RangeReader] = []

    @contextmanager
    def one(self) -> Iterator[RangeReader]:
        """Lend a consumer for one micro-batch; one that has failed is closed."""
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = RangeReader(self._settings, MOST_OFFSETS, _SILENCE_S)
        try:
            yield reader
            reader.rest()
        except BaseException:
            reader.close()
            raise
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(reader)
        else:
            reader.close()


_all_consumers: dict[str, _Consumers] = {}
_opening = threading.Lock()


def _consumers_of(source: KafkaSource) -> _Consumers:
    """Return the consumers of a source's broker and login, which queries of a driver share."""
    settings = consumer_settings(source)
    named = repr(sorted(settings.items()))
    with _opening:
        return _all_consumers.setdefault(named, _Consumers(settings))
