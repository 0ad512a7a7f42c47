"""Parsing a topic's records into rows; bad records are refused, dropped or quarantined.

Every format leads to the same rows: the position in the log, the columns, and why the record is
bad, if it is. JSON is parsed by Arrow, and by Spark where Arrow can't decide; all other formats by
Spark's Python workers (:mod:`spark_jobs.inside.readers.topics.decode_records`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses
from pyspark.sql.pandas.functions import arrow_udf

from sources.common.schema import ddl, parse_schema, parse_type, type_name
from sources.common.sql.sql_names import in_backticks
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import NO_RULES, RowRules
from sources.decoding.changes.record_keys import RecordKeys
from sources.decoding.decoder import (
    DECLARE_TOMBSTONE,
    NO_ROW,
    NO_TEXT_HEADER,
    NO_VALUE,
    REFUSED_TOMBSTONE,
    RowDecoder,
)
from sources.decoding.json.batches import read_objects, supports_schema
from sources.decoding.record_columns import RecordPart
from sources.decoding.value_formats.raw_values import RAW_COLUMN
from sources.errors import InputError
from sources.kafka.client.headers import NOT_TEXT
from sources.planning.plan import Plan
from sources.planning.topics.key_of_changes import known_key
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.arrow_map import Step, map_in_arrow
from spark_jobs.inside.readers.detect_wrong_rows import RepairWatch
from spark_jobs.inside.readers.evaluate_select import select_columns
from spark_jobs.inside.readers.row_rules import (
    leave_out,
    needed_of_record,
    place_in_log,
    within_sample,
)
from spark_jobs.inside.readers.spark_errors import raise_at_record, reporting
from spark_jobs.inside.readers.staged_bad_records import removing, staging_folder, unmovable
from spark_jobs.inside.readers.topics.decode_records import (
    KEY,
    ORIGINS,
    REASON,
    RECORD,
    TIME,
    VALUE,
    KeyCheck,
    decoding,
    place_and_key,
    place_of_record,
    rows_as_json,
    whole_record,
)
from spark_jobs.inside.readers.topics.event_times import EventTimeCheck
from spark_jobs.inside.readers.topics.kafka_stream import LOG_COLUMNS, OFFSET, PARTITION, TOPIC
from spark_jobs.inside.readers.topics.times_of_day import TIME_OF_DAY, has_time_of_day
from spark_jobs.inside.readers.topics.too_large import TOO_LARGE, is_too_large, parsed_as

_CORRUPT = "__corrupt"
_ROW = "__row"
_READ = "__read"
_CHECKED = "__checked"
_NO_TEXT = "the value is no UTF-8 text"
_MOST_NAMED = 32
"""Most columns among which the reason looks for the one that does not fit."""
_LOG_DDL = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint"
_RECORD_TYPES = {TIME: "timestamp", KEY: "binary", VALUE: "binary"}


@dataclass(frozen=True)
class _Marked:
    """Records whose bad ones are marked and not handled yet.

    Attributes:
        rows: Rows with :data:`LOG_COLUMNS` and the inputs of the other three.
        columns: The columns of a parsed row, by name.
        is_bad: Whether the record can't be read; never null.
        reason: Why it can't be read; not null where ``is_bad``.
    """

    rows: DataFrame
    columns: dict[str, Column]
    is_bad: Column
    reason: Column


class Watches(NamedTuple):
    """Checks of a captured table's change records beyond their values.

    Attributes:
        repaired: Recognizes good changes of rows that are wrong; None if the source has no keys
            that identify rows.
        key: Refuses records that are identified by other columns; None if it is not known by which
            they were.
    """

    repaired: RepairWatch | None
    key: KeyCheck | None


def record_columns(plan: Plan, source: KafkaSource) -> dict[str, str]:
    """Return names and Spark SQL types of all columns of a source's records, before ``select``.

    They are those of the plan, with the columns that were added to the source since, and with the
    wider types of others. The source has to be in the plan.
    """
    return source.current(plan.topic_of(source.name).read)


def parse_values(
    raw: DataFrame,
    source: KafkaSource,
    read: Mapping[str, str],
    generation: Generation,
    event_time: EventTimeCheck,
    rules: RowRules = NO_RULES,
) -> DataFrame:
    """Parse records into the source's columns, together with :data:`LOG_COLUMNS`.

    Under ``on_bad_record: fail`` a record that can't be read, or does not fit its columns, fails
    the query with topic, partition and offset. Otherwise it is left out; a stream stages it
    (:mod:`spark_jobs.inside.readers.staged_bad_records`). ``select`` is applied after that; then
    the same is done with records whose event time is outside of its bounds
    (``event_time.outside``), and with those that break a rule (``rules``).

    Args:
        raw: Records as Spark's Kafka source returns them, a stream or a batch.
        source: The declaration.
        read: Names and types of all columns of a record, before ``select``.
        generation: State of the generation, in which bad records are staged.
        event_time: Check of the event times.
        rules: Rules that the rows have to meet.

    Raises:
        InputError: The schema of the values can't be obtained, ``select`` does not fit it, or Spark
            can't evaluate a rule.
    """
    staging = staging_folder(generation, source.name) if raw.isStreaming else None
    records = records_of(raw, source, read)
    return rows_of(records, source, read, generation, (event_time, rules, staging))


def rows_of(
    records: DataFrame,
    source: KafkaSource,
    read: Mapping[str, str],
    generation: Generation,
    checks: tuple[EventTimeCheck, RowRules, Folder | None],
) -> DataFrame:
    """Parse records whose position and inputs are selected already into the source's columns.

    Bad records, records out of the bounds of event time and those that break a rule are handled as
    by :func:`parse_values`: they fail the query, or are left out and staged.

    Args:
        records: From :func:`records_of`, in a stream or in a part of its micro-batch.
        source: The declaration.
        read: Names and types of all columns of a record, before ``select``.
        generation: State of the generation.
        checks: Check of the event times, rules, and the folder in which the tasks of a micro-batch
            stage bad records; None if they do not.

    Raises:
        InputError: The schema of the values can't be obtained, ``select`` does not fit it, or Spark
            can't evaluate a rule.
    """
    event_time, rules, staging = checks
    is_staged = staging is not None
    needed = [
        *event_time.needed(is_staged=is_staged),
        *needed_of_record(rules, is_streaming=is_staged),
    ]
    extra = list(dict.fromkeys(needed))
    watch = key = None
    if source.changes is not None:
        unchanged = source.envelope_column("unchanged")
        watch = RepairWatch(generation, source.name, unchanged)
        if (identified := known_key(generation, source)) is not None:
            key = KeyCheck(RecordKeys(source.changes), identified)
    rows = _parsed(records, source, read, staging, extra, Watches(watch, key))
    columns = parse_schema(source.selected(read))
    rows = select_columns(rows, source.selection, columns, [*LOG_COLUMNS, *extra])
    rows = within_sample(event_time.apply(rows, staging), rules)
    place = place_in_log(rules, is_streaming=is_staged)
    return leave_out(rows, rules, place, staging).drop(*extra)


def _parsed(
    records: DataFrame,
    source: KafkaSource,
    columns: Mapping[str, str],
    staging: Folder | None,
    extra: Sequence[str],
    watches: Watches,
) -> DataFrame:
    """Return all columns of each record that can be read, before ``select``, and the extra ones.

    Args:
        records: From :func:`records_of`.
        source: The declaration.
        columns: Names and types of all columns of a record.
        staging: Folder in which bad records are staged; None if they are not.
        extra: Those of :data:`RECORD` that are returned, too.
        watches: What is looked at besides the values.
    """
    watch, key = watches
    of_value = source.value_schema(columns)
    kinds = {name: columns[name] for name in [*source.record_columns, *of_value.names]}
    remove: Step | None = None
    if staging is not None and source.on_bad_record != "fail":
        bad = whole_record if source.on_bad_record == "quarantine" else place_of_record
        if watch is not None and bad is place_of_record:
            bad = place_and_key
        remove = removing(staging, REASON, [*LOG_COLUMNS, *kinds, *extra], bad, watch)
    row_ddl = f"{_LOG_DDL}, {ddl(parse_schema(kinds))}"
    extra_ddl = "".join(f", {name} {_RECORD_TYPES[name]}" for name in extra)
    returned = [*LOG_COLUMNS, *columns, *extra]
    tombstones = source.tombstones(of_value)
    if source.skips_tombstones:
        records = records.where(F.col(VALUE).isNotNull())
    elif tombstones is None:
        records = _without_tombstones(records)
    if source.value.parser == "decoder":
        needed = RECORD if remove is not None else extra
        decoder = RowDecoder(source.reader(), of_value, tombstones, source.position_columns)
        decode = decoding(decoder, of_value, [*source.record_columns], needed, key)
        # A decoder refuses what has no value, unless it deletes a row.
        wrong = _wrong(source, columns)[0 if tombstones is None else 1 :]
        reason = (_first_reason(wrong) if wrong else F.lit(None).cast("string")).alias(REASON)
        by_key = [KEY] if key is not None else [KEY, TIME] if tombstones is not None else []
        record = dict.fromkeys([VALUE, *by_key, *needed])
        records = records.select(
            *LOG_COLUMNS, *map(in_backticks, source.record_columns), reason, *record
        )
        if remove is not None:
            step = reporting(_chained(decode, remove))
            rows = map_in_arrow(records, step, row_ddl + extra_ddl)
            return rows.select(*map(in_backticks, returned))
        returned_ddl = f"{row_ddl}, `{REASON}` string{extra_ddl}"
        rows = map_in_arrow(records, reporting(decode), returned_ddl)
        reason = F.col(REASON)
        marked = _Marked(
            rows, {n: F.col(in_backticks(n)) for n in kinds}, reason.isNotNull(), reason
        )
    else:
        if tombstones is not None:
            names = [*LOG_COLUMNS, *source.record_columns, *RECORD]
            records = records.select(*map(in_backticks, names))
            kinds_of = ((field.name, field.dataType.simpleString()) for field in records.schema)
            returned_ddl = ", ".join(f"{in_backticks(name)} {kind}" for name, kind in kinds_of)
            fill = rows_as_json(tombstones, names)
            records = map_in_arrow(records, reporting(fill), returned_ddl)
        marked = _parse(records, source, columns, of_value)
        if remove is not None:
            return _without_bad(marked, remove, row_ddl + extra_ddl, extra).select(
                *map(in_backticks, returned)
            )
    if source.on_bad_record == "fail":
        return _refuse(marked, extra, _repair(source.name)).select(*map(in_backticks, returned))
    good = marked.rows.where(~marked.is_bad)
    return good.select(*LOG_COLUMNS, *(marked.columns[name].alias(name) for name in columns))


def records_of(raw: DataFrame, source: KafkaSource, columns: Mapping[str, str]) -> DataFrame:
    """Select from raw records what parsing needs: ``LOG_COLUMNS``, included columns, ``RECORD``.

    These are the position in the log, the parts of a record that are columns themselves, and
    timestamp, key and value.

    Args:
        raw: Records as Spark's Kafka source returns them.
        source: The declaration.
        columns: Names and types of all columns of a record, before ``select``.
    """
    texts = _text_keys(source, columns)
    included = [
        _part(what, is_text=name in texts).alias(name)
        for name, what in source.record_columns.items()
    ]
    return raw.select(
        *(F.col(ORIGINS[name]).alias(name) for name in LOG_COLUMNS),
        *included,
        *(F.col(ORIGINS[name]).alias(name) for name in RECORD),
    )


def _part(what: RecordPart, *, is_text: bool) -> Column:
    """Return a part of a record as Spark's Kafka source has it."""
    if what == "tombstone":
        return F.col("value").isNull()
    return F.col(what).cast("string") if is_text else F.col(what)


