"""The values of a topic's records as rows; what can't be read is refused, dropped or put aside.

Every format leads to the same rows: the place in the log, the columns, and what is wrong with the
record, if something is. JSON is parsed by Arrow, and by Spark what Arrow leaves to it; all else by
Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema

from sources.common.schema import ddl, parse_schema, parse_type
from sources.common.state import Generation
from sources.config.kafka_source import KafkaSource
from sources.decoding.batch_cursor import Int64Array, as_mask
from sources.decoding.conversion import BadValue, to_arrow_array
from sources.decoding.decoder import NO_VALUE, RowDecoder, field_reader
from sources.decoding.json_batches import read_objects, supports_schema
from sources.decoding.value_format import RAW_COLUMN
from sources.errors import InputError
from spark_jobs.query.bad_records import STAGED, Step, removing, staging_folder
from spark_jobs.query.kafka_stream import LOG_COLUMNS, OFFSET, PARTITION, TOPIC
from spark_jobs.query.select import select_columns

_CORRUPT = "__corrupt"
_ROW = "__row"
_BY_ARROW = "__by_arrow"
_REASON = "__reason"
# What of a record only a quarantine asks for.
_TIME, _KEY, _VALUE = _RECORD = ("__timestamp", "__key", "__value")
_LOG_DDL = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint"
_REASON_CHARACTERS = 500


@dataclass(frozen=True)
class _Marked:
    """Rows, before it is decided what becomes of bad ones.

    Attributes:
        rows: With :data:`LOG_COLUMNS` and what the other three are made of.
        columns: Of a row, by name.
        is_bad: Whether the record can't be read; never null.
        reason: What is wrong with it, if so.
    """

    rows: DataFrame
    columns: dict[str, Column]
    is_bad: Column
    reason: Column


def parse_values(
    raw: DataFrame, source: KafkaSource, read: Mapping[str, str], generation: Generation
) -> DataFrame:
    """The columns that the source makes of each record, with :data:`LOG_COLUMNS`.

    Under ``on_bad_record: fail`` a record that can't be read, or does not fit its columns, fails
    the query with topic, partition and offset. Otherwise it is left out; a stream stages it
    (:mod:`spark_jobs.query.bad_records`). All that comes before ``select``.

    Args:
        raw: Records as Spark's Kafka source gives them, a stream or a batch.
        source: The declaration.
        read: All columns of a row, before ``select``.
        generation: Where bad records are staged.

    Raises:
        InputError: What is needed to read the values can't be had, or ``select`` does not fit them.
    """
    rows = _parsed(raw, source, read, generation)
    columns = parse_schema(source.selected(read))
    return select_columns(rows, source.selection, columns, LOG_COLUMNS)


def _parsed(
    raw: DataFrame, source: KafkaSource, columns: Mapping[str, str], generation: Generation
) -> DataFrame:
    """All columns of each record that is not bad, before ``select``."""
    remove: Step | None = None
    if raw.isStreaming and source.on_bad_record != "fail":
        bad = _record if source.on_bad_record == "quarantine" else _place
        remove = removing(staging_folder(generation, source.name), _REASON, bad)
    of_value = source.value_schema(columns)
    kinds = {name: columns[name] for name in [*source.record_columns, *of_value.names]}
    row_ddl = f"{_LOG_DDL}, {ddl(parse_schema(kinds))}"
    records = _records(raw, source, columns)
    wrong = _wrong(source, columns)
    if source.format == "debezium":
        # A tombstone follows a delete, for compaction; it tells nothing of its own.
        records = records.where(F.col(_VALUE).isNotNull())
    if source.format in ("avro", "protobuf", "debezium"):
        decode = decoding(
            RowDecoder(field_reader(source), of_value), of_value, [*source.record_columns]
        )
        record = _RECORD if remove is not None else [_VALUE]
        records = records.select(
            *LOG_COLUMNS, *source.record_columns, _first_reason(wrong).alias(_REASON), *record
        )
        if remove is not None:
            rows = records.mapInArrow(_chained(decode, remove), row_ddl)
            return rows.select(*LOG_COLUMNS, *columns)
        rows = records.mapInArrow(decode, f"{row_ddl}, `{_REASON}` string")
        reason = F.col(_REASON)
        marked = _Marked(rows, {n: F.col(n) for n in kinds}, reason.isNotNull(), reason)
    else:
        marked = _parse(records, source, of_value, wrong)
        if remove is not None:
            return _put_aside(marked, remove, row_ddl).select(*LOG_COLUMNS, *columns)
    if source.on_bad_record == "fail":
        return _refuse(marked, parse_schema(kinds)).select(*LOG_COLUMNS, *columns)
    good = marked.rows.where(~marked.is_bad)
    return good.select(*LOG_COLUMNS, *(marked.columns[name].alias(name) for name in columns))


def _records(raw: DataFrame, source: KafkaSource, columns: Mapping[str, str]) -> DataFrame:
    """Place, included columns, and the record itself."""
    texts = _text_keys(source, columns)
    included = [
        (F.col(what).cast("string") if name in texts else F.col(what)).alias(name)
        for name, what in source.record_columns.items()
    ]
    return raw.select(
        F.col("topic").alias(TOPIC),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        *included,
        F.col("timestamp").alias(_TIME),
        F.col("key").alias(_KEY),
        F.col("value").alias(_VALUE),
    )


def _text_keys(source: KafkaSource, columns: Mapping[str, str]) -> list[str]:
    """Columns that hold a record's key as text."""
    keys = [name for name, what in source.record_columns.items() if what == "key"]
    return [name for name in keys if parse_type(columns[name]) == pa.string()]


