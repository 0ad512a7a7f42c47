"""Which event times count in the audit: `not_after` by the plan's clock for files, else its own.

``event_time.not_after`` follows a clock if it is not declared: that of the plan for the files of a
plan. A topic, and a folder that keeps growing, were read at many moments. What lies after the day
that follows the audit's was ahead of each of these, too. A record that is not, but was when it was
read, is in the quarantine table; that is believed only if the record's event time lies after the
day that follows its record timestamp's, because Spark can't have read it before Kafka had it.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from hybrid_extensions.comparison.duckdb_database import count_rows
from sources.common.durations import DAY_MS
from sources.common.sql.sql_names import quoted
from sources.config.source.event_time import EventTime
from sources.config.source.file_source import FileSource
from sources.config.source.kafka_source import KafkaSource
from sources.hybrid import Boundedness
from sources.planning.plan import find_plan
from sources.state.generation import Generation


@dataclass(frozen=True)
class Bounds:
    """Bounds of event times of one source, both inclusive, in Unix milliseconds.

    Attributes:
        declared: The pipeline's event time.
        low_ms: Lowest event time that counts.
        high_ms: Highest one, by the clock that was passed.
    """

    declared: EventTime
    low_ms: int
    high_ms: int

    @property
    def is_outside(self) -> str:
        """SQL condition that a row's event time is out of bounds; false under ``outside: keep``.

        A row without an event time is never out of bounds.
        """
        if self.declared.outside == "keep":
            return "false"
        column = quoted(self.declared.column)
        # The whole of the last millisecond counts.
        low, end = self.low_ms * 1000, (self.high_ms + 1) * 1000
        return (
            f"coalesce({column} < make_timestamptz({low}) OR {column} >= make_timestamptz({end}), "
            "false)"
        )

    @property
    def may_have_been_ahead(self) -> str:
        """SQL condition that an event time may have been in the future when the record was read.

        It is for a row of a topic, with the column ``_timestamp_ms``. ``false`` if ``not_after`` is
        declared, as then no clock counts, or under ``outside: keep``.
        """
        if self.declared.not_after is not None or self.declared.outside == "keep":
            return "false"
        column = quoted(self.declared.column)
        appended = f"make_timestamptz((_timestamp_ms // {DAY_MS} + 2) * {DAY_MS} * 1000)"
        return f"coalesce(_timestamp_ms >= 0 AND {column} >= {appended}, false)"


def bounds_of(
    event_time: EventTime,
    source: FileSource | KafkaSource,
    generation: Generation | None,
    clock_ms: int,
) -> Bounds:
    """Return the bounds of event times of a source's rows.

    Args:
        event_time: The pipeline's event time.
        source: The source.
        generation: State whose plan has the clock for files of a plan; None if nothing was planned,
            so that ``clock_ms`` counts.
        clock_ms: The audit's clock, in ms since 1970; used where ``not_after`` is not declared.

    Raises:
        StateError: The plan is damaged.
        UnavailableError: The state's store does not answer.
    """
    if (
        isinstance(source, FileSource)
        and source.boundedness is Boundedness.BOUNDED
        and source.converge is None
        and generation is not None
        and (plan := find_plan(generation)) is not None
    ):
        clock_ms = plan.created_ms
    return Bounds(event_time, *event_time.bounds_ms(clock_ms))


def leave_out_of_topic(
    connection: duckdb.DuckDBPyConnection, every: str, rows: str, outside: str, bounds: Bounds
) -> None:
    """Create a view of a topic's rows within bounds, and a table of the records out of bounds.

    Args:
        connection: The audit's database, with the table ``audit.claims``: ``place``, ``partition``
            and ``offset`` of the records that the runs left out for their event time.
        every: SQL name of the view of all rows.
        rows: SQL name of the new view.
        outside: SQL name of the new table, with the columns ``_place`` (topic), ``_partition``,
            ``_offset`` and ``_reason`` (the event time).
        bounds: The bounds.
    """
    is_claimed = (
        "EXISTS (SELECT 1 FROM audit.claims c WHERE c.place = _topic AND "
        'c."partition" = _partition AND c."offset" = _offset)'
    )
    connection.execute(
        f"CREATE TABLE {outside} AS SELECT _topic AS _place, _partition, _offset, "
        f"CAST({quoted(bounds.declared.column)} AS VARCHAR) AS _reason FROM {every} "
        f"WHERE {bounds.is_outside} OR ({bounds.may_have_been_ahead} AND {is_claimed})"
    )
    same = "o._place = e._topic AND o._partition = e._partition AND o._offset = e._offset"
    others = f" ANTI JOIN {outside} o ON {same}" if count_rows(connection, outside) else ""
    connection.execute(f"CREATE VIEW {rows} AS SELECT * FROM {every} e{others}")
