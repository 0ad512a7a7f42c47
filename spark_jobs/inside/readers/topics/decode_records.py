"""Decoding of records in Python workers (Avro, Protobuf, Debezium): why one is bad, other keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sources.common.conversion import BadValue, to_arrow_array
from sources.decoding.batch_cursor import Int64Array, as_mask
from sources.decoding.changes.record_keys import RecordKeys
from sources.decoding.row_decoder import RowDecoder
from sources.decoding.tombstones import Tombstones
from sources.errors import InputError
from spark_jobs.inside.arrow_map import Step
from spark_jobs.inside.readers.staged_bad_records import STAGED
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS, OFFSET, PARTITION, TOPIC
from spark_jobs.inside.readers.topics.record_errors import at_record

REASON = "__reason"
# Columns of a record that only a quarantine needs.
TIME, KEY, VALUE = RECORD = ("__timestamp", "__key", "__value")
ORIGINS = {
    TOPIC: "topic",
    PARTITION: "partition",
    OFFSET: "offset",
    TIME: "timestamp",
    KEY: "key",
    VALUE: "value",
}
"""What the columns of a record are called by Spark's Kafka source."""
REPAIRED = "repaired"
"""``kind`` of a staged change that is good, of a row that was wrong."""
_REASON_CHARACTERS = 500
_PLACE = {"place": TOPIC, "partition": PARTITION, "offset": OFFSET}


class KeyCheck(NamedTuple):
    """Check of records' keys, which are the primary key of a captured table.

    Attributes:
        keys: Reads the keys.
        columns: Columns by which rows were identified so far, sorted.
    """

    keys: RecordKeys
    columns: Sequence[str]

    def require(self, batch: pa.RecordBatch) -> None:
        """Refuse a batch with a record whose key has other columns than the rows' so far.

        The primary key of the captured table was changed then. Called in tasks for each batch.

        Raises:
            InputError: Of the first such record: contains both keys, and topic, partition and
                offset.
            UnavailableError: The schema registry does not answer.
        """
        if (found := self.keys.first_other(batch.column(KEY), self.columns)) is not None:
            at, error = found
            raise at_record(error, batch, at)


def decoding(
    decoder: RowDecoder,
    columns: pa.Schema,
    included: list[str],
    extra: Sequence[str] = (),
    key: KeyCheck | None = None,
) -> Step:
    """Return a ``mapInArrow`` function that decodes the values of records into columns.

    Its result has topic, partition and offset, the included and decoded columns, and a column
    ``__reason`` with the reason why a record can't be decoded (null for a good one, at most 500
    characters), and the extra columns. A schema that can't be obtained fails the task with an
    :class:`InputError` that names the record.

    Args:
        decoder: Decoder of the values.
        columns: Schema of the columns that the decoder returns.
        included: Names of further columns of the records that are kept as they are.
        extra: Those of :data:`RECORD` that are kept, too.
        key: Checks that rows are still identified by the same columns; None if it is not known
            which these were.
    """
    nothing = [None] * len(columns)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if key is not None:
                key.require(batch)
            decoded = decoder.rows(batch.column(VALUE))
            reasons = batch.column(REASON).to_pylist()
            is_left = decoded.is_null()
            (left,) = np.nonzero(as_mask(is_left))
            rows = []
            values = batch.column(VALUE).filter(is_left).to_pylist()
            for at, value in zip(left.tolist(), values, strict=True):
                row = nothing
                if reasons[at] is None:
                    try:
                        row = (
                            decoder.decode(value)
                            if value is not None
                            else decoder.deleted(*_key_and_time(batch, at))
                        )
                    except BadValue as error:
                        reasons[at] = str(error)[:_REASON_CHARACTERS]
                    except InputError as error:
                        raise at_record(error, batch, at) from None
                rows.append(row)
            kept = [*LOG_COLUMNS, *included]
            arrays = [
                *(batch.column(name) for name in kept),
                *decoder.placed(_filled(decoded, left, rows), batch.column(OFFSET)),
                pa.array(reasons, pa.string()),
                *(batch.column(name) for name in extra),
            ]
            yield pa.RecordBatch.from_arrays(arrays, [*kept, *columns.names, REASON, *extra])

    return decode


def rows_as_json(tombstones: Tombstones, kept: Sequence[str]) -> Step:
    """Return a ``mapInArrow`` function that gives tombstones a JSON value made of their key.

    It has the columns of the row that such a record deletes. A record whose key does not identify
    the row keeps its null value.

    Args:
        tombstones: Reads the rows of keys.
        kept: Names of the columns, which are returned as they are but for the value.
    """

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.column(VALUE)
            if not values.null_count:
                yield batch
                continue
            found = values.to_pylist()
            for at in np.flatnonzero(as_mask(values.is_null())).tolist():
                with suppress(BadValue):
                    found[at] = tombstones.as_json(*_key_and_time(batch, at))
            columns = [*kept]
            arrays = [batch.column(name) for name in columns]
            arrays[columns.index(VALUE)] = pa.array(found, values.type)
            yield pa.RecordBatch.from_arrays(arrays, columns)

    return fill


def _key_and_time(batch: pa.RecordBatch, at: int) -> tuple[bytes | None, int]:
    """Return the key of a record, and its timestamp in Unix milliseconds."""
    if KEY not in batch.schema.names:
        return None, 0
    return batch.column(KEY)[at].as_py(), batch.column(TIME)[at].cast(pa.int64()).as_py() // 1000


def _filled(decoded: pa.StructArray, left: Int64Array, rows: list[list[Any]]) -> list[pa.Array]:
    """Return the decoded columns, with rows of the per-record decoder where nothing was decoded."""
    columns: list[pa.Array] = decoded.flatten()
    if not rows:
        return columns
    others = [
        to_arrow_array(each, kind.type)
        for each, kind in zip(zip(*rows, strict=True), decoded.type, strict=True)
    ]
    if len(rows) == len(decoded):
        return others
    order = np.arange(len(decoded))
    order[left] = len(decoded) + np.arange(len(left))
    pairs = zip(columns, others, strict=True)
    return [pa.concat_arrays(pair).take(pa.array(order)) for pair in pairs]


def whole_record(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records that can't be read as rows to be staged, with key, value and reason."""
    more = {"timestamp": TIME, "key": KEY, "value": VALUE, "reason": REASON}
    return _staged(rows, {**_PLACE, **more})


def place_of_record(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records that can't be read as rows to be staged, with nothing but their location."""
    return _staged(rows, _PLACE)


def place_and_key(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records that can't be read as rows to be staged, with only location and key."""
    return _staged(rows, {**_PLACE, "key": KEY})


def repaired_record(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return good changes that repair wrong rows as rows to be staged, with location and key.

    Their ``kind`` is ``repaired``.
    """
    return _staged(rows, {**_PLACE, "key": KEY}, REPAIRED)


def _staged(
    rows: pa.RecordBatch, names: Mapping[str, str], kind: str = "unreadable"
) -> pa.RecordBatch:
    """Return the columns of :data:`STAGED`; ``names`` has the column that each is taken from."""
    arrays = [
        rows.column(names[field.name]).cast(field.type)
        if field.name in names
        else pa.nulls(rows.num_rows, field.type)
        for field in STAGED
    ]
    arrays[STAGED.get_field_index("kind")] = pa.repeat(pa.scalar(kind), rows.num_rows)
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)
