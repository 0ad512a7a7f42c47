"""Errors about one record of a topic, which begin with its topic, partition and offset."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.errors import ErrorFields, HybridError, InputError
from spark_jobs.inside.errors.error_reports import raise_reported
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS

_PLACE = "Topic `%s`, partition %s, offset %s"


def topic_partition_offset() -> tuple[Column, dict[str, Column]]:
    """Return where a row's record is: as the beginning of a sentence, and as fields of an error.

    The rows have ``LOG_COLUMNS``.
    """
    columns = [F.col(name) for name in LOG_COLUMNS]
    fields = zip(("topic", "partition", "offset"), columns, strict=True)
    return F.format_string(_PLACE, *columns), dict(fields)


def raise_at_record(kind: type[HybridError], reason: Column, hint: str) -> Column:
    """Return a column that, where it is evaluated, fails the query with an error about a record.

    The message is "Topic `t`, partition p, offset o: " and the reason. Use it inside ``F.when``, on
    rows with ``LOG_COLUMNS``.

    Args:
        kind: The error's type.
        reason: What is wrong with the record: the rest of the sentence, never null.
        hint: What to do now: a sentence.
    """
    where, fields = topic_partition_offset()
    return raise_reported(kind, F.concat(where, F.lit(": "), reason), hint, fields)


def at_record(error: InputError, batch: pa.RecordBatch, row: int) -> InputError:
    """Return an error about a record, of the same type, with topic, partition and offset added.

    Args:
        error: What is wrong with the record: its message is the rest of the sentence.
        batch: Records with ``LOG_COLUMNS``.
        row: Place of the record in the batch.
    """
    topic, partition, offset = (batch.column(name)[row].as_py() for name in LOG_COLUMNS)
    message = f"{_PLACE % (topic, partition, offset)}: {error.message}"
    fields: ErrorFields = {**error.fields, "topic": topic, "partition": partition, "offset": offset}
    # Of the same type, by which the driver knows what it may do about it.
    return type(error)(message, error.hint, transient=error.transient, **fields)
