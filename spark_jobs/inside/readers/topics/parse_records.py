"""Parsing a topic's records into rows: bad ones are refused, dropped or quarantined; tombstones.

Every format leads to the same rows: the position in the log, the columns, and why the record is
bad, if it is. JSON is parsed by :mod:`spark_jobs.inside.readers.topics.parse_json`, all other
formats by Spark's Python workers (:mod:`spark_jobs.inside.readers.topics.decode_records`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody uses

from sources.common.schema import ddl, parse_schema, parse_type
from sources.common.sql.sql_names import in_backticks
from sources.config.source.kafka_source import KafkaSource
from sources.config.table.row_rules import NO_RULES, RowRules
from sources.decoding.changes.record_keys import RecordKeys
from sources.decoding.record_columns import RecordPart
from sources.decoding.row_decoder import (
    DECLARE_TOMBSTONE,
    NO_ROW,
    NO_TEXT_HEADER,
    NO_VALUE,
    REFUSED_TOMBSTONE,
    RowDecoder,
)
from sources.decoding.value_formats.raw_values import RAW_COLUMN
from sources.errors import InputError
from sources.kafka.client.headers import NOT_TEXT
from sources.planning.plan import Plan
from sources.planning.topics.key_of_changes import known_key
from sources.state.generation import Generation
from sources.storage.folder import Folder
from spark_jobs.inside.arrow_map import Step, map_in_arrow
from spark_jobs.inside.errors.error_reports import reporting
from spark_jobs.inside.readers.detect_wrong_rows import RepairWatch
from spark_jobs.inside.readers.evaluate_select import select_columns
from spark_jobs.inside.readers.row_rules import (
    leave_out,
    needed_of_record,
    place_in_log,
    within_sample,
)
from spark_jobs.inside.readers.staged_bad_records import removing, staging_folder
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
from spark_jobs.inside.readers.topics.marked_records import (
    MarkedRecords,
    any_of,
    first_reason,
    refuse_bad,
    without_bad,
)
from spark_jobs.inside.readers.topics.parse_json import parse_json
from spark_jobs.inside.readers.topics.record_errors import raise_at_record

_LOG_DDL = f"{TOPIC} string, {PARTITION} int, {OFFSET} bigint"
_RECORD_TYPES = {TIME: "timestamp", KEY: "binary", VALUE: "binary"}


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


def watches_of(generation: Generation, source: KafkaSource) -> Watches:
    """Return the checks of a source's change records, as the state knows its key now.

    Args:
        generation: State of the generation.
        source: The declaration; of one that is no captured table nothing is checked.

    Raises:
        InputError: The table has a schema registry, and no installed extension decodes its values.
        StateError: The document of the key is damaged.
        UnavailableError: The state's store does not answer.
    """
    if source.changes is None:
        return Watches(None, None)
    identified = known_key(generation, source)
    return Watches(
        RepairWatch(generation, source.name, source.envelope_column("unchanged")),
        None if identified is None else KeyCheck(RecordKeys(source.changes), identified),
    )


def record_columns(plan: Plan, source: KafkaSource) -> dict[str, str]:
    """Return names and Spark SQL types of all columns of a source's records, before ``select``.

    They are those of the plan, with the columns that were added to the source since, and with the
    wider types of others.

    Raises:
        KeyError: The source is not in the plan.
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
        StateError: The state is damaged.
        UnavailableError: The schema registry or the state's store does not answer.
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
        StateError: The state is damaged.
        UnavailableError: The schema registry or the state's store does not answer.
    """
    event_time, rules, staging = checks
    is_staged = staging is not None
    needed = [
        *event_time.needed(is_staged=is_staged),
        *needed_of_record(rules, is_streaming=is_staged),
    ]
    extra = list(dict.fromkeys(needed))
    rows = _parsed(records, source, read, staging, extra, watches_of(generation, source))
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
        reason = (first_reason(wrong) if wrong else F.lit(None).cast("string")).alias(REASON)
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
        marked = MarkedRecords(
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
            return without_bad(marked, remove, row_ddl + extra_ddl, extra).select(
                *map(in_backticks, returned)
            )
    if source.on_bad_record == "fail":
        return refuse_bad(marked, extra, source.name).select(*map(in_backticks, returned))
    good = marked.rows.where(~marked.is_bad)
    return good.select(*LOG_COLUMNS, *(marked.columns[name].alias(name) for name in columns))


def _parse(
    records: DataFrame, source: KafkaSource, columns: Mapping[str, str], of_value: pa.Schema
) -> MarkedRecords:
    """Parse JSON, or take bytes as they are."""
    included = {name: F.col(in_backticks(name)) for name in source.record_columns}
    wrong = _wrong(source, columns)
    if source.value.parser == "none":
        values = {**included, RAW_COLUMN: F.col(VALUE)}
        return MarkedRecords(records, values, any_of(wrong), first_reason(wrong))
    return parse_json(records, included, of_value, wrong)


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


def _wrong(source: KafkaSource, columns: Mapping[str, str]) -> list[tuple[Column, str]]:
    """Return what can be wrong besides the value's content: conditions (never null), reasons.

    Args:
        source: The declaration.
        columns: Names and types of all columns of a record.
    """
    without_value = NO_ROW if source.on_tombstone == "delete" else NO_VALUE
    keys = [F.col(in_backticks(name)) for name in _text_keys(source, columns)]
    headers = [name for name, what in source.record_columns.items() if what == "headers"]
    bad_keys = [key.isNotNull() & ~F.is_valid_utf8(key) for key in keys]
    return [
        (F.col(VALUE).isNull(), without_value),
        *((is_bad, "the key is no UTF-8 text") for is_bad in bad_keys),
        *((_has_no_text(name), NO_TEXT_HEADER) for name in headers),
    ]


def _has_no_text(headers: str) -> Column:
    """Return whether a header has a name that is no UTF-8 text, which Java replaces."""
    found = F.exists(F.col(in_backticks(headers)), lambda header: header["key"].contains(NOT_TEXT))
    return F.coalesce(found, F.lit(False))


def _chained(first: Step, second: Step) -> Step:
    return lambda batches: second(first(batches))