def _wrong(source: KafkaSource, columns: Mapping[str, str]) -> list[tuple[Column, str]]:
    """What can be wrong with a record whatever is in its value: conditions, never null."""
    keys = [F.col(name) for name in _text_keys(source, columns)]
    bad_keys = [key.isNotNull() & ~F.is_valid_utf8(key) for key in keys]
    return [
        (F.col(_VALUE).isNull(), NO_VALUE),
        *((is_bad, "the key is no UTF-8 text") for is_bad in bad_keys),
    ]


def _first_reason(wrong: list[tuple[Column, str]]) -> Column:
    return F.coalesce(*(F.when(condition, F.lit(reason)) for condition, reason in wrong))


def _parse(
    records: DataFrame,
    source: KafkaSource,
    columns: pa.Schema,
    wrong: list[tuple[Column, str]],
) -> _Marked:
    """JSON, or bytes as they are.

    Args:
        records: From :func:`_records`.
        source: The declaration.
        columns: Those of the value.
        wrong: From :func:`_wrong`.
    """
    is_bad = reduce(lambda left, right: left | right, (condition for condition, _ in wrong))
    included = {name: F.col(name) for name in source.record_columns}
    if source.format == "raw":
        values = {**included, RAW_COLUMN: F.col(_VALUE)}
        return _Marked(records, values, is_bad, _first_reason(wrong))
    schema = f"{ddl(columns)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = F.col(_VALUE).cast("string")
    if supports_schema(columns) and _reads_times_as_arrow(records.sparkSession):
        # PySpark wants the kind of function to be told by type hints, and its own stub does not.
        by_arrow = arrow_udf(_object_reader(columns), schema)  # type: ignore[call-overload]
        records = records.select("*", by_arrow(F.col(_VALUE)).alias(_BY_ARROW))
        left = F.when(F.col(_BY_ARROW).isNull(), text)
        parsed = F.coalesce(F.col(_BY_ARROW), F.from_json(left, schema, options))
    else:
        parsed = F.from_json(text, schema, options)
    row = F.col(_ROW)
    no_object = F.lit("the value is no JSON object with the declared columns")
    return _Marked(
        records.select("*", parsed.alias(_ROW)),
        {**included, **{name: row[name] for name in columns.names}},
        row.isNull() | row[_CORRUPT].isNotNull() | is_bad,
        F.coalesce(_first_reason(wrong), no_object),
    )


def _reads_times_as_arrow(spark: SparkSession) -> bool:
    """Whether nobody has told Spark to read times in another way."""
    policy = spark.conf.get("spark.sql.legacy.timeParserPolicy")
    return spark.conf.get("spark.sql.session.timeZone") == "UTC" and policy != "LEGACY"


def _object_reader(columns: pa.Schema) -> Callable[[pa.Array], pa.Array]:
    """What Arrow reads of values, in the form that ``from_json`` gives; null is what it leaves."""

    def read(values: pa.Array) -> pa.Array:
        rows = read_objects(values, columns)
        fields = [*rows.flatten(), pa.nulls(len(rows), pa.string())]
        return pa.StructArray.from_arrays(fields, [*columns.names, _CORRUPT], mask=rows.is_null())

    return read


