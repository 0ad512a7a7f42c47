"""Topic's rows in the audit as a view; apart: bad records, times out of bounds, broken rules.

DuckDB and Python parse JSON on their own. Avro, Protobuf and Debezium records go through the
decoder of the runs (:mod:`sources.decoding.row_decoder`): for them the audit proves which records
arrived, not what their bytes mean; but that no placeholder of a long value became one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import duckdb
import pyarrow as pa

from hybrid_extensions.audit.computed.computed_rules import (
    create_broken,
    rows_meeting_rules,
    within_sample,
)
from hybrid_extensions.audit.computed.event_times import Bounds, leave_out_of_topic
from hybrid_extensions.audit.computed.proven_expressions import (
    require_proven_rules,
    selected_columns,
)
from hybrid_extensions.audit.readers.text_rows.json_rows import parse_json
from hybrid_extensions.audit.readers.text_rows.json_values import OF_TOPICS
from hybrid_extensions.audit.readers.topic_reader import RECORD_FIELDS, TopicReader
from hybrid_extensions.comparison.duckdb_database import columns_of, count_rows, schema_of
from sources.common.sql.sql_names import column_list, literal, quoted
from sources.config.pipeline import Pipeline
from sources.config.source.kafka_source import KafkaSource
from sources.decoding.row_decoder import NO_VALUE
from sources.errors import InputError


class TopicView(NamedTuple):
    """Remarks on the view of a topic's rows.

    Attributes:
        notes: Sentences about records that are not counted as rows.
        columns: By column of ``select`` that the view lacks, why: only Spark evaluates it.
    """

    notes: list[str]
    columns: Mapping[str, str]


def create_topic_view(
    connection: duckdb.DuckDBPyConnection,
    source: KafkaSource,
    reader: TopicReader,
    columns: Mapping[str, pa.DataType],
    bounds: Bounds,
    pipeline: Pipeline,
) -> TopicView:
    """Read a topic, and create a view of its rows, named like the source.

    The view has the source's columns after ``select``, and ``_topic``, ``_partition``, ``_offset``
    and ``_timestamp_ms``. Bad records are in :func:`bad_records_table` instead, those whose event
    time is out of bounds in :func:`outside_table`, and those that break a rule in
    :func:`~hybrid_extensions.audit.computed.computed_rules.broken_table`.

    Args:
        connection: The audit's database.
        source: The topic's source.
        reader: Reader of its records.
        columns: Arrow types of the columns before ``select``, by name.
        bounds: The event times that count.
        pipeline: Declares the rules that rows have to meet.

    Returns:
        The columns that the view lacks, and a sentence about records without a value, which are not
        rows.

    Raises:
        NotProvenError: An expression that only Spark evaluates decides about rows.
        InputError: The topic can't be read completely, or holds a bad record although
            ``on_bad_record`` is ``fail``; it names topic, partition and offset.
        UnavailableError: The broker or the schema registry does not answer.
    """
    records, rows = (f"audit.{quoted(f'{source.name}.{kind}')}" for kind in ("records", "rows"))
    reader.insert_into(connection, records, columns)
    if source.value.parser == "json":
        of_value = {name: kind for name, kind in columns.items() if name not in source.include}
        types = _duckdb_types(connection, of_value)
        parse_json(connection, records, rows, types, OF_TOPICS)
        connection.execute(f"DROP TABLE {records}")
    else:
        rows = records
    bad = bad_records_table(source.name)
    connection.execute(
        f"CREATE TABLE {bad} AS SELECT _topic AS _place, _partition, _offset, _reason "
        f"FROM {rows} WHERE _reason IS NOT NULL"
    )
    selected, unproven = ["* EXCLUDE (_reason)"], dict[str, str]()
    if source.select:
        position = [field.name for field in RECORD_FIELDS if field.name != "_reason"]
        of_rows = schema_of(connection, f"SELECT * FROM {rows}")
        computed, unproven = selected_columns(pipeline, source, of_rows)
        selected = [column_list(position), *computed]
    every = f"audit.{quoted(f'{source.name}.every')}"
    connection.execute(
        f"CREATE VIEW {every} AS SELECT {', '.join(selected)} FROM {rows} WHERE _reason IS NULL"
    )
    before = before_rules(source.name)
    leave_out_of_topic(connection, every, before, outside_table(source.name), bounds)
    sampled = within_sample(pipeline.row_rules, before)
    rules = pipeline.row_rules.over(schema_of(connection, f"SELECT * FROM {sampled}"))
    require_proven_rules(rules)
    create_broken(connection, rules, source.name, sampled)
    connection.execute(f"CREATE VIEW {quoted(source.name)} AS {rows_meeting_rules(rules, sampled)}")
    notes = _refuse_bad(connection, source, bad) if source.on_bad_record == "fail" else []
    return TopicView(notes, unproven)


def before_rules(source: str) -> str:
    """Return the SQL name of the view of a topic's rows before rules and a sample leave any out."""
    return f"audit.{quoted(f'{source}.before_rules')}"


def bad_records_table(source: str) -> str:
    """Return the SQL name of the table with positions and reasons of a source's bad records.

    Its columns are ``_place`` (topic or file), ``_partition``, ``_offset`` and ``_reason``.
    """
    return f"audit.{quoted(f'{source}.bad')}"


def outside_table(source: str) -> str:
    """Return the SQL name of the table of a topic's records whose event time is out of bounds.

    It has the columns of :func:`bad_records_table`.
    """
    return f"audit.{quoted(f'{source}.outside')}"


def _refuse_bad(connection: duckdb.DuckDBPyConnection, source: KafkaSource, bad: str) -> list[str]:
    """Refuse a topic with a bad record, other than one without a value.

    Returns:
        A sentence about records without a value; empty if there are none.
    """
    is_empty = f"_reason = {literal(NO_VALUE)}"
    query = f"SELECT * FROM {bad} WHERE NOT ({is_empty}) ORDER BY ALL LIMIT 1"
    for topic, partition, offset, reason in connection.execute(query).fetchall():
        message = (
            f"Topic `{topic}`, partition {partition}, offset {offset}: bad record: {reason}. "
            f"Source `{source.name}` declares `on_bad_record: fail`."
        )
        hint = (
            "Correct the source's `format` or `schema` if they don't fit the record; otherwise "
            "declare `on_bad_record: quarantine` (or `drop`): its row will be missing from the "
            "table."
        )
        raise InputError(
            message, hint, source=source.name, topic=topic, partition=partition, offset=offset
        )
    if empty := count_rows(connection, bad):
        return [
            f"Source `{source.name}`: {empty} records of its topics have no value, and do not "
            "count as rows."
        ]
    return []


def _duckdb_types(
    connection: duckdb.DuckDBPyConnection, columns: Mapping[str, pa.DataType]
) -> dict[str, str]:
    """Return the types that DuckDB gives columns of Arrow types, by name."""
    connection.register("_columns", pa.schema(list(columns.items())).empty_table())
    types = columns_of(connection, "SELECT * FROM _columns")
    connection.unregister("_columns")
    return types