def _without_tombstones(records: DataFrame) -> DataFrame:
    """Return records; the query fails at the first one that has a key and no value."""
    refused = raise_at_record(InputError, F.lit(f"{REFUSED_TOMBSTONE}."), DECLARE_TOMBSTONE)
    is_tombstone = F.col(VALUE).isNull() & F.col(KEY).isNotNull()
    value = F.when(is_tombstone, refused.cast("binary")).otherwise(F.col(VALUE))
    return records.withColumn(VALUE, value)


def _text_keys(source: KafkaSource, columns: Mapping[str, str]) -> list[str]:
    """Return the columns that hold a record's key as text."""
    keys = [name for name, what in source.record_columns.items() if what == "key"]
    return [name for name in keys if parse_type(columns[name]) == pa.string()]


def _wrong(
    source: KafkaSource, columns: Mapping[str, str], *, is_read: Column | None = None
) -> list[tuple[Column, str]]:
    """Return what can be wrong besides the value's content: conditions (never null), reasons.

    Args:
        source: The declaration.
        columns: Names and types of all columns of a record.
        is_read: Whether the value was read already, and may be null since; never null.
    """
    has_none = F.col(VALUE).isNull()
    without_value = NO_ROW if source.on_tombstone == "delete" else NO_VALUE
    keys = [F.col(in_backticks(name)) for name in _text_keys(source, columns)]
    headers = [name for name, what in source.record_columns.items() if what == "headers"]
    bad_keys = [key.isNotNull() & ~F.is_valid_utf8(key) for key in keys]
    return [
        (has_none if is_read is None else ~is_read & has_none, without_value),
        *((is_bad, "the key is no UTF-8 text") for is_bad in bad_keys),
        *((_has_no_text(name), NO_TEXT_HEADER) for name in headers),
    ]


