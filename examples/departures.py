"""Departures of flights in the order in which they are reported, and flights to ask a model about.

A flight is known to have left when it has: its event time is the departure, late by its delay, and
its report arrives up to half an hour after it. Cancelled flights never leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.flight_data import FEED_SEED, FeedRecord, flights

REPORTED_WITHIN = timedelta(minutes=30)
"""A departure is reported earlier than so long after it."""
ASKED_BEFORE = timedelta(hours=1)
"""How long before the scheduled departure a model is asked for the delay."""
_DAY = timedelta(days=1)
_COLUMNS = ("carrier", "flight", "origin", "scheduled_departure", "dep_delay", "departed")


@dataclass(frozen=True)
class Period:
    """Which departures the files and the topic have, by the time of their report.

    Attributes:
        begin: Begin of the files.
        history_end: End of the files. The topic begins a day before.
        end: End of the topic. The model is asked about the flights of the day after, too.
    """

    begin: datetime = datetime(2013, 8, 1, tzinfo=UTC)
    history_end: datetime = datetime(2013, 10, 1, tzinfo=UTC)
    end: datetime = datetime(2013, 11, 1, tzinfo=UTC)

    @property
    def live_from(self) -> datetime:
        """When the records begin that come while the pipeline runs; all earlier ones are there."""
        return self.history_end + (self.end - self.history_end) / 4


def departures() -> pa.Table:
    """Return all departures with ``departed`` and ``reported``, in order of ``reported``."""
    # Whole seconds, as the timestamp of a record has milliseconds.
    table = flights()
    seconds = int(REPORTED_WITHIN.total_seconds())
    reports = np.random.default_rng(FEED_SEED).integers(0, seconds, len(table))
    with _connection() as connection:
        connection.register("f", table.append_column("report_s", pa.array(reports)))
        return connection.sql(
            "SELECT * EXCLUDE report_s, departed + to_seconds(report_s) AS reported FROM ("
            "SELECT carrier, flight, origin, scheduled_departure, dep_delay, "
            "scheduled_departure + to_minutes(dep_delay::BIGINT) AS departed, report_s "
            "FROM f WHERE NOT cancelled) "
            "ORDER BY reported, carrier, flight, origin, scheduled_departure"
        ).to_arrow_table()


def write_history(table: pa.Table, period: Period, folder: Path) -> int:
    """Write the departures of the files as Parquet, one file for each day; return their number.

    Args:
        table: All departures.
        period: Which of them.
        folder: Created if missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    day, count = period.begin, 0
    while day < period.history_end:
        part = _reported(table, day, min(day + _DAY, period.history_end))
        pq.write_table(part, folder / f"{day:%Y-%m-%d}.parquet")
        day, count = day + _DAY, count + len(part)
    return count


def feed_records(table: pa.Table, period: Period) -> Iterator[FeedRecord]:
    """Yield the records of the topic in their order: JSON, with the time of the report.

    Args:
        table: All departures.
        period: Which of them.
    """
    for row in _reported(table, period.history_end - _DAY, period.end).to_pylist():
        value = {
            name: each.isoformat() if isinstance(each := row[name], datetime) else each
            for name in _COLUMNS
        }
        at_ms = int(row["reported"].timestamp() * 1000)
        yield FeedRecord(at_ms, row["origin"], json.dumps(value))


def labels(table: pa.Table, period: Period) -> pa.Table:
    """Return flights with their delay and ``asked_at``: from the second day to the day after.

    The first day has hardly anything that is known.

    Args:
        table: All departures.
        period: Which of them.
    """
    at = table["scheduled_departure"]
    chosen = table.filter(
        pc.and_(
            pc.greater_equal(at, pa.scalar(period.begin + _DAY, at.type)),
            pc.less(at, pa.scalar(period.end + _DAY, at.type)),
        )
    ).select(["carrier", "flight", "origin", "scheduled_departure", "dep_delay"])
    asked = pc.subtract(chosen["scheduled_departure"], pa.scalar(ASKED_BEFORE, pa.duration("us")))
    return chosen.append_column("asked_at", asked)


def _reported(table: pa.Table, begin: datetime, end: datetime) -> pa.Table:
    at = table["reported"]
    within = pc.and_(
        pc.greater_equal(at, pa.scalar(begin, at.type)), pc.less(at, pa.scalar(end, at.type))
    )
    return table.filter(within)


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection
