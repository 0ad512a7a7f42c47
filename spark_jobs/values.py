"""The values of a topic's records as rows; what can't be read is refused, dropped or put aside.

Every format leads to the same rows: the place in the log, the columns, and what is wrong with the
record, if something is. JSON is parsed by Spark itself, Avro and Protobuf by its Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.types import from_arrow_schema

from sources.fitting import BadValue
from sources.kafka_source import KafkaSource
from sources.readers import NO_VALUE, RowDecoder, field_reader
from sources.schema import ddl, parse_schema
from sources.state import Generation
from sources.values import RAW_COLUMN
from spark_jobs.bad_records import STAGED, Step, removing, staging_folder
from spark_jobs.kafka_place import LOG_COLUMNS, OFFSET, PARTITION, TOPIC

_CORRUPT = "__corrupt"
_REASON = "__reason"
# What of a record only a quarantine asks for.
_TIME, _KEY, _VALUE = _RECORD = ("__timestamp", "__key", "__value")
_LOG_DDL = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint"
_REASON_CHARACTERS = 500


def parse_values(
    raw: DataFrame, source: KafkaSource, columns: Mapping[str, str], generation: Generation
) -> DataFrame:
    """The columns of each record, with :data:`LOG_COLUMNS`.

    Under ``on_bad_record: fail`` a record that can't be read, or does not fit its columns, fails
    the query with topic, partition and offset. Otherwise it is left out; a stream stages it
    (:mod:`spark_jobs.bad_records`).

    Args:
        raw: Records as Spark's Kafka source gives them, a stream or a batch.
        source: The declaration.
        columns: All columns of a row.
        generation: Where bad records are staged.

    Raises:
        InputError: What is needed to read the values can't be had.
    """
    remove: Step | None = None
    if raw.isStreaming and source.on_bad_record != "fail":
        bad = _record if source.on_bad_record == "quarantine" else _place
        remove = removing(staging_folder(generation, source.name), _REASON, bad)
    of_value = source.of_value(columns)
    records = _records(raw, source, columns, whole=remove is not None)
    included = {name: columns[name] for name in source.include}
    passing = parse_schema({**included, **{n: columns[n] for n in of_value.names}})
    passing_ddl = ", ".join([_LOG_DDL, *([ddl(passing)] if len(passing) else [])])
    if source.format in ("json", "raw"):
        marked = _parse(records, source.format, list(included), of_value, whole=remove is not None)
        rows = marked if remove is None else marked.mapInArrow(remove, passing_ddl)
    else:
        decode = decoding(RowDecoder(field_reader(source), of_value), of_value, list(included))
        if remove is None:
            rows = records.mapInArrow(decode, f"{passing_ddl}, `{_REASON}` string")
        else:
            rows = records.mapInArrow(_chained(decode, remove), passing_ddl)
    if remove is None:
        rows = _refuse(rows, passing) if source.on_bad_record == "fail" else _leave_out(rows)
    return rows.select(*LOG_COLUMNS, *columns)


def _records(
    raw: DataFrame, source: KafkaSource, columns: Mapping[str, str], *, whole: bool
) -> DataFrame:
    """Place, included columns, value, and what is wrong without looking into the value.

    Args:
        raw: The records.
        source: The declaration.
        columns: All columns of a row.
        whole: Whether timestamp and key are asked for.
    """
    reason = F.when(F.col("value").isNull(), NO_VALUE)
    included = []
    for name, what in source.include.items():
        found = F.col(what)
        if what == "key" and columns[name] == "string":
            found = found.cast("string")
            reason = reason.when(~F.is_valid_utf8(found), "the key is no UTF-8 text")
        included.append(found.alias(name))
    return raw.select(
        F.col("topic").alias(TOPIC),
        F.col("partition").alias(PARTITION),
        F.col("offset").alias(OFFSET),
        *included,
        reason.alias(_REASON),
        *([F.col("timestamp").alias(_TIME), F.col("key").alias(_KEY)] if whole else []),
        F.col("value").alias(_VALUE),
    )


def _parse(
    records: DataFrame, how: str, included: list[str], columns: pa.Schema, *, whole: bool
) -> DataFrame:
    """Rows with a mark on bad ones: place, included columns, those of the value, the reason.

    Args:
        records: From :func:`_records`.
        how: ``json`` or ``raw``.
        included: Names of the included columns.
        columns: Those of the value.
        whole: Whether the records of bad rows come last.
    """
    reason = F.col(_REASON)
    values = [F.col(_VALUE).alias(RAW_COLUMN)]
    if how == "json":
        schema = f"{ddl(columns)}, `{_CORRUPT}` string"
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        parsed = F.from_json(F.col(_VALUE).cast("string"), schema, options)
        records = records.select("*", parsed.alias("row"))
        is_bad = F.col("row").isNull() | F.col("row")[_CORRUPT].isNotNull()
        no_object = F.lit("the value is no JSON object with the declared columns")
        reason = F.coalesce(reason, F.when(is_bad, no_object))
        values = [F.col("row")[name].alias(name) for name in columns.names]
    # Good rows carry nothing to the worker that it does not give back.
    extra = [F.when(reason.isNotNull(), F.col(name)).alias(name) for name in _RECORD]
    return records.select(
        *LOG_COLUMNS, *included, *values, reason.alias(_REASON), *(extra if whole else [])
    )


def decoding(decoder: RowDecoder, columns: pa.Schema, included: list[str]) -> Step:
    """A step that turns records of :func:`_records` into marked rows, as :func:`_parse` does.

    Args:
        decoder: Decodes values.
        columns: The columns that it gives.
        included: Names of the columns that are there before.
    """
    nothing = [None] * len(columns)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            reasons = batch.column(_REASON).to_pylist()
            rows = []
            for at, value in enumerate(batch.column(_VALUE).to_pylist()):
                row = nothing
                if reasons[at] is None:
                    try:
                        row = decoder.decode(value)
                    except BadValue as error:
                        reasons[at] = str(error)[:_REASON_CHARACTERS]
                rows.append(row)
            kept = [*LOG_COLUMNS, *included]
            extra = [name for name in _RECORD if name in batch.schema.names]
            found = zip(*rows, strict=True) if rows else [[] for _ in columns]
            arrays = [
                *(batch.column(name) for name in kept),
                *(pa.array(each, kind) for each, kind in zip(found, columns.types, strict=True)),
                pa.array(reasons, pa.string()),
                *(batch.column(name) for name in extra),
            ]
            yield pa.RecordBatch.from_arrays(arrays, [*kept, *columns.names, _REASON, *extra])

    return decode


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


def _leave_out(marked: DataFrame) -> DataFrame:
    return marked.where(F.col(_REASON).isNull())


def _refuse(marked: DataFrame, columns: pa.Schema) -> DataFrame:
    """Fail at the first bad row."""
    good = F.struct(*(F.col(name) for name in columns.names))
    refused = F.raise_error(_bad_record()).cast(from_arrow_schema(columns))
    checked = F.when(F.col(_REASON).isNotNull(), refused).otherwise(good)
    return marked.select(*LOG_COLUMNS, checked.alias("row")).select(*LOG_COLUMNS, "row.*")


def _bad_record() -> Column:
    return F.concat(
        F.lit("BAD_RECORD: topic `"),
        F.col(TOPIC),
        F.lit("`, partition "),
        F.col(PARTITION),
        F.lit(", offset "),
        F.col(OFFSET),
        F.lit(": "),
        F.col(_REASON),
        F.lit("."),
    )