def _has_no_text(headers: str) -> Column:
    """Return whether a header has a name that is no UTF-8 text, which Java replaces."""
    found = F.exists(F.col(in_backticks(headers)), lambda header: header["key"].contains(NOT_TEXT))
    return F.coalesce(found, F.lit(False))


def _first_reason(wrong: list[tuple[Column, str]]) -> Column:
    return F.coalesce(*(F.when(condition, F.lit(reason)) for condition, reason in wrong))


def _parse(
    records: DataFrame,
    source: KafkaSource,
    columns: Mapping[str, str],
    of_value: pa.Schema,
) -> _Marked:
    """Parse JSON, or take bytes as they are.

    Args:
        records: From :func:`records_of`.
        source: The declaration.
        columns: Names and types of all columns of a record.
        of_value: Columns of the value.
    """
    included = {name: F.col(in_backticks(name)) for name in source.record_columns}
    wrong = _wrong(source, columns)
    if source.value.parser == "none":
        values = {**included, RAW_COLUMN: F.col(VALUE)}
        return _Marked(records, values, _any_of(wrong), _first_reason(wrong))
    as_parsed = pa.schema([field.with_type(parsed_as(field.type)) for field in of_value])
    schema = f"{ddl(as_parsed)}, `{_CORRUPT}` string"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
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
        is_bad = ~is_read & unfit | _any_of(wrong)
        values = {
            name: F.when(is_read, F.col(_READ)[name]).otherwise(by_spark)
            for name, by_spark in parsed_columns.items()
        }
    else:
        unfit = row.isNull() | row[_CORRUPT].isNotNull() | too_large | undated | ~is_text
        is_bad = unfit | _any_of(wrong)
        values = parsed_columns
    no_object = F.lit("the value is no JSON object with the declared columns")
    reasons = [(~is_text, _NO_TEXT), (too_large, TOO_LARGE), (undated, TIME_OF_DAY)]
    return _Marked(
        records.select("*", parsed.alias(_ROW)),
        {**included, **values},
        is_bad,
        F.coalesce(_first_reason([*wrong, *reasons]), _unfit_column(of_value, row), no_object),
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


def _repair(source: str) -> str:
    """Return what to do about a record of a source that can't be read."""
    return (
        "No row of this micro-batch was written. "
        f"If the declaration of source `{source}` is wrong, correct it: it makes all records bad. "
        "If only single records are bad, continue without them: declare `on_bad_record: "
        "quarantine` there, which keeps them in a table; with `on_bad_record: drop` they are lost. "
        "Then run the pipeline again: `hybrid run P`."
    )


def _any_of(wrong: list[tuple[Column, str]]) -> Column:
    return reduce(lambda left, right: left | right, (condition for condition, _ in wrong))


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


def _without_bad(marked: _Marked, remove: Step, row_ddl: str, extra: Sequence[str]) -> DataFrame:
    """Return the good rows; they carry nothing to the worker that it does not return."""
    record = {name: F.when(marked.is_bad, F.col(name)) for name in RECORD if name not in extra}
    rows = marked.rows.select(
        *LOG_COLUMNS,
        *(column.alias(name) for name, column in marked.columns.items()),
        F.when(marked.is_bad, marked.reason).alias(REASON),
        *extra,
        *(column.alias(name) for name, column in record.items()),
    )
    return map_in_arrow(rows, reporting(remove), row_ddl)


def _chained(first: Step, second: Step) -> Step:
    return lambda batches: second(first(batches))


def _refuse(marked: _Marked, extra: Sequence[str], hint: str) -> DataFrame:
    """Return all rows; the query fails at the first bad one."""
    reason = F.concat(marked.reason, F.lit("."))
    refused = raise_at_record(InputError, reason, hint).cast("boolean")
    # Each row has to pass: no filter or projection of the transform can avoid it.
    checked = F.when(marked.is_bad, refused).otherwise(unmovable()).alias(_CHECKED)
    rows = marked.rows.select("*", checked).where(_CHECKED)
    columns = (column.alias(name) for name, column in marked.columns.items())
    return rows.select(*LOG_COLUMNS, *columns, *extra)
