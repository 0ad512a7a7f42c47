"""Rows of a database snapshot for which the topic also has an older change.

A row that changed between the start of the log and the snapshot, and never again, is in the
snapshot, which has no position, and in the topic as a change with one. Which of the two the target
holds depends on what the snapshot had seen; its values are the same.
"""

from __future__ import annotations

import duckdb

from orchestration.audit.sql import columns_of
from sources.common.sql.sql_names import quoted
from sources.config.pipeline import Pipeline


def settle_snapshot_rows(connection: duckdb.DuckDBPyConnection, pipeline: Pipeline) -> None:
    """Expect the snapshot's metadata for rows that the last change left with the same values.

    Nothing is done unless the pipeline begins with a snapshot and merges changes by their
    position, and if ``audit.sql`` computes the rows.

    Args:
        connection: The audit's database, with ``audit.rows``, ``audit.expected`` and
            ``audit.found``.
        pipeline: Declares sources and sink.
    """
    sink, topics = pipeline.sink, pipeline.topics
    is_captured = any(source.snapshot is not None for source in pipeline.sources)
    if not (is_captured and sink.order and topics) or pipeline.audit_sql is not None:
        return
    columns = columns_of(connection, "audit.expected")
    there = set(columns) & set(columns_of(connection, "audit.rows"))
    parts = [name for name in topics[-1].envelope_columns if name in there]
    values = [name for name in columns if name in there and name not in parts]
    sequence = quoted(sink.order[0])
    if sink.order[0] not in parts or not values:
        return
    same = [f"e.{quoted(name)} IS NOT DISTINCT FROM s.{quoted(name)}" for name in values]
    of_key = [f"f.{quoted(name)} = s.{quoted(name)}" for name in sink.key]
    changed = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in parts)
    connection.execute(
        f"UPDATE audit.expected e SET {changed} FROM audit.rows s, audit.found f "
        f"WHERE {' AND '.join([*same, *of_key])} AND e.{sequence} IS NOT NULL "
        f"AND s.{sequence} IS NULL AND f.{sequence} IS NULL"
    )
