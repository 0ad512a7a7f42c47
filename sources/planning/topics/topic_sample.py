"""Sample of a topic's records, read while planning: whether they fit the declared columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sources.common.conversion import BadValue
from sources.common.positions import Offsets
from sources.common.topic_log import LogRecord
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.base import DifferentColumnsError, FieldReader
from sources.decoding.changes.schema_policies import ALL_STOP
from sources.decoding.changes.widened_columns import with_widened_types
from sources.kafka.client.kafka_log import KafkaLog
from sources.planning.absent_names import identifying_columns, judge_names
from sources.planning.schema_check import compare_sample
from sources.planning.topics.tombstone_check import without_tombstones

SAMPLE_RECORDS = 100
"""Records of a sample, all partitions together."""


def read_sample(log: KafkaLog, start: Offsets) -> list[LogRecord]:
    """Read a few records of each partition from an offset on, to check columns and times.

    About :data:`SAMPLE_RECORDS` in all, at least one of each partition that has any.

    Args:
        log: Look-ups on the topics.
        start: First offset of each partition.

    Raises:
        UnavailableError: The broker does not answer.
        InputError: An offset is deleted, or this login may not read the records.
    """
    each = max(SAMPLE_RECORDS // max(len(start), 1), 1)
    return log.read(start, each, log.log_end())


def fit_sample(
    pipeline: Pipeline,
    source: KafkaSource,
    before: str,
    read: Mapping[str, str],
    sample: Sequence[LogRecord],
) -> tuple[list[str], list[str]]:
    """Refuse a topic whose sampled records don't fit the declared columns.

    With ``on_bad_record`` other than ``fail``, it is refused only if no record fits. Of tombstones
    only the keys are checked.

    Args:
        pipeline: The pipeline.
        source: Declaration of the Kafka source.
        before: Name of the source before, which has the same output columns.
        read: All columns of a row before ``select``: names and Spark SQL types.
        sample: Records of the topic; an empty one passes.

    Returns:
        Two lists of warnings: about tolerated bad records, and about columns that no record has.

    Raises:
        InputError: A record can't be read, or the columns differ.
        UnavailableError: The schema registry does not answer.
    """
    # A sample says nothing of columns that were added.
    changes = source.changes
    current = read if changes is None else with_widened_types(read, changes.widened_columns)
    of_value, reader = source.value_schema(current), source.reader()
    tolerant = source.on_bad_record != "fail"
    # With `select`, the columns compared are the source's own.
    left = source.name if source.select else before
    sample = without_tombstones(source, of_value, sample)
    if changes is not None and changes.policies != ALL_STOP:
        sample = [record for record in sample if not _is_followed(record.value or b"", reader)]
    may_lack = source.value.parser == "json"
    fits = compare_sample(left, of_value, sample, reader, tolerant=tolerant, may_lack=may_lack)
    needed = identifying_columns(pipeline, source)
    names = judge_names(source.name, of_value, _readable(sample, reader), "sampled record", needed)
    return fits, names


def _readable(sample: Sequence[LogRecord], reader: FieldReader) -> list[Mapping[str, Any]]:
    """Return the fields of the records of a sample that can be read."""
    values = []
    for record in sample:
        with suppress(BadValue):
            values.append(reader.fields(record.value or b""))
    return values


def _is_followed(value: bytes, reader: FieldReader) -> bool:
    """Return whether a change has columns or types that a run judges once it meets them."""
    try:
        reader.fields(value)
    except DifferentColumnsError:
        return True
    except BadValue:
        return False
    return False
