"""Row that snapshot and topic both have: either log position is right, unless it was deleted.

A row that changed between the start of the log and the snapshot, and never again, is in the
snapshot, which has no position, and in the topic as a change with one. Which of the two the target
holds depends on what the snapshot had seen; its values are the same. A row that was repaired has
the position of its repair. Where the sink keeps each change, both would be rows of their own, so
the change is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb

from hybrid_extensions.comparison.duckdb_database import columns_of
from sources.common.positions import EndPosition
from sources.common.sql.sql_names import literal, quoted
from sources.config.pipeline import Pipeline
from sources.kafka.seam import held_snapshot


def leave_out_held(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, ends: Sequence[EndPosition]
) -> None:
    """Remove the changes that a snapshot contains from ``audit.rows`` of a table that keeps all.

    Nothing is done without such a snapshot, with a declared ``seam_filter``, and where the sink
    keeps the last change of a key, by its position: of a row and a change with equal values either
    may count (:func:`settle_snapshot_rows`).

    Args:
        connection: The audit's database, with ``audit.rows``.
        pipeline: Declares sources and sink.
        ends: End positions of the planned sources, in order.
    """
    snapshot = held_snapshot(pipeline, ends) if pipeline.captures_tables else None
    merges = pipeline.sink.order and pipeline.sink.history is None
    if snapshot is None or merges or pipeline.seam_filter is not None:
        return
    topic = pipeline.topics[-1]
    columns = {part: quoted(name) for name, part in topic.include.items()}
    connection.execute(
        f"DELETE FROM audit.rows WHERE _place = {len(pipeline.sources) - 1} "
        f"AND {snapshot.holds(columns)}"
    )


def settle_snapshot_rows(
    connection: duckdb.DuckDBPyConnection, pipeline: Pipeline, repaired: Collection[str] = ()
) -> None:
    """Give expected rows the metadata of the target's row where all other values are the same.

    A row that the snapshot and the topic both have may be in the target with or without the
    change's metadata (such as its log position); both are right, unless the change is a delete.
    Nothing is done unless the pipeline begins with a snapshot and keeps the last change of a key,
    by its position, or if ``audit.sql`` computes the rows.

    Args:
        connection: The audit's database, with ``audit.rows``, ``audit.expected``, which is changed,
            and ``audit.found``.
        pipeline: Declares sources and sink.
        repaired: Log positions of the rows that repairs have written.
    """
    sink, topics = pipeline.sink, pipeline.topics
    if not (pipeline.captures_tables and sink.order and topics) or sink.history is not None:
        return
    if pipeline.audit_sql is not None:
        return
    columns = columns_of(connection, "audit.expected")
    there = set(columns) & set(columns_of(connection, "audit.rows"))
    parts = [name for name in topics[-1].envelope_columns if name in there]
    values = [name for name in columns if name in there and name not in parts]
    sequence = quoted(sink.order[0])
    if sink.order[0] not in parts or not values:
        return
    same = [f"e.{quoted(name)} IS NOT DISTINCT FROM s.{quoted(name)}" for name in values]
    # A row that was deleted later has the same values, if deletes are soft.
    same += [f"NOT coalesce(e.{quoted(name)}, false)" for name in parts if name == sink.deleted]
    of_key = [f"f.{quoted(name)} = s.{quoted(name)}" for name in sink.key]
    changed = ", ".join(f"{quoted(name)} = s.{quoted(name)}" for name in parts)
    connection.execute(
        f"UPDATE audit.expected e SET {changed} FROM audit.rows s, audit.found f "
        f"WHERE {' AND '.join([*same, *of_key])} AND e.{sequence} IS NOT NULL "
        f"AND s.{sequence} IS NULL AND f.{sequence} IS NULL"
    )
    if not repaired:
        return
    # Whether a row is deleted is none of its metadata.
    parts = [name for name in parts if name != sink.deleted]
    values = [name for name in columns if name in there and name not in parts]
    same = [f"e.{quoted(name)} IS NOT DISTINCT FROM f.{quoted(name)}" for name in values]
    changed = ", ".join(f"{quoted(name)} = f.{quoted(name)}" for name in parts)
    versions = ", ".join(map(literal, repaired))
    connection.execute(
        f"UPDATE audit.expected e SET {changed} FROM audit.found f "
        f"WHERE {' AND '.join(same)} AND f.{sequence} IN ({versions}) "
        f"AND coalesce(e.{sequence}, '') < f.{sequence}"
    )
