"""JSON values of a topic's records: parsed by Arrow, and by Spark where Arrow can't decide."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.functions import arrow_udf

from sources.common.schema import ddl, type_name
from sources.decoding.json.batches import read_objects, supports_schema
from spark_jobs.inside.readers.topics.decode_records import VALUE
from spark_jobs.inside.readers.topics.marked_records import MarkedRecords, any_of, first_reason
from spark_jobs.inside.readers.topics.times_of_day import TIME_OF_DAY, has_time_of_day
from spark_jobs.inside.readers.topics.too_large_numbers import TOO_LARGE, is_too_large, parsed_as

_CORRUPT = "__corrupt"
_ROW = "__row"
_READ = "__read"
_NO_TEXT = "the value is no UTF-8 text"
_MOST_NAMED = 32
"""Most columns among which the reason looks for the one that does not fit."""


def parse_json(
    records: DataFrame,
    included: Mapping[str, Column],
    of_value: pa.Schema,
    wrong: list[tuple[Column, str]],
) -> MarkedRecords:
    """Parse values as JSON objects; those that do not fit their columns are marked.

    Args:
        records: Records whose inputs are selected, with the value as :data:`VALUE`.
        included: Columns that other parts of a record fill, by name.
        of_value: Columns of the value.
        wrong: What can be wrong besides the value's content: conditions (never null), reasons.
    """
    as_parsed = pa.schema([field.with_type(parsed_as(field.type)) for field in of_value])
    schema = f"{ddl(as_parsed)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
    parsed = F.from_json(F.col(VALUE).cast("string"), schema, options)
    row = F.col(_ROW)
    too_large = is_too_large(row, of_value, F.col(VALUE))
    undated = has_time_of_day(of_value, F.col(VALUE))
    # Spark would put other characters in place of the bytes.
    is_text = F.coalesce(F.is_valid_utf8(F.col(VALUE).cast("string")), F.lit(True))
    parsed_columns = {
        field.name: row[field.name]
        if field.type == as_parsed.field(field.name).type
        else row[field.name].try_cast(type_name(field.type))
        for field in of_value
    }
    if supports_schema(of_value) and reads_times_as_arrow(records.sparkSession):
        records = records.withColumn(_READ, _read_by_arrow(of_value))
        is_read = F.col(_READ).isNotNull()
        parsed = F.when(~is_read, parsed)
        unfit = row.isNull() | row[_CORRUPT].isNotNull() | too_large | undated | ~is_text
        # Not `~is_read & unfit`: what expressions share, here patterns to look for in the value,
        # Spark computes before it knows whether Arrow has read it.
        is_bad = F.when(is_read, F.lit(False)).otherwise(unfit) | any_of(wrong)
        values = {
            name: F.when(is_read, F.col(_READ)[name]).otherwise(by_spark)
            for name, by_spark in parsed_columns.items()
        }
    else:
        unfit = row.isNull() | row[_CORRUPT].isNotNull() | too_large | undated | ~is_text
        is_bad = unfit | any_of(wrong)
        values = parsed_columns
    no_object = F.lit("the value is no JSON object with the declared columns")
    reasons = [(~is_text, _NO_TEXT), (too_large, TOO_LARGE), (undated, TIME_OF_DAY)]
    return MarkedRecords(
        records.select("*", parsed.alias(_ROW)),
        {**included, **values},
        is_bad,
        F.coalesce(first_reason([*wrong, *reasons]), _unfit_column(of_value, row), no_object),
    )


def _unfit_column(columns: pa.Schema, row: Column) -> Column:
    """Return which column of a JSON object does not fit; null if none does not, or it is no object.

    Args:
        columns: Columns of the value.
        row: What Spark has parsed, in which such a column is null.
    """
    text = F.col(VALUE).cast("string")
    told = [
        F.when(
            row[field.name].isNull() & F.get_json_object(text, f"$['{field.name}']").isNotNull(),
            F.lit(f"`{field.name}` can't be read as {type_name(field.type)}"),
        )
        for field in columns
        if "'" not in field.name
    ]
    # Each one adds to the code that Spark compiles for all rows.
    return F.coalesce(F.lit(None).cast("string"), *told[:_MOST_NAMED])


def reads_times_as_arrow(spark: SparkSession) -> bool:
    """Return whether the session's settings let Spark read JSON timestamps as Arrow does.

    Only then may Arrow parse them: time zone UTC, and no legacy time parser.
    """
    policy = spark.conf.get("spark.sql.legacy.timeParserPolicy")
    return spark.conf.get("spark.sql.session.timeZone") == "UTC" and policy != "LEGACY"


def _read_by_arrow(columns: pa.Schema) -> Column:
    """Return the columns of a value as a struct, read by Arrow in Spark's Python workers.

    It is null where Arrow can't decide as ``from_json`` would. Only values go to a worker, and only
    their columns come back: the other columns of a record stay in Spark.
    """

    def read_values(values: pa.Array) -> pa.Array:
        return read_objects(values, columns)

    # PySpark infers the kind of function from type hints, which its stub does not allow.
    by_batch = arrow_udf(read_values, ddl(columns))  # type: ignore[call-overload]
    # Otherwise a filter of the transform would have each value parsed once more.
    read: Column = by_batch.asNondeterministic()(F.col(VALUE))
    return read
