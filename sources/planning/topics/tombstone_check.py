"""Check of sampled records without a value (tombstones) while planning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from sources.common.conversion import BadValue
from sources.common.topic_log import LogRecord
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import DECLARE_TOMBSTONE, REFUSED_TOMBSTONE
from sources.errors import InputError


def tombstone_warnings(source: KafkaSource, settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Warn of compacted topics whose tombstones (a key, no value) would end the run.

    One sentence for each topic; empty if the source handles tombstones (``on_tombstone``).

    Args:
        source: Declaration of the topic's source.
        settings: Configuration of each topic by name, with ``cleanup.policy``.
    """
    if source.on_tombstone != "refuse" or source.value.has_tombstones:
        return []
    return [
        f"Topic `{topic}` is compacted: a record with a key and no value, which deletes the row of "
        "that key elsewhere, ends the run. Declare `on_tombstone: delete` or `ignore` if there are "
        "any."
        for topic, of in settings.items()
        if "compact" in of["cleanup.policy"]
    ]


def without_tombstones(
    source: KafkaSource, columns: pa.Schema, sample: Sequence[LogRecord]
) -> list[LogRecord]:
    """Return the records of a sample that have to fit the columns; check the keys of tombstones.

    A tombstone (a key, no value) is left out if the source skips them, or deletes rows by them. A
    record with neither key nor value is kept, as a bad record, unless tombstones delete rows. Empty
    if none is left.

    Args:
        source: Declaration of the source.
        columns: Columns of a value.
        sample: Records of the topic.

    Raises:
        InputError: The source refuses tombstones, and there is one; or the key of one does not
            identify a row, and ``on_bad_record`` is ``fail``. Names topic, partition and offset.
    """
    if source.skips_tombstones:
        return [record for record in sample if record.value is not None]
    tombstones = source.tombstones(columns)
    kept = []
    for record in sample:
        if record.value is not None or (tombstones is None and record.key is None):
            kept.append(record)
            continue
        reason, hint = REFUSED_TOMBSTONE, DECLARE_TOMBSTONE
        if tombstones is not None:
            try:
                tombstones.fields(record.key, record.timestamp_ms)
                continue
            except BadValue as error:
                reason = str(error)
                hint = (
                    "Correct `sink.key`. If it is right, correct the producer; to continue without "
                    "such records, declare `on_bad_record: quarantine`, which keeps them in a "
                    "table."
                )
            if source.on_bad_record != "fail":
                continue
        topic, number = record.partition
        message = f"Topic `{topic}`, partition {number}, offset {record.offset}: {reason}."
        raise InputError(message, hint, topic=topic, partition=number, offset=record.offset)
    return kept