def _put_aside(marked: _Marked, remove: Step, row_ddl: str) -> DataFrame:
    """The good rows; good ones carry nothing to the worker that it does not give back."""
    rows = marked.rows.select(
        *LOG_COLUMNS,
        *(column.alias(name) for name, column in marked.columns.items()),
        F.when(marked.is_bad, marked.reason).alias(_REASON),
        *(F.when(marked.is_bad, F.col(name)).alias(name) for name in _RECORD),
    )
    return rows.mapInArrow(remove, row_ddl)


def decoding(decoder: RowDecoder, columns: pa.Schema, included: list[str]) -> Step:
    """A step that turns values into columns, with what is wrong with a row behind them.

    Args:
        decoder: Decodes values.
        columns: The columns that it gives.
        included: Names of the columns that are there before.
    """
    nothing = [None] * len(columns)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = decoder.rows(batch.column(_VALUE))
            reasons = batch.column(_REASON).to_pylist()
            is_left = found.is_null()
            (left,) = np.nonzero(as_mask(is_left))
            rows = []
            values = batch.column(_VALUE).filter(is_left).to_pylist()
            for at, value in zip(left.tolist(), values, strict=True):
                row = nothing
                if reasons[at] is None:
                    try:
                        row = decoder.decode(value)
                    except BadValue as error:
                        reasons[at] = str(error)[:_REASON_CHARACTERS]
                    except InputError as error:
                        message = f"{_where(batch, at)}: {error.message}"
                        raise InputError(message, error.hint) from None
                rows.append(row)
            kept = [*LOG_COLUMNS, *included]
            extra = [name for name in _RECORD if _TIME in batch.schema.names]
            arrays = [
                *(batch.column(name) for name in kept),
                *_filled(found, left, rows),
                pa.array(reasons, pa.string()),
                *(batch.column(name) for name in extra),
            ]
            yield pa.RecordBatch.from_arrays(arrays, [*kept, *columns.names, _REASON, *extra])

    return decode


def _filled(found: pa.StructArray, left: Int64Array, rows: list[list[Any]]) -> list[pa.Array]:
    """The columns of rows, with other rows in the places that are left."""
    mine: list[pa.Array] = found.flatten()
    if not rows:
        return mine
    others = [
        to_arrow_array(each, kind.type)
        for each, kind in zip(zip(*rows, strict=True), found.type, strict=True)
    ]
    if len(rows) == len(found):
        return others
    order = np.arange(len(found))
    order[left] = len(found) + np.arange(len(left))
    return [pa.concat_arrays(pair).take(pa.array(order)) for pair in zip(mine, others, strict=True)]


def _where(batch: pa.RecordBatch, row: int) -> str:
    topic, partition, offset = (batch.column(name)[row].as_py() for name in LOG_COLUMNS)
    return f"Topic `{topic}`, partition {partition}, offset {offset}"


def _chained(first: Step, second: Step) -> Step:
    return lambda batches: second(first(batches))


def _record(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Bad rows as :data:`STAGED` has them."""
    return _staged(rows, [TOPIC, PARTITION, OFFSET, *_RECORD, _REASON])


def _place(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same, with nothing but where they are."""
    return _staged(rows, [TOPIC, PARTITION, OFFSET, None, None, None, None])


def _staged(rows: pa.RecordBatch, names: list[str | None]) -> pa.RecordBatch:
    arrays = [
        pa.nulls(rows.num_rows, field.type) if name is None else rows.column(name).cast(field.type)
        for name, field in zip(names, STAGED, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=STAGED)


def _refuse(marked: _Marked, columns: pa.Schema) -> DataFrame:
    """All rows; fails at the first bad one."""
    good = F.struct(*(column.alias(name) for name, column in marked.columns.items()))
    refused = F.raise_error(_bad_record(marked.reason)).cast(from_arrow_schema(columns))
    checked = F.when(marked.is_bad, refused).otherwise(good).alias(_ROW)
    return marked.rows.select(*LOG_COLUMNS, checked).select(*LOG_COLUMNS, f"{_ROW}.*")


def _bad_record(reason: Column) -> Column:
    return F.concat(
        F.lit("BAD_RECORD: topic `"),
        F.col(TOPIC),
        F.lit("`, partition "),
        F.col(PARTITION),
        F.lit(", offset "),
        F.col(OFFSET),
        F.lit(": "),
        reason,
        F.lit("."),
    )
